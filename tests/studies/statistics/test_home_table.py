"""The page on each method at home: it is current, and says what the exported cells say."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tools import home_table
from tools.home_table import HOMES, Result
from tools.trials import TRIALS, finished_trials
from understudy.studies.definition import builtins
from understudy.studies.statistics.export import CELLS
from understudy.studies.store.store import Store

DOCS = Path(__file__).parents[3] / "docs"
THERE = [home for home in HOMES if (DOCS / "results" / home.study / CELLS).is_file()]


def test_the_page_is_current() -> None:
    assert (DOCS / home_table.PAGE).read_text("utf-8") == home_table.text(DOCS)


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.study)
def test_rows_differ_in_their_method_only(home: home_table.Home) -> None:
    """Thirteen servers for every row, other seeds for trials, one attendance for all rows."""
    study = builtins.built_in(home.study, "results")
    assert study.tune is not None
    assert len(study.tune.values["server"]) == 13
    assert not set(study.tune.seeds) & {cell.seed for cell in study.cells()}
    assert study.tune.evaluate == ("validation",)
    assert len({cell.seed for cell in study.cells()}) >= 5
    for block in study.blocks:
        cells = [cell for cell in study.cells() if cell.labels["block"] == block]
        assert len({repr(cell.task.availability) for cell in cells if cell.seed == 40}) == 1
        weightings = {str(cell.task.strategy.weighting) for cell in cells}
        by_draws = {"clients"} if home.study == "fedgs-home" else set()  # MDSample draws by data
        assert weightings == {"examples"} | by_draws
    trials = study.tuning()
    rows = {(cell.labels["block"], cell.labels["strategy"]) for cell in study.cells()}
    assert len(trials) == 13 * len(rows) * len(study.tune.seeds)


@pytest.mark.parametrize("home", THERE, ids=lambda home: home.study)
def test_the_rival_is_the_best_on_validation_data(home: home_table.Home) -> None:
    result = Result.read(home, DOCS)
    sign = 1 if result.scores.less_is_better else -1
    for block in result.blocks:
        best = result.best_rival(block)
        same = [n for n in result.rivals(block) if result.rows[0][block, n]["difference"] == 0]
        table = result.scores.table
        others = table[(table["block"] == block) & ~table["strategy"].isin([home.method, *same])]
        found = others.groupby(["strategy", "tuned"])[result.scores.metric].mean() * sign
        assert sign * result.scores.picked(block, best) == found.min()
        assert result.seeds >= 5


def test_trials_of_new_rows_are_added_to_those_known(tmp_path: Path) -> None:
    """A row that is new in a study is tried alone; a block counts once all its trials are known."""
    study = builtins.built_in("fdms-home", "results")
    with Store.open(tmp_path, write=True):
        pass  # no runs yet
    known = pd.read_csv(DOCS / "results" / "fdms-home" / TRIALS)
    whole = finished_trials(study, tmp_path, known)
    assert len(whole) == len(study.tuning())
    pd.testing.assert_frame_equal(whole, known, check_dtype=False)
    part = known[~((known["block"] == "alpha_0.7") & (known["strategy"] == "kriging"))]
    assert set(finished_trials(study, tmp_path, part)["block"]) == {"alpha_0.5"}
    assert finished_trials(study, tmp_path).empty

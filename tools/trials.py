"""What the trials of studies that tune scored, in ``tuning.csv`` beside the exported cells."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tools.claims.results_book import SCALE, TRIALS
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.grid import TUNED
from understudy.studies.definition.study import Study
from understudy.studies.definition.tune_table import Picks, Tune
from understudy.studies.definition.tuning import trial_results
from understudy.studies.store.store import Store


def tune_of(study: Study) -> Tune:
    if study.tune is None:
        raise ValueError(f"{study.name}: expected a study that tunes")
    return study.tune


def finished_trials(study: Study, runs: Path) -> pd.DataFrame:
    """Labels, seed and score of every trial in those blocks in which all of them are done."""
    trials = study.tuning()
    with Store.open(runs) as store:
        done = trial_results(store, trials)
    names = ["strategy", "availability", "block", TUNED, "seed", tune_of(study).metric]
    if done.empty:
        return pd.DataFrame(columns=names)
    there = set(done["key"])
    open_blocks = {cell.labels["block"] for cell in trials if cell.key not in there}
    return done[~done["block"].isin(open_blocks)][names]


def write_trials(name: str, docs: Path, runs: Path, *, whole: bool, scale: str = SCALE) -> None:
    """Write ``tuning.csv`` of a study; with `whole` only once the trials of all blocks are done."""
    study = built_in(name, scale)
    done = finished_trials(study, runs)
    blocks = {cell.labels["block"] for cell in study.tuning()}
    if done.empty or (whole and set(done["block"]) != blocks):
        return
    path = docs / "results" / name / TRIALS
    path.parent.mkdir(parents=True, exist_ok=True)
    done.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


def tuned_part(name: str, docs: Path, scale: str = SCALE) -> tuple[Study, Picks]:
    """The blocks of a study whose trials are exported, as a study, and what was picked in them."""
    scores = pd.read_csv(docs / "results" / name / TRIALS)
    asked = ", ".join(f'"{block}"' for block in scores["block"].unique())
    study = built_in(name, scale, [f"blocks=[{asked}]"])
    return study, study.pick(scores)

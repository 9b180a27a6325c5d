"""The page on Kriging and Concord is what the tool makes of the exported cells."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pytest

from tools import concord_table
from tools.claims.results_book import TRIALS
from understudy.studies.definition.builtins import built_in

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_tool_makes() -> None:
    made = concord_table.page(DOCS)
    assert (DOCS / concord_table.PAGE).read_text(encoding="utf-8") == made, "make concord renews it"


VALUES = {  # by row: accuracy with each of five seeds, in two settings
    "concord": ([0.90, 0.91, 0.92, 0.93, 0.94], [0.80, 0.81, 0.82, 0.83, 0.84]),
    "fdms": ([0.86, 0.88, 0.88, 0.90, 0.90], [0.84, 0.86, 0.86, 0.88, 0.88]),
    "kriging": ([0.89, 0.91, 0.91, 0.94, 0.93], [0.80, 0.80, 0.82, 0.83, 0.84]),
}


class Exported:
    """An exported folder, written cell by cell."""

    def __init__(self, docs: Path) -> None:
        self.folder = docs / "results" / "concord"
        errors = "oracle_stand_in_error_known,oracle_last_update_error"
        self.cells = [f"key,strategy,availability,block,seed,rounds,accuracy_last10,{errors}"]
        self.curves = ["key,t,test_accuracy,test_loss"]

    def add(
        self, row: str, where: str, block: str, seed: int, value: float, more: str = ","
    ) -> None:
        key = f"{row} {where} {block} {seed}".replace(",", "")
        self.cells.append(f"{key},{row},{where},{block},{seed},40,{value},{more}")
        loss = "" if value != value else 1 - value  # a loss that is none is left out
        self.curves.extend(f"{key},{t},{value if loss else 0.1},{loss}" for t in range(2))

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, lines in (("cells.csv", self.cells), ("curves.csv", self.curves)):
            (self.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Two settings of the digits, everybody present, and the errors of one row."""
    made = Exported(tmp_path)
    for row, settings in VALUES.items():
        for where, values in zip(("0.7 missing", "markov"), settings, strict=True):
            for seed, value in enumerate(values):
                made.add(row, where, "digits", 300 + seed, value)
    for seed in range(5):
        made.add("full", "Always()", "digits", 300 + seed, 0.99)
    made.add("kriging", "YC", "errors", 300, 0.5, "0.75,1.25")
    made.write()
    return tmp_path


def test_differences_are_paired_by_seed_and_the_better_row_is_named(docs: Path) -> None:
    """fdms is behind by .04, .03, .04, .03, .04 and ahead by .04, .05, .04, .05, .04."""
    made = concord_table.page(docs)
    assert "| fdms | 88.4 (−3.6 ± 0.7) ▼ | **86.4** (+4.4 ± 0.7) ▲ |" in made
    assert "| concord | **92.0** | 82.0 |" in made
    assert "| digits | 0.7 missing | 92.0 | `fdms` 88.4 | −3.6 ± 0.7 ▼ | 99.0 |" in made
    assert (
        "ahead of `concord`'s in 1 of 2 settings; it is shown to be better in 1, and worse in 1"
        in made
    )
    assert "| full | 99.0 (+7.0 ± 2.0) | 99.0 (+17.0 ± 2.0) |" in made
    assert "* digits, markov: `fdms` by +4.4" in made
    assert "digits, 0.7 missing: `fdms`" not in made


def test_what_a_step_brings_and_the_errors_are_told(docs: Path) -> None:
    """kriging: −.004 and −.002 on average."""
    made = concord_table.page(docs)
    assert "| without step 3: Kriging, plain sum (`kriging`) | −0.3 (worst −0.4) |" in made
    assert "| YC | kriging | 0.75 | 1.25 | – | – |" in made
    assert "**Not run yet:** synthetic, digits_trace, cold_start" in made
    assert (
        "**digits was not run to its end.** Not there, or not whole: `dropout`, `stale`, `" in made
    )


def test_tuned_rows_are_compared_with_ours_tuned_and_come_first(docs: Path) -> None:
    """Losses: tuned ours .5, at the fixed server .6; fedvarp tuned .4 with Adam, stale diverged."""
    made = Exported(docs)
    losses = {"concord tuned": 0.5, "concord": 0.6, "fedvarp tuned": 0.4, "stale tuned": math.nan}
    for row, loss in losses.items():
        for seed in range(5):
            made.add(row, "LN", "synthetic_tuned", 300 + seed, 1 - loss)
    for seed in range(5):
        made.add("concord", "LN", "synthetic", 300 + seed, 0.9)
        made.add("fdms", "LN", "synthetic", 300 + seed, 0.8)
    made.write()
    study = built_in("concord", "results", ['blocks=["synthetic_tuned"]'])
    scores = ["strategy,availability,block,tuned,seed,validation_loss"]
    assert study.tune is not None
    rows = [row for row in study.strategies if row.endswith(" tuned")]
    servers = [level.label for level in study.tune.levels("server")]
    for row, where, server, seed in product(rows, study.availability, servers, study.tune.seeds):
        score = 0.1 if server == "adam(lr=0.03)" else 0.2
        scores.append(f'{row},{where},synthetic_tuned,"{server}",{seed},{score}')
    (made.folder / TRIALS).write_text("\n".join(scores) + "\n", encoding="utf-8")
    page = concord_table.page(docs)
    assert "| synthetic_tuned | LN | 0.500 | `fedvarp tuned` 0.400 | −0.100 ± 0.000 |" in page
    assert page.index("| synthetic_tuned | LN |") < page.index("| synthetic | LN | 0.100 | `fdms`")
    assert "| fedvarp tuned | adam(lr=0.03) | **0.400** (−0.100 ± 0.000)" in page
    assert "| stale tuned | adam(lr=0.03) | diverged |" in page
    assert "| concord | Momentum(lr=1, beta=0.5) | 0.600 (+0.100 ± 0.000)" in page
    assert page.index("## synthetic_tuned") < page.index("## synthetic\n")


def test_runs_that_end_no_better_than_a_guess_are_counted(tmp_path: Path) -> None:
    """stale: seeds 0 and 1 in one setting, 0 in the other; the seeds of full are counted once."""
    made = Exported(tmp_path)
    for where, n_collapsed in (("markov", 2), ("YC", 1)):
        for seed in range(5):
            made.add("concord", where, "digits", 300 + seed, 0.9)
            made.add("stale", where, "digits", 300 + seed, 0.1 if seed < n_collapsed else 0.8)
    for seed in range(5):
        made.add("full", "Always()", "digits", 300 + seed, 0.1 if seed == 4 else 0.95)
    made.write()
    page = concord_table.page(tmp_path)
    assert "* digits, of 10 runs of each row: 1: `full`; 3: `stale`\n" in page
    assert "| stale | 52.0 † (" in page
    assert "| concord | **90.0** |" in page


def test_a_row_that_lacks_a_seed_is_left_out(tmp_path: Path) -> None:
    made = Exported(tmp_path)
    for seed in range(5):
        made.add("concord", "markov", "digits", 300 + seed, 0.9)
    made.add("stale", "markov", "digits", 300, 0.99)
    made.write()
    assert "| stale |" not in concord_table.page(tmp_path)


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    assert "**Not run yet:** digits, synthetic" in concord_table.page(tmp_path)

"""The page on Kriging and Concord is what the tool makes of the exported cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import concord_table

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_tool_makes() -> None:
    made = concord_table.page(DOCS)
    assert (DOCS / concord_table.PAGE).read_text(encoding="utf-8") == made, "make concord renews it"


VALUES = {  # by row: accuracy with each of five seeds, in two settings
    "concord": ([0.90, 0.91, 0.92, 0.93, 0.94], [0.80, 0.81, 0.82, 0.83, 0.84]),
    "fdms": ([0.86, 0.88, 0.88, 0.90, 0.90], [0.84, 0.86, 0.86, 0.88, 0.88]),
    "kriging": ([0.89, 0.91, 0.91, 0.94, 0.93], [0.80, 0.80, 0.82, 0.83, 0.84]),
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Two settings of the digits, everybody present, and the errors of one row."""
    errors = "oracle_stand_in_error_known,oracle_last_update_error"
    cells = [f"key,strategy,availability,block,seed,rounds,accuracy_last10,{errors}"]
    curves = ["key,t,test_accuracy,test_loss"]

    def add(row: str, where: str, block: str, seed: int, value: float, more: str = ",") -> None:
        key = f"{row} {where} {block} {seed}".replace(",", "")
        cells.append(f"{key},{row},{where},{block},{seed},40,{value},{more}")
        curves.extend(f"{key},{t},{value},{1 - value}" for t in range(2))

    for row, settings in VALUES.items():
        for where, values in zip(("0.7 missing", "markov"), settings, strict=True):
            for seed, value in enumerate(values):
                add(row, where, "digits", 300 + seed, value)
    for seed in range(5):
        add("full", "Always()", "digits", 300 + seed, 0.99)
    add("kriging", "YC", "errors", 300, 0.5, "0.75,1.25")
    folder = tmp_path / "results" / "concord"
    folder.mkdir(parents=True)
    (folder / "cells.csv").write_text("\n".join(cells) + "\n", encoding="utf-8")
    (folder / "curves.csv").write_text("\n".join(curves) + "\n", encoding="utf-8")
    return tmp_path


def test_differences_are_paired_by_seed_and_the_better_row_is_named(docs: Path) -> None:
    """fdms is behind by .04, .03, .04, .03, .04 and ahead by .04, .05, .04, .05, .04."""
    made = concord_table.page(docs)
    assert "| fdms | 88.4 (−3.6 ± 0.7) ▼ | **86.4** (+4.4 ± 0.7) ▲ |" in made
    assert "| concord | **92.0** | 82.0 |" in made
    assert "| full | 99.0 (+7.0 ± 2.0) | 99.0 (+17.0 ± 2.0) |" in made
    assert "* digits, markov: `fdms` by +4.4" in made
    assert "digits, 0.7 missing: `fdms`" not in made


def test_what_a_step_brings_and_the_errors_are_told(docs: Path) -> None:
    """kriging: −.004 and −.002 on average."""
    made = concord_table.page(docs)
    assert "| without step 3: Kriging, plain sum (`kriging`) | −0.3 (worst −0.4) |" in made
    assert "| YC | kriging | 0.75 | 1.25 | – | – |" in made
    assert "**Not run yet:** synthetic, digits_trace, cold_start" in made


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    assert "**Not run yet:** digits, synthetic" in concord_table.page(tmp_path)

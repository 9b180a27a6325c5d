"""Published results are found again: the cells of the papers' studies keep their keys.

A key is a hash of the resolved configuration. A default that changes in a part, a sampler or a
strategy must therefore be written out in the studies that relied on it.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest

from tools.claims.results_book import TRIALS
from tools.trials import tuned_part
from understudy.studies.definition import builtins
from understudy.studies.statistics.export import read

RESULTS = Path(__file__).parents[3] / "docs" / "results"
EXPORTED = sorted(path.parent.name for path in RESULTS.glob("*/cells.csv"))
# of the library itself, following its defaults: pinned as soon as they are exported
OWN = ("quickstart", "quickstart-tuned", "server-step", "concord", "absence")
# of the keys of all cells at all scales, in their order
KEYS = {
    "absence": "091b493d50939381",
    "concord": "5ae8ffe3f061144f",
    "fdms-fig1": "ac341f159b3f1e6c",
    "fdms-fig2": "01f88956457f63b8",
    "fdms-fig3": "9b89fab6941337da",
    "fdms-fig4": "602f6d242351d2f6",
    "fdms-fig5": "bee89ddb2015f0d1",
    "fdms-sigma": "4e376f42ed172639",
    "fdms-e": "b49a65e1999d6b09",
    "fdms-k40": "4c1e7ba5158e17f0",
    "fdms-fedprox": "482204d2c4628e22",
    "fdms-fmnist": "fd755c0b0b920ad2",
    "fedgs-table2": "3369d8a5c4eb4fee",
    "fedgs-table3": "c9e04c10bab4ab0a",
    "fedgs-fig4": "30b3f21364ac02d4",
    "fedgs-graphs": "ea3d33cb7299d55d",
    "fedar-fig1": "c485472aa08e93e3",
    "fedar-fig2": "c213132364b5e482",
    "fedar-table2": "ba5aabd2e6eacea5",
    "fedar-table3": "682114cae140c2c6",
    "fedar-fig4": "cb046076797945b5",
    "fedar-fig5": "e0899e9f5b878bab",
    "fedar-rho": "7da2f672ca5a9001",
    "fedar-size": "d676a54c1370920b",
    "fdms-readings": "8fb319ae362c08de",
    "fedgs-readings": "3b53c2f91a0e22ed",
    "fedar-readings": "0b1385c1306a0795",
    "newer-readings": "19ffea31f6baa7fb",
    "fdms-home": "fa5a17b22a7a62fe",
    "fedgs-home": "5ceaf4d45a6ac623",
    "fedar-home": "6dac7bc8e949bf2f",
}


def _was_tuned_at(name: str, scale: str) -> bool:
    """Whether the exported trials are those of this scale."""
    path, tune = RESULTS / name / TRIALS, builtins.built_in(name, scale).tune
    if tune is None or not path.exists():
        return False
    return set(pd.read_csv(path)["seed"]) == set(tune.seeds)


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_results_are_those_of_the_studies_as_they_are(name: str) -> None:
    """Each cell in docs/results is one of the built-in study; the kernels are of one version."""
    rows = read(RESULTS / name).rows
    assert rows
    made = set()
    for scale in builtins.scales_of(name)[1:]:
        tuned: tuple[str, ...] = ()
        if _was_tuned_at(name, scale):
            part, picks = tuned_part(name, RESULTS.parent, scale)
            tuned = part.blocks
            made |= {cell.key for cell in part.cells(picks)}
        cells = builtins.built_in(name, scale).cells()
        made |= {cell.key for cell in cells if cell.labels.get("block") not in tuned}
    assert [row.key for row in rows if row.key not in made] == []
    assert len({row.engine for row in rows} - {"loop"}) <= 1


def test_all_studies_of_papers_are_pinned() -> None:
    expected = [name for name in builtins.NAMES if name not in OWN]
    assert [name for name in KEYS if name not in OWN] == expected
    assert set(EXPORTED) <= set(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_the_cells_of_papers_keep_their_keys(name: str) -> None:
    keys = [
        cell.key
        for scale in builtins.scales_of(name)
        for cell in builtins.built_in(name, scale).cells()
    ]
    assert sha256(" ".join(keys).encode()).hexdigest()[:16] == KEYS[name]

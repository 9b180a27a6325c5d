"""The page of Kriging has what benchmarks/concord_scale.py measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks import concord_scale

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_measured_figures() -> None:
    found = json.loads(concord_scale.OUTPUT.read_text(encoding="utf-8"))
    page = (ROOT / "docs/algorithms/kriging.md").read_text(encoding="utf-8")
    for name, label in (("concord", "`concord()`"), ("fdms", "`fdms()`")):
        cells = " | ".join(f"{one[name]:.2f}" for one in found["seconds"].values())
        assert f"| {label} | {cells} |" in page
    exact, bounded = (np.array(found["accuracy"][name]) for name in ("exact", "bounded"))
    assert f"ends at {exact.mean():.1f} % and the bounded one at {bounded.mean():.1f} %" in page
    assert f"no seed differs by more than {np.abs(exact - bounded).max():.1f} points" in page


def test_the_page_of_concord_has_the_rounds_of_w1_and_they_are_within_15_percent() -> None:
    found = json.loads(concord_scale.OUTPUT.read_text(encoding="utf-8"))["w1"]
    page = (ROOT / "docs/algorithms/concord.md").read_text(encoding="utf-8")
    for seconds in found.values():
        more = seconds["concord"] / seconds["fdms"] - 1
        assert f"{seconds['fdms']:.2f}, {100 * more:.0f} % more" in page
        assert more < 0.15

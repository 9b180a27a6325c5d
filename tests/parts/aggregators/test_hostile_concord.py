"""The page of Concord has what benchmarks/hostile_concord.py measured, and its default follows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import hostile_concord
from benchmarks.hostile_concord import ATTACKS, BOUNDS, Hostile, accuracy, markdown, strategies
from understudy import Concord, Local, Population, Strategy
from understudy.testing import play

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, list[float]]]:
    return json.loads(hostile_concord.OUTPUT.read_text(encoding="utf-8"))["accuracy"]


def test_the_page_has_the_measured_table(found) -> None:
    page = (ROOT / "docs/algorithms/concord.md").read_text(encoding="utf-8")
    assert markdown(found) in page
    assert list(found) == list(strategies())


def test_the_default_bound_is_the_largest_that_no_attack_makes_worse_than_the_plain_sum(found):
    plain = found["Kriging(), Linear()"]

    def holds(bound: float | None) -> bool:
        ours = found[f"Kriging(), Concord(bound={bound})"]
        return all(np.mean(ours[attack]) >= np.mean(plain[attack]) for attack in ATTACKS)

    assert next(bound for bound in BOUNDS if holds(bound)) == Concord().bound


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_do_what_their_names_say(attack) -> None:
    """Client 0 comes with 1 to 3, whose updates are as they were."""
    strategy = Strategy(guard=Hostile(attack, inner=None), weighting="clients", local=Local())
    plain = Strategy(weighting="clients")
    here = np.ones(4, dtype=bool)
    rows = []
    for one in (plain, strategy):
        state = one.init(Population(4), torch.zeros(5, dtype=torch.float64), seed=0)
        _, applied = play(one, state, 3, available=here)
        rows.append(
            {
                int(i): applied.contributions.vector(int(r)).clone()
                for i, r in zip(applied.contributions.ids, applied.contributions.row, strict=True)
            }
        )
    honest, sent = rows
    bad = [client for client in ATTACKS[attack] if client in honest]
    for client in set(honest) - set(bad):
        assert torch.equal(sent[client], honest[client])
    mean = torch.stack([honest[client] for client in sorted(set(honest) - set(bad))]).mean(dim=0)
    for client in bad:
        if attack in ("sign flip", "scaled"):
            factor = -1.0 if attack == "sign flip" else -10.0
            assert torch.allclose(sent[client], factor * honest[client])
        elif attack == "copycat":
            assert torch.allclose(sent[client], mean)
        else:
            cosine = torch.nn.functional.cosine_similarity(sent[client], mean, dim=0)
            assert float(cosine) == pytest.approx(-1)
            assert float(sent[client].norm()) == pytest.approx(float(honest[client].norm()))


@pytest.mark.slow
def test_a_row_of_the_table_is_what_the_program_gives(found) -> None:
    name = "Kriging(), Concord(bound=5.0)"
    again = accuracy(strategies()[name], "none", 100)
    assert again == pytest.approx(found[name]["none"][0], abs=2.0)

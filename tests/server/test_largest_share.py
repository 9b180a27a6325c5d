"""How much of a round one client's row carries, and what a hostile client gains by it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import hostile_friend
from benchmarks.hostile_friend import ATTACKS, Clients, gains, markdown, measured
from understudy import FDMS, Arrivals, Capped, FedVARP, Population, Stale, Strategy
from understudy.core.types import Applied
from understudy.simulation import oracle
from understudy.testing import play


def applied(strategy: Strategy, came: list[int], n: int = 4) -> Applied:
    """Two rounds: all come, then `came`; the second one."""
    state = strategy.init(Population(n), torch.zeros(3), seed=0)
    directions = torch.tensor([[1.0, 0, 0], [1, 0.1, 0], [0.9, 0.1, 0], [0, 0, 1]])[:n]
    for ids in (list(range(n)), came):
        cohort = strategy.select(state, np.ones(n, dtype=bool))
        last = strategy.apply(state, cohort, Arrivals(ids, directions[ids]))
    return last


def test_without_stand_ins_everybody_has_the_same_share() -> None:
    assert applied(Strategy(), [0, 1, 2, 3]).notes["largest_share"] == pytest.approx(1 / 4)
    assert applied(Strategy(), [0, 3]).notes["largest_share"] == pytest.approx(1 / 2)


def test_a_friend_of_two_has_three_shares() -> None:
    """0 and 3 came; 1 and 2 are most like 0, which then carries 3 of 4."""
    assert applied(Strategy(compensator=FDMS()), [0, 3]).notes["largest_share"] == 3 / 4


def test_a_memory_carries_rows_of_their_own_and_negative_ones_count() -> None:
    """Stale: each has a quarter. FedVARP: 3 came alone, its row has 1 and minus its old quarter,
    the four remembered rows a quarter each: the sum of absolute values is 2, of one row 1."""
    assert applied(Strategy(compensator=Stale()), [0, 3]).notes["largest_share"] == 1 / 4
    assert 0 < applied(Strategy(compensator=FedVARP()), [3]).notes["largest_share"] <= 1


def test_a_round_without_contributions_has_no_share() -> None:
    assert "largest_share" not in applied(Strategy(), []).notes


def test_a_mixture_is_nobodys_row() -> None:
    """Nobody was seen together: the mean of those who came speaks for the absent."""
    strategy = Strategy(compensator=FDMS())
    state = strategy.init(Population(4), torch.zeros(3), seed=0)
    cohort = strategy.select(state, np.ones(4, dtype=bool))
    first = strategy.apply(state, cohort, Arrivals([0, 1], torch.ones(2, 3)))
    assert first.notes["largest_share"] == pytest.approx(1 / 4)


def test_a_client_that_copies_the_others_is_heard_and_the_cap_bounds_it() -> None:
    """The figures in the documentation of FDMS; the command is in benchmarks/hostile_friend.py.

    Of 20 clients one always comes, and the cap of 0.2 is what it may carry for others: at most
    0.2 and its own 1/20, and a little more in rounds in which fewer than five came.
    """
    free, bounded = measured(FDMS()), measured(Capped(FDMS(), 0.2))
    assert 0.5 < free["mean"] < 0.8
    assert bounded["mean"] < 0.3 < free["mean"]


def most_gained(name: str) -> dict[str, float]:
    """Attack → its largest gain over some seeds, where about seven clients come."""
    strategy = Strategy(weighting="examples", **hostile_friend.STRATEGIES[name])
    most = dict.fromkeys(ATTACKS, 0.0)
    for seed in range(3):
        for attack, gain in gains(strategy, Clients(seed)):
            most[attack] = max(most[attack], gain)
    return most


def test_what_one_hostile_client_gains() -> None:
    """In honest norms: without bound, or less than one update where the pages say so."""
    free = most_gained("FedAvg")
    assert free["a million times as large"] > 1e4
    believed = most_gained("FedAvg, claim_factor=1e9")["and claims a million"]
    assert free["turned round"] < free["and claims a million"] < believed
    for name in ("Median()", "Capped(FDMS(), 0.2), Median(min_rows=5, mixtures=False)"):
        robust = most_gained(name)
        assert max(robust.values()) < 1
        assert robust["and claims a million"] == robust["turned round"]


def test_the_pages_have_the_measured_gains() -> None:
    """benchmarks/hostile_friend.json, which the command in the pages writes."""
    report = json.loads(hostile_friend.OUTPUT.read_text(encoding="utf-8"))
    root = Path(__file__).parents[2]
    for page, comes in (("SECURITY.md", "0.3"), ("docs/algorithms/aggregators.md", "0.8")):
        text = (root / page).read_text(encoding="utf-8")
        assert markdown(report["gains"][comes]) in text
        assert "{} to {}".format(*report["who_came"][comes]) in text
    text = (root / "docs/algorithms/fdms.md").read_text(encoding="utf-8")
    shares = report["shares"]
    assert f"{shares['FDMS()']['mean']:.2f} of a round" in text
    assert f"{shares['Capped(FDMS(), 0.2)']['mean']:.2f} on average" in text


def test_the_oracle_divides_by_no_zero() -> None:
    """An absent client for whom a row speaks with a coefficient of 0; warnings are errors."""
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(3), torch.zeros(2), seed=0)
    for seed in range(2):
        play(strategy, state, seed, available=np.ones(3, dtype=bool))
    cohort = strategy.select(state, np.ones(3, dtype=bool))
    filled = strategy.fill(state, cohort, Arrivals([0, 1], torch.ones(2, 2)))
    filled.contributions.coef[filled.contributions.ids == 2] = 0.0
    true = [torch.ones(2)] * 3
    _, errors = oracle.compare(filled, np.arange(3), true, None)
    assert np.isnan(errors).all()

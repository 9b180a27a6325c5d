"""F3AST by hand: rates of picks, and the weights they make."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy import F3AST, Arrivals, HorvitzThompson, Ignore, Population, Strategy


@pytest.mark.parametrize(
    ("compensator", "expected"), [(HorvitzThompson(), [4, 4, 8, 16]), (Ignore(), [6, 9, 11, 33])]
)
def test_three_clients(compensator, expected) -> None:
    """Examples (1, 1, 2), p = (1/4, 1/4, 1/2); one of the reachable is picked, b = 1/2; r = p.

    t=0, only 2 is there and sends 6: r = (1/8, 1/8, 3/4), p/r = 2/3: 4.
    t=1, 0 (p/r = 2) and 2 (2/3) are there; 0 sends 9: r = (9/16, 1/16, 3/8), 4/9 * 9 = 4.
    t=2, 0 (4/9) and 2 (4/3); 2 sends 11: r = (9/32, 1/32, 11/16), 8/11 * 11 = 8.
    t=3, 1 (8) and 2 (8/11); 1 sends 33: r_1 = 33/64, 16/33 * 33 = 16.

    A weighted mean of one is that one.
    """
    strategy = Strategy(sampler=F3AST(1, beta=0.5), compensator=compensator)
    population = Population(3, n_examples=[1, 1, 2])
    state = strategy.init(population, torch.zeros(1, dtype=torch.float64), seed=0)
    script = [([2], 2, 6.0), ([0, 2], 0, 9.0), ([0, 2], 2, 11.0), ([1, 2], 1, 33.0)]
    steps = []
    for there, picked, sent in script:
        cohort = strategy.select(state, np.isin(np.arange(3), there))
        assert cohort.wanted.tolist() == [picked]
        before = state.params.item()
        deltas = torch.full((1, 1), sent, dtype=torch.float64)
        strategy.apply(state, cohort, Arrivals([picked], deltas))
        steps.append(state.params.item() - before)
    assert steps == pytest.approx(expected, rel=1e-12)


def test_in_the_long_run_everyone_is_picked_by_its_data_and_weighs_alike() -> None:
    """All are always there: with examples (1, 1, 2, 4) and two a round, the last is picked in
    every round; its p/r = 1/2 is the least, and the others share the other place by their p."""
    strategy = Strategy(sampler=F3AST(2, beta=0.02), weighting="examples")
    population = Population(4, n_examples=[1, 1, 2, 4])
    state = strategy.init(population, torch.zeros(1), seed=0)
    picks = np.zeros(4)
    for t in range(600):
        cohort = strategy.select(state, np.ones(4, dtype=bool))
        picks[cohort.wanted] += t >= 200
        strategy.apply(state, cohort, Arrivals.none())
    assert picks / 400 == pytest.approx([1 / 4, 1 / 4, 1 / 2, 1], abs=0.02)


def test_a_newcomers_rate_and_one_that_retires() -> None:
    """Two of four clients a round, by their data (1, 1, 2, 4): r = 2 p. A fifth with 8 examples
    joins: 2 of 5 is still 2 a round, its share is 1/2 and its rate 1."""
    strategy = Strategy(sampler=F3AST(2))
    population = Population(4, n_examples=[1, 1, 2, 4])
    state = strategy.init(population, torch.zeros(1), seed=0)
    assert state.sampler.rate.tolist() == [1 / 4, 1 / 4, 1 / 2, 1]
    strategy.grow(state, Population(5, n_examples=[1, 1, 2, 4, 8]))
    assert state.sampler.rate.tolist() == [1 / 4, 1 / 4, 1 / 2, 1, 1]
    strategy.retire(state, 3)
    cohort = strategy.select(state, np.arange(5) > 1)
    assert cohort.wanted.tolist() == [2, 4]

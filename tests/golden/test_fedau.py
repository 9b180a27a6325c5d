"""FedAU by hand: the intervals between participations, and what they weigh."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.golden.run import play
from understudy import Arrivals, FedAU, Population, Strategy

SCRIPT = [
    {0: (6, 0), 1: (3, 0)},
    {1: (3, 0)},
    {0: (6, 0)},
    {},
    {0: (6, 0), 2: (9, 0)},
    {0: (6, 0), 1: (3, 0), 2: (9, 0)},
]


@pytest.mark.parametrize(
    ("compensator", "weighting", "expected"),
    [
        (FedAU(), "clients", [3, 1, 2, 0, 6, 58 / 3]),
        (FedAU(), "examples", [2.25, 0.75, 1.5, 0, 6.75, 25.75]),
        (FedAU(max_interval=3), "clients", [3, 1, 2, 0, 12, 12.5]),
    ],
    ids=["alike", "by examples", "cut at 3"],
)
def test_three_clients(compensator, weighting, expected) -> None:
    """Three clients that always send 6, 3 and 9: (1/3) sum of omega_i times these.

    t=0, 0 and 1:  no interval has ended, omega is 1: (6 + 3)/3 = 3.       0: [1], 1: [1]
    t=1, 1:        omega_1 = 1: 3/3 = 1.                                   1: [1, 1]
    t=2, 0:        omega_0 = 1: 6/3 = 2. It was two rounds ago.            0: [1, 2]
    t=3, nobody:   no step; the round counts.
    t=4, 0 and 2:  omega_0 = 3/2, omega_2 = 1: (9 + 9)/3 = 6.              0: [1, 2, 2], 2: [5]
    t=5, all:      omega = 5/3, 1, 5: (10 + 3 + 45)/3 = 58/3.

    Examples (1, 1, 2) are shares (1/4, 1/4, 1/2): 9/4, 3/4, 6/4, -, 9/4 + 9/2, 10/4 + 3/4 + 45/2.

    K = 3 ends client 2's first interval in round 2 and begins another: at t=4 omega_2 = 3, so
    (9 + 27)/3 = 12, and then [3, 2]. Client 1 is three rounds away after t=4: [1, 1, 3].
    t=5: omega = 5/3, 5/3, 5/2: (10 + 5 + 22.5)/3 = 12.5.
    """
    strategy = Strategy(compensator=compensator, weighting=weighting)
    steps, _ = play(strategy, 3, SCRIPT, n_examples=[1.0, 1.0, 2.0])
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)


def test_a_newcomers_interval_begins_when_it_joins() -> None:
    """Nobody comes in rounds 0 to 3; client 1 joins before round 4, in which both come.

    The interval that ends is 5 rounds for client 0, and 1 for client 1.
    """
    strategy = Strategy(compensator=FedAU())
    state = strategy.init(Population(1), torch.zeros(1), seed=0)
    for _ in range(4):
        strategy.apply(state, strategy.select(state, [False]), Arrivals.none())
    strategy.grow(state, Population(2))
    cohort = strategy.select(state, [True, True])
    strategy.apply(state, cohort, Arrivals([0, 1], torch.zeros(2, 1)))
    assert state.compensator.omega().tolist() == [5, 1]

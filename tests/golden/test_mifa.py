"""MIFA by hand: waiting for everyone, and a decaying local step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.golden.run import play
from understudy import MIFA, Arrivals, Local, Population, Strategy
from understudy.parts.schedules import constant, inverse_time

SCRIPT = [{0: (6, 0), 1: (3, 0)}, {0: (4, 0)}, {2: (9, 0)}, {}, {1: (12, 0)}]


@pytest.mark.parametrize(
    ("wait", "schedule", "expected"),
    [
        (True, constant, [0, 0, 16 / 3, 0, 25 / 3]),
        (True, inverse_time, [0, 0, 16 / 3, 0, 37 / 6]),
        (False, constant, [3, 7 / 3, 16 / 3, 0, 25 / 3]),
        (False, inverse_time, [3, 11 / 6, 38 / 9, 0, 83 / 12]),
    ],
)
def test_three_clients(wait, schedule, expected) -> None:
    """Three clients, step eta_t (1/3) sum_i D_i/eta_s(i), s(i) the round i came last.

    With a constant step eta_t/eta_s = 1. The decaying one is .1/(u + 1) after u updates of the
    model: rounds without a step do not count. With u_t those before round t, eta_t/eta_s is
    (u_s + 1)/(u_t + 1).

    t=0, 0 and 1 come with 6 and 3. Client 2 was not seen yet: waiting, no step.
         Without waiting its row is zero: (6 + 3)/3 = 3.
    t=1, 0 comes with 4. Still waiting. Without: (4 + 3)/3 = 7/3;
         decaying, u = 0, 1: client 1 of s=0 counts 1/2: (4 + 1.5)/3 = 11/6.
    t=2, 2 comes with 9, everyone was seen now: (4 + 3 + 9)/3 = 16/3;
         What came while waiting was kept; the step did not decay meanwhile.
         Decaying, without waiting, u = 2: 4 * 2/3 + 3 * 1/3 + 9 = 38/3, a third of it is 38/9.
    t=3, nobody comes: no step.
    t=4, 1 comes with 12: (4 + 12 + 9)/3 = 25/3;
         decaying, waiting, u = 1: 4/2 + 12 + 9/2 = 18.5, a third of it is 37/6;
         without waiting, u = 3: 4 * 2/4 + 12 + 9 * 3/4 = 20.75, a third of it is 83/12.
    """
    strategy = Strategy(compensator=MIFA(wait=wait), local=Local(lr=0.1, schedule=schedule))
    steps, applied = play(strategy, 3, SCRIPT)
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(np.array(steps)[:, 1], 0, atol=1e-15)
    assert [one.stepped for one in applied] == [not wait, not wait, True, False, True]


def test_newcomer_does_not_stall_it_again() -> None:
    """Two clients come with 2 and 4: step 3. A third joins, client 0 comes with 6.

    Everyone was seen once already, so the newcomer is a zero: (6 + 4 + 0)/3 = 10/3.
    """
    strategy = Strategy(compensator=MIFA(wait=True))
    state = strategy.init(Population(2), torch.zeros(1, dtype=torch.float64), seed=0)
    cohort = strategy.select(state, available=np.ones(2, dtype=bool))
    deltas = torch.tensor([[2.0], [4.0]], dtype=torch.float64)
    strategy.apply(state, cohort, Arrivals(ids=[0, 1], deltas=deltas, n_examples=[1, 1]))
    assert state.params.tolist() == [3.0]
    strategy.grow(state, Population(3))
    cohort = strategy.select(state, available=np.ones(3, dtype=bool))
    deltas = torch.tensor([[6.0]], dtype=torch.float64)
    strategy.apply(state, cohort, Arrivals(ids=[0], deltas=deltas, n_examples=[1]))
    assert state.params.tolist() == pytest.approx([3 + 10 / 3], rel=1e-12)

"""Late updates by hand: REFL's weights and the others, and a round with late ones alone."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
import torch

from understudy import (
    Arrivals,
    LateUpdates,
    LeastAvailableFirst,
    Local,
    Population,
    Strategy,
    inverse_time,
)


def steps(strategy: Strategy, script) -> list[float]:
    """`script`: per round (id, update, round it started from). All three are asked in each."""
    population = Population(3, n_examples=[1, 1, 2])
    state = strategy.init(population, torch.zeros(1, dtype=torch.float64), seed=0)
    found = []
    for sent in script:
        before = state.params.item()
        cohort = strategy.select(state, [True] * 3)
        deltas = torch.tensor([[delta] for _, delta, _ in sent], dtype=torch.float64)
        starts = [start for _, _, start in sent]
        ids = [client for client, _, _ in sent]
        arrivals = Arrivals(ids, deltas.reshape(len(sent), 1), start_round=starts)
        strategy.apply(state, cohort, arrivals)
        found.append(state.params.item() - before)
    return found


SCRIPT = [
    [(0, 4.0, 0)],
    [(0, 2.0, 1)],
    [(0, 2.0, 2), (1, 6.0, 1), (2, 4.0, 0)],
    [(2, 5.0, 1)],
    [],
]


@pytest.mark.parametrize(
    ("part", "late"),
    [
        (LateUpdates("equal"), (1, 1)),
        (LateUpdates("inverse"), (1 / 2, 1 / 3)),
        (LateUpdates("exponential"), (exp(-2), exp(-3))),
        (
            LateUpdates("refl", beta=0.4, c=2.0),
            (0.6 / 2 + 0.4 * (1 - exp(-1) / 2), 0.6 / 3 + 0.4 * (1 - exp(-1 / 4) / 2)),
        ),
        (LateUpdates("equal", max_age=1), (1, 0)),
    ],
    ids=lambda value: getattr(value, "rule", None),
)
def test_three_clients(part, late) -> None:
    """Examples (1, 1, 2). In round 2 client 0 comes with 2, 1 a round late with 6, 2 two with 4.

    The mean of those who came is 2, the late ones are 4 and 2 away from it, squared 16 and 4:
    Lambda/Lambda_max is 1 and 1/4. Their weights are s_1 and s_2, the step is
    (2 + s_1 * 6 + 2 s_2 * 4)/(1 + s_1 + 2 s_2).

    In round 3 only a late one comes: it is the step, unless it is too old. In round 4 nobody.
    """
    one, two = late
    mixed = (2 + one * 6 + 2 * two * 4) / (1 + one + 2 * two)
    expected = [4, 2, mixed, 5 if part.max_age is None else 0, 0]
    assert steps(Strategy(compensator=part), SCRIPT) == pytest.approx(expected, rel=1e-12)


def test_a_decaying_step() -> None:
    """.1/(u + 1) after u updates: in round 2 (u = 2) an update of round 1 counts 2/3 of its value,
    one of round 0 a third; all weigh alike: (2 + 6 * 2/3 + 2 * 4/3)/4. Round 3: 5 * 2/4."""
    local = Local(lr=0.1, schedule=inverse_time)
    found = steps(Strategy(compensator=LateUpdates("equal"), local=local), SCRIPT)
    assert found == pytest.approx([4, 2, (2 + 4 + 8 / 3) / 4, 2.5, 0], rel=1e-12)


def test_the_least_available_are_asked_first() -> None:
    """Client 3 is there in every second round, the others always. From round 2 on it is known: 1/2
    is below 1, so it is picked when it is there, unless it rests."""
    for rest, expected in ((0, [2, 4, 6, 8]), (3, [2, 6])):
        strategy = Strategy(sampler=LeastAvailableFirst(1, rest))
        state = strategy.init(Population(8), torch.zeros(1), seed=1)
        picked = []
        for t in range(10):
            there = np.arange(8) != (3 if t % 2 else 8)
            cohort = strategy.select(state, there)
            picked.append(int(cohort.wanted[0]))
            strategy.apply(state, cohort, Arrivals.none())
        assert [t for t in range(2, 10) if picked[t] == 3][: len(expected)] == expected, rest

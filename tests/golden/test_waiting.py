"""FedAvg that waits for those it drew, by hand; and MIFA where everyone came in the first round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.golden.run import play
from understudy import (
    MIFA,
    Arrivals,
    Bernoulli,
    Blind,
    Everyone,
    FullStart,
    Gather,
    KeepAsking,
    Local,
    Outcome,
    Population,
    Strategy,
    Uniform,
    inverse_time,
    mifa,
    waiting_fedavg,
)
from understudy.simulation import clustered_digits, simulate

WAITING = Strategy(sampler=KeepAsking(Everyone()), compensator=Gather())


def test_three_clients() -> None:
    """All three are drawn each time; a client that came is not wanted before the step.

    t=0, 0 comes with 3: 1 and 2 are missing, no step.
    t=1, nobody comes. t=2, 2 comes with 6: 1 is missing.
    t=3, 1 comes with 9: (3 + 9 + 6)/3 = 6.
    t=4, anew: all come with 1, 2, 3: 2.
    t=5, 1 comes with 5: the rows of before are gone, 0 and 2 are missing.
    """
    script = [
        {0: (3, 0)},
        {},
        {2: (6, 0)},
        {1: (9, 0)},
        {0: (1, 0), 1: (2, 0), 2: (3, 0)},
        {1: (5, 0)},
    ]
    steps, applied = play(WAITING, 3, script)
    np.testing.assert_allclose(np.array(steps)[:, 0], [0, 0, 0, 6, 2, 0], rtol=1e-12)
    missing = [one.notes.get("gather_missing") for one in applied]
    assert missing == [2, None, 1, None, None, 2]


def test_who_is_wanted_and_the_local_step() -> None:
    """The decaying step stays while the model does: .1, .1, then .05."""
    local = Local(lr=0.1, schedule=inverse_time)
    strategy = Strategy(sampler=KeepAsking(Everyone()), compensator=Gather(), local=local)
    state = strategy.init(Population(3), torch.zeros(1), seed=0)
    found = []
    for came in ([0, 2], [1], [0]):
        cohort = strategy.select(state, np.ones(3, dtype=bool))
        found.append((cohort.wanted.tolist(), pytest.approx(cohort.lr)))
        deltas = torch.ones((len(came), 1))
        strategy.apply(state, cohort, Arrivals(came, deltas, n_examples=[1] * len(came)))
    assert found == [([0, 1, 2], 0.1), ([1], 0.1), ([0, 1, 2], 0.05)]


def test_one_that_retires_is_not_waited_for() -> None:
    state = WAITING.init(Population(3), torch.zeros(1), seed=0)
    for came in ([0], [1]):
        cohort = WAITING.select(state, np.ones(3, dtype=bool))
        deltas = torch.full((1, 1), 4.0)
        WAITING.apply(state, cohort, Arrivals(came, deltas, n_examples=[1]))
    WAITING.retire(state, 2)
    cohort = WAITING.select(state, np.ones(3, dtype=bool))
    assert cohort.wanted.tolist() == [0, 1]  # a new draw
    WAITING.apply(state, cohort, Arrivals([0], torch.full((1, 1), 8.0), n_examples=[1]))
    assert state.params.tolist() == [6.0]  # 1 came before, with 4


def test_a_draw_is_of_all_and_kept_over_a_save(tmp_path) -> None:
    """Nobody can be reached for two rounds: the same 4 of 10 are wanted, also when resumed."""
    strategy = waiting_fedavg(4)
    assert strategy.sampler == KeepAsking(Blind(Uniform(4)))
    state = strategy.init(Population(10), torch.zeros(1), seed=3, folder=tmp_path)
    wanted = []
    for t in range(4):
        cohort = strategy.select(state, np.zeros(10, dtype=bool))
        wanted.append(cohort.wanted.tolist())
        strategy.apply(state, cohort, Arrivals.none())
        if t == 1:
            strategy.commit(state)
            state.close()
            state = strategy.resume(tmp_path, strategy)
    state.close()
    assert wanted == [wanted[0]] * 4
    assert len(wanted[0]) == 4


def test_mifa_does_not_wait_where_everyone_came_first() -> None:
    """The other rounds are drawn as without the wrapper."""
    inner = Bernoulli(p_min=0.1)

    def run(availability):
        return simulate(
            clustered_digits(),
            mifa(local=Local()),
            model="softmax",
            availability=availability,
            rounds=4,
            workers=1,
        )

    assert isinstance(mifa().compensator, MIFA)
    waits, full = run(inner), run(FullStart(inner))
    logs, seen = list(waits), list(full)
    assert (seen[0].outcome == Outcome.CAME).all()
    assert "mifa_unseen" in logs[0].notes
    assert all("mifa_unseen" not in log.notes for log in seen)
    for log, other in zip(logs[1:], seen[1:], strict=True):
        assert log.outcome.tolist() == other.outcome.tolist()

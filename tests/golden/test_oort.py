"""Oort by hand: utilities, the penalty on the slow, exploring, and seconds in a simulation."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
import torch

from understudy import Arrivals, Deadline, Latency, Local, Oort, Population, Strategy, oort
from understudy.simulation import clustered_digits, simulate


def start(sampler: Oort, n_examples):
    strategy = Strategy(sampler=sampler)
    population = Population(len(n_examples), n_examples=n_examples)
    return strategy, strategy.init(population, torch.zeros(1), seed=0)


def a_round(strategy, state, ids, losses, seconds=None):
    cohort = strategy.select(state, np.ones(state.n_clients, dtype=bool))
    ids = [i for i in ids if i in cohort.asked]
    arrivals = Arrivals(
        ids=ids,
        deltas=torch.zeros(len(ids), 1),
        losses=[losses[i] for i in ids],
        seconds=None if seconds is None else [seconds[i] for i in ids],
    )
    return strategy.apply(state, cohort, arrivals)


def test_utilities_of_four_clients() -> None:
    """Everyone is picked and comes in rounds 0 and 1, client 3 in round 0 alone. In round 2:

    n times loss: 10, 30, 40, 20; clipped at the quantile .5, which is 30 (the third of four): 10,
    30, 30, 20. From 9.99 to 40 they become (.01, 20.01, 20.01, 10.01)/30.01. R = 3, reported in
    round 2, or 1: sqrt(.1 ln 3/2), sqrt(.1 ln 3). Of the seconds 1, 2, 4, 8 the percentile 50 is 4:
    client 3 is slow, times (4/8)^2.
    """
    sampler = Oort(4, clip=0.5, percentile=50.0)
    strategy, state = start(sampler, [10, 10, 20, 10])
    losses, seconds = [1.0, 3.0, 2.0, 2.0], [1.0, 2.0, 4.0, 8.0]
    a_round(strategy, state, range(4), losses, seconds)
    a_round(strategy, state, range(3), losses, seconds)
    ids = np.arange(4)
    begin = type("Start", (), {"population": state.population, "t": 2})
    found = sampler.scores(state.sampler, begin, ids, state.sampler.loss)
    bonus = sqrt(0.1 * log(3) / 2)
    expected = [
        0.01 / 30.01 + bonus,
        20.01 / 30.01 + bonus,
        20.01 / 30.01 + bonus,
        (10.01 / 30.01 + sqrt(0.1 * log(3))) / 4,
    ]
    assert found == pytest.approx(expected, rel=1e-12)


def test_those_of_large_loss_are_exploited_and_others_explored() -> None:
    """10 clients, 4 a round, no exploring but what is needed: all are seen after three rounds, and
    then the four of the largest loss are picked, as long as they have it."""
    strategy, state = start(Oort(4, epsilon=0.5, decay=1.0), [10] * 10)
    losses = np.array([1.0, 9, 2, 9, 1, 9, 2, 9, 1, 1])
    for _ in range(5):  # two new ones in each round, at first four
        a_round(strategy, state, range(10), losses)
    assert np.isfinite(state.sampler.loss).all()
    for _ in range(10):
        cohort = strategy.select(state, np.ones(10, dtype=bool))
        assert cohort.wanted.tolist() == [1, 3, 5, 7]
        a_round(strategy, state, range(10), losses)
    a_round(strategy, state, range(10), np.ones(10))  # they are learnt
    assert strategy.select(state, np.ones(10, dtype=bool)).wanted.tolist() != [1, 3, 5, 7]


def test_one_that_never_tells_its_loss_stays_to_be_explored() -> None:
    strategy, state = start(Oort(3), [1, 1, 1])
    a_round(strategy, state, [0, 1], [1.0, 1.0])
    assert np.isinf(state.sampler.loss).tolist() == [False, False, True]
    assert state.sampler.last.tolist() == [1, 1, 0]


def test_losses_may_be_asked_for() -> None:
    strategy, state = start(Oort(2, losses="asked"), [1] * 5)
    losses = np.array([0.1, 5.0, 0.2, 5.0, 0.1])
    cohort = strategy.select(state, np.ones(5, dtype=bool), losses=lambda ids: losses[ids])
    assert cohort.wanted.tolist() == [1, 3]
    with pytest.raises(ValueError, match=r"losses: Oort\(losses='asked'\) needs select"):
        strategy.select(state, np.ones(5, dtype=bool))


@pytest.mark.parametrize("seconds", [1e9, 0.06])
def test_a_simulation_tells_how_long_answers_took(seconds, tmp_path) -> None:
    """All in time, and with a deadline that many miss; the same over a resume."""
    latency = Latency(step_seconds=0.01, jitter=0.0)
    strategy = oort(10, local=Local(steps=5))

    def run(rounds, **kept):
        return simulate(
            clustered_digits(),
            strategy,
            model="softmax",
            delay=Deadline(latency, seconds),
            rounds=rounds,
            **kept,
        )

    whole, halved = run(10), run(5, folder=tmp_path)
    logs = list(whole)
    list(halved)
    halved.close()
    resumed = run(10, folder=tmp_path)
    list(resumed)
    state = latency.init(clustered_digits().population(), len(whole.state.params), strategy.local)
    expected = latency.delay(state, np.arange(20), 0, np.random.default_rng(0))
    known = np.isfinite(whole.state.sampler.seconds)
    assert known.sum() > 5
    np.testing.assert_allclose(whole.state.sampler.seconds[known], expected[known])
    if seconds < 1:
        assert any((log.outcome == 1).any() for log in logs), "nobody was late: nothing is shown"
        assert (expected[known] > seconds).any()
    np.testing.assert_array_equal(resumed.state.sampler.seconds, whole.state.sampler.seconds)
    resumed.close()

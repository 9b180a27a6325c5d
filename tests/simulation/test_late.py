"""Deadlines, late updates and the simulated clock, followed by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from tests.simulation.small import SEED, cohort, federation
from understudy import (
    Combined,
    Deadline,
    Failure,
    FixedDropout,
    Latency,
    Local,
    Outcome,
    Stale,
    Strategy,
    fedavg,
    mifa,
    scaffold,
)
from understudy.core.rng import generator
from understudy.parts.local import Scaffold
from understudy.simulation import TrainingTask, clustered_digits, local_trainer, simulate

CAME, LATE, MISSING, AWAY = Outcome.CAME, Outcome.LATE, Outcome.MISSING, Outcome.UNAVAILABLE
LOCAL = Local(lr=0.1, epochs=1, batch_size=4)
DATA = federation((8, 12, 6, 9), dtype=torch.float32)


@dataclass(frozen=True)
class Table:
    """Seconds of each client, a row for each round."""

    seconds: tuple[tuple[float, ...], ...]

    deadline = math.inf

    def init(self, population, n_params, local):
        return None

    def delay(self, state, asked, t, rng):
        return np.array(self.seconds[t], dtype=float)[asked]


# A deadline of ten seconds; a dash is a client that still works on an earlier request.
STORY = (
    (3, 8, 14, 35),  # 0 → 10: two in time, client 2 due at 14, client 3 at 35
    (2, 3, 99, 99),  # 10 → 13: nobody else to wait for; (2, 3, –, –)
    (1, math.inf, 99, 99),  # 13 → 23: client 1 never answers; (1, ∞, –, –); client 2 lands
    (4, 4, 4, 99),  # 23 → 27; (4, 4, 4, –)
    (9, 9, 8, 99),  # 27 → 36: client 3 lands; (9, 9, 8, –)
    (1, 10, 1, 1),  # 36 → 46: ten seconds are in time
)
CLOCK = [10, 13, 23, 27, 36, 46]
OUTCOMES = [
    [CAME, CAME, MISSING, MISSING],
    [CAME, CAME, AWAY, AWAY],
    [CAME, MISSING, LATE, AWAY],
    [CAME, CAME, CAME, AWAY],
    [CAME, CAME, CAME, LATE],
    [CAME, CAME, CAME, CAME],
]


@dataclass(frozen=True)
class Wrapped:
    """Somebody's own rule around SCAFFOLD, whose correction starts in round 1."""

    inner: Scaffold = field(default_factory=Scaffold)

    mu = 0.0
    needs_steps = True

    def init(self, setup):
        return self.inner.init(setup)

    def correction(self, state, ids):
        return self.inner.correction(state, ids) if state.common.any() else None

    def learn(self, state, end):
        self.inner.learn(state, end)


def test_a_correction_takes_its_time_on_the_way_down_whoever_makes_it():
    """d = 21 numbers of 32 bits = 672 bits; at 672 bit/s each way a vector takes one second.

    Round 0: the model down, the update up. From round 1 on the correction goes down too.
    """
    mbit = 21 * 32 / 1e6
    link = Latency(0.0, 0, download_mbit=mbit, upload_mbit=mbit, link_spread=0, jitter=0)
    strategy = Strategy(local=replace(LOCAL, rule=Wrapped()))
    run = simulate(DATA, strategy, model="softmax", delay=Deadline(link, 10), rounds=3, seed=SEED)
    logs = list(run)
    assert [log.clock for log in logs] == pytest.approx([2, 5, 8])
    assert [log.megabytes_down for log in logs] == pytest.approx([4 * 84e-6, *[8 * 84e-6] * 2])


def told(strategy, table=STORY, **arguments):
    return simulate(
        DATA,
        strategy,
        model="softmax",
        delay=Deadline(Table(table), seconds=10),
        rounds=len(table),
        seed=SEED,
        **arguments,
    )


def update(params: torch.Tensor, client: int, t: int, local: Local = LOCAL) -> torch.Tensor:
    """What a client makes of a model in round t."""
    run = told(Strategy(local=local))
    trainer = local_trainer(TrainingTask.of(DATA, run.module(), local, SEED, workers=1))
    return trainer.train(params, cohort([client], t)).deltas[0].clone()


def test_clock_and_outcomes_by_hand():
    logs = list(told(Strategy(local=LOCAL)))
    assert [log.clock for log in logs] == CLOCK
    assert [log.outcome.tolist() for log in logs] == OUTCOMES
    assert [len(log.refusals) for log in logs] == [0] * 6


def test_what_travels_is_counted_when_it_travels():
    """Down: the asked. Up: whoever's update arrives in this round, late ones too."""
    run = told(Strategy(local=LOCAL))
    logs = list(run)
    megabytes = run.state.params.nbytes / 1e6
    down, up = [4, 2, 2, 3, 3, 4], [2, 2, 2, 3, 4, 4]
    np.testing.assert_allclose([log.megabytes_down for log in logs], np.array(down) * megabytes)
    np.testing.assert_allclose([log.megabytes_up for log in logs], np.array(up) * megabytes)


def test_a_mean_takes_those_in_time_only():
    """FedAvg has no memory: the late count for nothing, ever."""
    run = told(Strategy(local=LOCAL, weighting="clients"))
    iterator = iter(run)
    for t, outcome in enumerate(OUTCOMES):
        before = run.state.params.clone()
        next(iterator)
        came = [client for client in range(4) if outcome[client] == CAME]
        mean = torch.stack([update(before, client, t) for client in came]).mean(dim=0)
        torch.testing.assert_close(run.state.params, before + mean, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("strategy", "memory_of"),
    [
        (Strategy(compensator=Stale(), local=LOCAL), lambda state: state.compensator),
        (mifa(wait=False, local=LOCAL), lambda state: state.compensator.memory),
    ],
    ids=["stale", "mifa"],
)
def test_a_memory_learns_what_lands_with_the_round_it_was_asked_in(strategy, memory_of):
    """Client 2's update of round 0 is known after round 2, client 3's after round 4."""
    run = told(strategy)
    first = run.state.params.clone()
    expected = {client: update(first, client, 0) for client in (2, 3)}
    iterator = iter(run)
    seen_of_2, seen_of_3 = [], []
    for t in range(6):
        next(iterator)
        memory = memory_of(run.state)
        seen_of_2.append(int(memory.last_seen[2]))
        seen_of_3.append(int(memory.last_seen[3]))
        if t == 2:
            assert torch.equal(memory.rows.get(2), expected[2])
        if t == 4:
            assert torch.equal(memory.rows.get(3), expected[3])
    assert seen_of_2 == [-1, -1, 0, 3, 4, 5]
    assert seen_of_3 == [-1, -1, -1, -1, 0, 5]


def test_what_landed_stands_in_from_the_next_round_on():
    """Client 2 fails in round 3: the update of round 0, landed in round 2, speaks for it."""
    table = (STORY[0], STORY[1], STORY[2], (4, 4, math.inf, 99))
    run = told(Strategy(compensator=Stale(), local=LOCAL, weighting="clients"), table)
    first, (*_, third, last) = run.state.params.clone(), list(run)
    assert third.ids.tolist() == [0, 1], "round 2 itself is filled before it is learnt"
    assert last.ids.tolist() == [0, 1, 2]
    assert last.source.tolist() == [0, 1, 2]
    np.testing.assert_allclose(last.coef, 1 / 4)
    assert last.outcome.tolist() == [CAME, CAME, MISSING, AWAY]
    assert torch.equal(run.state.compensator.rows.get(2), update(first, 2, 0))


def test_a_request_whose_client_fails_is_settled_in_its_round():
    """Clients 2 and 3 are under way until they land; client 1, which fails in round 2, is not."""
    run = told(Strategy(local=LOCAL))
    pending = [run.state.pending.tolist() for _ in run]
    both, last = [[2, 0], [3, 0]], [[3, 0]]
    assert pending == [both, both, last, last, [], []]


def test_failures_leave_no_open_requests():
    run = simulate(DATA, mifa(local=LOCAL), model="softmax", delay=Failure(0.5), rounds=4)
    assert sum((log.outcome == MISSING).sum() for log in run) > 2
    assert run.state.pending.tolist() == []


def test_a_late_update_is_nothing_to_variates():
    """SCAFFOLD drops it: the variates it would need are gone. Client 3 has none until round 5."""
    run = told(scaffold(local=LOCAL))
    known = []
    for log in run:
        assert not log.refusals
        known.append(run.state.local.own.known.tolist())
    assert known[1] == known[2] == [True, True, False, False]
    assert known[3] == known[4] == [True, True, True, False]
    assert known[5] == [True] * 4


def test_an_update_due_when_the_round_ends_lands_in_it():
    """Client 1 answers after 15 s; round 1 lasts from 10 to exactly 15."""
    table = ((1, 15, 1, 1), (5, 99, 1, 1), (1, 1, 1, 1))
    logs = list(told(Strategy(local=LOCAL), table))
    assert [log.clock for log in logs] == [10, 15, 16]
    assert [int(log.outcome[1]) for log in logs] == [MISSING, LATE, CAME]


def test_one_may_land_before_another_that_was_asked_earlier():
    """Asked in round 0 for 28 s, in round 1 for 12 s: the second lands first."""
    table = ((1, 28, 1, 1), (1, 99, 12, 1), (1, 99, 99, 1), (1, 99, 1, 1), (1, 1, 1, 1))
    logs = list(told(Strategy(compensator=Stale(), local=LOCAL), table))
    # 0 → 10 → 20 → 21 (client 2 is due at 22) → 22: it lands; client 1 at 28 does not
    assert [log.clock for log in logs] == [10, 20, 21, 22, 23]
    assert [int(log.outcome[2]) for log in logs] == [CAME, MISSING, AWAY, LATE, CAME]
    assert [int(log.outcome[1]) for log in logs] == [MISSING, AWAY, AWAY, AWAY, AWAY]


# -- failures --------------------------------------------------------------------------------------


def test_failures_are_missing_cost_no_time_and_are_asked_again():
    """Drawn at the address (seed, "delay", t); without a deadline nobody waits for them."""
    run = simulate(
        DATA, fedavg(local=LOCAL), model="softmax", delay=Failure(0.5), rounds=12, seed=SEED
    )
    failed = 0
    for log in run:
        fails = generator(SEED, "delay", log.t).random(4) < 0.5
        assert log.outcome.tolist() == [MISSING if bad else CAME for bad in fails]
        assert log.clock == 0
        failed += int(fails.sum())
        assert log.megabytes_down == pytest.approx(4 * run.state.params.nbytes / 1e6)
        assert log.megabytes_up == pytest.approx((4 - fails.sum()) * run.state.params.nbytes / 1e6)
    assert 10 < failed < 38


@pytest.mark.parametrize("p", [0, 1])
def test_nobody_fails_or_everybody(p):
    run = simulate(DATA, fedavg(local=LOCAL), model="softmax", delay=Failure(p), rounds=3)
    before = run.state.params.clone()
    outcomes = np.array([log.outcome for log in run])
    assert (outcomes == (MISSING if p else CAME)).all()
    assert torch.equal(before, run.state.params) == bool(p)


def test_who_fails_is_not_trained():
    """A client whose data would be an error is never touched when it never answers."""

    class Refuses(Exception):
        pass

    def loss(outputs, labels):
        raise Refuses

    arguments = {"model": "softmax", "loss": loss, "rounds": 1, "evaluate": ()}
    list(simulate(DATA, fedavg(local=LOCAL), delay=Failure(1), **arguments))
    with pytest.raises(Refuses):
        list(simulate(DATA, fedavg(local=LOCAL), delay=Failure(0), **arguments))


# -- the clock of many rounds ----------------------------------------------------------------------


def test_a_round_nobody_can_be_reached_in_lasts_until_the_deadline():
    nobody = FixedDropout(1.0, first_round_full=True)
    run = told(Strategy(local=LOCAL), (STORY[0], STORY[1], STORY[1]), availability=nobody)
    logs = list(run)
    assert [log.clock for log in logs] == [10, 20, 30]
    assert logs[1].outcome.tolist() == [AWAY, AWAY, LATE, AWAY]


def test_drawn_speeds_against_the_formula_of_the_round_of_arrival():
    """Client 0 never answers, so every round lasts until the deadline, and a request of round t
    that takes s seconds arrives ⌈s / deadline⌉ − 1 rounds later. Until then it is not asked.
    """
    data = clustered_digits(n_clients=10, n_clusters=5, per_client=16)
    fails = Table((tuple([math.inf] + [0.0] * 9),) * 15)
    delay = Deadline(Combined(fails, Latency(step_spread=1.5, jitter=0.5, seed=2)), seconds=0.05)
    strategy = Strategy(compensator=Stale(), local=LOCAL)
    run = simulate(data, strategy, model="softmax", delay=delay, rounds=15, seed=SEED)
    state = delay.init(data.population(), 650, LOCAL)
    busy_until = np.full(10, -1)
    n_late = 0
    for t, log in enumerate(run):
        assert log.clock == pytest.approx(0.05 * (t + 1))
        asked = np.flatnonzero(busy_until < t)
        seconds = delay.delay(state, asked, t, generator(SEED, "delay", t))
        never = np.isinf(seconds)
        arrives = t + np.maximum(np.ceil(seconds / 0.05) - 1, 0)
        expected = np.full(10, AWAY)
        expected[busy_until == t] = LATE
        expected[asked] = MISSING
        expected[asked[arrives == t]] = CAME
        np.testing.assert_array_equal(log.outcome, expected)
        n_late += int((expected == LATE).sum())
        later = (arrives > t) & ~never
        busy_until[asked[later]] = arrives[later]
        assert never[0]
    assert n_late > 10


def test_time_to_accuracy():
    """The clock never goes back, and stands beside the accuracy in the frame."""
    data = clustered_digits(n_clients=10, n_clusters=5, per_client=32)
    delay = Deadline(Combined(Failure(0.2), Latency(seed=1)), seconds=0.5)
    run = simulate(data, mifa(wait=False, local=LOCAL), model="softmax", delay=delay, rounds=20)
    frame = (list(run), run.frame())[1]
    assert (np.diff(frame["clock"]) >= 0).all()
    assert 0 < frame["clock"].iloc[-1] <= 20 * 0.5 + 1e-9
    assert frame["clock"].iloc[0] <= 0.5
    good = frame.loc[frame["test_accuracy"] > 0.5, "clock"]
    assert len(good)
    assert 0 < good.iloc[0] < frame["clock"].iloc[-1]


def test_without_a_delay_there_is_no_time():
    logs = list(simulate(DATA, fedavg(local=LOCAL), model="softmax", rounds=2))
    assert [log.clock for log in logs] == [0, 0]


def test_without_a_deadline_a_round_lasts_as_long_as_the_slowest():
    run = simulate(DATA, fedavg(local=LOCAL), model="softmax", delay=Table(STORY[:2]), rounds=2)
    assert [log.clock for log in run] == [35, 35 + 99]

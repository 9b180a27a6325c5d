"""A schedule counts the updates of the model: idle rounds do not decay a step, whatever happens."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.simulation.small import all_facts
from understudy import (
    MIFA,
    Arrivals,
    Ignore,
    Local,
    Memory,
    Population,
    Sgd,
    Stale,
    Strategy,
    inverse_time,
    load_state,
    save_state,
)
from understudy.memory import tensor_stream
from understudy.server import checkpoint
from understudy.simulation import clustered_digits, simulate

LOCAL = Local(lr=0.12, schedule=inverse_time)


def play(strategy, state, came, start_round=None):
    """One round in which these clients come with 1; the cohort."""
    cohort = strategy.select(state, np.ones(state.n_clients, dtype=bool))
    deltas = torch.ones((len(came), 2), dtype=torch.float64)
    arrivals = Arrivals(came, deltas, n_examples=[1] * len(came), start_round=start_round)
    applied = strategy.apply(state, cohort, arrivals)
    assert applied.refusals == ()
    return cohort


def begun(strategy, n_clients=2, **options):
    return strategy.init(Population(n_clients), torch.zeros(2, dtype=torch.float64), **options)


def test_the_step_of_each_round():
    """Rounds 1 and 2 are idle: u = 0, 1, 1, 1, 2 updates before rounds 0 to 4, η = .12/(u + 1)."""
    strategy = Strategy(local=LOCAL)
    state = begun(strategy)
    found = [play(strategy, state, came).lr for came in ([0], [], [], [1], [0, 1])]
    assert found == pytest.approx([0.12, 0.06, 0.06, 0.06, 0.04])
    assert state.idle.tolist() == [1, 2]
    assert [state.updates_before(t) for t in range(6)] == [0, 1, 1, 1, 2, 3]
    assert state.updates == 3


def test_where_every_round_steps_it_is_the_round():
    strategy = Strategy(local=LOCAL)
    state = begun(strategy)
    for t in range(4):
        assert play(strategy, state, [0]).lr == LOCAL.lr_at(t)
    assert len(state.idle) == 0


def test_a_servers_schedule_counts_updates_too():
    """Steps of 1, none, 1/2."""
    strategy = Strategy(server=Sgd(1.0, schedule=inverse_time))
    state = begun(strategy)
    values = []
    for came in ([0], [], [1]):
        play(strategy, state, came)
        values.append(float(state.params[0]))
    assert values == [1.0, 1.0, 1.5]


def test_mifa_does_not_decay_while_it_waits():
    """Client 1 comes in round 3 for the first time: until then η is η₀."""
    strategy = Strategy(compensator=MIFA(), local=LOCAL)
    state = begun(strategy)
    found = [play(strategy, state, came).lr for came in ([0], [0], [0], [1], [0], [0])]
    assert found == pytest.approx([0.12, 0.12, 0.12, 0.12, 0.06, 0.04])


def test_a_late_update_has_the_step_of_its_round():
    """Asked in round 1 (u = 1, η = .06), arrived in round 4 (u = 2): .06 is remembered."""
    strategy = Strategy(compensator=Stale(), local=LOCAL)
    state = begun(strategy)
    play(strategy, state, [0, 1])
    play(strategy, state, [])  # idle; both still owe it
    play(strategy, state, [0])
    play(strategy, state, [])
    play(strategy, state, [1], start_round=[1])
    memory = state.compensator
    assert isinstance(memory, Memory)
    assert memory.last_seen.tolist() == [2, 1]
    assert memory.made_with.tolist() == pytest.approx([0.06, 0.06])
    assert state.idle.tolist() == [1, 3, 4]  # the last brought a late one only


def test_a_grown_run_keeps_its_clock():
    strategy = Strategy(compensator=MIFA(), local=LOCAL)
    state = begun(strategy)
    play(strategy, state, [0])
    play(strategy, state, [0, 1])
    strategy.grow(state, Population(4))
    assert state.idle.tolist() == [0]
    assert play(strategy, state, [3]).lr == pytest.approx(0.06)
    assert play(strategy, state, [2]).lr == pytest.approx(0.04)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_resumed_run_keeps_its_clock(kind, tmp_path):
    strategy = Strategy(compensator=Ignore(), local=LOCAL)
    state = begun(strategy, folder=tmp_path / "run" if kind == "folder" else None)
    for came in ([0], [], [1]):
        play(strategy, state, came)
    if kind == "folder":
        strategy.commit(state)
        state.close()
        state = strategy.resume(tmp_path / "run", strategy)
    else:
        save_state(state, tmp_path / "state")
        state = load_state(tmp_path / "state", strategy)
    assert state.idle.tolist() == [1]
    assert play(strategy, state, []).lr == pytest.approx(0.04)
    assert play(strategy, state, [1]).lr == pytest.approx(0.04)
    assert state.idle.tolist() == [1, 3]
    state.close()


def test_a_checkpoint_of_before_counts_its_rounds(tmp_path, monkeypatch):
    """Without the list, its three rounds count as updates: the fourth steps with .12/4."""
    strategy = Strategy(local=LOCAL)
    state = begun(strategy)
    for came in ([0], [], [1]):
        play(strategy, state, came)
    packed = checkpoint._packed

    def without(state):
        entries, about = packed(state)
        del entries["idle"], about["kinds"]["idle"]
        return entries, about

    monkeypatch.setattr(checkpoint, "_packed", without)
    save_state(state, tmp_path / "state")
    assert "idle" not in tensor_stream.Reader(tmp_path / "state").names
    old = load_state(tmp_path / "state", strategy)
    assert play(strategy, old, []).lr == pytest.approx(0.03)
    assert play(strategy, old, [0]).lr == pytest.approx(0.03)
    assert play(strategy, old, [0]).lr == pytest.approx(0.024)


# -- in a simulation -------------------------------------------------------------------------------


@dataclass(frozen=True)
class NobodyIn:
    """Everyone, but for some rounds."""

    rounds: tuple[int, ...]

    def init(self, population):
        return None

    def draw(self, state, t, rng):
        return np.full(20, t not in self.rounds)

    def rates(self, state, t):
        return None


def run(idle, rounds, model="softmax", **options):
    """One step of all data each round: batches are the same in every round."""
    local = Local(lr=0.5, schedule=inverse_time, batch_size=10_000)
    return simulate(
        clustered_digits(),
        Strategy(local=local),
        model=model,
        availability=NobodyIn(idle),
        rounds=rounds,
        **options,
    )


@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_rounds_without_anybody_change_nothing(model):
    without, between = run((), 3, model, workers=1), run((1, 2), 5, model, workers=1)
    losses = [log.metrics["test_loss"] for log in without]
    idle = [log.metrics["test_loss"] for log in between]
    assert idle[1] == idle[2] == idle[0]
    assert [idle[0], *idle[3:]] == pytest.approx(losses, rel=1e-5)
    torch.testing.assert_close(without.state.params, between.state.params, rtol=1e-4, atol=1e-6)


def test_workers_and_resuming_change_no_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("understudy.simulation.training.trainers.loop_trainer.WORTH_WORKERS", 0.0)
    whole = all_facts(run((1, 2), 5, workers=1))
    assert all_facts(run((1, 2), 5, workers=2)) == whole
    with run((1, 2), 5, workers=1, folder=tmp_path) as broken:
        for _ in zip(range(3), broken, strict=False):
            pass
    assert all_facts(run((1, 2), 5, workers=2, folder=tmp_path)) == whole
    assert broken.state.idle.tolist() == [1, 2]


def test_training_again_for_an_analysis_takes_the_step_of_the_round():
    simulation = run((0,), 3, workers=1)
    start = simulation.start()
    logs = list(simulation)
    assert [log.t for log in logs] == [0, 1, 2]
    ids = np.array([3])
    first = simulation.train(start, ids, 0).deltas[0].clone()  # u = 0
    second = simulation.train(start, ids, 1).deltas[0].clone()  # u = 0 still
    third = simulation.train(start, ids, 2).deltas[0].clone()  # u = 1
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(first, 2 * third, rtol=1e-4, atol=1e-7)

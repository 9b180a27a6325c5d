"""The loop of rounds against one written out by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from understudy import FDMS, Local, Outcome, Strategy, fedavg, fedavg_is, power_of_choice, scaffold
from understudy.core.flat import Layout
from understudy.core.rng import generator
from understudy.core.types import Cohort
from understudy.parts.availability import Always, Bernoulli, FixedDropout, fdms_dropout
from understudy.simulation import clustered_digits, evaluate, simulate
from understudy.simulation.data.models import build
from understudy.simulation.training.trainers.choice import local_trainer
from understudy.simulation.training.trainers.task import TrainingTask

LOCAL = Local(lr=0.1, epochs=1, batch_size=16)


@pytest.fixture(scope="module")
def federation():
    return clustered_digits(seed=0)


def test_fedavg_equals_the_loop_by_hand(federation):
    """Attendance, batches and first weights from their addresses; the mean of those who came."""
    seed, availability = 3, FixedDropout(0.5)
    module = build("softmax", (1, 8, 8), 10, seed)
    layout = Layout.of(module)
    params = layout.vector(module)
    trainer = local_trainer(TrainingTask.of(federation, module, LOCAL, seed))
    attendance = availability.init(federation.population())
    expected = []
    for t in range(4):
        present = availability.draw(attendance, t, generator(seed, "availability", t))
        ids = np.flatnonzero(present)
        none = np.zeros((0, 2), dtype=np.int64)
        deltas = trainer.train(params, Cohort(t, ids, np.ones(len(ids)), ids, none)).deltas
        params = params + deltas.mean(dim=0)
        layout.load(module, params)
        expected.append((present, *evaluate(module, federation, federation.test)))

    run = simulate(
        federation,
        fedavg(local=LOCAL),
        model="softmax",
        availability=availability,
        rounds=4,
        seed=seed,
    )
    logs = list(run)
    assert [log.t for log in logs] == [0, 1, 2, 3]
    for log, (present, loss, accuracy) in zip(logs, expected, strict=True):
        np.testing.assert_array_equal(log.outcome == Outcome.CAME, present)
        np.testing.assert_array_equal(log.outcome == Outcome.UNAVAILABLE, ~present)
        assert log.metrics["test_loss"] == pytest.approx(loss, rel=1e-5)
        assert log.metrics["test_accuracy"] == pytest.approx(accuracy, abs=2 / 359)
    torch.testing.assert_close(run.state.params, params, rtol=1e-5, atol=1e-6)


def test_a_log_says_who_spoke_for_whom_and_what_it_cost(federation):
    run = simulate(
        federation,
        Strategy(compensator=FDMS(), local=LOCAL),
        model="softmax",
        availability=fdms_dropout(0.7),
        rounds=3,
    )
    first, second, _ = run
    megabytes = 650 * 4 / 1e6  # 64 * 10 weights and 10 biases of four bytes
    assert first.megabytes_up == pytest.approx(20 * megabytes)
    assert second.megabytes_up == pytest.approx(6 * megabytes)
    assert second.megabytes_down == pytest.approx(6 * megabytes)
    assert first.stand_ins == []
    came = set(np.flatnonzero(second.outcome == Outcome.CAME))
    absent = [client for client, _, _ in second.stand_ins]
    assert sorted(absent) == sorted(set(range(20)) - came)
    assert {source for _, source, _ in second.stand_ins} <= came
    assert {"select", "train", "fill", "aggregate", "evaluate", "round"} <= set(second.timings)


def test_corrections_travel_too(federation):
    (log,) = simulate(federation, scaffold(local=LOCAL), model="softmax", rounds=1)
    assert log.megabytes_down == pytest.approx(2 * log.megabytes_up)


def test_same_seed_same_bits_and_another_seed_others(federation):
    def params(seed):
        strategy = Strategy(compensator=FDMS(), local=LOCAL)
        run = simulate(
            federation,
            strategy,
            model="mlp",
            availability=FixedDropout(0.7),
            rounds=3,
            seed=seed,
        )
        list(run)
        return run.state.params

    assert torch.equal(params(0), params(0))
    assert not torch.equal(params(0), params(1))


def test_two_strategies_face_the_same_absences(federation):
    def outcomes(strategy):
        run = simulate(
            federation, strategy, model="softmax", availability=Bernoulli(p_min=0.1), rounds=5
        )
        return np.array([log.outcome for log in run])

    one = outcomes(fedavg(local=LOCAL))
    np.testing.assert_array_equal(one, outcomes(Strategy(compensator=FDMS(), local=LOCAL)))
    assert len(np.unique(one, axis=0)) > 1


def test_stopping_early_and_going_on_is_the_same_as_going_through(federation):
    def run():
        return simulate(federation, fedavg(local=LOCAL), model="softmax", rounds=4)

    through, broken = run(), run()
    whole = list(through)
    for log in broken:
        if log.t == 1:
            break
    rest = list(broken)
    assert [log.t for log in rest] == [2, 3]
    assert torch.equal(through.state.params, broken.state.params)
    assert rest[-1].metrics == whole[-1].metrics


def test_known_rates_reach_the_strategy(federation):
    """FedAvg-IS divides by p_i, which is 1 in the full round and 3/10 thereafter."""
    run = simulate(
        federation,
        fedavg_is(local=LOCAL),
        model="softmax",
        availability=fdms_dropout(0.7),
        rounds=2,
    )
    first, second = run
    np.testing.assert_allclose(first.coef, 1 / 20)
    np.testing.assert_allclose(second.coef, 1 / 20 / 0.3)
    assert run.state.population.p.tolist() == [1.0] * 20


def test_losses_can_be_asked_for(federation):
    """Power-of-Choice takes the four clients on whose data the first model is worst."""
    run = simulate(federation, power_of_choice(m=4, local=LOCAL), model="softmax", rounds=1)
    module = run.module()
    losses = [evaluate(module, federation, held)[0] for held in federation.clients]
    (log,) = run
    came = np.flatnonzero(log.outcome == Outcome.CAME)
    np.testing.assert_array_equal(np.sort(came), np.sort(np.argsort(losses)[-4:]))


def test_evaluation_every_few_rounds_and_after_the_last(federation):
    run = simulate(federation, fedavg(local=LOCAL), model="softmax", rounds=5, evaluate_every=2)
    assert [log.t for log in run if log.metrics] == [1, 3, 4]


def test_an_empty_round_is_logged_and_changes_nothing(federation):
    availability = FixedDropout(alpha=1.0, first_round_full=True)
    run = simulate(
        federation, fedavg(local=LOCAL), model="softmax", availability=availability, rounds=3
    )
    rounds = iter(run)
    next(rounds)
    after_first = run.state.params.clone()
    logs = list(rounds)
    assert len(logs) == 2
    assert torch.equal(run.state.params, after_first)
    assert all(len(log.ids) == 0 and log.megabytes_up == 0 for log in logs)
    assert all((log.outcome == Outcome.UNAVAILABLE).all() for log in logs)


def test_a_users_module_with_buffers_and_dropout_learns(federation):
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(32, 10),
    )  # fmt: skip
    before = Layout.of(module).vector(module)
    run = simulate(federation, fedavg(local=LOCAL), model=module, availability=Always(), rounds=8)
    *_, last = run
    assert last.metrics["test_accuracy"] > 0.5
    assert torch.equal(Layout.of(module).vector(module), before)  # the given one is not touched
    final = run.module()
    assert evaluate(final, federation, federation.test)[1] == last.metrics["test_accuracy"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rounds": 0}, "rounds: expected a whole number >= 1, got 0"),
        ({"rounds": 1, "evaluate_every": 0}, "evaluate_every: expected a whole number >= 1"),
        ({"rounds": 1, "model": "cnn"}, "model: expected one of"),
        ({"rounds": 1, "seed": -1}, "seed: expected a whole number >= 0, got -1"),
    ],
)
def test_wrong_arguments_fail_before_the_first_round(federation, arguments, words):
    with pytest.raises(ValueError, match=words):
        simulate(federation, fedavg(), **{"model": "softmax", **arguments})


def test_a_class_for_an_availability_is_refused(federation):
    with pytest.raises(TypeError, match=r"availability: .*write Always\(\), with parentheses"):
        simulate(federation, fedavg(), model="softmax", availability=Always, rounds=1)

"""The figures of oracle mode against updates trained one by one, outside of the run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import SEED, all_facts, cohort, facts
from understudy import (
    FDMS,
    Blind,
    Concord,
    Deadline,
    FedAvgIS,
    FixedDropout,
    Ignore,
    Kriging,
    Latency,
    Linear,
    Local,
    Markov,
    Outcome,
    Stale,
    Strategy,
    Uniform,
    fdms_dropout,
    fedavg,
    mifa,
    scaffold,
)
from understudy.simulation import (
    Federation,
    TrainingTask,
    clustered_digits,
    digits,
    local_trainer,
    simulate,
)

LOCAL = Local(lr=0.1, epochs=1, batch_size=16)
DROPOUT = fdms_dropout(0.5)


@pytest.fixture(scope="module")
def clustered() -> Federation:
    return clustered_digits(n_clients=10, n_clusters=5, per_client=32, seed=1)


@pytest.fixture(scope="module")
def unequal() -> Federation:
    """No clusters, sizes from 20 to 200."""
    x, y = digits()
    sizes = np.linspace(20, 200, 8).astype(int)
    owner = np.concatenate([np.full(size, i) for i, size in enumerate(sizes)])
    return Federation.from_arrays(x[: len(owner)], y[: len(owner)], clients=owner)


def started(data, strategy, **arguments):
    options = {"model": "softmax", "availability": DROPOUT, "rounds": 4, "seed": SEED, **arguments}
    return simulate(data, strategy, oracle=True, **options)


def true_updates(run, data, strategy, t) -> np.ndarray:
    """(N, d): every client trained by itself, from the model as it is now; parameters only."""
    module = run.module()
    trainer = local_trainer(TrainingTask.of(data, module, strategy.local, SEED, workers=1))
    rows = []
    for client in range(data.n_clients):
        arrivals = trainer.train(run.state.params, cohort([client], t))
        rows.append(arrivals.deltas[0][: trainer.task.layout.n_parameters].double().numpy().copy())
    return np.stack(rows)


def squared(vector: np.ndarray) -> float:
    return float((vector**2).sum())


def rounds(run, data, strategy):
    """(log, true updates, the update that was taken) of each round."""
    iterator = iter(run)
    for t in range(4):
        true, before = true_updates(run, data, strategy, t), run.state.params.clone()
        log = next(iterator)
        n = true.shape[1]
        yield log, true, (run.state.params - before)[:n].double().numpy()


def sigmas(true: np.ndarray, groups: np.ndarray | None) -> tuple[float, float]:
    apart = np.array([[squared(one - other) for other in true] for one in true])
    n = len(true)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    if groups is None:
        friends = max(min(apart[i, j] for j in range(n) if j != i) for i in range(n))
    else:
        friends = max(apart[i, j] for i, j in pairs if groups[i] == groups[j])
    return max(apart[i, j] for i, j in pairs), friends


@pytest.mark.parametrize("groups", [True, False])
def test_friends_against_one_by_one(clustered, groups):
    """FL-FDMS: e_t = update − mean of all ten; each stand-in's own error; σ_P², σ_F²."""
    data = clustered
    if not groups:
        data = Federation(data.x, data.y, data.clients, data.test, n_classes=10)
    dropout = DROPOUT if groups else FixedDropout(0.5, first_round_full=True)
    strategy = Strategy(compensator=FDMS(), local=LOCAL)
    run = started(data, strategy, availability=dropout)
    stood_in = 0
    for log, true, update in rounds(run, data, strategy):
        full = true.mean(axis=0)
        error = squared(update - full)
        assert log.notes["oracle_error"] == pytest.approx(error, rel=1e-4, abs=1e-12)
        assert log.notes["oracle_error_relative"] == pytest.approx(
            error / squared(full), rel=1e-4, abs=1e-12
        )
        assert "oracle_error_wanted" not in log.notes, "everybody is wanted"
        ignored = true[log.outcome == Outcome.CAME].mean(axis=0) - full
        assert log.notes["oracle_error_ignoring"] == pytest.approx(
            squared(ignored), rel=1e-4, abs=1e-12
        )
        if groups:
            own = data.groups[:, None] == data.groups[None, :]
            apart = ((true[:, None] - true[None]) ** 2).sum(axis=2)
            friends = own & ~np.eye(len(true), dtype=bool)
            assert log.notes["friends_apart"] == pytest.approx(apart[friends].mean(), rel=1e-5)
            assert log.notes["strangers_apart"] == pytest.approx(apart[~own].mean(), rel=1e-5)
        sigma_p, sigma_f = sigmas(true, data.groups)
        assert log.notes["sigma_p"] == pytest.approx(sigma_p, rel=1e-5)
        assert log.notes["sigma_f"] == pytest.approx(sigma_f, rel=1e-5)
        assert log.errors.shape == log.ids.shape
        for client, source, found in zip(log.ids, log.source, log.errors, strict=True):
            if log.outcome[client] == Outcome.CAME:
                assert np.isnan(found)
            else:
                assert found == pytest.approx(squared(true[source] - true[client]), rel=1e-5)
                stood_in += 1
    assert stood_in == 3 * 5


def test_weights_by_examples_and_a_sampler(unequal):
    """Against all by n_i; against the wanted by n_i among them."""
    strategy = Strategy(sampler=Blind(Uniform(5)), local=LOCAL, weighting="examples")
    run = started(unequal, strategy, availability=FixedDropout(0.5, first_round_full=True))
    n = unequal.sizes.astype(float)
    missed = 0
    for log, true, update in rounds(run, unequal, strategy):
        full = (n[:, None] * true).sum(axis=0) / n.sum()
        assert log.notes["oracle_error"] == pytest.approx(squared(update - full), rel=1e-4)
        assert log.notes["oracle_error_relative"] == pytest.approx(
            squared(update - full) / squared(full), rel=1e-4
        )
        wanted = np.flatnonzero(log.outcome != Outcome.NOT_WANTED)
        assert len(wanted) == 5
        of_wanted = (n[wanted, None] * true[wanted]).sum(axis=0) / n[wanted].sum()
        error = squared(update - of_wanted)
        assert log.notes["oracle_error_wanted"] == pytest.approx(error, rel=1e-4, abs=1e-11)
        assert log.notes["oracle_error_wanted_relative"] == pytest.approx(
            error / squared(of_wanted), rel=1e-4, abs=1e-10
        )
        missed += int((log.outcome == Outcome.UNAVAILABLE).sum())
    assert missed > 0


@pytest.mark.parametrize("kind", ["update", "model"])
def test_stand_ins_out_of_a_memory(clustered, kind):
    """The last update, or the way from here to the last model: kept by hand beside the run."""
    strategy = Strategy(compensator=Stale(kind), local=LOCAL)
    run = started(clustered, strategy)
    memory: dict[int, np.ndarray] = {}
    checked = 0
    iterator = iter(run)
    for t in range(4):
        true = true_updates(run, clustered, strategy, t)
        here = run.state.params.double().numpy().copy()
        log = next(iterator)
        for client in range(10):
            errors = log.errors[log.ids == client]
            if log.outcome[client] == Outcome.CAME:
                assert np.isnan(errors).all()
                continue
            stand_in = memory[client] if kind == "update" else memory[client] - here
            assert errors == pytest.approx(squared(stand_in - true[client]), rel=1e-4)
            checked += 1
        for client in np.flatnonzero(log.outcome == Outcome.CAME):
            memory[client] = true[client] if kind == "update" else here + true[client]
    assert checked == 3 * 5


def test_a_remembered_update_stands_in_as_it_is_used(clustered):
    """MIFA rescales a remembered update by η_t/η_s; its error is that of the row it points to."""
    strategy = mifa(local=LOCAL)
    run = started(clustered, strategy)
    memory: dict[int, np.ndarray] = {}
    for log, true, update in rounds(run, clustered, strategy):
        came = np.flatnonzero(log.outcome == Outcome.CAME)
        for client in came:
            memory[client] = true[client]
        expected = np.mean([memory[client] for client in range(10)], axis=0)
        np.testing.assert_allclose(update, expected, atol=2e-7)
        for client, found in zip(log.ids, log.errors, strict=True):
            if client not in came:
                assert found == pytest.approx(squared(memory[client] - true[client]), rel=1e-4)


def test_with_everybody_there_the_error_is_nothing(clustered):
    """FedAvg by clients is the mean that e_t is measured against: 0 up to float32 sums."""
    strategy = Strategy(compensator=Ignore(), local=LOCAL)
    run = started(clustered, strategy, availability=None)
    for log in run:
        assert log.notes["oracle_error_relative"] < 1e-12
        assert log.notes["oracle_error"] < 1e-12
        assert np.isnan(log.errors).all()
        assert len(log.errors) == 10
        assert log.notes["sigma_p"] > 0


def test_a_round_without_a_step_misses_the_whole_update(clustered):
    """Nobody came: the update is zero, so the relative error is one."""
    nobody = FixedDropout(1.0, first_round_full=True)
    run = started(clustered, Strategy(local=LOCAL), availability=nobody)
    _, *later = run
    for log in later:
        assert log.notes["oracle_error_relative"] == pytest.approx(1.0)
        assert log.notes["oracle_error"] > 0
        assert len(log.errors) == 0


class Sparse(nn.Module):
    """Buffers are in the vector, but no part of any figure."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(64)
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(x.flatten(1)))


def test_buffers_do_not_count(clustered):
    strategy = Strategy(compensator=FDMS(), local=LOCAL)
    run = started(clustered, strategy, model=Sparse, rounds=4)
    for log, true, update in rounds(run, clustered, strategy):
        assert true.shape[1] == 2 * 64 + 650
        error = squared(update - true.mean(axis=0))
        assert log.notes["oracle_error"] == pytest.approx(error, rel=1e-4, abs=1e-12)
        assert log.notes["sigma_p"] == pytest.approx(sigmas(true, clustered.groups)[0], rel=1e-4)


STRATEGIES = {
    "fdms": Strategy(compensator=FDMS(), local=LOCAL),
    "scaffold": scaffold(local=LOCAL),
    "mifa": mifa(local=LOCAL),
    "blind": Strategy(sampler=Blind(Uniform(4)), compensator=Stale("model"), local=LOCAL),
    "is": Strategy(compensator=FedAvgIS(), local=LOCAL),
    "fedavg": fedavg(local=LOCAL),
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("delay", [None, Deadline(Latency(seed=3), seconds=0.15)])
def test_looking_changes_no_bit(clustered, name, delay):
    """All of a log but the oracle's own notes, and the model, with and without it."""

    def played(oracle):
        run = simulate(
            clustered,
            STRATEGIES[name],
            model=Sparse,
            availability=Markov(0.6, 2),
            delay=delay,
            rounds=5,
            seed=SEED,
            oracle=oracle,
        )
        return list(run), run.state.params

    (with_logs, with_params), (logs, params) = played(True), played(False)
    assert torch.equal(with_params, params)
    assert any("oracle_error" in log.notes for log in with_logs)
    own = {"sigma_p", "sigma_f", "friends_apart", "strangers_apart"}
    for log, other in zip(with_logs, logs, strict=True):
        one, two = facts(log), facts(other)
        for name_of_note in list(one["notes"]):
            if name_of_note.startswith("oracle_") or name_of_note in own:
                del one["notes"][name_of_note]
        assert one.pop("errors") is not None
        assert two.pop("errors") is None
        assert one == two


def test_the_same_figures_again(clustered):
    def logs():
        return all_facts(started(clustered, STRATEGIES["fdms"]))

    assert logs() == logs()


@pytest.mark.parametrize("aggregator", [Linear(), Concord()], ids=repr)
def test_stand_ins_weighted_by_shares(clustered, aggregator):
    """Stale: a last update has the error that a stand-in has, however the aggregator weighs it."""
    strategy = Strategy(compensator=Stale(), aggregator=aggregator, local=LOCAL)
    run = started(clustered, strategy, rounds=4)
    last = np.zeros((10, 650))
    for log, true, update in rounds(run, clustered, strategy):
        came = log.outcome == Outcome.CAME
        stood_in = np.where(came[:, None], true, last)
        mean, full = stood_in.mean(axis=0), true.mean(axis=0)
        notes = log.notes
        assert notes["oracle_stand_ins_error"] == pytest.approx(squared(mean - full), rel=1e-4)
        relative = squared(mean - full) / squared(full)
        assert notes["oracle_stand_ins_error_relative"] == pytest.approx(relative, rel=1e-4)
        cosine = mean @ full / np.linalg.norm(mean) / np.linalg.norm(full)
        assert notes["oracle_cosine"] == pytest.approx(cosine, rel=1e-4)
        assert notes["oracle_error"] == pytest.approx(squared(update - full), rel=1e-4)
        known = ~came & last.any(axis=1)
        if known.any():
            error = squared((last - true)[known]) / squared(true[known])
            assert notes["oracle_last_update_error"] == pytest.approx(error, rel=1e-4)
            assert notes["oracle_stand_in_error_known"] == pytest.approx(error, rel=1e-4)
        else:
            assert "oracle_last_update_error" not in notes
        last[came] = true[came]


def test_errors_of_krigings_stand_ins(clustered):
    strategy = Strategy(compensator=Kriging(), aggregator=Concord(), local=LOCAL)
    logs = list(started(clustered, strategy, rounds=6))
    assert all(0 < log.notes["oracle_stand_in_error"] < 4 for log in logs[1:])  # all came first
    known = [log.notes for log in logs if "oracle_last_update_error" in log.notes]
    assert len(known) >= 4
    for log in logs:
        absent = np.unique(log.ids[log.outcome[log.ids] != Outcome.CAME])
        for client in absent:  # one error for each client, in all of its entries
            assert len(set(log.errors[log.ids == client])) == 1

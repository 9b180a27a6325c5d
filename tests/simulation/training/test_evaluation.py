"""What is measured of a model, when, and how it is kept; against plain recomputations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from understudy import FDMS, FixedDropout, Local, Outcome, Strategy, fedavg
from understudy.core.flat import Layout
from understudy.simulation import Federation, digits, simulate
from understudy.simulation.training.evaluation import BATCH, evaluate

LOCAL = Local(lr=0.1, epochs=1, batch_size=16)


@pytest.fixture(scope="module")
def data() -> Federation:
    """1,797 digits at six clients of unequal sizes, a fifth for tests, a tenth to validate."""
    x, y = digits()
    owner = np.sort(np.random.default_rng(0).choice(6, size=len(y), p=np.arange(1, 7) / 21))
    return Federation.from_arrays(x, y, clients=owner, test=0.2, validation=0.1)


def outputs_of(run, indices: np.ndarray, data: Federation) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        return run.module().eval()(data.x[indices]), data.y[indices]


def macro_f1(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """The mean over classes of 2 TP / (2 TP + FP + FN), a class that nowhere occurs counting 0."""
    said = outputs.argmax(dim=1)
    scores = []
    for label in range(outputs.shape[1]):
        hits = int(((said == label) & (labels == label)).sum())
        wrong = int((said == label).sum()) + int((labels == label).sum()) - 2 * hits
        scores.append(2 * hits / (2 * hits + wrong) if hits else 0.0)
    return sum(scores) / len(scores)


def test_f1_by_hand():
    """Truth 0 0 0 1 1 2, answers 0 0 1 1 1 0: F1 = 2·2/(2·2+1+1), 2·2/(2·2+1+0), 0."""
    outputs = torch.eye(3)[[0, 0, 1, 1, 1, 0]]
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    assert macro_f1(outputs, labels) == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)


def test_names_and_values_of_all_parts(data):
    """Loss, accuracy and the user's own, for each part that was asked for."""
    run = simulate(
        data,
        fedavg(local=LOCAL),
        model="softmax",
        rounds=3,
        metrics={"f1": macro_f1, "n": lambda outputs, labels: len(labels)},
        evaluate=("train", "validation", "test"),
    )
    *_, last = run
    assert len(data.test) > BATCH, "several batches"
    parts = {
        "train": np.concatenate(data.clients),
        "validation": np.concatenate(data.validation),
        "test": data.test,
    }
    names = ("loss", "accuracy", "f1", "n")
    assert list(last.metrics) == [f"{part}_{name}" for part in parts for name in names]
    for part, indices in parts.items():
        outputs, labels = outputs_of(run, indices, data)
        right = (outputs.argmax(dim=1) == labels).double().mean()
        assert last.metrics[f"{part}_loss"] == pytest.approx(
            float(cross_entropy(outputs, labels)), rel=1e-5
        )
        assert last.metrics[f"{part}_accuracy"] == pytest.approx(float(right), abs=1e-12)
        assert last.metrics[f"{part}_f1"] == pytest.approx(macro_f1(outputs, labels), abs=1e-6)
        assert last.metrics[f"{part}_n"] == len(indices)
    assert last.metrics["test_accuracy"] > 0.5


def test_nothing_is_evaluated_where_nothing_is_asked(data):
    run = simulate(data, fedavg(local=LOCAL), model="softmax", rounds=2, evaluate=())
    assert [dict(log.metrics) for log in run] == [{}, {}]


def test_validation_where_there_is_none_is_refused_at_once():
    x, y = digits()
    bare = Federation.from_arrays(x, y, clients=np.arange(len(y)) % 4)
    with pytest.raises(ValueError, match=r"evaluate: .*validation"):
        simulate(bare, fedavg(), model="softmax", rounds=1, evaluate=("validation",))


def test_a_part_that_does_not_exist_is_refused(data):
    with pytest.raises(ValueError, match=r"evaluate: expected one of .*, got 'tests'"):
        simulate(data, fedavg(), model="softmax", rounds=1, evaluate=("tests",))


@pytest.mark.parametrize("every", [1, 2, 3, 10])
def test_every_so_many_rounds_and_after_the_last(data, every):
    run = simulate(
        data,
        fedavg(local=LOCAL),
        model="softmax",
        rounds=7,
        evaluate_every=every,
        per_client_every=3,
    )
    logs = list(run)
    due = [t for t in range(7) if (t + 1) % every == 0 or t == 6]
    assert [log.t for log in logs if log.metrics] == due
    assert [log.t for log in logs if log.client_metrics] == [2, 5, 6]


def test_test_sets_of_clients_are_drawn_once_a_run(data, monkeypatch):
    drawn = []

    def counted(self, seed=0):
        drawn.append(seed)
        return client_tests(self, seed)

    client_tests = Federation.client_tests
    monkeypatch.setattr(Federation, "client_tests", counted)
    run = simulate(data, fedavg(local=LOCAL), model="softmax", rounds=3, per_client_every=1)
    assert [len(log.client_metrics["accuracy"]) for log in run] == [data.n_clients] * 3
    assert drawn == [0]


def test_evaluating_changes_no_bit(data):
    def params(**arguments):
        run = simulate(data, fedavg(local=LOCAL), model=dropping, rounds=3, **arguments)
        list(run)
        return run.state.params

    def dropping():
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(), nn.Linear(64, 10))

    bare = params(evaluate=())
    assert torch.equal(bare, params(evaluate=("test", "train", "validation"), per_client_every=1))
    assert torch.equal(bare, params(evaluate_every=2))


@pytest.mark.parametrize("measured", ["own", "matched"])
def test_per_client_against_one_by_one(data, measured):
    """Each client on its own test rows; or on the common ones, in the proportions of its labels."""
    if measured == "matched":
        data = replace(data, test_clients=None)
    assert data.per_client_test == measured
    run = simulate(
        data,
        fedavg(local=LOCAL),
        model="softmax",
        rounds=2,
        per_client_every=2,
        metrics={"f1": macro_f1},
    )
    first, last = run
    assert first.client_metrics == {}
    assert list(last.client_metrics) == ["loss", "accuracy", "f1"]
    for client, indices in enumerate(data.client_tests()):
        assert set(indices) <= set(data.test)
        outputs, labels = outputs_of(run, indices, data)
        assert last.client_metrics["loss"][client] == pytest.approx(
            float(cross_entropy(outputs, labels)), rel=1e-5
        )
        right = float((outputs.argmax(dim=1) == labels).double().mean())
        assert last.client_metrics["accuracy"][client] == pytest.approx(right, abs=1e-12)
        assert last.client_metrics["f1"][client] == pytest.approx(
            macro_f1(outputs, labels), abs=1e-6
        )
    assert last.client_metrics["accuracy"].shape == (6,)


# -- regression ------------------------------------------------------------------------------------


def line() -> Federation:
    """y = 2x − 1 with a little noise, at four clients."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 1))
    y = 2 * x - 1 + 0.01 * rng.normal(size=(200, 1))
    return Federation.from_arrays(x, y, clients=np.repeat(np.arange(4), 50), dtype=torch.float32)


def test_regression_has_a_loss_and_no_accuracy_and_learns():
    run = simulate(
        line(),
        fedavg(local=Local(lr=0.1, epochs=5, batch_size=10)),
        model=lambda: nn.Linear(1, 1),
        loss=mse_loss,
        metrics={"mean_error": lambda outputs, targets: (outputs - targets).abs().mean()},
        rounds=5,
    )
    *_, last = run
    assert list(last.metrics) == ["test_loss", "test_mean_error"]
    assert last.metrics["test_loss"] < 1e-3
    module = run.module()
    assert module.weight.item() == pytest.approx(2, abs=0.02)
    assert module.bias.item() == pytest.approx(-1, abs=0.02)


def test_a_regression_by_a_named_model():
    """A name takes its number of outputs from the data: one."""
    run = simulate(
        line(),
        fedavg(local=Local(lr=0.05, epochs=2, batch_size=10)),
        model="mlp",
        loss=mse_loss,
        rounds=10,
    )
    *_, last = run
    assert last.metrics["test_loss"] < 0.1


def test_per_client_without_classes_is_refused_where_nobody_owns_test_rows():
    with pytest.raises(ValueError, match=r"per_client_every: .*regression.*test_clients"):
        simulate(
            replace(line(), test_clients=None),
            fedavg(),
            model=lambda: nn.Linear(1, 1),
            loss=mse_loss,
            rounds=2,
            per_client_every=1,
        )


# -- what a run keeps ------------------------------------------------------------------------------


def test_the_module_is_the_state_and_a_copy(data):
    given = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 10))
    run = simulate(data, fedavg(local=LOCAL), model=given, rounds=2)
    layout = Layout.of(given)
    before = layout.vector(given)
    assert torch.equal(layout.vector(run.module()), before)
    next(iter(run))
    after = layout.vector(run.module())
    assert torch.equal(after, run.state.params)
    assert not torch.equal(after, before)
    module = run.module()
    with torch.no_grad():
        module[1].weight.zero_()
    assert torch.equal(run.state.params, after)
    assert torch.equal(layout.vector(run.module()), after)
    list(run)
    assert torch.equal(layout.vector(given), before)
    loss, accuracy = evaluate(run.module(), data, data.test)
    assert run.frame()["test_accuracy"].iloc[-1] == accuracy
    assert run.frame()["test_loss"].iloc[-1] == pytest.approx(loss, rel=1e-6)


def test_the_frame_has_a_row_for_each_round(data):
    run = simulate(
        data,
        Strategy(compensator=FDMS(), local=LOCAL),
        model="softmax",
        availability=FixedDropout(0.5, first_round_full=True),
        rounds=4,
        evaluate_every=2,
        oracle=True,
    )
    assert len(run.frame()) == 0
    logs = list(run)
    frame = run.frame()
    assert frame["t"].tolist() == [0, 1, 2, 3]
    assert frame["came"].tolist() == [6, 3, 3, 3]
    assert frame["came"].tolist() == [(log.outcome == Outcome.CAME).sum() for log in logs]
    assert frame["refused"].tolist() == [0, 0, 0, 0]
    assert frame["clock"].tolist() == [0, 0, 0, 0]
    assert frame["test_loss"].isna().tolist() == [True, False, True, False]
    megabytes = 650 * 4 / 1e6
    np.testing.assert_allclose(frame["megabytes_up"], np.array([6, 3, 3, 3]) * megabytes)
    np.testing.assert_allclose(frame["megabytes_down"], np.array([6, 3, 3, 3]) * megabytes)
    for log, (_, row) in zip(logs, frame.iterrows(), strict=True):
        for name, value in {**log.metrics, **log.notes}.items():
            assert row[name] == value
    assert "oracle_error" in frame.columns


def test_a_broken_off_run_has_the_frame_of_what_was_played(data):
    run = simulate(data, fedavg(local=LOCAL), model="softmax", rounds=4)
    for log in run:
        if log.t == 1:
            break
    assert run.frame()["t"].tolist() == [0, 1]
    list(run)
    assert run.frame()["t"].tolist() == [0, 1, 2, 3]


def test_an_update_that_is_no_number_is_refused_and_logged(data):
    """One client's inputs are spoilt: its update is refused, with a reason; the others go on."""
    x = data.x.clone()
    x[data.clients[2]] = torch.nan
    spoilt = Federation(x, data.y, data.clients, data.test, n_classes=10)
    for model in ("softmax", "mlp"):
        run = simulate(spoilt, fedavg(local=LOCAL), model=model, rounds=2)
        for log in run:
            assert log.outcome[2] == Outcome.REFUSED
            assert (np.delete(log.outcome, 2) == Outcome.CAME).all()
            (refusal,) = log.refusals
            assert refusal.id == 2
            assert str(refusal.reason) == "not finite"
            assert log.metrics["test_accuracy"] > 0.1
        assert run.frame()["refused"].tolist() == [1, 1]
        assert torch.isfinite(run.state.params).all()

"""Metrics by name: worked out by hand, against slow counting, and where they are refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import mse_loss

from understudy import Local, Study, fedavg, results
from understudy.measures import lower_is_better, measure
from understudy.simulation import Federation, simulate
from understudy.simulation.training.metrics import (
    METRICS,
    auc,
    balanced_accuracy,
    class_names,
    f1,
    mae,
    r2,
    recall,
    rmse,
)
from understudy.studies.definition.errors import StudyError

LOCAL = Local(lr=0.1, epochs=1, batch_size=8)


def two(scores: list[float]) -> torch.Tensor:
    """Outputs of two classes whose difference is the score of class 1."""
    return torch.tensor([[0.0, score] for score in scores])


def counted_auc(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Pair by pair: how often an example of a class is above one of another; ties count half."""
    shares = torch.softmax(outputs.double(), dim=1)
    found = []
    for own in range(outputs.shape[1]):
        inside = [
            float(row[own]) for row, label in zip(shares, labels, strict=True) if label == own
        ]
        outside = [
            float(row[own]) for row, label in zip(shares, labels, strict=True) if label != own
        ]
        pairs = [(a > b) + (a == b) / 2 for a, b in itertools.product(inside, outside)]
        if pairs:
            found.append(sum(pairs) / len(pairs))
    return sum(found) / len(found) if found else math.nan


def test_auc_by_hand():
    """Scores of class 1: 1, 3, 3 against 0, 1, 2; won 1 + 3 + 3 of 9, and one tie."""
    labels = torch.tensor([1, 1, 1, 0, 0, 0])
    assert auc(two([1, 3, 3, 0, 1, 2]), labels) == pytest.approx((1 + 0.5 + 3 + 3) / 9)
    assert auc(two([5] * 6), labels) == 0.5, "a constant prediction"
    assert auc(two([1, 1, 1, 0, 0, 0]), labels) == 1
    assert auc(two([0, 0, 0, 1, 1, 1]), labels) == 0


def test_auc_of_sure_models_has_no_false_ties():
    """exp(-60) and exp(-70) are both lost beside 1, even in double precision."""
    assert auc(two([70, 60, 50]), torch.tensor([1, 0, 0])) == 1


def test_auc_without_a_second_class_is_not_a_number():
    assert math.isnan(auc(two([1, 2]), torch.tensor([1, 1])))
    absent = auc(torch.tensor([[2.0, 0, 0], [0, 2, 0]]), torch.tensor([0, 1]))
    assert absent == 1, "class 2 has no examples and is left out"
    assert math.isnan(auc(two([1, math.nan, 0]), torch.tensor([1, 0, 1]))), "a diverged model"


@given(
    st.integers(2, 4).flatmap(
        lambda n: st.lists(
            st.tuples(st.tuples(*[st.integers(-3, 3)] * n), st.integers(0, n - 1)), min_size=1
        )
    )
)
def test_auc_is_what_counting_pairs_gives(examples):
    outputs = torch.tensor([row for row, _ in examples], dtype=torch.float32)
    labels = torch.tensor([label for _, label in examples])
    shares = torch.softmax(outputs.double(), dim=1)
    close = (shares[:, None] - shares[None]).abs()
    # rounding may part what is equal: such draws say nothing of either
    if outputs.shape[1] > 2 and bool(((close > 0) & (close < 1e-12)).any()):
        return
    assert auc(outputs, labels) == pytest.approx(counted_auc(outputs, labels), nan_ok=True)


def test_measures_of_classes_by_hand():
    """Truth 0 0 0 1 1 2, answers 0 0 1 1 1 0; recalls 2/3, 1, 0."""
    outputs = torch.eye(3)[[0, 0, 1, 1, 1, 0]]
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    assert recall(outputs, labels).tolist() == pytest.approx([2 / 3, 1, 0])
    assert balanced_accuracy(outputs, labels) == pytest.approx(5 / 9)
    assert f1(outputs, labels) == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)


def test_classes_without_examples():
    """Class 2 has none; it counts for F1 where it is predicted, and never for recalls."""
    labels = torch.tensor([0, 0, 1])
    right = torch.eye(3)[[0, 0, 1]]
    assert f1(right, labels) == balanced_accuracy(right, labels) == 1
    np.testing.assert_array_equal(recall(right, labels), [1, 1, math.nan])
    wrong = torch.eye(3)[[0, 2, 1]]
    assert f1(wrong, labels) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert balanced_accuracy(wrong, labels) == pytest.approx(0.75)


def test_measures_of_a_regression_by_hand():
    """Targets 1, 2, 3, predicted 1, 2, 5: 1 - 4/2."""
    said, true = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([1.0, 2.0, 3.0])
    assert r2(said, true[:, None]) == r2(said, true) == pytest.approx(-1)
    assert (mae(said, true), rmse(said, true)) == pytest.approx((2 / 3, math.sqrt(4 / 3)))
    assert r2(torch.full((3, 1), 2.0), true) == 0, "the mean"
    assert math.isnan(r2(said, torch.ones(3))), "targets that do not vary"
    both = torch.stack([true, 2 * true], dim=1)
    assert r2(torch.stack([true, torch.full((3,), 4.0)], dim=1), both) == pytest.approx(0.5)


def sick() -> Federation:
    """Three hospitals, three named classes, two of whose names are alike as columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 4)).astype(np.float32)
    y = np.array(["a b", "a-b", "well"])[(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)]
    return Federation.from_arrays(x, y, clients=np.arange(90) % 3)


def test_a_run_measures_by_name_from_one_pass():
    data = sick()
    names = ["auc", "f1", "balanced_accuracy", "recall"]
    run = simulate(data, fedavg(local=LOCAL), model="softmax", rounds=1, metrics=names)
    asked = []
    outputs = run._evaluator.outputs
    object.__setattr__(run._evaluator, "outputs", lambda *given: asked.append(1) or outputs(*given))
    (log,) = run
    assert len(asked) == 1
    with torch.no_grad():
        said, true = run.module()(data.x[data.test]), data.y[data.test]
    recalls = dict(zip(["a_b", "a_b_1", "well"], recall(said, true), strict=True))
    expected = {f"test_{name}": METRICS[name](said, true) for name in names[:3]}
    expected |= {f"test_recall_{name}": value for name, value in recalls.items()}
    assert list(log.metrics) == ["test_loss", "test_accuracy", *expected]
    assert {name: log.metrics[name] for name in expected} == pytest.approx(expected)


def test_functions_and_names_in_one_table():
    own = {"precision": lambda outputs, labels: torch.ones(3), "area": "auc"}
    (log,) = simulate(sick(), fedavg(local=LOCAL), model="softmax", rounds=1, metrics=own)
    assert [name for name in log.metrics if "precision" in name] == [
        "test_precision_a_b",
        "test_precision_a_b_1",
        "test_precision_well",
    ]
    assert "test_area" in log.metrics


def test_per_client_too():
    same = {"model": "softmax", "rounds": 1, "per_client_every": 1}
    (log,) = simulate(sick(), fedavg(local=LOCAL), metrics=["auc", "recall"], **same)
    assert {"auc", "recall_well"} <= set(log.client_metrics)
    assert log.client_metrics["auc"].shape == (3,)


def test_what_does_not_fit_is_refused_before_the_run():
    data = sick()
    targets = Federation.from_arrays(data.x, data.x[:, 0], clients=np.arange(90) % 3)
    same = {"model": "softmax", "rounds": 1}
    with pytest.raises(ValueError, match=r"metrics: 'r2' does not fit labels that are 3 classes"):
        simulate(data, fedavg(), metrics=["r2"], **same)
    with pytest.raises(ValueError, match=r"metrics: 'auc' does not fit .* regression.*use r2, mae"):
        simulate(targets, fedavg(), metrics=["auc"], loss=mse_loss, **same)
    with pytest.raises(ValueError, match=r"metrics: no metric 'acu'; did you mean 'auc'\?"):
        simulate(data, fedavg(), metrics=["acu"], **same)
    with pytest.raises(ValueError, match=r"metrics: expected a list of names .*, got 'auc'"):
        simulate(data, fedavg(), metrics="auc", **same)
    (log,) = simulate(
        targets, fedavg(), metrics=["r2", "mae", "rmse"], loss=mse_loss, model="mlp", rounds=1
    )
    assert log.metrics["test_rmse"] == pytest.approx(math.sqrt(log.metrics["test_loss"]), rel=1e-5)
    with pytest.raises(ValueError, match="expected of 'odd' one number, or one for each of 3"):
        list(simulate(data, fedavg(), metrics={"odd": lambda o, y: o.sum(0)[:2]}, **same))


def study(**asked: object) -> Study:
    settings = {"model": "softmax", "strategies": ["fedavg"], "rounds": 2, **asked}
    return Study("measured", **{"data": sick(), **settings})


def test_in_a_study(tmp_path):
    made = study(metrics=["auc", "recall"], metric="test_recall_well_last")
    (cell,) = made.cells()
    assert cell.resolved["metrics"] == {"auc": "auc", "recall": "recall"}
    outcome = made.run(tmp_path, on="here", progress=False)
    assert outcome.done == (cell.key,)
    columns = set(results(tmp_path).columns)
    assert {"test_auc_last", "test_recall_a_b_last"} <= columns
    with pytest.raises(StudyError, match="metrics: 'r2' does not fit labels that are 3 classes"):
        study(metrics=["r2"])
    with pytest.raises(StudyError, match=r"metrics\.acu: expected one of auc, f1"):
        study(metrics=["acu"])
    with pytest.raises(StudyError, match=r"metrics: expected a list of names \(auc, .*got 3"):
        study(metrics=3)
    with pytest.raises(StudyError, match="metric: no measure 'test_auc'"):
        study(metrics=["auc"], metric="test_auc")


def test_a_study_file_names_metrics():
    text = """
name = "measured"
rounds = 1
data = "digits"
model = "softmax"
strategies = ["fedavg"]
metrics = ["auc", "balanced_accuracy"]
metric = "test_auc_last"
"""
    (cell,) = Study.read(text).cells()
    assert list(cell.task.settings.metrics) == ["auc", "balanced_accuracy"]
    (other,) = Study.read(text, overrides=["metrics=['auc', 'f1']"]).cells()
    assert list(other.task.settings.metrics) == ["auc", "f1"]


def test_columns_of_classes_have_safe_names():
    assert class_names(("no visit", "no-visit", "≥ 5", "!"), 4) == (
        "no_visit",
        "no_visit_1",
        "5",
        "3",
    )
    assert class_names(None, 2) == ("0", "1")


def test_words_and_directions():
    assert measure("test_auc_last").head == "last AUC"
    assert measure("test_recall_well_last").head == "last recall of well, %"
    assert measure("validation_balanced_accuracy_last").head == (
        "last balanced accuracy on validation data, %"
    )
    assert measure("test_r2_last").head == "last R²"
    better = {name: lower_is_better(f"test_{name}_last") for name in METRICS}
    assert better == {name: name in ("mae", "rmse") for name in METRICS}

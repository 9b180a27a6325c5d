"""What strategies are measured against: a constant prediction, pooled data, everybody present."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import mse_loss

from understudy import Always, Failure, FixedDropout, Local, Study, compare, fedavg, results
from understudy.parts.local import Plain, Proximal
from understudy.simulation import Federation, pooled, simulate
from understudy.studies.definition.errors import StudyError
from understudy.studies.report.conclusions import conclusions

LOCAL = Local(lr=0.05, epochs=1, batch_size=8)


def patients(noise: bool) -> Federation:
    """Six hospitals; class 1 is the most frequent, and the input tells it or is noise."""
    rng = np.random.default_rng(3)
    y = (rng.random(240) < 0.65).astype(np.int64)
    x = rng.normal(size=(240, 3)) if noise else rng.normal(size=(240, 3)) + 4 * y[:, None]
    return Federation.from_arrays(x, y, clients=np.arange(240) % 6, test=0.25)


def test_the_most_frequent_class_of_the_training_data_scored_on_test_rows():
    data = patients(noise=True)
    run = simulate(data, fedavg(), model="softmax", rounds=1, metrics=["auc", "f1", "recall"])
    trained = data.y[np.concatenate(data.clients)]
    share = float((trained == 1).double().mean())
    tested = float((data.y[data.test] == 1).double().mean())
    assert 0.5 < share != tested, "two different shares"
    found = run.constant_scores()
    assert found.pop("loss") == pytest.approx(
        -tested * math.log(share) - (1 - tested) * math.log(1 - share), rel=1e-5
    )
    f1 = (2 * tested / (1 + tested) + 0) / 2
    assert found == pytest.approx({"accuracy": tested, "auc": 0.5, "f1": f1})


def test_the_mean_of_the_training_targets_of_a_regression():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60).astype(np.float32)
    data = Federation.from_arrays(x, y, clients=np.arange(60) % 3)
    run = simulate(data, fedavg(), model="mlp", rounds=1, loss=mse_loss, metrics=["r2"])
    mean, targets = data.y[np.concatenate(data.clients)].mean(), data.y[data.test]
    loss = float(((targets - mean) ** 2).mean())
    assert run.constant_scores() == pytest.approx(
        {"loss": loss, "r2": 1 - loss / float(targets.var(correction=0))}, rel=1e-4
    )


def test_a_loss_that_wants_other_outputs_does_not_end_the_run():
    def picky(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if not outputs.std(dim=0).sum() > 0:
            raise RuntimeError("constant")
        return torch.nn.functional.cross_entropy(outputs, labels)

    data = patients(noise=True)
    run = simulate(data, fedavg(local=LOCAL), model="softmax", rounds=1, loss=picky)
    assert list(run.constant_scores()) == ["accuracy"]


def frame(values: dict[str, list[float]], reference: float | None, **more: object) -> pd.DataFrame:
    rows = [
        {"strategy": name, "availability": "half", "seed": seed, "status": "done"}
        | {"accuracy_last": value, **more}
        | ({} if reference is None else {"reference_accuracy": reference})
        for name, own in values.items()
        for seed, value in enumerate(own)
    ]
    made = pd.DataFrame(rows)
    made.attrs = {"labels": ["strategy", "availability"], "baseline": "a"}
    return made


BELOW = {"a": [0.60, 0.601, 0.602], "b": [0.5, 0.52, 0.51]}
CLOSE = {"a": [0.58, 0.60, 0.64], "b": [0.5, 0.52, 0.51]}
ABOVE = {"a": [0.70, 0.71, 0.72], "b": [0.5, 0.52, 0.51]}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (BELOW, "No strategy beats the most frequent class (60.35 %)."),
        ({"a": [0.6035] * 3, "b": [0.6035] * 3}, "No strategy beats the most frequent class"),
        (CLOSE, "No strategy is clearly better than the most frequent class (60.35 %)."),
        (ABOVE, "Most frequent class: 60.35 %."),
    ],
)
def test_a_sentence_below_the_table(values, words):
    table = compare(frame(values, 0.6035), "accuracy_last")
    assert table.reference is not None
    assert table.reference.startswith(words)
    assert table.reference in " ".join(table.to_text().split())
    assert table.reference in table.to_markdown()


def test_stores_without_it_have_no_sentence():
    table = compare(frame(BELOW, None), "accuracy_last")
    assert table.reference is None
    assert "reference" not in table.rows
    mixed = pd.concat([frame(BELOW, 0.6035), frame({"c": [0.1, 0.2, 0.3]}, None)])
    mixed.attrs = {"labels": ["strategy", "availability"], "baseline": "a"}
    assert compare(mixed, "accuracy_last").reference is not None


def test_several_comparisons():
    both = pd.concat(
        [frame(BELOW, 0.6035), frame(ABOVE, 0.4).assign(availability="all")], ignore_index=True
    )
    both.attrs = {"labels": ["strategy", "availability"], "baseline": "a"}
    words = "In 1 of 2 comparisons no strategy beats the most frequent class (60.35 %)."
    assert compare(both, "accuracy_last").reference == words


def test_measures_that_a_constant_prediction_says_nothing_of():
    made = frame(BELOW, 0.6035, participants=3.0, client_accuracy_mean=0.5)
    assert compare(made, "participants").reference is None
    assert compare(made, "client_accuracy_mean").reference is None


def test_losses_are_better_when_lower():
    made = frame(BELOW, 0.6035, loss_last=0.7, reference_loss=0.65)
    words = "No strategy beats predicting the shares of the classes (0.6500)."
    assert compare(made, "loss_last").reference == words
    made = made.drop(columns="reference_accuracy").assign(loss_last=0.6)
    assert compare(made, "loss_last").reference == "Predicting the mean: 0.6500."


def test_the_report_names_no_winner_that_loses_to_the_most_frequent_class():
    (_, told), *_ = conclusions(frame(BELOW, 0.6035), "accuracy_last").groups
    assert told.startswith("No strategy beats the most frequent class (60.35 %), so none is called")
    assert "highest" not in told
    (_, told), *_ = conclusions(frame(ABOVE, 0.6035), "accuracy_last").groups
    assert "a has the highest" in told


def test_a_study_stores_it_with_its_cells(tmp_path):
    data = patients(noise=True)
    study = Study(
        "noise",
        data=data,
        model="softmax",
        strategies={"fedavg": fedavg(local=LOCAL)},
        availability={"half": FixedDropout(0.5)},
        rounds=2,
    )
    before = study.cells()[0].resolved
    assert "reference" not in str(before), "keys do not know of it"
    study.run(tmp_path, on="here", progress=False)
    found = results(tmp_path)
    tested = float((data.y[data.test] == 1).double().mean())
    assert found["reference_accuracy"].tolist() == [pytest.approx(tested)]
    assert "most frequent class" in str(compare(found, "accuracy_last").reference)


# -- rows ----------------------------------------------------------------------------------------


def test_pooled_data_are_trained_on_as_plainly_as_one_model_would():
    """The round of the one client is SGD over all examples: no averaging is left in it."""
    data = patients(noise=False)
    alone, strategy = pooled(data, fedavg(local=Local(lr=0.1, epochs=2, batch_size=16)))
    assert alone.n_clients == 1
    np.testing.assert_array_equal(alone.clients[0], np.sort(np.concatenate(data.clients)))
    np.testing.assert_array_equal(alone.test, data.test)
    (log,) = simulate(alone, strategy, model="softmax", rounds=1)
    assert log.metrics["test_accuracy"] > 0.9
    steps = pooled(data, fedavg(local=Local(steps=5, rule=Proximal(0.1))))[1].local
    assert (steps.steps, steps.rule) == (5 * 6, Plain()), "of all six clients together"


def test_pooled_validation_examples_and_groups():
    data = Federation(
        torch.zeros(9, 2),
        torch.arange(9) % 3,
        clients=(np.array([0, 1]), np.array([1, 2])),
        test=np.array([8]),
        groups=np.array([0, 1]),
        validation=(np.array([3]), np.array([4, 5])),
        names=("north", "south"),
    )
    alone, _ = pooled(data, "fedavg")
    assert [held.tolist() for held in (*alone.clients, *alone.validation)] == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    assert (alone.groups, alone.names) == (None, None)


def absent(**more: object) -> Study:
    asked = {"references": ["everyone", "pooled"], "baseline": "dropout", "seeds": 2, **more}
    return Study(
        "absent",
        data=patients(noise=False),
        model="softmax",
        strategies={"stale": "stale", "dropout": {"method": "fedavg", "local": {"lr": 0.05}}},
        availability={"few": FixedDropout(0.8), "half": FixedDropout(0.5)},
        local={"steps": 2, "batch_size": 8},
        rounds=2,
        **asked,
    )


def test_references_are_rows_of_a_study():
    study = absent()
    assert study.references == ("everyone", "pooled")
    cells = {}
    for cell in study.cells():
        cells.setdefault(cell.labels["strategy"], []).append(cell)
    assert {name: len(own) for name, own in cells.items()} == {
        "stale": 4,
        "dropout": 4,
        "everyone": 2,
        "pooled": 2,
    }
    for name in ("everyone", "pooled"):
        (cell, _) = cells[name]
        assert cell.labels["availability"] is None
        assert cell.task.availability == Always()
        assert cell.task.strategy.local == cells["dropout"][0].task.strategy.local
        assert cell.task.pooled == (name == "pooled")
    assert cells["everyone"][0].task.strategy == cells["dropout"][0].task.strategy
    assert cells["pooled"][0].key != cells["everyone"][0].key
    without = {cell.key for cell in absent(references=None).cells()}
    assert without == {cell.key for name in ("stale", "dropout") for cell in cells[name]}


def test_nobody_is_late_in_references():
    study = absent(delay=Failure(0.2), oracle=True, per_client_every=1)
    for cell in study.cells():
        is_reference = cell.labels["availability"] is None
        assert (cell.task.delay is None) == is_reference
        assert cell.task.oracle == (not cell.task.pooled)


def test_references_from_a_file_and_what_is_refused():
    text = """
name = "seen"
rounds = 1
data = "digits"
model = "softmax"
references = ["pooled"]
[strategies]
fedavg = "fedavg"
[availability]
half = {name = "fixed_dropout", alpha = 0.5}
"""
    study = Study.read(text)
    assert study.references == ("pooled",)
    assert study.about()["document"]["references"] == ["pooled"]
    with pytest.raises(
        StudyError, match=r"references: no reference 'poold'; did you mean 'pooled'"
    ):
        Study.read(text, overrides=["references=['poold']"])
    with pytest.raises(StudyError, match="references: expected a list of everyone, pooled, got 3"):
        absent(references=3)
    with pytest.raises(StudyError, match="references: a strategy is called 'pooled'"):
        Study.read(text.replace("[availability]", 'pooled = "mifa"\n[availability]'))


def test_reference_rows_are_run_told_and_not_tested(tmp_path):
    study = absent(seeds=5)
    outcome = study.run(tmp_path, on="here", progress=False)
    assert not outcome.failed
    frame = results(tmp_path)
    rows = frame.set_index("strategy")
    assert rows.loc["pooled", "participants"].tolist() == [1] * 5
    assert rows.loc["everyone", "participants"].tolist() == [6] * 5
    table = compare(frame, "accuracy_last")
    assert table.references == {"everyone", "pooled"}
    assert table.tested[0] <= 2, "stale against dropout, few and half"
    text = " ".join(table.to_text().split())
    assert (
        "For reference, and not tested: everyone (the baseline with everybody present and nobody "
        "late), pooled (one client holds all training data and makes as many gradient steps in a "
        "round as all clients together)." in text
    )
    known = table.rows.set_index("strategy")
    assert known.loc["pooled", "p_t"].isna().all()
    assert known.loc["pooled", "difference"].notna().all()

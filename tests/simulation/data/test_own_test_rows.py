"""A client's accuracy is on its own held-out rows: whose each is, is kept and never mixed up."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from torch.nn.functional import mse_loss

from understudy import Local, fedavg
from understudy.simulation import Federation, fedgs_synthetic, simulate, synthetic
from understudy.simulation.data.fingerprint import federation_digest
from understudy.studies.definition.cell import DataRecipe, Task
from understudy.studies.definition.study import Study
from understudy.studies.execution.runner import run_study
from understudy.studies.statistics.frames import results

LOCAL = Local(lr=0.1, epochs=2, batch_size=10)
HOSPITALS = ("H01", "H02", "H03", "H04")


def hospitals() -> pandas.DataFrame:
    """Four hospitals; the label is the sign of a, but H04 writes it the other way round."""
    rng = np.random.default_rng(5)
    hospital = np.repeat(HOSPITALS, 60)
    a, b = rng.normal(size=(2, 240))
    ill = np.where(hospital == "H04", a < 0, a > 0)
    return pandas.DataFrame({"hospital": hospital, "a": a, "b": b, "ill": ill.astype(int)})


def of_hospitals(**options) -> Federation:
    return Federation.from_table(hospitals(), client="hospital", label="ill", **options)


def test_a_hospital_with_other_labels_shows_its_own_accuracy():
    """By hand: the model says ill where a > 0, which is wrong for every row of H04.

    All four have both labels alike often, so that rows matched by label hide H04 in the mean.
    """
    data, table = of_hospitals(test=0.25), hospitals()
    assert data.names == HOSPITALS
    assert data.per_client_test == "own"
    run = simulate(data, fedavg(local=LOCAL), model="softmax", rounds=6, per_client_every=6)
    *_, last = run
    _, linear = run.module()
    scores = table[["a", "b"]].to_numpy() @ linear.weight.detach().numpy().T
    ill = np.diff(scores + linear.bias.detach().numpy())[:, 0] > 0
    held_out = table.iloc[data.test]
    for client, name in enumerate(HOSPITALS):
        mine = held_out[held_out["hospital"] == name]
        assert len(mine) == 15
        right = (ill[mine.index] == mine["ill"].to_numpy().astype(bool)).mean()
        assert last.client_metrics["accuracy"][client] == pytest.approx(right)
    assert last.client_metrics["accuracy"][:3].min() > 0.8
    assert last.client_metrics["accuracy"][3] < 0.2


def test_a_client_without_rows_of_its_own_has_no_number():
    """A hospital with two patients: a fifth of two, rounded, is none."""
    table = pandas.concat([hospitals(), hospitals().iloc[:2].assign(hospital="H05")])
    with pytest.warns(UserWarning, match="1 of 5 clients .* tested on, such as 'H05'"):
        data = Federation.from_table(table, client="hospital", label="ill")
    assert "48 for testing (4 clients' own)" in repr(data)
    run = simulate(data, fedavg(local=LOCAL), model="softmax", rounds=1, per_client_every=1)
    (log,) = run
    np.testing.assert_array_equal(
        np.isnan(log.client_metrics["accuracy"]), [False, False, False, False, True]
    )


def test_rows_of_a_table_to_test_with_are_their_clients():
    """It may name hospitals that do not train: those rows are nobody's."""
    table = hospitals()
    other = table.iloc[::4].replace({"hospital": {"H03": "H99"}})
    with pytest.warns(UserWarning, match="1 of 4 clients .* tested on, such as 'H03'"):
        data = of_hospitals(test=other)
    assert np.bincount(data.test_clients + 1).tolist() == [15, 15, 15, 0, 15]
    assert [len(own) for own in data.client_tests()] == [15, 15, 0, 15]
    assert data.client_tests()[1].tolist() == list(range(240 + 15, 240 + 30))
    strangers = table.assign(hospital="elsewhere")
    assert of_hospitals(test=strangers).per_client_test == "matched"
    assert of_hospitals(test=table.drop(columns="hospital")).test_clients is None


def test_arrays_and_data_sets_keep_whose_their_test_examples_are():
    x, y, owner = np.zeros((20, 2)), np.arange(20) % 2, np.array([5, 3] * 10)
    data = Federation.from_arrays(x, y, clients=owner)
    assert [data.names[i] for i in data.test_clients] == [str(owner[row]) for row in data.test]
    data = Federation.from_arrays(x, y, clients=owner, test=(x[:3], y[:3], [3, 5, 8]))
    assert data.test_clients.tolist() == [0, 1, -1]
    assert Federation.from_arrays(x, y, clients=owner, test=(x, y)).test_clients is None
    sets = [list(zip(x, y, strict=True)), list(zip(x, y, strict=True))]
    data = Federation.from_datasets(sets, test=0.1)
    assert data.test_clients.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"test: expected a client's id for each of the 3 exam"):
        Federation.from_arrays(x, y, clients=owner, test=(x[:3], y[:3], [3, 5]))


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        ([0] * 5, r"test_clients: expected shape \(48,\), got \(5,\)"),
        ([4] * 48, r"test_clients: expected clients in 0 \.\. 3, or -1 .* got 4 \.\. 4"),
        ([-1] * 48, r"and somebody's at least once, got -1 \.\. -1"),
    ],
)
def test_owners_that_make_no_sense_are_refused(owners, words):
    with pytest.raises(ValueError, match=words):
        replace(of_hospitals(), test_clients=np.array(owners))


def test_owners_count_in_the_digest_only_where_they_are_known():
    data = of_hospitals()
    bare = replace(data, test_clients=None)
    other = replace(data, test_clients=data.test_clients[::-1])
    assert len({federation_digest(one) for one in (data, bare, other)}) == 3
    assert federation_digest(data, per_client=False) == federation_digest(bare)
    again = pickle.loads(pickle.dumps(data.in_columns()))
    assert np.array_equal(again.test_clients, data.test_clients)
    assert federation_digest(again) == federation_digest(data)


def test_built_in_data_that_come_divided_keep_their_measure():
    assert synthetic(n_clients=4).per_client_test == "matched"
    assert fedgs_synthetic().per_client_test == "matched"


def test_a_regression_has_a_loss_for_each_client_by_hand():
    """The mean squared error of each hospital's own rows; and a run's results say what it is on."""
    table = hospitals().assign(ill=lambda rows: rows["a"] * 2.0)
    data = Federation.from_table(table, client="hospital", label="ill")
    run = simulate(
        data, fedavg(local=LOCAL), model="softmax", loss=mse_loss, rounds=1, per_client_every=1
    )
    (log,) = run
    with torch.no_grad():
        errors = (run.module()(data.x)[:, 0] - data.y) ** 2
    own = [float(errors[held].mean()) for held in data.client_tests()]
    np.testing.assert_allclose(log.client_metrics["loss"], own, rtol=1e-5)
    assert "accuracy" not in log.client_metrics


@pytest.mark.parametrize("measured", ["own", "matched"])
def test_results_say_what_a_client_was_tested_on(measured: str, tmp_path: Path):
    data = of_hospitals()
    if measured == "matched":
        data = replace(data, test_clients=None)
    study = Study(
        name="hospitals", data=data, model="softmax", strategies={"fedavg": fedavg(local=LOCAL)},
        rounds=1, seeds=(0,), per_client_every=1,
    )  # fmt: skip
    run_study(study, tmp_path, on="here")
    frame = results(tmp_path, level="client")
    assert set(frame["tested_on"]) == {measured}
    if measured == "own":
        assert frame["n_test"].tolist() == [12] * 4
    else:
        assert "n_test" not in frame


def test_stored_cells_of_matched_draws_are_not_taken_for_own_rows():
    """A function's data are known by its name: such cells with numbers of clients have new keys."""

    def data_of(recipe: DataRecipe, every: int) -> dict[str, object]:
        return Task(recipe, "softmax", fedavg(), 1, per_client_every=every).resolved()["data"]

    function = DataRecipe(f"{__name__}:of_hospitals")
    assert data_of(function, 1) == {**data_of(function, 0), "client_tests": "own where known"}
    for built_in in (DataRecipe("digits", "clustered"), DataRecipe("synthetic")):
        assert data_of(built_in, 1) == data_of(built_in, 0)

"""What an estimate takes for granted is what the functions themselves take."""

from __future__ import annotations

from typing import Any

import pytest

from understudy import fedavg
from understudy.analysis import shapley
from understudy.parts.local import Local
from understudy.simulation.data.partitions import PARTITIONS, Partition, iid
from understudy.simulation.training.batches import n_drawn_of
from understudy.simulation.training.trainers.workload import (
    KERNELS_PACE,
    LARGE_LOOP_PACE,
    LOOP_PACE,
)
from understudy.studies.definition import estimates
from understudy.studies.definition.cell import Cell, DataRecipe, Task


def task(recipe: DataRecipe, **settings: Any) -> Task:
    return Task(recipe, "softmax", fedavg(), rounds=1, **settings)


@pytest.mark.parametrize(
    ("partition", "settings"),
    [
        ("iid", {}),
        ("clustered", {"per_client": 16}),
        ("classes_per_client", {"n_clients": 10}),
        ("dirichlet", {"n_clients": 10, "validation": 0.25}),
        ("shards", {"test": 0.5}),
    ],
)
def test_sizes_are_about_those_of_the_federation(partition: str, settings: dict[str, Any]) -> None:
    recipe = DataRecipe("digits", partition, 0, settings)
    found, real = estimates.size_of(task(recipe)), recipe.federation()
    assert found.n_clients == real.n_clients
    assert found.n_test == len(real.test)
    assert (found.shape, found.n_outputs) == (tuple(real.x.shape[1:]), real.n_outputs)
    assert sum(found.sizes) == pytest.approx(int(real.sizes.sum()), rel=0.1)


def test_synthetic_clients_are_as_many_as_are_drawn() -> None:
    recipe = DataRecipe("synthetic")
    found, real = estimates.size_of(task(recipe)), recipe.federation()
    assert found.n_clients == real.n_clients
    assert (found.shape, found.n_outputs) == (tuple(real.x.shape[1:]), real.n_outputs)


def test_defaults_are_read_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def clustered(labels: Any, n_clients: int = 7, per_client: int = 11) -> Partition:
        return iid(labels, n_clients)

    monkeypatch.setitem(PARTITIONS, "clustered", clustered)
    assert estimates.size_of(task(DataRecipe("digits", "clustered"))).sizes == (11,) * 7


def test_data_of_ones_own_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the strategies and seeds: a file that is read warns of the same things each time."""
    looked: list[str] = []
    real = estimates.size_of

    def noted(one: Task) -> estimates.Size:
        looked.append(one.data.name)
        return real(one)

    monkeypatch.setattr(estimates, "size_of", noted)
    recipe = DataRecipe("understudy.simulation:clustered_digits")
    cells = [
        Cell.of({}, task(recipe, seed=seed, per_client_every=every))
        for seed in (0, 1)
        for every in (0, 1)
    ]
    assert estimates.estimate(cells).n_cells == 4
    assert looked == [recipe.name]


def test_shapley_values_are_counted_as_they_are_computed() -> None:
    """Ten clients: all 2¹⁰ coalitions. Eleven: as many as are valued where orders are drawn."""
    seconds = {}
    for n_clients in (10, 11):
        recipe = DataRecipe("digits", "iid", 0, {"n_clients": n_clients})
        cells = [Cell.of({}, task(recipe, analysis=analysis)) for analysis in ((), ("shapley",))]
        plain, analysed = (
            estimates.estimate([cell], with_kernels=True).core_seconds for cell in cells
        )
        seconds[n_clients] = analysed - plain
    pass_seconds = 64 * 10 / KERNELS_PACE.multiply_adds
    n_test = estimates.size_of(task(DataRecipe("digits", "iid"))).n_test
    assert seconds[10] == pytest.approx(2**10 * n_test * pass_seconds)
    assert seconds[11] == pytest.approx(shapley.EVALUATIONS * n_test * pass_seconds)


def test_the_loop_does_more_a_second_with_large_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_ENGINE", "loop")
    monkeypatch.setattr(estimates, "_models", {})
    size = estimates.Size((3, 32, 32), 10, (500,) * 2, 0, 10, 0)
    recipe = DataRecipe("digits", "iid")
    paces = {
        name: estimates._model(Task(recipe, name, fedavg(), rounds=1), size, False)[2]
        for name in ("lenet5", "fedgs_cifar")
    }
    assert paces == {"lenet5": LOOP_PACE, "fedgs_cifar": LARGE_LOOP_PACE}


def test_a_last_batch_is_counted_as_short_as_it_is() -> None:
    """100 examples in batches of 64: five passes are ten steps of 500 examples, not of 640."""
    local = Local(lr=0.1, epochs=5, batch_size=64)
    assert n_drawn_of(100, local, 0) == 500
    assert n_drawn_of(100, Local(lr=0.1, steps=3, batch_size=64), 0) == 64 + 36 + 64
    seconds = estimates._training(100, local, KERNELS_PACE, 1e6)
    assert seconds == pytest.approx(100e-6 + 10 * 2e-6 + 3 * 500 * 1e6 / 40e9)


def test_an_estimate_for_a_machine_with_kernels_is_the_same_on_every_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = Cell.of({}, task(DataRecipe("digits", "iid")))
    there = estimates.estimate([cell], with_kernels=True)
    monkeypatch.setenv("UNDERSTUDY_ENGINE", "loop")
    monkeypatch.setattr(estimates, "_models", {})
    assert estimates.estimate([cell], with_kernels=True) == there
    assert estimates.estimate([cell]).core_seconds > there.core_seconds

"""How long cells take and how much room they need, counted without running or loading anything.

The work of a round is counted as `Workload` counts it: steps, and multiply-adds of a forward
and a backward pass. Seconds are those of a typical core; machines differ by a factor of two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.analysis.shapley import EVALUATIONS, MOST_EXACT
from understudy.core.describe import describe
from understudy.core.threads import usable_cores
from understudy.core.types import Population
from understudy.simulation import federate
from understudy.simulation.data.models import build
from understudy.simulation.data.partitions import PARTITIONS
from understudy.simulation.data.sources import source_of
from understudy.simulation.training.batches import n_drawn_of, n_steps_of
from understudy.simulation.training.convolution_backend import measure
from understudy.simulation.training.engines import choose
from understudy.simulation.training.evaluation import BATCH
from understudy.simulation.training.jobs import Recipe
from understudy.simulation.training.trainers.workload import Pace, pace_of
from understudy.studies.definition.cell import DataRecipe
from understudy.studies.definition.identity import defaults_of
from understudy.studies.definition.plugins import imported

if TYPE_CHECKING:
    from understudy.parts.local import Local
    from understudy.simulation.data.federation import Federation
    from understudy.studies.definition.cell import Cell, Task

STUDY_SECONDS = 6.0  # of the wall clock, once: processes start, tables and the report are made
ROUND_SECONDS = 0.005  # of the loop itself: sampling, sums, logs
BATCH_SECONDS = 0.0005  # of an evaluated batch, besides its multiply-adds
ROUND_BYTES, CLIENT_BYTES = 800, 6  # of a round in the store, and of each client in it


@dataclass(frozen=True)
class Size:
    """The data of a cell, in numbers."""

    shape: tuple[int, ...]
    n_outputs: int
    sizes: tuple[int, ...]  # (N,) training examples of each client, at least about
    n_validation: int  # of all clients
    n_test: int
    n_bytes: int  # of all examples in memory

    @property
    def n_clients(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class Estimate:
    """What cells need."""

    n_cells: int
    core_seconds: float
    n_bytes: int

    def seconds(self, cores: int | None = None) -> float:
        """Wall clock, all cores being used; by default those of this machine."""
        if not self.n_cells:
            return 0.0
        return STUDY_SECONDS + self.core_seconds / max(
            1, usable_cores() if cores is None else cores
        )


def estimate(cells: Iterable[Cell], *, with_kernels: bool = False) -> Estimate:
    """What some cells need; the same cell counts once.

    `with_kernels` counts as for a machine that has the compiled kernels, whatever this one has.
    """
    chosen = {cell.key: cell for cell in cells}
    counted: dict[str, tuple[float, int]] = {}
    sizes: dict[str, Size] = {}  # a user's own function may read a file, and warn of it
    seconds, n_bytes = 0.0, 0
    for cell in chosen.values():
        key, data = _alike(cell), same_data(cell)
        if data not in sizes:
            sizes[data] = size_of(cell.task)
        if key not in counted:
            counted[key] = _counted(cell.task, sizes[data], with_kernels)
        seconds += counted[key][0]
        n_bytes += counted[key][1]
    return Estimate(len(chosen), seconds, n_bytes)


def _alike(cell: Cell) -> str:
    """Cells that differ in their seed alone cost the same."""
    settings = {name: value for name, value in cell.resolved.items() if name != "seed"}
    return json.dumps({**settings, "data": same_data(cell)}, sort_keys=True)


def same_data(cell: Cell) -> str:
    """Cells with the same one have data of the same size: they differ in the division at most."""
    described = cell.resolved["data"]
    told = {name: described[name] for name in described if name not in ("seed", "client_tests")}
    return json.dumps(told, sort_keys=True)


def _counted(task: Task, size: Size, with_kernels: bool) -> tuple[float, int]:
    local = task.strategy.local
    per_example, n_parameters, pace = _model(task, size, with_kernels)
    pass_seconds = per_example / pace.multiply_adds  # models are evaluated by what trains them
    reachable = _reachable(task, size)
    client_seconds = [_training(n, local, pace, per_example) for n in size.sizes]
    per_client, everybody = float(np.mean(client_seconds)), float(np.sum(client_seconds))
    round_seconds = ROUND_SECONDS + min(_wanted(task, size), reachable) * per_client
    if task.oracle:
        round_seconds = ROUND_SECONDS + everybody
    if getattr(task.strategy.sampler, "losses", None) == "asked":
        judged = size.n_validation or sum(size.sizes)
        round_seconds += judged * reachable / size.n_clients * pass_seconds
    evaluated = {"test": size.n_test, "train": sum(size.sizes), "validation": size.n_validation}
    examples = sum(evaluated[part] for part in task.evaluate)
    judging = examples * (pass_seconds + BATCH_SECONDS / BATCH)
    seconds = task.rounds * round_seconds
    seconds += -(-task.rounds // task.evaluate_every) * judging
    if task.per_client_every:
        seconds += -(-task.rounds // task.per_client_every) * size.n_test * pass_seconds
    if "graph_f1" in task.analysis:
        seconds += everybody
    if "spread" in task.analysis:
        seconds += 2 * everybody
    if getattr(task.strategy.sampler, "everybody_first", False):
        seconds += everybody
    if "shapley" in task.analysis:
        few = size.n_clients <= MOST_EXACT
        seconds += (2**size.n_clients if few else EVALUATIONS) * size.n_test * pass_seconds
    per_round = ROUND_BYTES + CLIENT_BYTES * size.n_clients
    return seconds, 4 * n_parameters + task.rounds * per_round


def _model(task: Task, size: Size, with_kernels: bool) -> tuple[float, int, Pace]:
    """Multiply-adds of one example's forward pass, numbers of the model, how fast it is trained."""
    local, largest = task.strategy.local, max(size.sizes)
    setting = [describe(task.model), size.shape, size.n_outputs, describe(local), largest]
    known = json.dumps([*setting, describe(task.loss), task.device, task.engine, with_kernels])
    if known not in _models:
        module = build(task.model, size.shape, size.n_outputs, 0)
        x, y = torch.zeros(1, *size.shape), torch.zeros(1, dtype=torch.int64)
        cost = measure(module, x, 1)
        n_numbers = sum(entry.numel() for entry in module.state_dict().values())
        clients = (np.zeros(largest, dtype=np.int64),)
        recipe = Recipe(module, task.loss, local, 0, clients, cost.onednn, task.device)
        engine = choose(recipe, x, y, task.engine, assume_installed=with_kernels)
        pace = pace_of(engine, cost.per_example)
        _models[known] = cost.per_example, n_numbers, pace
    return _models[known]


_models: dict[str, tuple[float, int, Pace]] = {}  # large ones take a second to make


def _training(n_examples: int, local: Local, pace: Pace, per_example: float) -> float:
    steps = n_steps_of(n_examples, local, 0)
    seen = n_drawn_of(n_examples, local, 0)
    # backward costs twice the forward pass
    return pace.client + steps * pace.step + 3 * seen * per_example / pace.multiply_adds


def _wanted(task: Task, size: Size) -> float:
    """Clients that are asked for, of those that can be reached."""
    count = getattr(task.strategy.sampler, "count", None)
    return size.n_clients if count is None else min(int(count(size.n_clients)), size.n_clients)


def population_of(size: Size) -> Population:
    """Clients of these sizes: labels and groups are made up."""
    n = size.n_clients
    return Population(
        n_clients=n,
        n_examples=np.array(size.sizes, dtype=float),
        label_counts=np.ones((n, max(1, size.n_outputs))),
        groups=np.arange(n) * min(5, n) // n,
    )


def _reachable(task: Task, size: Size) -> float:
    """Clients that can be reached, in the mean of a few rounds."""
    n, population = size.n_clients, population_of(size)
    try:
        state = task.availability.init(population)
        rates = [task.availability.rates(state, t) for t in range(1, 25)]
    except Exception:  # somebody's own, or one that wants to know more: everyone, then
        return float(n)
    known = [float(np.sum(rate)) for rate in rates if rate is not None]
    return float(np.mean(known)) if known else float(n)


def size_of(task: Task) -> Size:
    """The size of a cell's data, by name where the name tells it; else the data are looked at."""
    recipe = task.data
    if not isinstance(recipe, DataRecipe):
        return _looked_at(recipe)
    source = source_of(recipe.name, imported)
    if source.shape is not None and source.per_client is not None:
        n = int({**defaults_of(source.loader), **recipe.settings}["n_clients"])
        train, validation, test = source.per_client
        n_bytes = n * sum(source.per_client) * _example_bytes(source.shape)
        return Size(source.shape, source.n_classes, (train,) * n, validation * n, test * n, n_bytes)
    if source.shape is None or recipe.partition is None or ":" in recipe.partition:
        return _looked_at(recipe.federation())
    defaults = defaults_of(federate, PARTITIONS[recipe.partition])
    settings = {**defaults, **recipe.settings}
    n_test = source.n_test or round(float(settings["test"]) * source.n_train)
    n_train = source.n_train - (0 if source.n_test else n_test)
    sizes = _sizes(recipe.partition, n_train, settings)
    held_out = float(settings["validation"])
    trained = tuple(max(1, round(n * (1 - held_out))) for n in sizes)
    n_bytes = (sum(sizes) + n_test) * _example_bytes(source.shape)  # what is held, not all there is
    n_validation = sum(sizes) - sum(trained)
    return Size(source.shape, source.n_classes, trained, n_validation, n_test, n_bytes)


def _example_bytes(shape: tuple[int, ...]) -> int:
    """Of an input in float32 and its label; images stay bytes, but while they are divided there are
    up to three copies.
    """
    return 4 * math.prod(shape) + 8


def _sizes(partition: str, n_train: int, settings: dict[str, Any]) -> Sequence[int]:
    n = int(settings["n_clients"])
    even = n_train // n
    if partition == "clustered":
        even = int(settings["per_client"])
    elif partition == "classes_per_client":
        even = min(even, int(settings["per_client"] or even))
    elif partition == "shards":
        size = int(settings["shard_size"] or n_train // int(settings["n_shards"]))
        even = int(settings["shards_per_client"]) * size
    return (even,) * n


def _looked_at(federation: Federation) -> Size:
    held = federation.validation
    return Size(
        tuple(federation.x.shape[1:]),
        federation.n_outputs,
        tuple(int(n) for n in federation.sizes),
        0 if held is None else sum(len(mine) for mine in held),
        len(federation.test),
        int(federation.x.nbytes + federation.y.nbytes),
    )


def readable(seconds: float) -> str:
    """A duration in the words of a rough guess."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{round(hours):,} h"


__all__ = ["Estimate", "Size", "estimate", "population_of", "readable", "same_data", "size_of"]

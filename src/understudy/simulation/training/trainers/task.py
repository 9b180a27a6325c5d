"""`TrainingTask`: what a trainer is made for, the same in every round of a run."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core import checks
from understudy.core.flat import Layout
from understudy.core.threads import usable_cores
from understudy.core.types import Arrivals, Cohort, Ints, Vectors
from understudy.parts.local import Local
from understudy.simulation.data.federation import Federation
from understudy.simulation.training.engines import engine_for
from understudy.simulation.training.jobs import Engine, Loss, Recipe, Trained
from understudy.simulation.training.preparation import prepared
from understudy.simulation.training.trainers.workload import Workload, pace_of


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """The data, the model and how clients train: all that a trainer needs besides the round.

    Attributes
    ----------
    federation : Federation
        The data: inputs ``x``, labels ``y``, and which examples each client holds.
    recipe : Recipe
        All but the data: module, loss, local training, seed, examples of each client, and the
        engine that was chosen for them. cloudpickle takes it to another process or machine, where
        `engine_for` makes the engine from it and the data.
    workload : Workload
        What training costs, and how many clients are trained at a time.
    """

    federation: Federation
    recipe: Recipe
    workload: Workload

    @classmethod
    def of(
        cls,
        federation: Federation,
        module: nn.Module,
        local: Local,
        seed: int,
        loss: Loss = cross_entropy,
        workers: int | None = None,
        device: str = "cpu",
        engine: str = "auto",
    ) -> TrainingTask:
        """The task of a run.

        Parameters
        ----------
        federation : Federation
            The data.
        module : torch.nn.Module
            The model's shape; it is copied.
        local : Local
            How clients train.
        seed : int
            The run's seed: batches and dropout layers depend on it, the round and the client alone.
        loss, workers, device, engine
            As `simulate` takes them.
        """
        # the copy is sent to workers, and never trained here
        recipe = Recipe(copy.deepcopy(module), loss, local, seed, federation.clients, device=device)
        recipe, cost = prepared(recipe, federation.x, federation.y, engine)
        recipe.module.to(device)
        n_workers = (workers or usable_cores()) if device == "cpu" else 1
        pace = pace_of(recipe.engine)
        workload = Workload(federation.sizes, local, cost.per_example, pace, n_workers)
        return cls(federation, recipe, workload)

    @cached_property
    def layout(self) -> Layout:
        """Where each parameter and buffer of the model is in a flat vector."""
        return Layout.of(self.recipe.module)

    def engine(self) -> Engine:
        """A new engine, with a module of its own: it trains the clients of a `Job` in their rows.

        A client's row depends on the seed, the round and the client alone. An engine trains for one
        thread at a time.
        """
        recipe = replace(self.recipe, module=copy.deepcopy(self.recipe.module))
        data, device = self.federation, recipe.device
        on_device = data.x if device == "cpu" else data.x.to(device)
        return engine_for(recipe, on_device, data.y.to(device))

    def arrivals(self, cohort: Cohort, rows: Vectors, trained: Trained) -> Arrivals:
        """What the asked clients send, from their trained rows and what an engine says of each."""
        return Arrivals(
            ids=cohort.asked,
            deltas=rows,
            n_examples=self.federation.sizes[cohort.asked],
            n_steps=np.array([n_steps for n_steps, _ in trained], dtype=np.int64),
            losses=np.array([loss for _, loss in trained]),
        )

    def checked(self, params: torch.Tensor) -> torch.Tensor:
        """Parameters that any engine can take, without a graph behind them."""
        params = checks.flat_params(params)
        expected = (self.layout.size,), self.layout.dtype
        if (tuple(params.shape), params.dtype) != expected:
            raise ValueError(
                f"params: expected shape ({self.layout.size},) of {self.layout.dtype}, got "
                f"{tuple(params.shape)} of {params.dtype}"
            )
        return params.detach()

    def checked_indices(self, indices: Ints) -> Ints:
        """Indices of examples as any engine takes them."""
        given = np.asarray(indices)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise TypeError(
                f"indices: expected (n,) whole numbers, got {given.dtype} of shape {given.shape}"
            )
        n = len(self.federation.x)
        if len(given) and (given.min() < 0 or given.max() >= n):
            raise IndexError(f"indices: expected 0 .. {n - 1}, got {given.min()} .. {given.max()}")
        return given.astype(np.int64, copy=False)

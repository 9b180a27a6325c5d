"""Clients trained by compiled kernels: for nets that are a plain chain of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.core.rng import generator, torch_seed
from understudy.core.types import Ints
from understudy.simulation.training.batches import drawn
from understudy.simulation.training.jobs import Job, Recipe, Trained
from understudy.simulation.training.kernels.chain import Dropout, Layer, Refused, chain_of
from understudy.simulation.training.kernels.library import BITS, Library, loaded
from understudy.simulation.training.kernels.plan import Plan, plan_of

Array = npt.NDArray[np.floating]


def kernel_plan(
    recipe: Recipe, x: torch.Tensor, y: torch.Tensor, layers: Sequence[Layer] | None = None
) -> Plan:
    """The plan by which the kernels train a recipe; `layers` are those of its module, if known.

    Raises
    ------
    Refused
        Where they cannot; says why.
    """
    if recipe.loss is not cross_entropy:
        raise Refused("the loss is not torch's cross_entropy")
    if not recipe.local.plain_sgd:
        raise Refused(f"the optimizer is not plain SGD but {recipe.local.optimizer!r}")
    if recipe.device != "cpu" or x.device.type != "cpu":
        raise Refused("it trains on another device")
    layout = Layout.of(recipe.module)
    dtype = x.numpy().dtype if x.dtype in (torch.float32, torch.float64) else None
    if layout.dtype != x.dtype or dtype is None or dtype not in BITS:
        raise Refused(f"inputs are {x.dtype} and parameters {layout.dtype}")
    if not x.is_contiguous():
        raise Refused("inputs are not contiguous in memory")
    if y.dtype != torch.int64 or y.ndim != 1 or not len(y):
        raise Refused("labels are not classes")
    layers = chain_of(recipe.module) if layers is None else layers
    if _kept(chain_of(recipe.module, training=False)) != _kept(layers):  # they evaluate, too
        raise Refused("its forward does something else in evaluation")
    plan = plan_of(layers, layout, tuple(x.shape[1:]), dtype)
    if int(y.min()) < 0 or int(y.max()) >= plan.n_classes:
        raise Refused("there are labels beyond the outputs")  # torch's to complain about
    return plan


def _kept(layers: Sequence[Layer]) -> list[Layer]:
    """What is left of layers in evaluation."""
    return [layer for layer in layers if not isinstance(layer, Dropout)]


@dataclass(frozen=True, eq=False)
class _Tables:
    """A plan's tables and an arena, kept alive and as addresses."""

    arrays: tuple[npt.NDArray[np.generic], ...]

    @property
    def addresses(self) -> list[int]:
        return [array.ctypes.data for array in self.arrays]


class KernelEngine:
    """Trains clients by compiled kernels: same steps as the loop, all of a client in one call.

    Parameters
    ----------
    recipe : Recipe
        What to train, and how.
    x, y : torch.Tensor
        The data.
    plan : Plan, optional
        What `kernel_plan` said to them.
    library : Library, optional
        The compiled kernels; by default the best that this machine runs.
    """

    def __init__(
        self,
        recipe: Recipe,
        x: torch.Tensor,
        y: torch.Tensor,
        plan: Plan | None = None,
        library: Library | None = None,
    ) -> None:
        self.recipe = recipe
        self.plan = kernel_plan(recipe, x, y) if plan is None else plan
        self.library = loaded(self.plan.dtype) if library is None else library
        self.x, self.y = x.numpy(), y.numpy()
        plan = self.plan
        self._tables = _Tables((plan.head, plan.ops, plan.offsets, plan.taps, plan.arena()))
        self._addresses = self._tables.addresses

    def another(self) -> KernelEngine:
        """The same with an arena of its own, for another thread."""
        x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        return KernelEngine(self.recipe, x, y, self.plan, self.library)

    def train(self, job: Job) -> Trained:
        local = self.recipe.local
        terms = job.lr_of(local), local.weight_decay, local.rule.mu, local.momentum
        rates, matrix = np.array(terms, dtype=np.float64), job.matrix.numpy()
        return [
            self._client(job, client, row, matrix[row], rates)
            for client, row in zip(job.clients, job.rows, strict=True)
        ]

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """(n, classes) what the model with these parameters says to some of the examples."""
        vector, order = _vector(params), np.ascontiguousarray(indices)
        into = np.empty((len(order), self.plan.n_classes), dtype=self.plan.dtype)
        self.library.outputs(
            *self._addresses,
            self.x.ctypes.data,
            order.ctypes.data,
            len(order),
            vector.ctypes.data,
            into.ctypes.data,
        )
        return torch.from_numpy(into)

    def _client(
        self, job: Job, client: int, row: int, delta: Array, rates: Array
    ) -> tuple[int, float]:
        recipe, t = self.recipe, job.t
        held = recipe.clients[client]
        drawn_plan = drawn(len(held), recipe.local, t, generator(recipe.seed, "batches", t, client))
        order = held[drawn_plan.examples]
        start = _vector(job.params if job.starts is None else job.starts[row])
        correction = None if job.corrections is None else _vector(job.corrections[row])
        assert len(start) == len(delta) == self.plan.d and delta.flags.c_contiguous
        seed = torch_seed(recipe.seed, "dropout", t, client) if self.plan.n_dropouts else 0
        total = self.library.train(
            *self._addresses,
            self.x.ctypes.data,
            self.y.ctypes.data,
            order.ctypes.data,
            drawn_plan.lengths.ctypes.data,
            len(drawn_plan),
            rates.ctypes.data,
            start.ctypes.data,
            None if correction is None else correction.ctypes.data,
            seed,
            delta.ctypes.data,
        )
        return len(drawn_plan), total / len(order)


def _vector(tensor: torch.Tensor) -> Array:
    return np.ascontiguousarray(tensor.numpy())

"""Clients trained by compiled kernels: for nets that are a plain chain of layers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.core.rng import generator, torch_seed
from understudy.core.types import Floats, Ints
from understudy.simulation.training.batches import drawn
from understudy.simulation.training.jobs import Job, Recipe, Trained
from understudy.simulation.training.kernels.chain import chain_of
from understudy.simulation.training.kernels.layers import Dropout, Layer, Refused
from understudy.simulation.training.kernels.library import BITS, Library, loaded
from understudy.simulation.training.kernels.memory import TYPES, Memory, memory
from understudy.simulation.training.kernels.plan import Plan, plan_of

INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
PROBE = 2  # examples that a forward is watched with
WHOLE = (INT64, np.dtype(np.int32))


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
    for name, values in (("inputs", x), ("labels", y)):
        if type(values) is not torch.Tensor:
            raise Refused(f"{name} are a {type(values).__name__}")
        if values.layout != torch.strided or values.is_neg():
            raise Refused(f"{name} are not stored one by one")
        if {recipe.device, values.device.type} != {"cpu"}:
            raise Refused("it trains on another device")
    layout = Layout.of(recipe.module)
    dtype = TYPES.get(x.dtype)
    if layout.dtype != x.dtype or dtype is None or dtype not in BITS:
        raise Refused(f"inputs are {x.dtype} and parameters {layout.dtype}")
    if not x.is_contiguous() or x.data_ptr() % x.element_size():
        raise Refused("inputs are not contiguous in memory")
    if y.dtype != torch.int64 or y.ndim != 1 or not len(y) or len(y) != len(x):
        raise Refused("labels are not classes, one for each input")
    layers = chain_of(recipe.module, x[:PROBE]) if layers is None else layers
    # they evaluate, too, and drop nothing then
    kept = [layer for layer in layers if not isinstance(layer, Dropout)]
    if chain_of(recipe.module, x[:PROBE], training=False) != kept:
        raise Refused("its forward does something else in evaluation")
    plan = plan_of(layers, layout, tuple(x.shape[1:]), dtype)
    if int(y.min()) < 0 or int(y.max()) >= plan.n_classes:
        raise Refused("there are labels beyond the outputs")  # torch's to complain about
    return plan


class KernelEngine:
    """Trains clients by compiled kernels: same steps as the loop, all of a client in one call.

    Data, labels and parameters are looked at anew in every call: they may have been changed or
    taken away since the last one. Threads that share an engine wait for each other.

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
        self.recipe, self.x, self.y = recipe, x, y
        self.plan = kernel_plan(recipe, x, y) if plan is None else plan
        self.library = loaded(self.plan.dtype) if library is None else library
        plan = self.plan
        arena = plan.arena()
        self._kept = [
            memory("plan", plan.head, INT64, plan.head.shape),
            memory("plan", plan.ops, INT64, plan.ops.shape),
            memory("plan", plan.offsets, INT64, plan.offsets.shape),
            memory("plan", plan.taps, INT64, plan.taps.shape),
            memory("arena", arena, plan.dtype, (plan.size,), writes=True),
        ]
        self._addresses = [table.address for table in self._kept]
        self.alone = threading.Lock()  # there is one arena

    def another(self) -> KernelEngine:
        """The same with an arena of its own, for another thread."""
        return KernelEngine(self.recipe, self.x, self.y, self.plan, self.library)

    def train(self, job: Job) -> Trained:
        local = self.recipe.local
        terms = job.lr_of(local), local.weight_decay, local.rule.mu, local.momentum
        rates, data = np.array(terms, dtype=FLOAT64), self._data()
        with self.alone:
            return [
                self._client(job, client, row, rates, data)
                for client, row in zip(job.clients, job.rows, strict=True)
            ]

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """(n, classes) what the model with these parameters says to some of the examples."""
        plan = self.plan
        order = self._whole("indices", indices).copy()  # nobody changes it meanwhile
        into = torch.empty((len(order), plan.n_classes), dtype=self.x.dtype)
        asked = memory("indices", order, INT64, (len(order),))
        start = memory("params", params, plan.dtype, (plan.d,))
        found = memory("outputs", into, plan.dtype, tuple(into.shape), writes=True)
        with self.alone:
            outside = self.library.outputs(
                *self._addresses,
                self._data().address,
                len(self.x),
                asked.address,
                len(order),
                start.address,
                found.address,
            )
        if outside:
            raise IndexError(self._beyond("indices", order))
        return into

    def _data(self) -> Memory:
        shape = tuple(self.x.shape)
        if self.x.numel() != len(self.x) * self.plan.n_inputs:
            raise ValueError(f"x: expected {self.plan.n_inputs} numbers an example, got {shape}")
        return memory("x", self.x, self.plan.dtype, shape)

    def _client(
        self, job: Job, client: int, row: int, rates: Floats, data: Memory
    ) -> tuple[int, float]:
        recipe, plan, t = self.recipe, self.plan, job.t
        held = recipe.clients[client]
        batches = drawn(len(held), recipe.local, t, generator(recipe.seed, "batches", t, client))
        order = held[batches.examples]
        labels = self._labels(order)
        order = self._whole(f"clients[{client}]", order)
        seed = torch_seed(recipe.seed, "dropout", t, client) if plan.n_dropouts else 0
        start = job.params if job.starts is None else job.starts[row]
        n_drawn, n_steps = len(order), len(batches)
        read = [
            memory("labels", labels, INT64, (n_drawn,)),
            memory("order", order, INT64, (n_drawn,)),
            memory("lengths", batches.lengths, INT64, (n_steps,)),
            memory("rates", rates, FLOAT64, (4,)),
            memory("start", start, plan.dtype, (plan.d,)),
        ]
        correction = None
        if job.corrections is not None:
            correction = memory("correction", job.corrections[row], plan.dtype, (plan.d,))
        delta = memory("matrix", job.matrix[row], plan.dtype, (plan.d,), writes=True)
        outside = np.zeros(1, dtype=INT64)
        total = self.library.train(
            *self._addresses,
            data.address,
            len(self.x),
            *(numbers.address for numbers in read[:3]),
            n_drawn,
            n_steps,
            *(numbers.address for numbers in read[3:]),
            None if correction is None else correction.address,
            seed,
            delta.address,
            memory("outside", outside, INT64, (1,), writes=True).address,
        )
        if outside[0]:
            raise IndexError(
                self._beyond(f"clients[{client}]", order)
                or f"y: expected labels of 0 .. {plan.n_classes - 1} for the model's outputs, got "
                f"{labels.min()} .. {labels.max()} at client {client}"
            )
        return n_steps, total / n_drawn

    def _labels(self, order: Ints) -> Ints:
        """Of the examples drawn, in their order; a copy, wherever y lies."""
        y: Any = self.y
        if y.dtype != torch.int64 or y.ndim != 1 or len(y) != len(self.x):
            raise ValueError(
                f"y: expected {len(self.x)} labels of int64, got {y.dtype} of {tuple(y.shape)}"
            )
        labels: Ints = y.numpy()[order]
        return labels

    def _whole(self, name: str, indices: Any) -> Ints:
        """Indices of the two types that torch takes too."""
        if not isinstance(indices, np.ndarray) or indices.ndim != 1 or indices.dtype not in WHOLE:
            kind = getattr(indices, "dtype", type(indices).__name__)
            raise TypeError(f"{name}: expected (n,) of int64 or int32, got {kind}")
        whole: Ints = indices.astype(INT64, copy=False)
        return whole

    def _beyond(self, name: str, indices: Ints) -> str:
        """Words for indices of examples that there are not; none where all are there."""
        low, high = indices.min(), indices.max()
        if low >= 0 and high < len(self.x):
            return ""
        return f"{name}: expected indices of 0 .. {len(self.x) - 1}, got {low} .. {high}"

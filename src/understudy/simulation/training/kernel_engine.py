"""Clients trained by compiled kernels: for nets that are a plain chain of layers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.core.rng import generator, torch_seed
from understudy.core.types import Ints
from understudy.memory.pixels import Pixels
from understudy.simulation.training.batches import drawn
from understudy.simulation.training.jobs import Job, Recipe, Trained
from understudy.simulation.training.kernels.chain import chain_of
from understudy.simulation.training.kernels.layers import Dropout, Layer, Refused
from understudy.simulation.training.kernels.library import BITS, Library, loaded
from understudy.simulation.training.kernels.memory import (
    TYPES,
    Located,
    Rows,
    check_tensor,
    memory,
    rows,
)
from understudy.simulation.training.kernels.plan import Plan, plan_of
from understudy.simulation.training.kernels.unpacking import UINT8, unpacking

INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
PROBE = 5  # examples that a forward is watched with
WHOLE = (INT64, np.dtype(np.int32))


def kernel_plan(
    recipe: Recipe, x: torch.Tensor, y: torch.Tensor, layers: Sequence[Layer] | None = None
) -> Plan:
    """The plan by which the kernels train a recipe; `Refused` says why they cannot.

    `layers` are those of its module, if known.
    """
    if recipe.loss is not cross_entropy:
        raise Refused("the loss is not torch's cross_entropy")
    if not recipe.local.plain_sgd:
        raise Refused(f"the optimizer is not plain SGD but {recipe.local.optimizer!r}")
    for name, values in (("inputs", x), ("labels", y)):
        if type(values) is not torch.Tensor and (name, type(values)) != ("inputs", Pixels):
            raise Refused(f"{name} are a {type(values).__name__}")
        if values.layout != torch.strided or values.is_neg():
            raise Refused(f"{name} are not stored one by one")
        if {recipe.device, values.device.type} != {"cpu"}:
            raise Refused("it trains on another device")
    layout = Layout.of(recipe.module)
    dtype = TYPES.get(x.dtype)
    if layout.dtype != x.dtype or dtype is None or dtype not in BITS:
        raise Refused(f"inputs are {x.dtype} and parameters {layout.dtype}")
    dense = isinstance(x, Pixels) or (x.is_contiguous() and x.data_ptr() % x.element_size() == 0)
    if not dense:
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


@dataclass(frozen=True, eq=False)
class _Call:
    """What all clients of a call share, looked at once."""

    data: Located
    labels: Ints  # (n,) of all examples
    rates: Located
    start: Located
    starts: Rows | None
    corrections: Rows | None
    deltas: Rows


class KernelEngine:
    """Trains clients by compiled kernels: same steps as the loop, all of a client in one call.

    Data, labels and parameters are looked at anew in every call: they may have been changed or
    taken away since the last one. Threads that share an engine wait for each other. By default the
    library is the best that this machine runs.
    """

    def __init__(
        self,
        recipe: Recipe,
        x: torch.Tensor,
        y: torch.Tensor,
        plan: Plan | None = None,
        library: Library | None = None,
    ) -> None:
        self.plan = kernel_plan(recipe, x, y) if plan is None else plan
        self.library = loaded(self.plan.dtype) if library is None else library
        plan = self.plan
        self._unpacking = None
        if isinstance(x, Pixels):
            self._unpacking = unpacking(x, plan, self.library)
            x = x if self._unpacking is not None else x.floats()
        self.recipe, self.x, self.y, self._shape = recipe, x, y, tuple(x.shape[1:])
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

    def train(self, job: Job, is_stopped: Callable[[], bool] = lambda: False) -> Trained:
        """Train the clients of a job, until somebody stops it: that is asked before each."""
        plan, local = self.plan, self.recipe.local
        terms = job.lr_of(local), local.weight_decay, local.rule.mu, local.momentum
        call = _Call(
            data=self._data(),
            labels=self._labels(),
            rates=memory("rates", np.array(terms, dtype=FLOAT64), FLOAT64, (4,)),
            start=memory("params", job.params, plan.dtype, (plan.d,)),
            starts=self._rows("starts", job.starts),
            corrections=self._rows("corrections", job.corrections),
            deltas=rows("matrix", job.matrix, plan.dtype, plan.d, writes=True),
        )
        trained: Trained = []
        with self.alone:
            for client, row in zip(job.clients, job.rows, strict=True):
                if is_stopped():
                    break
                trained.append(self._client(job.t, client, row, call))
        return trained

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """(n, classes) what the model with these parameters says to some of the examples."""
        plan = self.plan
        order = self._whole("indices", indices)
        order = self._places("indices", order).copy()  # nobody changes it meanwhile
        into = torch.empty((len(order), plan.n_classes), dtype=self.x.dtype)
        asked = memory("indices", order, INT64, (len(order),))
        start = memory("params", params, plan.dtype, (plan.d,))
        found = memory("outputs", into, plan.dtype, tuple(into.shape), writes=True)
        with self.alone:
            outside = self.library.outputs(
                *self._addresses,
                self._data().address,
                self._bytes_at,
                len(self.x),
                asked.address,
                len(order),
                start.address,
                found.address,
            )
        if outside:
            raise IndexError(self._beyond("indices", order))
        return into

    def _data(self) -> Located:
        shape = tuple(self.x.shape)
        if shape[1:] != self._shape or prod(self._shape) != self.plan.n_inputs:
            raise ValueError(f"x: expected examples of shape {self._shape}, got {shape[1:]}")
        if isinstance(self.x, Pixels):
            return memory("x", self.x.stored, UINT8, shape)
        return memory("x", self.x, self.plan.dtype, shape)

    @property
    def _bytes_at(self) -> int | None:
        """Where it is written how bytes become numbers; None: the inputs are numbers."""
        return None if self._unpacking is None else self._unpacking.address

    def _rows(self, name: str, matrix: torch.Tensor | None) -> Rows | None:
        return None if matrix is None else rows(name, matrix, self.plan.dtype, self.plan.d)

    def _labels(self) -> Ints:
        """(n,) as they are now, wherever y lies."""
        y: Any = self.y
        check_tensor("y", y, INT64)
        if y.shape != (len(self.x),):
            raise ValueError(f"y: expected {len(self.x)} labels, got shape {tuple(y.shape)}")
        labels: Ints = y.numpy()
        return labels

    def _client(self, t: int, client: int, row: int, call: _Call) -> tuple[int, float]:
        recipe, plan = self.recipe, self.plan
        held = recipe.clients[client]
        batches = drawn(len(held), recipe.local, t, generator(recipe.seed, "batches", t, client))
        order = self._whole(f"clients[{client}]", held[batches.examples])
        n_drawn, n_steps = len(order), len(batches)
        # a count of what is outside, the steps' lengths, indices, labels: one array, one look at it
        lengths_at, order_at, labels_at = 1, 1 + n_steps, 1 + n_steps + n_drawn
        ints = np.empty(labels_at + n_drawn, dtype=INT64)
        ints[0] = 0
        ints[lengths_at:order_at] = batches.lengths
        try:
            ints[labels_at:] = call.labels[order]
            ints[order_at:labels_at] = self._places(f"clients[{client}]", order)
        except IndexError as error:
            raise IndexError(self._beyond(f"clients[{client}]", order)) from error
        at = memory("indices", ints, INT64, (labels_at + n_drawn,), writes=True).address
        total = self.library.train(
            *self._addresses,
            call.data.address,
            self._bytes_at,
            len(self.x),
            at + labels_at * INT64.itemsize,
            at + order_at * INT64.itemsize,
            at + lengths_at * INT64.itemsize,
            n_drawn,
            n_steps,
            call.rates.address,
            call.start.address if call.starts is None else call.starts.row(row),
            None if call.corrections is None else call.corrections.row(row),
            torch_seed(recipe.seed, "dropout", t, client) if plan.n_dropouts else 0,
            call.deltas.row(row),
            at,
        )
        if ints[0]:
            labels = ints[labels_at:]
            raise IndexError(
                self._beyond(f"clients[{client}]", order)
                or f"y: expected labels of 0 .. {plan.n_classes - 1} for the model's outputs, got "
                f"{labels.min()} .. {labels.max()} at client {client}"
            )
        return n_steps, total / n_drawn

    def _whole(self, name: str, indices: Any) -> Ints:
        """Indices of the two types that torch takes too."""
        if not isinstance(indices, np.ndarray) or indices.ndim != 1 or indices.dtype not in WHOLE:
            kind = getattr(indices, "dtype", type(indices).__name__)
            raise TypeError(f"{name}: expected (n,) of int64 or int32, got {kind}")
        whole: Ints = indices.astype(INT64, copy=False)
        return whole

    def _places(self, name: str, order: Ints) -> Ints:
        """Where examples lie, which may be elsewhere than they are numbered."""
        place = self.x.place if isinstance(self.x, Pixels) else None
        if place is None or not len(order):
            return order
        if order.view(np.uint64).max() >= len(place):  # negative ones, too: they would be wrapped
            raise IndexError(self._beyond(name, order))
        return place[order]

    def _beyond(self, name: str, indices: Ints) -> str:
        """Words for indices of examples that there are not; none where all are there."""
        low, high = indices.min(), indices.max()
        if low >= 0 and high < len(self.x):
            return ""
        return f"{name}: expected indices of 0 .. {len(self.x) - 1}, got {low} .. {high}"

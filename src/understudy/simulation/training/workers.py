"""Several processes that train clients of the same round by the loop.

One mechanism everywhere, also in notebooks and in scripts without a main guard. Model, loss and
recipe are sent once a run; data, parameters and results are shared memory.
"""

from __future__ import annotations

import copy
import logging
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import cloudpickle
import numpy as np
import torch
from torch import nn

from understudy.core.types import Ints
from understudy.memory.pixels import ByteScale, Pixels, stored_of
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.shared_memory import Handle, Shared, attach
from understudy.simulation.training.engines import engine_for
from understudy.simulation.training.evaluation import model_outputs
from understudy.simulation.training.jobs import Engine, Job, Recipe, Trained
from understudy.simulation.training.pool import ChildDied, end_workers, pool_of

TRIES = 2  # of a round in which a worker died

Result = TypeVar("Result")

log = logging.getLogger("understudy")

_one_at_a_time = threading.RLock()  # runs in several threads share the processes


@dataclass(frozen=True)
class RunKit:
    """What a worker needs for a run: the recipe as bytes, and the data."""

    recipe: Handle
    x: Handle
    y: Handle
    pixels: tuple[tuple[int, ...], ByteScale] | None = None  # shape of x, where that is its bytes

    def inputs(self) -> torch.Tensor:
        """x, of the same memory."""
        if self.pixels is None:
            return attach(self.x)
        shape, scaling = self.pixels
        return Pixels(attach(self.x).view(shape), scaling)


@dataclass(frozen=True)
class TrainRequest:
    """A job as it is sent: handles for tensors."""

    t: int
    clients: list[int]
    rows: list[int]
    params: Handle
    matrix: Handle
    starts: Handle | None = None
    corrections: Handle | None = None
    lr: float | None = None


class WorkerDied(RuntimeError):
    """Worker processes died again and again while training."""


class Workers:
    """Processes, of one thread each, that work for one recipe.

    They outlive it: the next run finds them started.
    """

    def __init__(self, recipe: Recipe, federation: Federation, n_workers: int) -> None:
        self.n_workers, self.deaths = n_workers, 0
        x, y = federation.shared()
        stored, scaling = stored_of(federation.x)
        pickled = np.frombuffer(cloudpickle.dumps(recipe), dtype=np.uint8)
        self._recipe = Shared.of(torch.from_numpy(pickled.copy()))
        pixels = None if scaling is None else (tuple(stored.shape), scaling)
        self._kit = RunKit(self._recipe.handle, x.handle, y.handle, pixels)

    def train(self, orders: list[TrainRequest]) -> list[Trained]:
        """The results of all orders, whoever did them."""
        return self._all(_train, orders, f"training round {orders[0].t}")

    def outputs(self, params: Handle, parts: list[Ints]) -> torch.Tensor:
        """What the model with these parameters says to the examples of all parts, in order."""
        orders = [(params, part) for part in parts]
        return torch.cat(self._all(_outputs, orders, "evaluating"))

    def _all(
        self, task: Callable[[RunKit, Any], Result], orders: list[Any], what: str
    ) -> list[Result]:
        """Where a worker died, all is done again, once: the bits do not depend on it."""
        for _ in range(TRIES):
            with _one_at_a_time:
                try:
                    pool = pool_of(self.n_workers)
                    return pool.map(task, [(self._kit, order) for order in orders])
                except ChildDied:
                    self.deaths += 1
                    log.warning("a worker process died while %s; it is done again", what)
                    end_workers()
                except BaseException:  # an interrupt, or an error in somebody's loss
                    end_workers()  # nobody may go on writing to rows that are trained anew
                    raise
        raise WorkerDied(
            f"a worker process died {TRIES} times while {what}; it may have run out of memory. "
            "workers=1 does it in this process"
        )


def start_workers(n_workers: int) -> None:
    """Begin to start processes now: they are ready some two seconds later."""
    with _one_at_a_time:
        pool_of(n_workers)


# -- in a worker -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Workbench:
    """A kit unpacked."""

    engine: Engine
    module: nn.Module  # for evaluation: the engine's is pointed at rows while it trains
    x: torch.Tensor


@lru_cache(maxsize=1)
def _unpacked(kit: RunKit) -> Workbench:
    attach.cache_clear()  # the run before may be gone, and its data with it
    recipe: Recipe = pickle.loads(attach(kit.recipe).numpy().tobytes())
    x, module = kit.inputs(), copy.deepcopy(recipe.module)
    return Workbench(engine_for(recipe, x, attach(kit.y)), module, x)


def _train(kit: RunKit, order: TrainRequest) -> Trained:
    bench = _unpacked(kit)  # first: it lets go of what the run before had attached
    fields: dict[str, Any] = {
        name: attach(value) if isinstance(value, Handle) else value
        for name, value in vars(order).items()
    }
    return bench.engine.train(Job(**fields))


def _outputs(kit: RunKit, order: tuple[Handle, Ints]) -> torch.Tensor:
    (params, indices), bench = order, _unpacked(kit)
    return model_outputs(bench.module, attach(params), bench.x, indices)

"""Several processes that train clients of the same round.

One mechanism everywhere, also in notebooks and in scripts without a main guard: loky, which
starts its processes anew and sends functions by value. Model, loss and recipe are sent once a run;
data, parameters and results are shared memory.
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import cloudpickle
import numpy as np
import torch
from loky import ProcessPoolExecutor
from loky.process_executor import BrokenProcessPool
from torch import nn

from understudy.flat import Layout
from understudy.simulation.backends import kernels
from understudy.simulation.engines import Engine, Job, Recipe, Trained, engine_for
from understudy.simulation.evaluation import outputs_of
from understudy.simulation.shared import Handle, Shared, attach
from understudy.types import Ints

TRIES = 2  # of a round in which a worker died
IDLE_SECONDS = 60  # after which a worker that nobody needs ends

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # loky would take the shared rows that a worker maps for a leak, and restart it
    "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18",
}

Result = TypeVar("Result")

log = logging.getLogger("understudy")


@dataclass(frozen=True)
class Kit:
    """What a worker needs for a run: the recipe as bytes, and the data."""

    recipe: Handle
    x: Handle
    y: Handle


@dataclass(frozen=True)
class Order:
    """A job as it is sent: handles for tensors."""

    t: int
    clients: list[int]
    rows: list[int]
    params: Handle
    matrix: Handle
    starts: Handle | None = None
    corrections: Handle | None = None


class WorkerDied(RuntimeError):
    """Worker processes died again and again while training."""


class Workers:
    """Processes that work for one recipe. They outlive it: the next run finds them started.

    Parameters
    ----------
    recipe : Recipe
        What to train, and how.
    x, y : Handle
        The data.
    n_workers : int
        How many processes, of one thread each.
    """

    def __init__(self, recipe: Recipe, x: Handle, y: Handle, n_workers: int) -> None:
        self.n_workers, self.deaths = n_workers, 0
        pickled = np.frombuffer(cloudpickle.dumps(recipe), dtype=np.uint8)
        self._recipe = Shared.of(torch.from_numpy(pickled.copy()))
        self._kit = Kit(self._recipe.handle, x, y)

    def train(self, orders: list[Order]) -> list[Trained]:
        """The results of all orders."""
        return self._all(_train, orders, f"training round {orders[0].t}")

    def outputs(self, params: Handle, parts: list[Ints]) -> torch.Tensor:
        """What the model with these parameters says to the examples of all parts, in order."""
        orders = [(params, part) for part in parts]
        return torch.cat(self._all(_outputs, orders, "evaluating"))

    def _all(
        self, task: Callable[[Kit, Any], Result], orders: list[Any], what: str
    ) -> list[Result]:
        """Where a worker died, all is done again, once: the bits do not depend on it."""
        for _ in range(TRIES):
            pool = _pool(self.n_workers)
            try:
                futures = [pool.submit(task, self._kit, order) for order in orders]
                return [future.result() for future in futures]
            except BrokenProcessPool:
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


_pools: dict[tuple[int, int], ProcessPoolExecutor] = {}  # (pid, number of workers): one at most


def _pool(n_workers: int) -> ProcessPoolExecutor:
    key = os.getpid(), n_workers
    if key not in _pools:
        end_workers()
        _pools[key] = ProcessPoolExecutor(
            max_workers=n_workers,
            timeout=IDLE_SECONDS,
            initializer=_start,
            initargs=(os.getpid(),),
            env=ENVIRONMENT,
        )
    return _pools[key]


def start_workers(n_workers: int) -> None:
    """Begin to start processes now: they are ready some two seconds later."""
    pool = _pool(n_workers)
    for _ in range(n_workers):
        pool.submit(os.getpid)


def end_workers() -> None:
    """End the worker processes of this process; the next round that needs some starts new ones."""
    for pid, n_workers in list(_pools):
        pool = _pools.pop((pid, n_workers))
        if pid == os.getpid():  # else they are the parent's
            pool.shutdown(wait=True, kill_workers=True)


# -- in a worker -----------------------------------------------------------------------------------


def _start(parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)


def _end_with(parent: int) -> None:
    """No child outlives its parent, however it ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@dataclass(frozen=True, eq=False)
class Bench:
    """A kit unpacked."""

    recipe: Recipe
    engine: Engine
    module: nn.Module  # for evaluation: the engine's is pointed at rows while it trains
    x: torch.Tensor


@lru_cache(maxsize=1)
def _unpacked(kit: Kit) -> Bench:
    attach.cache_clear()  # the run before may be gone, and its data with it
    recipe: Recipe = pickle.loads(attach(kit.recipe).numpy().tobytes())
    x, module = attach(kit.x), copy.deepcopy(recipe.module)
    return Bench(recipe, engine_for(recipe, x, attach(kit.y)), module, x)


def _train(kit: Kit, order: Order) -> Trained:
    def tensor(handle: Handle | None) -> torch.Tensor | None:
        return None if handle is None else attach(handle)

    bench = _unpacked(kit)
    job = Job(
        t=order.t,
        clients=order.clients,
        rows=order.rows,
        params=attach(order.params),
        matrix=attach(order.matrix),
        starts=tensor(order.starts),
        corrections=tensor(order.corrections),
    )
    with kernels(bench.recipe.onednn):
        return bench.engine.train(job)


def _outputs(kit: Kit, order: tuple[Handle, Ints]) -> torch.Tensor:
    (params, indices), bench = order, _unpacked(kit)
    Layout.of(bench.module).load(bench.module, attach(params))
    with kernels(onednn=True):
        return outputs_of(bench.module, bench.x, indices)

"""Several processes that train clients of the same round.

One mechanism everywhere, also in notebooks and in scripts without a main guard: loky, which
starts its processes anew and sends functions by value. Model, loss and recipe are sent once; data,
parameters and results are shared memory.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from dataclasses import dataclass
from typing import Any

import cloudpickle
import torch
from loky import ProcessPoolExecutor
from loky.process_executor import BrokenProcessPool

from understudy.simulation.backends import kernels
from understudy.simulation.engines import Engine, Job, Recipe, Trained, engine_for
from understudy.simulation.shared import Handle, attach

TRIES = 2  # of a round in which a worker died


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
    """A pool of processes for one recipe.

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
        self.n_workers = n_workers
        self.deaths = 0
        self._initargs = (cloudpickle.dumps(recipe), x, y, os.getpid())
        self._pool: ProcessPoolExecutor | None = None

    def train(self, orders: list[Order]) -> list[Trained]:
        """The results of all orders; where a worker died, all are trained again, once."""
        for _ in range(TRIES):
            try:
                futures = [self._running().submit(_train, order) for order in orders]
                return [future.result() for future in futures]
            except BrokenProcessPool:
                self.deaths += 1
                self.close()
        raise WorkerDied(
            f"a worker process died {TRIES} times while training round {orders[0].t}; "
            "it may have run out of memory. workers=1 trains in this process"
        )

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                max_workers=self.n_workers,
                timeout=None,
                initializer=_start,
                initargs=self._initargs,
                env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            )
        return self._pool

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None


# -- in a worker -----------------------------------------------------------------------------------

_engine: Engine
_recipe: Recipe


def _start(recipe: bytes, x: Handle, y: Handle, parent: int) -> None:
    global _engine, _recipe
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    _recipe = pickle.loads(recipe)
    _engine = engine_for(_recipe, attach(x), attach(y))


def _end_with(parent: int) -> None:
    """No child outlives its parent, however it ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _train(order: Order) -> Trained:
    def tensor(handle: Handle | None) -> Any:
        return None if handle is None else attach(handle)

    job = Job(
        t=order.t,
        clients=order.clients,
        rows=order.rows,
        params=attach(order.params),
        matrix=attach(order.matrix),
        starts=tensor(order.starts),
        corrections=tensor(order.corrections),
    )
    with kernels(_recipe.onednn):
        return _engine.train(job)

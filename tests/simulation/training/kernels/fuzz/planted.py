"""Faults on purpose, to see that the fuzzer finds them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.simulation.training.kernels.fuzz import boundary
from tests.simulation.training.kernels.fuzz.cases import plain_seed
from tests.simulation.training.kernels.fuzz.children import WALL_SECONDS, tried
from understudy.simulation.training.jobs import Job

arenas: list[list[boundary.Arena]] = []  # those of the engine at work


class Faulty:
    """Trains by an engine that is right, and then does something else."""

    def __init__(self, engine: Any, fault: Callable[[Job], object]) -> None:
        self._engine, self._fault, self.outputs = engine, fault, engine.outputs

    def train(self, job: Job) -> Any:
        trained = self._engine.train(job)
        self._fault(job)
        return trained


def _raise(error: Exception) -> None:
    raise error


def _beside(job: Job) -> None:
    rows = job.matrix
    torch.as_strided(rows, (1,), (1,), rows.storage_offset() + rows.shape[1])[0] = 0


FAULTS: dict[str, Callable[[Job], object]] = {
    "none": lambda _: None,
    "a number": lambda job: job.matrix[job.rows[0]].mul_(1.001),
    "no numbers": lambda job: job.matrix[job.rows[0]].fill_(torch.nan),
    "beside the rows": _beside,
    "the parameters": lambda job: job.params.add_(1),
    "between the arrays": lambda _: arenas[0][0].gaps[-1].fill(0),
    "an error": lambda _: _raise(ValueError("params: expected other ones")),
    "an assertion": lambda _: _raise(AssertionError("params")),
    "a fault": lambda _: ctypes.string_at(1),
    "a loop without end": lambda _: sum(iter(int, 1)),
    "a wait without end": lambda _: threading.Event().wait(),
}


def found() -> dict[str, str]:
    """What the fuzzer says to each fault, planted in a case that has nothing odd."""
    own, guarded = boundary.kernels, boundary.guarded

    @contextmanager
    def known() -> Iterator[list[boundary.Arena]]:
        with guarded() as made:
            arenas[:] = [made]
            yield made

    seed, kinds = plain_seed(), {}
    try:
        for name, fault in FAULTS.items():
            boundary.kernels = lambda *given, fault=fault: Faulty(own(*given), fault)
            boundary.guarded = known
            wall = 3 if name == "a wait without end" else WALL_SECONDS
            kinds[name] = tried(seed, cpu_seconds=2, wall_seconds=wall).kind
    finally:
        boundary.kernels, boundary.guarded = own, guarded
    return kinds

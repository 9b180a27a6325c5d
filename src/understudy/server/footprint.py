"""How many bytes a run will need, known before it starts."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import torch

from understudy.core.rng import generator
from understudy.core.types import Population, Setup
from understudy.memory.rows import RowStore
from understudy.server.part_state import part_states
from understudy.server.state import leaves

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

log = logging.getLogger("understudy")


@dataclass(frozen=True)
class Footprint:
    """Bytes a run needs, counting one update from every client of a round at once."""

    memory: int  # of a run without a folder: everything is in memory
    disk: int  # of a run with a folder: rows, population, the small state twice while it is renewed
    memory_with_folder: int  # what stays in memory when the rows are in files


def measure(
    strategy: Strategy,
    population: Population,
    n_params: int,
    dtype: torch.dtype,
    round_memory: float = inf,
) -> Footprint:
    """Let the parts make their state of tensors without storage, and add up.

    Of a round's updates `round_memory` bytes are counted at most: more lie on the disk.
    """
    n, item = population.n_clients, dtype.itemsize
    params = torch.empty(n_params, dtype=dtype, device="meta")

    def rows(
        width: int | None = None, dtype: torch.dtype | None = None, slots: int | None = None
    ) -> RowStore:
        size = n_params if width is None else width
        of = params.dtype if dtype is None else dtype
        return RowStore(n, size, of, "meta", slots=slots)

    setup = Setup(population, params, n_params, 0, generator(0, "footprint"), rows)
    small = n_params * item  # the model
    in_memory = on_disk = 0
    for state in part_states(strategy, lambda role: setup).values():
        for _, value in leaves(state):
            if isinstance(value, RowStore):
                in_memory += value.bytes()
                # a committed row and a new one of everybody, at the most
                on_disk += 2 * value.bytes()
            elif isinstance(value, torch.Tensor):
                small += value.numel() * value.element_size()
            elif isinstance(value, np.ndarray):
                small += value.nbytes
    # one round's updates, the aggregated one, the new model, the step
    count = getattr(strategy.sampler, "count", None)
    wanted = n if count is None else min(n, count(n))
    round_bytes = int(min(wanted * n_params * item, round_memory)) + 3 * n_params * item
    facts = (population.n_examples, population.label_counts, population.features)
    more = (population.similarity, population.p, population.groups)
    known = sum(array.nbytes for array in (*facts, *more) if array is not None)
    return Footprint(
        memory=small + in_memory + round_bytes,
        disk=on_disk + 2 * small + known,
        memory_with_folder=small + round_bytes,
    )


def refuse_if_too_large(need: Footprint, folder: Path | None) -> None:
    """Log what a run needs; raise where there is not as much."""
    memory = need.memory if folder is None else need.memory_with_folder
    disk = 0 if folder is None else need.disk
    free_memory = psutil.virtual_memory().available
    log.info("this run needs %s of memory and %s of disk", readable(memory), readable(disk))
    if memory > free_memory:
        helps = folder is None and need.memory_with_folder < need.memory
        hint = "; with a folder, remembered rows live on disk" if helps else ""
        raise MemoryError(
            f"this run needs {readable(memory)} of memory ({memory} bytes), but only "
            f"{readable(free_memory)} are free{hint}"
        )
    if folder is not None:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        free_disk = shutil.disk_usage(existing).free
        if disk > free_disk:
            raise OSError(
                f"this run needs {readable(disk)} of disk ({disk} bytes) in {folder}, but only "
                f"{readable(free_disk)} are free"
            )


def readable(size: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"

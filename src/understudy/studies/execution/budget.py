"""How many cells at once: what cores and memory allow."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from understudy.core.flat import Layout
from understudy.core.threads import usable_cores
from understudy.server.footprint import readable
from understudy.simulation.data.models import build
from understudy.studies.definition.estimates import Size, population_of, same_data, size_of

if TYPE_CHECKING:
    from understudy.studies.definition.cell import Cell, Task

PROCESS_BYTES = 400_000_000  # a process that has imported torch and trained a little

log = logging.getLogger("understudy")


@dataclass(frozen=True)
class Budget:
    """What is shared out."""

    cores: int  # that this process may use
    at_once: int  # cells
    need: int  # bytes that a cell needs, about; of the largest one
    memory: int  # bytes that may be used

    @property
    def words(self) -> str:
        """For people."""
        cells = "1 cell" if self.at_once == 1 else f"{self.at_once} cells"
        workers = self.workers(self.at_once)
        inside = f", {workers} processes inside" if workers > 1 else ""
        return (
            f"{cells} at once{inside}; a cell needs about {readable(self.need)}, "
            f"{readable(self.memory)} may be used"
        )

    def workers(self, n_left: int) -> int:
        """Processes inside a cell when `n_left` cells are still to be finished."""
        n_cells = max(1, min(self.at_once, n_left))
        spare = max(0, self.memory // n_cells - self.need)
        return max(1, min(self.cores // n_cells, spare // PROCESS_BYTES))


def budget(cells: Sequence[Cell], jobs: int | None = None, memory: int | None = None) -> Budget:
    """As many cells at once as cores and memory (in bytes) allow, but not more than `jobs`.

    By default as many as there are cores, in the memory that is free now.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs: expected an integer >= 1, got {jobs}")
    if memory is not None and memory < 1:
        raise ValueError(f"memory: expected a number of bytes >= 1, got {memory}")
    cores = usable_cores()
    available = psutil.virtual_memory().available if memory is None else memory
    wanted = max(1, min(jobs or cores, len(cells)))
    need = largest_need(cells)
    shared_out = Budget(cores, max(1, min(wanted, available // need)), need, available)
    log.info("%s", shared_out.words)
    return shared_out


def largest_need(cells: Sequence[Cell]) -> int:
    """Bytes of memory that the largest of some cells needs, about.

    Cells that differ in their seeds only are counted once. Nothing is loaded but data of the user's
    own functions. Where these, a model or a part fail, the cell will say so itself.
    """
    kinds: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        kind = json.dumps([cell.resolved["model"], cell.resolved["strategy"]], sort_keys=True)
        kinds.setdefault(same_data(cell), {}).setdefault(kind, cell)
    need = PROCESS_BYTES
    for alike in kinds.values():
        try:
            size = size_of(next(iter(alike.values())).task)
            need = max(need, *(need_of(cell.task, size) for cell in alike.values()))
        except Exception as error:  # data, model or part of the user's own
            log.info("the memory of some cells could not be estimated: %s", error)
    return need


def need_of(task: Task, size: Size) -> int:
    """Bytes of memory that a cell needs: the process, the data, the server's state, the updates.

    Remembered rows are in files and not counted.
    """
    layout = Layout.of(build(task.model, size.shape, size.n_outputs, task.seed))
    state = task.strategy.footprint(population_of(size), layout.size, dtype=layout.dtype)
    return PROCESS_BYTES + size.n_bytes + state.memory_with_folder

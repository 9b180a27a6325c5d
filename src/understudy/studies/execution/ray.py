"""What runs the cells of a study: tasks on a Ray cluster (extra ``ray``).

Each cell is one task of one CPU. Its logs come to the parent through a mailbox beside it; the
parent alone writes the store. Where the cluster's machines share the runs folder, a cell goes on
from its checkpoint; elsewhere it keeps none, and one that dies begins anew, to the same bits.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from understudy._version import __version__
from understudy.simulation.training.trainers.ray_cluster import join_or_start, ray
from understudy.studies.execution.run_cell import CellRequest, DataCache, NotStored, final_message
from understudy.studies.store.model_files import cells_folder

if TYPE_CHECKING:
    from understudy.core.types import RoundLog
    from understudy.studies.definition.cell import Cell
    from understudy.studies.execution.executors import Event

PROGRESS_EVERY = 0.5  # seconds
SECONDS_TO_START = 120.0  # for the mailbox

Message = tuple[str, str, tuple[Any, ...]]  # key of the cell, kind, details


class Mailbox:
    """Between the cells and the parent; lives as an actor, and dies with the parent."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._changed = asyncio.Condition()
        self._answers: dict[str, bool] = {}  # cell → whether its last rounds are stored
        self._stopping = False

    async def put(self, key: str, what: str, *details: Any) -> bool:
        """Leave a message; whether the cell is to end after its round."""
        async with self._changed:
            self._messages.append((key, what, details))
            self._changed.notify_all()
        return self._stopping

    async def commit(self, key: str, logs: list[RoundLog]) -> tuple[bool, bool]:
        """Leave rounds, and return when the parent has answered: stored or not; stop or not."""
        async with self._changed:
            self._answers.pop(key, None)
            self._messages.append((key, "rounds", (logs,)))
            self._changed.notify_all()
            await self._changed.wait_for(lambda: key in self._answers)
            return self._answers.pop(key), self._stopping

    async def take(self, timeout: float) -> list[Message]:
        """All messages; waits for the first, but not longer."""
        async with self._changed:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(
                    self._changed.wait_for(lambda: bool(self._messages)), timeout
                )
            messages, self._messages = self._messages, []
            return messages

    async def answer(self, key: str, stored: bool) -> None:
        """The parent's answer to the last rounds of a cell."""
        async with self._changed:
            self._answers[key] = stored
            self._changed.notify_all()

    async def stop(self) -> None:
        """From now on, cells end after their round."""
        self._stopping = True


class RayExecutor:
    """Runs cells on the cluster that RAY_ADDRESS names; without one, on this machine alone.

    Parameters
    ----------
    runs : path
        The runs folder, as seen from here.
    """

    tries = 4  # three more than the first

    def __init__(self, runs: Path) -> None:
        self.size = 0  # not used: the cluster knows how many it can take
        self._cells: dict[str, Any] = {}  # key → reference of its task
        self._begun: set[str] = set()
        self._data: dict[str, Any] = {}  # data sent once, for all cells
        self._closed = False
        self._ours = not ray.is_initialized()
        if self._ours:
            join_or_start(logging_level=logging.WARNING)
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        self._mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        ray.get(self._mailbox.take.remote(0.0), timeout=SECONDS_TO_START)
        self._task = ray.remote(run_task).options(num_cpus=1, max_retries=0)
        # a machine that finds this file sees the same folder
        folder = cells_folder(runs.absolute())
        folder.mkdir(parents=True, exist_ok=True)
        _sweep_signs(folder)
        self._sign = folder / f"{_OWN_SIGNS}{os.getpid()}-{uuid.uuid4().hex}"
        self._sign.touch()

    @property
    def room(self) -> int:
        """Enough that no core waits; each cell that was submitted holds an open file here."""
        n_cores = int(ray.cluster_resources().get("CPU", 1))
        return max(0, 2 * n_cores + 2 - len(self._cells))

    def submit(self, cell: Cell, folder: Path, workers: int, stored: tuple[RoundLog, ...]) -> None:
        request = CellRequest.of(cell, folder.absolute(), 1, stored, with_data=False)
        data = self._data.get(request.data_key)
        if data is None:
            data = ray.put(CellRequest.of(cell, None, 1).data)
            self._data = {request.data_key: data}  # the last one: cells come sorted as a rule
        self._cells[cell.key] = self._task.remote(
            request, data, self._mailbox, str(self._sign), _sources(cell), __version__
        )

    def events(self, timeout: float) -> list[Event]:
        ended: list[Event] = []
        if self._cells:
            refs = {ref: key for key, ref in self._cells.items()}
            ready, _ = ray.wait(list(refs), num_returns=len(refs), timeout=0)
            for ref in ready:
                del self._cells[refs[ref]]
                try:
                    what, *details = ray.get(ref)
                except ray.exceptions.TaskCancelledError:
                    what, details = "stopped", [None]
                except ray.exceptions.RayError as error:
                    what, details = "died", [f"the Ray task died: {error}"]
                ended.append((refs[ref], what, tuple(details)))
        # a cell's messages were in the mailbox before it ended
        messages: list[Event] = ray.get(self._mailbox.take.remote(0.0 if ended else timeout))
        self._begun.update(key for key, what, _ in messages if what == "begun")
        return messages + ended

    def committed(self, key: str, t: int) -> None:
        self._mailbox.answer.remote(key, True)

    def refused(self, key: str) -> None:
        self._mailbox.answer.remote(key, False)

    def stop(self) -> None:
        ray.get(self._mailbox.stop.remote())
        for key, ref in self._cells.items():
            if key not in self._begun:  # it waits for a CPU
                ray.cancel(ref)

    def close(self, kill: bool = False) -> None:
        if self._closed:
            return
        self._closed = True
        for ref in self._cells.values():
            with suppress(ray.exceptions.RayError):
                ray.cancel(ref, force=True)
        self._cells = {}
        self._sign.unlink(missing_ok=True)
        ray.kill(self._mailbox)
        if self._ours:
            ray.shutdown()


_OWN_SIGNS = f".seen-by-{socket.gethostname()}-"  # of this machine; then pid and a random number


def _sweep_signs(folder: Path) -> None:
    """Remove signs of processes of this machine that were killed."""
    for path in folder.glob(".seen-by-*"):
        pid = path.name.removeprefix(_OWN_SIGNS).partition("-")[0]
        if path.name.startswith(_OWN_SIGNS) and pid.isdecimal() and not psutil.pid_exists(int(pid)):
            path.unlink(missing_ok=True)


def _sources(cell: Cell) -> dict[str, str]:
    """The files of the study's own modules, for machines that do not have them."""
    texts = {}
    for module in cell.resolved.get("sources", {}):
        file = getattr(sys.modules.get(module), "__file__", None)
        if file and module != "__main__" and "." not in module:
            texts[module] = Path(file).read_text()
    return texts


# -- on the cluster ----------------------------------------------------------------------------


class RayLink:
    """A reporter that is reached through the mailbox."""

    def __init__(self, mailbox: Any, key: str) -> None:
        self._mailbox, self._key, self._last_progress = mailbox, key, 0.0
        self.stopping = False

    def begun(self, facts: Mapping[str, Any]) -> None:
        self.stopping = ray.get(self._mailbox.put.remote(self._key, "begun", facts))

    def commit(self, logs: list[RoundLog]) -> None:
        stored, self.stopping = ray.get(self._mailbox.commit.remote(self._key, logs))
        if not stored:
            raise NotStored

    def progress(self, t: int, measured: str) -> None:
        if time.monotonic() - self._last_progress >= PROGRESS_EVERY:
            self._last_progress = time.monotonic()
            self.stopping = ray.get(self._mailbox.put.remote(self._key, "progress", t, measured))


_data_cache = DataCache()  # a Ray worker runs one task after another


def run_task(
    request: CellRequest,
    data: bytes,
    mailbox: Any,
    sign: str,
    sources: Mapping[str, str],
    version: str,
) -> tuple[Any, ...]:
    """Run a cell; its last message is returned, all others go through the mailbox."""
    import torch

    torch.set_num_threads(1)  # sums depend on how many there are
    if version != __version__:
        text = f"this machine has understudy {__version__}, the study was begun with {version}"
        return "failed", text, "error"
    shared = Path(sign).exists()
    with tempfile.TemporaryDirectory() as here:
        if not any(Path(folder).is_dir() for folder in request.path):
            for module, text in sources.items():
                Path(here, f"{module}.py").write_text(text)
            request = replace(request, path=(*request.path, here))
        request = replace(request, data=data, folder=request.folder if shared else None)
        return final_message(request, RayLink(mailbox, request.key), _data_cache)

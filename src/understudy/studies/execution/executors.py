"""What runs the cells of a study, seen from the parent: worker processes, or a thread here."""

from __future__ import annotations

import pickle
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from understudy.simulation.training.pool import ENVIRONMENT
from understudy.simulation.training.processes import Child
from understudy.studies.execution.run_cell import (
    CellRequest,
    DataCache,
    NotStored,
    data_key,
    final_message,
)

if TYPE_CHECKING:
    from understudy.core.types import RoundLog
    from understudy.studies.definition.cell import Cell

SECONDS_TO_END = 10.0  # for a worker that was told to end
TAIL = 4000  # characters of what a dead worker printed

Event = tuple[str, str, tuple[Any, ...]]  # key of the cell, kind, details


class Executor(Protocol):
    """Runs cells; what happens to them comes out of `events`.

    The events of a cell: ``begun(facts)``, ``rounds(logs)``, which is to be answered by `committed`
    or `refused`, ``progress(t, measured)``; at the end ``finished(findings, files)``,
    ``stopped(t)``, ``failed(text, kind)``, or ``died(text)``.
    """

    tries: int  # how often a cell is run whose process dies
    size: int  # cells at once, where it is for us to say

    @property
    def room(self) -> int:
        """How many more cells can be run now."""

    def submit(self, cell: Cell, folder: Path, workers: int, stored: tuple[RoundLog, ...]) -> None:
        """Run a cell; `stored` are its earlier rounds, where an analysis may ask for them."""

    def events(self, timeout: float) -> list[Event]:
        """What happened since; waits for the first event, but not longer than `timeout` seconds."""

    def committed(self, key: str, t: int) -> None:
        """All rounds up to `t` are stored."""

    def refused(self, key: str) -> None:
        """The rounds could not be stored: the cell is to end without a further commit."""

    def stop(self) -> None:
        """Let every cell end after its round."""

    def close(self, kill: bool = False) -> None:
        """End all processes; `kill`: without waiting for their rounds."""


# -- processes ---------------------------------------------------------------------------------


class Worker:
    """A worker process, which runs one cell after another."""

    def __init__(self) -> None:
        self.key: str | None = None  # of the cell it runs
        self.data_key = ""  # of the data it has
        # a file without a name: nothing is left of it, whoever is killed, and when
        self._printed = tempfile.TemporaryFile(prefix="understudy-worker-")  # noqa: SIM115
        output, where = self._printed.fileno(), "understudy.studies.execution.worker"
        self._child = Child(where, "main", output, environment=ENVIRONMENT, descriptors=[output])

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def line(self) -> connection.Connection:
        return self._child.line

    def send(self, what: str, *details: Any) -> None:
        """Send a message; whether the process is alive shows when its own are received."""
        with suppress(OSError):
            self.line.send((what, *details))

    def received(self) -> list[tuple[str, tuple[Any, ...]]]:
        """All messages that came; at the end ``died``."""
        messages: list[tuple[str, tuple[Any, ...]]] = []
        ended = not self._child.alive  # asked first: it may send something and then end
        try:
            while self.line.poll():
                what, *details = self.line.recv()
                messages.append((what, tuple(details)))
        except (EOFError, OSError):
            ended = True
        if ended:
            messages.append(("died", (self._how_it_ended(),)))
        return messages

    def _how_it_ended(self) -> str:
        """How the process ended, and the end of what it printed."""
        code = self._child.exit_code(SECONDS_TO_END)
        how = f"exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"signal {-code}, {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ": killed, or out of memory"
        self._printed.seek(0)  # the place in it is shared with the worker
        printed = self._printed.read().decode(errors="replace").strip()[-TAIL:]
        return f"the worker process died ({how})" + (f"\n\n{printed}" if printed else "")

    def close(self, kill: bool) -> None:
        """End the process, and wait until it is gone."""
        if not kill:
            self.send("end")
            self._child.exit_code(SECONDS_TO_END)
        self._child.end()
        self._printed.close()


class ProcessExecutor:
    """Runs cells in lasting worker processes of this machine; one that dies is replaced."""

    tries = 2

    def __init__(self) -> None:
        self.size = 1
        self._workers: list[Worker] = []
        self._stopped = False

    @property
    def room(self) -> int:
        return self.size - sum(worker.key is not None for worker in self._workers)

    def submit(self, cell: Cell, folder: Path, workers: int, stored: tuple[RoundLog, ...]) -> None:
        needs = data_key(cell)
        free = [worker for worker in self._workers if worker.key is None]
        # the data are there already in one that had them
        free.sort(key=lambda worker: worker.data_key != needs)
        if not free:
            free = [Worker()]
            self._workers += free
        worker = free[0]
        request = CellRequest.of(cell, folder, workers, stored, with_data=worker.data_key != needs)
        worker.key, worker.data_key = cell.key, needs
        worker.send("cell", pickle.dumps(request))
        if self._stopped:
            worker.send("stop")

    def events(self, timeout: float) -> list[Event]:
        if self._workers:
            connection.wait([worker.line for worker in self._workers], timeout)
        else:
            time.sleep(timeout)
        events: list[Event] = []
        for worker in list(self._workers):
            for what, details in worker.received():
                if worker.key is not None:
                    events.append((worker.key, what, details))
                if what in ("finished", "stopped", "failed", "died"):
                    worker.key = None
                if what == "failed":
                    worker.data_key = ""  # it may have failed before it had the data
                if what == "died":
                    self._workers.remove(worker)
                    worker.close(kill=True)
        return events

    def committed(self, key: str, t: int) -> None:
        self._send(key, "committed", t)

    def refused(self, key: str) -> None:
        self._send(key, "refused")

    def _send(self, key: str, what: str, *details: Any) -> None:
        for worker in self._workers:
            if worker.key == key:
                worker.send(what, *details)

    def stop(self) -> None:
        self._stopped = True
        for worker in self._workers:
            worker.send("stop")

    def close(self, kill: bool = False) -> None:
        for worker in self._workers:
            worker.send("end")  # all at once, then waited for
        while self._workers:
            worker = self._workers.pop()
            worker.close(kill or worker.key is not None)


# -- this process ------------------------------------------------------------------------------


class InProcessExecutor:
    """Runs one cell after another in a thread of this process: nothing is to be started.

    For short cells, and to look into one with a debugger. The bits are those of a worker.
    """

    tries = 1

    def __init__(self) -> None:
        self.size = 1
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._key: str | None = None
        self._answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._requests: queue.SimpleQueue[CellRequest | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._refused = False
        self.stopping = False

    @property
    def room(self) -> int:
        return int(self._key is None)

    def submit(self, cell: Cell, folder: Path, workers: int, stored: tuple[RoundLog, ...]) -> None:
        self._key, self._refused = cell.key, False
        if not self._thread.is_alive():
            self._thread.start()
        self._requests.put(CellRequest.of(cell, folder, 1, stored))

    def events(self, timeout: float) -> list[Event]:
        try:
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            return []
        if event[1] in ("finished", "stopped", "failed"):
            self._key = None
        return [event]

    def committed(self, key: str, t: int) -> None:
        self._answers.put(True)

    def refused(self, key: str) -> None:
        self._answers.put(False)

    def stop(self) -> None:
        self.stopping = True

    def close(self, kill: bool = False) -> None:
        self.stopping = True
        if kill:
            self._answers.put(False)  # it may wait for one
        self._requests.put(None)
        if self._thread.is_alive():
            self._thread.join(1.0 if kill else SECONDS_TO_END)

    # -- in the thread -------------------------------------------------------------------------

    def _work(self) -> None:
        before, data_cache = torch.get_num_threads(), DataCache()
        torch.set_num_threads(1)  # sums depend on how many there are
        try:
            while (request := self._requests.get()) is not None:
                self._emit(*final_message(request, self, data_cache))
        finally:
            torch.set_num_threads(before)

    def _emit(self, what: str, *details: Any) -> None:
        assert self._key is not None
        self._events.put((self._key, what, details))

    def begun(self, facts: Mapping[str, Any]) -> None:
        self._emit("begun", facts)

    def commit(self, logs: list[RoundLog]) -> None:
        if not self._refused:
            self._emit("rounds", logs)
            self._refused = not self._answers.get()
        if self._refused:
            raise NotStored

    def progress(self, t: int, measured: str) -> None:
        self._emit("progress", t, measured)

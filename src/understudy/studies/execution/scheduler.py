"""Hands cells to an executor, stores what they report, and knows the state of each."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy._version import __version__
from understudy.core.files import sync_folder
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import CheckpointError
from understudy.server.checkpoint import round_of
from understudy.studies.execution.budget import Budget
from understudy.studies.execution.locks import CellLocks
from understudy.studies.execution.progress import label
from understudy.studies.execution.run_cell import BEGINS_ANEW, NO_ROOM, measured_in
from understudy.studies.store.connection import StoreBusy, StoreFull, StoreMoved
from understudy.studies.store.model_files import cells_folder, write_files
from understudy.studies.store.store import Store

if TYPE_CHECKING:
    from understudy.analysis.findings import Findings
    from understudy.core.types import RoundLog
    from understudy.studies.definition.cell import Cell
    from understudy.studies.execution.executors import Executor
    from understudy.studies.execution.progress import Display
    from understudy.studies.execution.signals import StopSignals

POLL = 0.2  # seconds until signals are looked at again
LOCK_POLL = 1.0  # seconds until a cell that another process runs is looked at again


class Scheduler:
    """The cells that are run by one call, one list after another.

    The store is written here and nowhere else.
    """

    def __init__(
        self, store: Store, runs: Path, executor: Executor, stopping: StopSignals, display: Display
    ) -> None:
        self._store, self._runs, self._executor = store, runs, executor
        self._stopping, self._display = stopping, display
        self._cells_folder = cells_folder(runs)
        self._locks = CellLocks(self._cells_folder)
        self._locks.sweep()
        self._running: dict[str, Cell] = {}
        self._begun: set[str] = set()
        # cells that begin at round 0 though rounds of an earlier try are stored, with their facts:
        # the store is left as it is until the first new rounds come
        self._anew: dict[str, dict[str, Any]] = {}
        self._deaths: dict[str, int] = {}
        self._replayed: set[str] = set()  # cells whose checkpoint was damaged: begun anew
        self._lost: StoreFull | StoreMoved | StoreBusy | None = (
            None  # why nothing more can be stored
        )
        self._n_stored = 0  # rounds
        self._unkept: dict[str, str] = {}  # cells whose rounds cannot be stored, and why
        self.done: list[str] = []  # run to the end now
        self.found: list[str] = []  # finished by another process meanwhile
        self.failed: dict[str, str] = {}

    # -- the loop ------------------------------------------------------------------------------

    def forget(self, cells: Iterable[Cell]) -> None:
        """Drop all that is known of cells, except of those that another process runs now."""
        for cell in cells:
            if self._locks.take(cell.key):
                self._forget(cell.key)
                self._locks.release(cell.key)

    def distrust(self, cell: Cell) -> bool:
        """Whether what is stored of a finished cell is damaged: it then waits to be run anew."""
        damage = self._store.damage(cell.key)
        if not damage or not self._locks.take(cell.key):
            return False
        self._display.say(f"{label(cell.labels, cell.seed)}: starts again: {damage}")
        self._store.fail(cell.key, damage)
        self._drop_folder(cell.key)
        self._locks.release(cell.key)
        return True

    def tidy(self, keys: Iterable[str]) -> None:
        """Drop the memory of finished cells, where a kill left it."""
        for key in keys:
            if self._server(key).exists() and self._locks.take(key):
                self._drop_memory(key)
                self._locks.release(key)

    def run(self, cells: Sequence[Cell], shared_out: Budget | None = None) -> None:
        """Run cells in their order until all have ended or the user stops it."""
        with self._stopping.listening():
            self._run(list(cells), shared_out)

    def _run(self, waiting: list[Cell], shared_out: Budget | None) -> None:
        stopped, look_again = False, 0.0
        while True:
            if self._stopping.at_once:
                self._kill()
                return
            if (self._stopping.asked or self._lost is not None) and not stopped:
                stopped = True
                waiting = []
                self._executor.stop()
                if self._lost is None:
                    self._display.say(
                        "Stopping after the rounds in progress; interrupt again to kill them."
                    )
            if waiting and self._executor.room > 0 and time.monotonic() >= look_again:
                waiting = self._submit_waiting(waiting, shared_out)
                if self._executor.room > 0:  # what is left is being run by other processes
                    look_again = time.monotonic() + LOCK_POLL
            if not self._running and not waiting:
                break
            for key, what, details in self._executor.events(POLL):
                self._handle(key, what, *details)
        if self._lost is not None:
            self._lost.rounds = self._n_stored
            raise self._lost

    def _submit_waiting(self, waiting: list[Cell], shared_out: Budget | None) -> list[Cell]:
        """Begin as many cells as there is room for; returns those that are left, in their order."""
        left: list[Cell] = []
        for position, cell in enumerate(waiting):
            if self._executor.room <= 0:
                return left + waiting[position:]
            if not self._locks.take(cell.key):
                left.append(cell)
            elif self._store.status(cell.key) == "done":
                self._locks.release(cell.key)
                self.found.append(cell.key)
                self._display.ended(cell.key, well=True)
            else:
                n_left = len(self._running) + len(left) + len(waiting) - position
                self._begin(cell, 1 if shared_out is None else shared_out.workers(n_left))
        return left

    def _begin(self, cell: Cell, workers: int) -> None:
        t = self._first_round(cell)
        stored: tuple[RoundLog, ...] = ()
        if cell.task.analysis and t:
            stored = tuple(self._store.logs(cell.key, 0, t))
        self._running[cell.key] = cell
        self._display.begun(cell, t)
        try:
            self._executor.submit(cell, self._cells_folder / cell.key, workers, stored)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            self._fail(cell.key, f"it cannot be sent to another process: {error}")

    def _first_round(self, cell: Cell) -> int:
        """The round that a cell goes on with; a checkpoint that cannot be used is dropped.

        Rounds in the store are not: they stay until new ones take their place.
        """
        key, n_stored = cell.key, self._store.n_rounds(cell.key)
        t, why_not = self._checkpoint(key, n_stored)
        if why_not:
            self._drop_folder(key)
            self._tell_of_replay(cell, why_not)
        self._anew.pop(key, None)
        if t == 0 and n_stored:
            self._anew[key] = {}
        return t

    def _tell_of_replay(self, cell: Cell, why: str) -> None:
        n_stored = self._store.n_rounds(cell.key)
        kept = f"; {n_stored} stored rounds stay until new ones come" if n_stored else ""
        self._display.say(f"{label(cell.labels, cell.seed)}: starts again: {why}{kept}")

    def _checkpoint(self, key: str, n_stored: int) -> tuple[int, str]:
        """The round that a cell's checkpoint goes on with, or 0 and why not."""
        state, version = self._server(key) / STATE, self._store.version(key)
        others = f"its rounds are of understudy {version}, and this is {__version__}"
        if not state.is_file():
            return 0, others if n_stored and version != __version__ else ""
        try:
            t, made_by = round_of(state.parent)
        except (CheckpointError, OSError) as error:
            return 0, f"its checkpoint cannot be read ({error})"
        if made_by != __version__:
            return 0, f"its checkpoint is of understudy {made_by}, and this is {__version__}"
        # the rounds before it must be in the store, which may have been moved away
        if n_stored < t:
            return 0, f"its checkpoint is of round {t}, and {n_stored} rounds are in the store"
        if t and version != __version__:
            return 0, others
        damage = self._store.damage(key) if t else ""
        return (0, damage) if damage else (t, "")

    # -- events of the executor ----------------------------------------------------------------

    def _handle(self, key: str, what: str, *details: Any) -> None:
        try:
            match what:
                case "begun":
                    self._begin_in_store(key, details[0])
                case "rounds":
                    self._keep(key, details[0])
                case "progress":
                    self._display.progress(key, *details)
                case "finished":
                    self._finish(key, *details)
                case "stopped" if key in self._unkept:
                    self._fail(key, self._unkept[key])
                case "stopped":
                    self._end(key)
                case "failed":
                    self._fail(key, *details)
                case "died":
                    self._died(key, details[0])
        except (OSError, StoreMoved, StoreBusy) as error:
            self._lose_store(error)
            if what not in ("begun", "rounds", "progress"):
                self._release(key)

    def _begin_in_store(self, key: str, facts: dict[str, Any]) -> None:
        why_anew = facts.pop(BEGINS_ANEW, "")
        if why_anew:
            self._tell_of_replay(self._running[key], why_anew)
            if self._store.n_rounds(key):
                self._anew[key] = facts
        if key in self._anew:
            self._anew[key] = facts
            return
        self._store.begin(key, self._running[key].resolved, facts, __version__)
        self._begun.add(key)

    def _store_rounds(self, key: str, logs: list[RoundLog]) -> None:
        if key not in self._anew:
            self._store.add_rounds(key, logs)
            return
        resolved = self._running[key].resolved
        self._store.begin_anew(key, resolved, self._anew[key], __version__, logs)
        del self._anew[key]
        self._begun.add(key)

    def _keep(self, key: str, logs: list[RoundLog]) -> None:
        # workers tell of a round now and then only: the last one is known from here
        self._display.progress(key, logs[-1].t + 1, measured_in(logs[-1]))
        if self._lost is None:
            try:
                self._store_rounds(key, logs)
                self._n_stored += len(logs)
            except (OSError, StoreMoved, StoreBusy) as error:
                self._lose_store(error)
            except (TypeError, ValueError, OverflowError) as error:  # of this cell alone
                self._unkept[key] = f"its rounds cannot be kept: {error}"
        if self._lost is None and key not in self._unkept:
            self._executor.committed(key, logs[-1].t)
        else:
            self._executor.refused(key)

    def _finish(self, key: str, findings: Findings | None, files: dict[str, bytes]) -> None:
        """The model is there first, then the cell is done, then its memory is dropped."""
        if files:
            write_files(self._cells_folder / key, files)
        try:
            self._store.finish(key, findings)
        except (TypeError, ValueError) as error:
            self._fail(key, f"what its analysis found cannot be kept: {error}")
            return
        self._drop_memory(key)
        self._release(key)
        self.done.append(key)
        self._display.ended(key, well=True)

    def _fail(self, key: str, text: str, kind: str = "error") -> None:
        if kind == "disk":
            self._lose_store(OSError(NO_ROOM[0], text))
            self._end(key)
            return
        if kind == "checkpoint" and key not in self._replayed:
            self._replay(key, text.partition("\n")[0])
            return
        if key not in self._begun and self._store.status(key) == "waiting":
            self._begin_in_store(key, {})  # without facts: those of an earlier try would be lost
        if key in self._anew:
            text += (
                f"\n\nThe {self._store.n_rounds(key)} rounds stored are of an earlier run, by "
                f"understudy {self._store.version(key)}: this one stored none."
            )
        self._store.fail(key, text)
        self.failed[key] = text
        self._release(key)
        self._display.ended(key, well=False)

    def _replay(self, key: str, why: str) -> None:
        """Run a cell from round 0 whose checkpoint turned out to be damaged; once a call."""
        self._replayed.add(key)
        self._drop_folder(key)
        cell = self._running[key]
        self._display.say(f"{label(cell.labels, cell.seed)}: starts again: {why}")
        if self._stopping.asked or self._lost is not None:
            self._end(key)
        else:
            self._begin(self._running.pop(key), workers=1)

    def _died(self, key: str, text: str) -> None:
        self._deaths[key] = self._deaths.get(key, 0) + 1
        if self._stopping.asked or self._lost is not None:
            self._end(key)
        elif self._deaths[key] < self._executor.tries:
            cell = self._running.pop(key)
            self._begin(cell, workers=1)  # it may have been memory that it lacked
        else:
            times = f"{self._deaths[key]} times: " if self._deaths[key] > 1 else ""
            self._fail(key, times + text)

    def _end(self, key: str) -> None:
        """A cell that can go on."""
        if (key in self._begun or key in self._anew) and not isinstance(
            self._lost, StoreMoved | StoreBusy
        ):
            self._store.stop(key)
        self._release(key)

    def _release(self, key: str) -> None:
        self._anew.pop(key, None)
        del self._running[key]
        self._locks.release(key)

    def _lose_store(self, error: OSError | StoreMoved | StoreBusy) -> None:
        """Nothing more can be stored: all cells are to end; another error is raised again."""
        if isinstance(error, OSError) and error.errno not in NO_ROOM:
            raise error
        if self._lost is None and isinstance(error, StoreMoved | StoreBusy):
            self._lost = error
        elif self._lost is None:
            self._lost = StoreFull(self._runs, shutil.disk_usage(self._runs).free)

    def _kill(self) -> None:
        self._executor.close(kill=True)
        for key in list(self._running):
            self._end(key)

    def close(self) -> None:
        """Release all cells."""
        self._locks.release_all()

    # -- folders -------------------------------------------------------------------------------

    def _server(self, key: str) -> Path:
        return self._cells_folder / key / "server"

    def _drop_memory(self, key: str) -> None:
        shutil.rmtree(self._server(key), ignore_errors=True)

    def _forget(self, key: str) -> None:
        self._store.forget(key)
        self._drop_folder(key)

    def _drop_folder(self, key: str) -> None:
        shutil.rmtree(self._cells_folder / key, ignore_errors=True)
        sync_folder(self._cells_folder)

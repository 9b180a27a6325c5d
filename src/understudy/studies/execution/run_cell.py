"""Runs one cell, in whichever process; its logs go to a reporter, which says when they are safe."""

from __future__ import annotations

import errno
import json
import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle

from understudy.journal.protocol import Journal
from understudy.memory.tensor_stream import CheckpointError
from understudy.memory.writer_lock import FolderInUse
from understudy.studies.definition import plugins
from understudy.studies.definition.cell import DataRecipe
from understudy.studies.definition.identity import source_digest
from understudy.studies.store.model_files import model_files, write_files

if TYPE_CHECKING:
    from understudy.analysis.findings import Findings
    from understudy.core.types import RoundLog
    from understudy.simulation.data.federation import Federation
    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Cell, Label, Task

PATIENCE = 20.0  # seconds that a worker whose parent was killed may take to release a cell
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
BEGINS_ANEW = "begins_anew"  # beside the facts of a cell that begins: why its checkpoint is dropped


class NotStored(Exception):
    """The parent could not store the logs: the cell ends without a further commit."""


@dataclass(frozen=True)
class CellRequest:
    """A cell as it is sent to the process that runs it."""

    key: str
    labels: Mapping[str, Label]
    task: bytes  # pickled by value where it must be, without its data
    data: bytes | None  # None: the process has them from the request before
    data_key: str
    path: tuple[str, ...]
    folder: str | None  # of the cell's checkpoint; None: it keeps none
    workers: int
    sources: Mapping[str, str | None]  # modules of plug-ins → sha256 of their files
    stored: tuple[RoundLog, ...] = ()  # rounds run before, where an analysis may ask for them

    @classmethod
    def of(
        cls,
        cell: Cell,
        folder: Path | None,
        workers: int,
        stored: tuple[RoundLog, ...] = (),
        *,
        with_data: bool = True,
    ) -> CellRequest:
        """The request for a cell; without its data where the process is known to have them."""
        task: Any = cell.task
        return cls(
            key=cell.key,
            labels=dict(cell.labels),
            task=cloudpickle.dumps(task.changed(data=None)),
            data=cloudpickle.dumps(task.data) if with_data else None,
            data_key=data_key(cell),
            path=task.path,
            folder=None if folder is None else str(folder),
            workers=workers,
            sources=dict(cell.resolved.get("sources", {})),
            stored=stored,
        )


@dataclass(frozen=True, eq=False)
class Finished:
    """All rounds are run and the model is written."""

    findings: Findings | None
    files: Mapping[str, bytes]  # of the model, where the cell has no folder to write them to


@dataclass(frozen=True)
class Stopped:
    """Stopped between two rounds; everything up to there is committed."""

    t: int


class Reporter(Protocol):
    """What a cell reports to."""

    @property
    def stopping(self) -> bool:
        """Whether to end after this round."""

    def begun(self, facts: Mapping[str, Any]) -> None: ...

    def commit(self, logs: list[RoundLog]) -> None:
        """Return when the logs are stored; `NotStored` where they cannot be."""

    def progress(self, t: int, measured: str) -> None: ...


class SentLogs(Journal):
    """A journal whose logs are stored by the reporter."""

    def __init__(self, reporter: Reporter, earlier: tuple[RoundLog, ...]) -> None:
        self._reporter, self._earlier = reporter, earlier
        self._unsent: list[RoundLog] = []
        self.facts: Mapping[str, Any] = {}

    def begin(self, run: str, resolved: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        self.facts = facts

    def append(self, log: RoundLog) -> None:
        self._unsent.append(log)

    def flush(self) -> None:
        if self._unsent:
            self._reporter.commit(self._unsent)
            self._unsent = []

    def stored(self, at_most: int) -> Iterator[RoundLog]:
        for log in self._earlier:
            if log.t < at_most:
                yield log


class DataCache:
    """Keeps the data of the last cell: the next one often has the same."""

    def __init__(self) -> None:
        self._key = ""
        self._pickled: bytes | None = None
        self._federation: Federation | None = None

    def federation(self, request: CellRequest) -> Federation:
        """The data of the requested cell."""
        if request.data_key != self._key or self._pickled is None:
            self._federation = None  # two may not fit
            self._key, self._pickled = request.data_key, request.data
        if self._federation is None:
            if self._pickled is None:
                raise RuntimeError(f"{request.key}: was sent without its data")
            data = cloudpickle.loads(self._pickled)
            self._federation = data.federation() if isinstance(data, DataRecipe) else data
        return self._federation


def run_cell(request: CellRequest, reporter: Reporter, data_cache: DataCache) -> Finished | Stopped:
    """Run a cell from its checkpoint, or from the beginning, until its end or until stopped."""
    with _first_on_path(request.path):
        task: Task = cloudpickle.loads(request.task)
        _refuse_edited(request.sources)
        federation = data_cache.federation(request)
        task = task.changed(data=federation)
        run, facts = _opened(task, federation, request, reporter)
        try:
            pooled = {"pooled": True} if task.pooled else {}
            reporter.begun({**facts, "reference": run.constant_scores(), **pooled})
            findings = _run_rounds(run, task, reporter)
            run.close()  # the last logs, and the state that follows them
            if run.state.t < task.rounds:
                return Stopped(run.state.t)
            files = model_files(run.module(), federation, task, request.key, request.labels)
            if request.folder is None:
                return Finished(findings, files)
            write_files(Path(request.folder), files)
            return Finished(findings, {})
        finally:
            with suppress(Exception):  # after an error only the lock matters
                run.close()
            run.state.close()


def final_message(
    request: CellRequest, reporter: Reporter, data_cache: DataCache
) -> tuple[Any, ...]:
    """Run a cell, and put how it ended into a message; an error is one of the ways."""
    try:
        match run_cell(request, reporter, data_cache):
            case Finished(findings, files):
                return "finished", findings, files
            case Stopped(t):
                return "stopped", t
    except (NotStored, KeyboardInterrupt):  # the latter is how Ray calls off a task
        return "stopped", None
    except BaseException as error:
        return "failed", *error_report(error)


_when_imported: dict[str, str | None] = {}  # modules of plug-ins → sha256 of their files then


def _refuse_edited(sources: Mapping[str, str | None]) -> None:
    """The cell is named after its plug-ins as they were when the study was read."""
    for module, digest in sources.items():
        if digest is None or ":" in module:  # what the program itself defines comes by value
            continue
        if module not in _when_imported:
            _when_imported[module] = source_digest(module)
        if (plugins.digest_when_imported(module) or _when_imported[module]) != digest:
            raise RuntimeError(
                f"{module}: its file was edited while the study ran; run the study again, and its "
                "cells are those of the edited file"
            )


def _opened(
    task: Task, federation: Federation, request: CellRequest, reporter: Reporter
) -> tuple[Run, Mapping[str, Any]]:
    """The run and its facts; one is why it begins anew, where a checkpoint is of another engine."""
    from understudy.simulation.run import OtherEngine

    folder = None if request.folder is None else Path(request.folder)
    journal, begins_anew = SentLogs(reporter, request.stored), ""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            run = task.open(federation, folder=folder, journal=journal, workers=request.workers)
            return run, {**journal.facts, BEGINS_ANEW: begins_anew}
        except OtherEngine as error:
            assert folder is not None
            begins_anew = (
                f"its checkpoint was trained by the engine {error.theirs!r}, and here it is "
                f"{error.ours!r}"
            )
            shutil.rmtree(folder / "server")
            journal = SentLogs(reporter, ())
        except FolderInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _run_rounds(run: Run, task: Task, reporter: Reporter) -> Findings | None:
    from understudy.analysis import analyse

    findings = None
    for log in run:
        reporter.progress(log.t + 1, measured_in(log))
        if log.t + 1 == task.rounds and task.analysis:
            findings = analyse(run, task)  # now: memories and trainer are still there
        elif reporter.stopping and run.state.t < task.rounds:
            break  # not while all that is left is to analyse: that takes every log
    if findings is None and task.analysis and run.state.t >= task.rounds:
        findings = analyse(run, task)  # taken up after the last round, whose log is not at hand
    return findings


def data_key(cell: Cell) -> str:
    """Two cells with the same one have the same data, from the same place."""
    data = cell.task.data
    root = str(data.settings.get("root")) if isinstance(data, DataRecipe) else ""
    return json.dumps([cell.resolved["data"], root], sort_keys=True)


def error_report(error: BaseException) -> tuple[str, str]:
    """An error for the store: one line, then where it happened; and its kind.

    The kind is "disk" where there is no room, "checkpoint" where a file of the cell cannot be used,
    else "error".
    """
    trace = "".join(traceback.format_exception(error)).rstrip()
    line = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    kind = "checkpoint" if isinstance(error, CheckpointError) else "error"
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        kind = "disk"
    return f"{line}\n\n{trace}", kind


def measured_in(log: RoundLog) -> str:
    """What is shown of a round while a study runs: an accuracy, else a loss; empty without both."""
    for name, value in log.metrics.items():
        if name.endswith("accuracy"):
            return f"accuracy {value:.1%}"
    losses = [value for name, value in log.metrics.items() if name.endswith("loss")]
    return f"loss {losses[0]:#.4g}" if losses else ""


@contextmanager
def _first_on_path(folders: tuple[str, ...]) -> Iterator[None]:
    before = list(sys.path)
    sys.path[:0] = [folder for folder in folders if folder not in before[: len(folders)]]
    try:
        yield
    finally:
        sys.path[:] = before

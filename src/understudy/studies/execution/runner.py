"""Runs a study: the cells that are not finished, as many at once as the machine allows."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from understudy._version import __version__
from understudy.core import checks
from understudy.studies.definition.build.divisions import check_divisions
from understudy.studies.definition.errors import StudyError
from understudy.studies.execution.budget import budget
from understudy.studies.execution.changed_defaults import changed_defaults
from understudy.studies.execution.executors import Executor, InProcessExecutor, ProcessExecutor
from understudy.studies.execution.locks import study_lock
from understudy.studies.execution.progress import Display, display
from understudy.studies.execution.scheduler import Scheduler
from understudy.studies.execution.signals import StopSignals, command_that_goes_on
from understudy.studies.execution.skipped import Skipped, work_of
from understudy.studies.store.model_files import cell_module, has_model
from understudy.studies.store.report_file import mark_outdated
from understudy.studies.store.store import Store

if TYPE_CHECKING:
    from understudy.studies.definition.cell import Cell
    from understudy.studies.definition.study import Study
    from understudy.studies.definition.tune_table import Picks

__all__ = ["StudyOutcome", "cell_module", "run_study"]

PLACES = ("local", "ray", "here")


@dataclass(frozen=True)
class StudyOutcome:
    """What became of the cells of a study, by their keys; its tuning cells among them.

    Parameters
    ----------
    done : tuple of str
        Run to the end by this call.
    failed : dict
        Each with its error. The same call tries them again.
    skipped : tuple of str
        There already, or left out on request.
    interrupted : bool
        Whether it was stopped before all cells had ended. The same call resumes.
    versions : dict
        Cells among the skipped that another version of this package ran, and which.
    """

    done: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    interrupted: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)


def run_study(
    study: Study,
    folder: str | Path,
    *,
    jobs: int | None = None,
    memory: int | None = None,
    on: Literal["local", "ray", "here"] = "local",
    again: bool = False,
    skip: Collection[str] | Skipped = frozenset(),
    progress: bool = True,
) -> StudyOutcome:
    """Run all cells of a study that are not finished, resuming those that have begun.

    Parameters
    ----------
    study : Study
        What to run.
    folder : path
        The runs folder; several studies may share one, and the cells they have in common.
    jobs : int, optional
        Cells at once, at the most; by default as many as there are cores. Cores that are left work
        inside the cells.
    memory : int, optional
        Bytes that all cells together may need; by default what is free.
    on : {"local", "ray", "here"}
        Worker processes of this machine, a Ray cluster (the one that RAY_ADDRESS names, else one
        on loopback), or one cell after another in this process. The bits do not depend on it.
    again : bool
        Discard what was run before, and start again.
    skip : collection of str, or Skipped
        Keys of cells that are left out; with `exported_in`, also the trials that led to them.
    progress : bool
        Show bars on a terminal, one bar in a notebook, elsewhere a line for each finished cell.

    Returns
    -------
    StudyOutcome
        What became of the cells.

    Raises
    ------
    FolderInUse
        When another process runs the same study and does not end within ten seconds.
    StoreFull
        When the disk is full. All cells have stopped; the same call resumes.
    """
    checks.choice("on", on, PLACES)
    runs = Path(folder)
    shown = display(progress)
    with study_lock(runs / study.name), Store.open(runs, write=True) as store:
        runner = _Runner(study, runs, store, shown, jobs, memory, on, again, Skipped.of(skip))
        outcome = runner.run()
    if outcome.interrupted:
        shown.say(f"Stopped; finished rounds are kept. To resume:\n{command_that_goes_on()}")
    return outcome


@dataclass
class _Runner:
    """The phases of one call."""

    study: Study
    runs: Path
    store: Store
    display: Display
    jobs: int | None
    memory: int | None
    on: str
    again: bool
    skip: Skipped
    skipped: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def run(self) -> StudyOutcome:
        executor = self._executor()  # first: Ray listens to signals too
        kill = True
        try:
            with StopSignals() as stopping:
                scheduler = Scheduler(self.store, self.runs, executor, stopping, self.display)
                try:
                    self._phases(scheduler, executor, stopping)
                    kill = stopping.at_once
                except KeyboardInterrupt:
                    if not stopping.asked:
                        raise
                finally:
                    executor.close(kill)
                    scheduler.close()
        finally:
            self.display.close()
        return StudyOutcome(
            tuple(scheduler.done),
            dict(scheduler.failed),
            (*self.skipped, *scheduler.found),
            stopping.asked,
            dict(self.versions),
        )

    def _executor(self) -> Executor:
        if self.on == "here":
            return InProcessExecutor()
        if self.on == "ray":
            from understudy.studies.execution.ray import RayExecutor

            return RayExecutor(self.runs)
        return ProcessExecutor()

    def _phases(self, scheduler: Scheduler, executor: Executor, stopping: StopSignals) -> None:
        picks: Picks | None = None
        work = work_of(self.study, self.skip)
        trials = work.trials
        self.skipped += work.scores
        check_divisions(
            cell
            for cell in (*trials, *work.cells)
            if cell.key not in self.skip.keys and self.store.status(cell.key) != "done"
        )
        self._tell_changed_defaults(trials or self.study.cells())
        if trials:
            self._announce(trials)
            self._run_cells(scheduler, executor, f"{self.study.name}: tuning", trials)
            if stopping.asked:
                return  # what the cells are is not known yet
        if self.study.tune is not None:
            try:
                picks = self.study.picks(self.store, work.scores)
            except StudyError:
                if not scheduler.failed:
                    raise
                return  # the failed trials are reported
        cells = self.study.cells(picks)
        about = self._about(picks) | _trials_of(trials)
        self.store.save_study(self.study.name, about, cells, __version__)
        left_out = [cell for cell in cells if cell.key in self.skip.keys]
        self.skipped += [cell.key for cell in left_out]
        self._tell_versions(cells)
        self._run_cells(
            scheduler, executor, self.study.name, [c for c in cells if c.key not in self.skip.keys]
        )

    def _about(self, picks: Picks | None = None) -> dict[str, Any]:
        """What the study says of itself, and where its file is: seen from the runs, which may be
        moved together with it."""
        about = self.study.about(picks)
        if self.study.file is not None and not about["built_in"]:
            about["path"] = os.path.relpath(self.study.file, self.runs.resolve())
        if self.skip.folder is not None:
            about["skipped_in"] = os.path.relpath(self.skip.folder.resolve(), self.runs.resolve())
        return about

    def _announce(self, trials: Sequence[Cell]) -> None:
        """Let others see the trials; what an earlier run of the study found stays until picks are
        made."""
        name = self.study.name
        earlier = {stored.name: stored for stored in self.store.studies()}.get(name)
        about = dict(self._about() if earlier is None else earlier.about)
        cells = [] if earlier is None else self.store.cells(name)
        version = __version__ if earlier is None else earlier.version
        self.store.save_study(name, about | _trials_of(trials), cells, version)

    def _run_cells(
        self, scheduler: Scheduler, executor: Executor, title: str, cells: Sequence[Cell]
    ) -> None:
        distinct = list({cell.key: cell for cell in cells}.values())
        if self.again:
            scheduler.forget(distinct)
        finished = [cell for cell in distinct if self.store.status(cell.key) == "done"]
        there = [cell.key for cell in finished if not scheduler.distrust(cell)]
        self._tell_lost_models(there)
        scheduler.tidy(there)
        self.skipped += there
        pending = [cell for cell in distinct if cell.key not in there]
        if not pending:
            return
        mark_outdated(self.runs, self.study.name)
        # Ray looks after its machines; in this process there is one cell at a time
        shared_out = budget(pending, self.jobs, self.memory) if self.on == "local" else None
        words = "" if shared_out is None else shared_out.words
        executor.size = 1 if shared_out is None else shared_out.at_once
        self.display.start(title, pending, len(there), words)
        scheduler.run(pending, shared_out)

    def _tell_lost_models(self, keys: Sequence[str]) -> None:
        lost = [key for key in keys if not has_model(self.runs, key)]
        if lost:
            n, words = len(lost), ", ".join(lost[:3]) + (", …" if len(lost) > 3 else "")
            self.display.say(
                f"{n} finished cell{'s have' if n > 1 else ' has'} no trained model any more "
                f"({words}); --again reruns {'them' if n > 1 else 'it'}"
            )

    def _tell_changed_defaults(self, cells: Sequence[Cell]) -> None:
        told = (
            None if self.again else changed_defaults(self.store, self.study, cells, self.skip.keys)
        )
        if told is not None:
            self.display.say(told)

    def _tell_versions(self, cells: Sequence[Cell]) -> None:
        if self.again:
            return
        for cell in cells:
            version = self.store.version(cell.key)
            if self.store.status(cell.key) == "done" and version not in (None, __version__):
                self.versions[cell.key] = str(version)
        for version in sorted(set(self.versions.values())):
            n = sum(other == version for other in self.versions.values())
            self.display.say(
                f"{n} cell{'s' * (n > 1)} kept that understudy {version} ran (this is "
                f"{__version__}); --again reruns {'them' if n > 1 else 'it'}"
            )


def _trials_of(trials: Sequence[Cell]) -> dict[str, Any]:
    """The trials of a study, as the store keeps them."""
    if not trials:
        return {}
    return {"trials": [[trial.key, dict(trial.labels), trial.seed] for trial in trials]}

"""What one sees while a study runs: bars on a terminal and in a notebook, elsewhere lines."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from understudy.core.printable import one_line, printable
from understudy.studies.definition.cell import Cell
from understudy.studies.execution.notebook_progress import NotebookProgress

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LABEL_WIDTH = 44


class Display(Protocol):
    """Shows what happens to the cells of a study."""

    def start(self, title: str, cells: Sequence[Cell], done: int, words: str) -> None:
        """A phase begins: `cells` are to be run, `done` more are there already."""

    def begun(self, cell: Cell, t: int) -> None: ...

    def progress(self, key: str, t: int, measured: str) -> None: ...

    def ended(self, key: str, well: bool) -> None: ...

    def say(self, text: str) -> None:
        """A line for people."""

    def close(self) -> None: ...


def display(wanted: bool) -> Display:
    """Bars where they can be drawn anew, else a line for each cell; nothing if not wanted."""
    if not wanted:
        return Quiet()
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        return Bars(console)
    if console.is_jupyter:
        return NotebookProgress()
    return Lines()


class Quiet:
    """Shows nothing; what must be said is said on stderr."""

    def start(self, title: str, cells: Sequence[Cell], done: int, words: str) -> None: ...

    def begun(self, cell: Cell, t: int) -> None: ...

    def progress(self, key: str, t: int, measured: str) -> None: ...

    def ended(self, key: str, well: bool) -> None: ...

    def say(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    def close(self) -> None: ...


class Lines:
    """A line on stderr for each cell that has ended: for log files, and for terminals of others."""

    def __init__(self) -> None:
        self._cells: dict[str, Cell] = {}
        self._measured: dict[str, str] = {}  # after the last round
        self._n_ended = self._n_cells = 0

    def start(self, title: str, cells: Sequence[Cell], done: int, words: str) -> None:
        self._cells, self._measured = {cell.key: cell for cell in cells}, {}
        self._n_ended, self._n_cells = done, done + len(cells)
        there = f", {done} of them done already" if done else ""
        noun = "cell" if self._n_cells == 1 else "cells"
        self.say(f"{title}: {self._n_cells} {noun}{there}{f'; {words}' if words else ''}")

    def begun(self, cell: Cell, t: int) -> None: ...

    def progress(self, key: str, t: int, measured: str) -> None:
        last = key in self._cells and t == self._cells[key].task.rounds
        if last and measured:
            self._measured[key] = measured

    def ended(self, key: str, well: bool) -> None:
        if key not in self._cells:
            return
        cell = self._cells[key]
        self._n_ended += 1
        words = f"{cell.task.rounds} rounds" if well else "failed"
        if well and key in self._measured:
            words += f", {self._measured[key]}"
        self.say(f"[{self._n_ended}/{self._n_cells}] {label(cell.labels, cell.seed)}: {words}")

    def say(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    def close(self) -> None: ...


class Bars:
    """A bar for all cells, counted in rounds, and one for each cell that is running."""

    def __init__(self, console: object) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        assert isinstance(console, Console)
        self._progress: Progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[words]}", markup=False),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            transient=True,
        )
        self._all: TaskID | None = None
        self._cells: dict[str, TaskID] = {}
        self._rounds: dict[str, int] = {}  # run, of each cell of this phase
        self._n_ended = self._n_cells = self._n_failed = 0

    def start(self, title: str, cells: Sequence[Cell], done: int, words: str) -> None:
        if self._all is not None:
            self._progress.remove_task(self._all)
        self._rounds = {}
        self._n_ended, self._n_cells, self._n_failed = done, done + len(cells), 0
        total = sum(cell.task.rounds for cell in cells)
        self._all = self._progress.add_task(_short(title), total=total, words=self._counted())
        self._progress.start()
        if words:
            self._print(words, style="dim")

    def begun(self, cell: Cell, t: int) -> None:
        if cell.key in self._cells:  # tried once more
            self._progress.remove_task(self._cells.pop(cell.key))
        rounds = cell.task.rounds
        self._cells[cell.key] = self._progress.add_task(
            _short(label(cell.labels, cell.seed)), total=rounds, completed=t, words=f"{t}/{rounds}"
        )
        self._count(cell.key, t)

    def progress(self, key: str, t: int, measured: str) -> None:
        if key not in self._cells:
            return
        task = self._cells[key]
        words = f"{t}/{self._progress.tasks[self._progress.task_ids.index(task)].total:.0f}"
        if measured:
            words += f" {measured.removeprefix('accuracy '):>6}"
        self._progress.update(task, completed=t, words=words)
        self._count(key, t)

    def _count(self, key: str, t: int) -> None:
        self._rounds[key] = t
        if self._all is not None:
            n_rounds = sum(self._rounds.values())
            self._progress.update(self._all, completed=n_rounds, words=self._counted())

    def _counted(self) -> str:
        failed = f", {self._n_failed} failed" if self._n_failed else ""
        return f"{self._n_ended}/{self._n_cells} cells{failed}"

    def ended(self, key: str, well: bool) -> None:
        self._n_ended += well
        self._n_failed += not well
        if key in self._cells:
            task = self._cells.pop(key)
            total = self._progress.tasks[self._progress.task_ids.index(task)].total
            self._progress.remove_task(task)
            self._count(key, int(total or 0))

    def say(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str, style: str = "") -> None:
        self._progress.console.print(printable(text), markup=False, highlight=False, style=style)

    def close(self) -> None:
        self._progress.stop()


def label(labels: Mapping[str, object], seed: int) -> str:
    """A cell's name for people."""
    return " · ".join([*(str(value) for value in labels.values() if value is not None), str(seed)])


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LABEL_WIDTH else text[: LABEL_WIDTH - 1] + "…"

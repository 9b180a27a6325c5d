"""A bar in a notebook, redrawn in place; it needs nothing but IPython, which is there."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from time import monotonic
from typing import TYPE_CHECKING, Any

from understudy.core.printable import printable

if TYPE_CHECKING:
    from understudy.studies.definition.cell import Cell

REDRAWN_EVERY = 0.25  # seconds, at the most: each drawing is a message to the browser


class NotebookProgress:
    """One bar for all cells of a phase, counted in rounds; what it said last stays."""

    def __init__(self) -> None:
        self._handle: Any = None  # of IPython: where the bar is
        self._title, self._words = "", ""
        self._rounds: dict[str, int] = {}  # of each cell of this phase: all, played
        self._played: dict[str, int] = {}
        self._n_ended = self._n_cells = self._n_failed = 0
        self._began = self._drawn = monotonic()

    def start(self, title: str, cells: Sequence[Cell], done: int, words: str) -> None:
        from IPython.display import display

        self.close()
        self._title, self._words = printable(title), printable(words)
        self._rounds = {cell.key: cell.task.rounds for cell in cells}
        self._played = dict.fromkeys(self._rounds, 0)
        self._n_ended, self._n_cells, self._n_failed = done, done + len(cells), 0
        self._began = self._drawn = monotonic()
        self._handle = display(self, display_id=True)  # type: ignore[no-untyped-call]

    def begun(self, cell: Cell, t: int) -> None:
        self._count(cell.key, t)

    def progress(self, key: str, t: int, measured: str) -> None:
        self._count(key, t)

    def ended(self, key: str, well: bool) -> None:
        self._n_ended += well
        self._n_failed += not well
        self._count(key, self._rounds.get(key, 0))

    def _count(self, key: str, t: int) -> None:
        if key in self._played:
            self._played[key] = t
        if monotonic() - self._drawn >= REDRAWN_EVERY:
            self._draw()

    def _draw(self) -> None:
        if self._handle is not None:
            self._handle.update(self)
            self._drawn = monotonic()

    def say(self, text: str) -> None:
        print(printable(text), flush=True)

    def close(self) -> None:
        """Draw once more, whatever was drawn a moment ago."""
        self._words = ""
        self._draw()
        self._handle = None

    def __repr__(self) -> str:
        """The bar in words."""
        all_rounds, played = sum(self._rounds.values()), sum(self._played.values())
        failed = f", {self._n_failed} failed" if self._n_failed else ""
        seconds = monotonic() - self._began
        left = f", {_clock(seconds * (all_rounds / played - 1))} left" if played else ""
        left = "" if played == all_rounds else left
        share = played / all_rounds if all_rounds else 1.0
        return (
            f"{self._title}: {self._n_ended}/{self._n_cells} cells{failed}, {share:.0%} of the "
            f"rounds, {_clock(seconds)}{left}"
        )

    def _repr_html_(self) -> str:
        all_rounds, played = sum(self._rounds.values()), sum(self._played.values())
        words = f"<br><small>{escape(self._words)}</small>" if self._words else ""
        bar = f'<progress value="{played}" max="{max(all_rounds, 1)}"></progress>'
        return f"{bar} {escape(repr(self))}{words}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

"""When a commit is due: the one rule of server states, of runs, and of the cells of a study."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from understudy.memory.rows import RowStore

COMMIT_EVERY = 2.0  # seconds between two commits, unless somebody wishes otherwise


class CommitTimer:
    """Knows when the last commit was."""

    def __init__(self) -> None:
        self._last = monotonic()

    def due(self, every: float, stores: Iterable[RowStore] = ()) -> bool:
        """Whether `every` seconds have passed, or the spare slots of a row file have run out."""
        return monotonic() - self._last >= every or any(store.crowded for store in stores)

    def committed(self) -> None:
        """All is committed now."""
        self._last = monotonic()

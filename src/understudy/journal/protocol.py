"""What keeps the rounds of a run: a file, a store of studies, or a process that stores them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from understudy.core.types import RoundLog


class Ledger(Protocol):
    """Where the logs of a run are kept."""

    def append(self, log: RoundLog) -> None: ...

    def flush(self) -> None:
        """Come back when all logs are safe: then the state that follows them is committed."""

    def stored(self, at_most: int) -> Iterator[RoundLog]:
        """The logs of the rounds that were played before."""

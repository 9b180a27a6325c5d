"""`KeptLogs`: the rounds of a run in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from understudy.core.types import RoundLog
from understudy.journal.codec import line_of, log_of_line
from understudy.journal.protocol import Journal

LARGE = 4096  # bytes of a log's arrays from which on it is kept compressed


class KeptLogs(Sequence[RoundLog], Journal):
    """The logs of a run, in memory; large ones are compressed, and unpacked when asked for.

    Methods that remember everyone log 25 bytes for each client: of 10,000 clients and 1,000 rounds
    that is 250 MB, and less than 60 MB compressed.
    """

    def __init__(self) -> None:
        self._kept: list[RoundLog | bytes] = []

    def append(self, log: RoundLog) -> None:
        small = sum(array.nbytes for array in _arrays(log)) < LARGE
        self._kept.append(log if small else line_of(log))

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> RoundLog: ...

    @overload
    def __getitem__(self, index: slice) -> list[RoundLog]: ...

    def __getitem__(self, index: int | slice) -> RoundLog | list[RoundLog]:
        if isinstance(index, slice):
            return [_log(kept) for kept in self._kept[index]]
        return _log(self._kept[index])

    def __repr__(self) -> str:
        return f"<logs of {len(self)} round{'s' * (len(self) != 1)}>"


def _log(kept: RoundLog | bytes) -> RoundLog:
    return log_of_line(kept) if isinstance(kept, bytes) else kept


def _arrays(log: RoundLog) -> list[np.ndarray[Any, Any]]:
    values = [*vars(log).values(), *log.client_metrics.values()]
    return [value for value in values if isinstance(value, np.ndarray)]

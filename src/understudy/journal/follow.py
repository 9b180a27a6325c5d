"""`follow`: new rounds of a run, wherever it is kept, while it runs and afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from understudy.core.types import RoundLog
from understudy.journal.file import read_line
from understudy.memory.run_folder import ROUNDS


class Rounds(Protocol):
    """A place that rounds can be read from; files are one, and a store of studies has another."""

    def new(self, since: int) -> Iterator[RoundLog]:
        """Rounds from `since` on that are there now, in order."""


class RoundsFile:
    """The lines of ``rounds.jsonl``: of a simulation's folder, or of a live federation's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._t, self._offset = 0, 0  # the round whose line begins there

    def new(self, since: int) -> Iterator[RoundLog]:
        if not self.path.exists():
            return
        # a resumed run cuts off what it plays again
        if since < self._t or self.path.stat().st_size < self._offset:
            self._t, self._offset = 0, 0
        while line := self._next_line():
            t, self._t, self._offset = self._t, self._t + 1, self._offset + len(line)
            if t >= since:
                yield read_line(self.path, line, t)

    def _next_line(self) -> bytes:
        """Empty where none is complete; the file is not kept open: a reader may never come back."""
        with open(self.path, "rb") as file:
            file.seek(self._offset)
            line = file.readline()
        return line if line.endswith(b"\n") else b""


class Follower:
    """Iterated, it yields the rounds that came since it was iterated last.

    Parameters
    ----------
    place : path or Rounds
        The folder of a simulation or of a live federation, its ``rounds.jsonl``, or another place
        that rounds are read from, such as `understudy.studies.store.followed.StoredRounds`.
    since : int
        The first round to yield.
    """

    def __init__(self, place: str | Path | Rounds, since: int = 0) -> None:
        self._rounds, self._since = _rounds_of(place), since

    def __iter__(self) -> Iterator[RoundLog]:
        for log in self._rounds.new(self._since):
            self._since = log.t + 1
            yield log


def follow(place: str | Path | Rounds, since: int = 0) -> Iterator[RoundLog]:
    """Rounds of a run from `since` on that are there now; see `Follower`, which can be asked again.

    Nothing hooks into the run: what is read has been flushed by it.
    """
    return iter(Follower(place, since))


def _rounds_of(place: str | Path | Rounds) -> Rounds:
    if not isinstance(place, str | Path):
        return place
    path = Path(place)
    return RoundsFile(path if path.suffix == ".jsonl" else path / ROUNDS)

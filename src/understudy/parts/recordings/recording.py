"""`Recording`: when each device was there; and where files of recordings are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MOST_SECONDS = 1e10  # three hundred years: clients' sessions are laid one after another


class Session(NamedTuple):
    """A device is there from `start` until `stop`, in seconds."""

    start: float
    stop: float


@dataclass(frozen=True)
class Recording:
    """What a trace file holds.

    Device i repeats itself: second s of a run is second (s − begins[i]) mod lengths[i] of its
    sessions.
    """

    sessions: tuple[tuple[Session, ...], ...]  # of each device, ascending, none empty
    devices: tuple[str, ...]  # their names, in the order of first mention
    lengths: tuple[float, ...]  # seconds until a device starts again, > 0
    begins: tuple[float, ...]  # the second of a run at which its own second 0 is
    closed: bool = False  # whether a device is still there at the second at which a session stops

    @property
    def end(self) -> float:
        """Seconds of the longest device."""
        return max(self.lengths, default=0.0)


def found(file: str | Path) -> Path:
    """The file itself, or the one of that name among the data sets."""
    file = Path(file)
    roots = [Path(), Path(os.environ.get("UNDERSTUDY_DATA", "data")), Path("data")]
    return next((root / file for root in roots if (root / file).is_file()), file)


def existing(file: str | Path, what: str) -> Path:
    """The same, or an error that says what was expected there."""
    path = found(file)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file, neither here nor under UNDERSTUDY_DATA nor in ./data; expected "
            f"{what}"
        )
    return path


def joined(sessions: Iterable[Session], *, closed: bool = False) -> tuple[Session, ...]:
    """In order, without those that are empty, and those that touch or overlap as one."""
    result: list[Session] = []
    for session in sorted(sessions):
        if session.stop < session.start or (session.stop == session.start and not closed):
            continue
        if result and session.start <= result[-1].stop:
            result[-1] = Session(result[-1].start, max(result[-1].stop, session.stop))
        else:
            result.append(session)
    return tuple(result)

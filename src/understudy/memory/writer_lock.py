"""Who may write: one process at a time, as long as it lives."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from filelock import FileLock, Timeout

from understudy.core.files import no_link_opener, refuse_link
from understudy.core.printable import one_line

MOST_WORDS = 300  # characters that are read of who writes
POLL = 0.1  # seconds between two tries to take a lock
MOMENT = 0.2  # seconds that a writer waits at least: `is_held` may be looking


class FolderInUse(Exception):
    """Another process (or another state of this one) is writing to the folder."""


def taken(path: Path, patience: float = 0.0) -> FileLock | None:
    """The lock at `path`, held until it is released; None where another holds it that long.

    The operating system lets go of it when the process ends, however it ends.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=patience, poll_interval=POLL)
    except Timeout:
        return None
    return lock


def is_held(path: Path) -> bool:
    """Whether a process holds the lock at `path`, found out without writing anything there."""
    try:
        with open(path, "rb", opener=no_link_opener) as file:
            # shared with others who look; a writer who comes in these microseconds waits
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or no right to read it
        return False
    return False


def _text_of(writer: Path) -> str:
    """Who writes, by their own words; anybody's, so they are cut and printable."""
    try:
        with open(writer, encoding="utf-8", errors="replace", opener=no_link_opener) as file:
            text = file.read(MOST_WORDS)
    except OSError:
        return ""
    return " ".join(one_line(text).split())


class WriterLock:
    """The right to write to a folder; the file ``writer`` in it tells the others who has it.

    The folder is made where it is not there. `FolderInUse` says the `refusal` after its name where
    another writer does not end within `patience` seconds.
    """

    def __init__(
        self,
        folder: Path,
        *,
        patience: float = 0.0,
        refusal: str = "already being written by {who}",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        writer = folder / "writer"
        refuse_link(folder / "lock")
        lock = taken(folder / "lock", max(patience, MOMENT))
        if lock is None:
            who = _text_of(writer) or "another process"
            raise FolderInUse(f"{folder}: {refusal.format(who=who)}")
        self._lock = lock
        try:
            with open(writer, "w", opener=no_link_opener) as file:
                file.write(f"pid {os.getpid()} on {socket.gethostname()}")
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write."""
        self._lock.release(force=True)

"""Who may write what: one process for each study, one for each cell, as long as it lives."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from understudy.memory.run_folder import FolderInUse
from understudy.studies.execution.run_cell import NO_ROOM
from understudy.studies.store.store import StoreFull

PATIENCE = 10.0  # seconds until a second run of the same study is refused


@contextmanager
def study_lock(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """The right to run the study that has this folder; `FolderInUse` says who has it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock, writer = FileLock(folder / "lock"), folder / "writer"
    try:
        lock.acquire(timeout=patience, poll_interval=0.1)
    except Timeout:
        who = writer.read_text() if writer.exists() else "another process"
        raise FolderInUse(
            f"{folder}: this study is already being run by {who}; wait for it, or name another "
            "runs folder"
        ) from None
    try:
        try:
            writer.write_text(f"pid {os.getpid()} on {socket.gethostname()}")
        except OSError as error:
            if error.errno in NO_ROOM:
                raise StoreFull(folder.parent, shutil.disk_usage(folder).free) from None
            raise
        yield
    finally:
        lock.release(force=True)


class CellLocks:
    """The cells that this process plays: another study of the same folder may want the same.

    Parameters
    ----------
    folder : path
        Where the locks are.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._held: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Whether the cell is now ours alone; not where another process has it."""
        if key not in self._held:
            lock = FileLock(self._folder / f"{key}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return False
            self._held[key] = lock
        return True

    def release(self, key: str) -> None:
        """Let go of a cell."""
        lock = self._held.pop(key)
        # Removed while it is still ours. Whoever opened it before holds a lock that means nothing
        # any more: it finds in the store how far the cell is, and the cell's own folder has a lock.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release(force=True)

    def release_all(self) -> None:
        for key in list(self._held):
            self.release(key)

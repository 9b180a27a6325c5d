"""Locks: one process for each study, one for each cell, as long as it lives."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from understudy.core.files import refuse_link
from understudy.memory.writer_lock import WriterLock, taken
from understudy.studies.definition.names import is_key
from understudy.studies.execution.run_cell import NO_ROOM
from understudy.studies.store.connection import StoreFull

PATIENCE = 10.0  # seconds until a second run of the same study is refused
BEING_RUN = "this study is already being run by {who}; wait for it, or name another runs folder"


@contextmanager
def study_lock(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """The right to run the study that has this folder; `FolderInUse` says who has it."""
    refuse_link(folder)
    try:
        lock = WriterLock(folder, patience=patience, refusal=BEING_RUN)
    except OSError as error:
        if error.errno in NO_ROOM:
            there = next(place for place in (folder, *folder.parents) if place.exists())
            raise StoreFull(folder.parent, shutil.disk_usage(there).free) from None
        raise
    try:
        yield
    finally:
        lock.release()


class CellLocks:
    """The cells that this process runs: another study of the same folder may want the same."""

    def __init__(self, folder: Path) -> None:
        refuse_link(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._held: dict[str, FileLock] = {}

    def sweep(self) -> None:
        """Remove locks of cells that a process left when it was killed."""
        for path in sorted(self._folder.glob("*.lock")):
            if is_key(path.stem) and not path.is_symlink() and self.take(path.stem):
                self.release(path.stem)

    def take(self, key: str) -> bool:
        """Whether the cell is now ours alone; not where another process has it."""
        if key not in self._held:
            refuse_link(self._folder / key)
            refuse_link(self._folder / f"{key}.lock")
            lock = taken(self._folder / f"{key}.lock")
            if lock is None:
                return False
            self._held[key] = lock
        return True

    def release(self, key: str) -> None:
        """Release a cell."""
        lock = self._held.pop(key)
        # Removed while it is still ours. Whoever opened it before holds a lock that means nothing
        # any more: it finds in the store how far the cell is, and the cell's own folder has a lock.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release(force=True)

    def release_all(self) -> None:
        for key in list(self._held):
            self.release(key)

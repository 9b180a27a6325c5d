"""Connections to the database of a runs folder: opened for reading or writing, errors named."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.core.files import sync_folder
from understudy.studies.store import schema
from understudy.studies.store.schema import StoreError

PATIENCE = 60.0  # seconds that a writer waits for another's transaction
WAL_BYTES = 64 * 2**20  # what the log beside the file is cut to after its contents moved
ALMOST_FULL = 2**20  # bytes free: with fewer, a failed write is put down to the full disk


class StoreFull(OSError):
    """The disk is full; `errno` is ENOSPC. The transaction was undone, what was there is whole."""

    def __init__(self, folder: Path, free: int) -> None:
        super().__init__(errno.ENOSPC, f"the disk is full: {free:,} bytes free", str(folder))
        self.folder, self.free = folder, free

    def __str__(self) -> str:
        return f"{self.folder}: {self.strerror}"


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, names durable."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def for_writing(path: Path) -> sqlite3.Connection:
    new = not path.exists()
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        schema.is_current(connection, str(path), schema.STEPS)  # before a stranger's is changed
        _wait_for_wal(connection)
        # FULL, since a checkpoint may rely on rounds as soon as they are committed: with NORMAL, a
        # power cut could take the last rounds and leave the checkpoint that follows them
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        connection.execute("PRAGMA foreign_keys = ON")
        if not schema.is_current(connection, str(path), schema.STEPS):
            schema.migrate(connection, str(path), schema.STEPS)
        if new:
            sync_folder(path.parent)
    except BaseException:
        connection.close()
        raise
    return connection


def _wait_for_wal(connection: sqlite3.Connection) -> None:
    """Readers beside a writer. The change of mode does not wait by itself for other processes."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def for_reading(path: Path) -> sqlite3.Connection:
    connection = _read_only(path, "mode=ro")
    try:
        schema.version_of(connection)
        return connection
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(path.name + "-wal")
        if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
            raise
    # nobody can write there, so there is nobody to take turns with
    return _read_only(path, "immutable=1")


def _read_only(path: Path, how: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    return sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Errors of the database as ours, with the file's name."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        kind = None if code is None else code & 0xFF
        free = -1
        with suppress(OSError):
            free = shutil.disk_usage(path.parent).free
        if kind == sqlite3.SQLITE_FULL or (
            kind == sqlite3.SQLITE_IOERR and 0 <= free < ALMOST_FULL
        ):
            raise StoreFull(path.parent, free) from error
        if kind in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise StoreError(
                f"{path}: damaged, or no SQLite database ({error}); move it away to begin anew"
            ) from error
        if kind == sqlite3.SQLITE_BUSY:
            raise StoreError(
                f"{path}: another process kept it locked for {PATIENCE:.0f} seconds"
            ) from error
        raise StoreError(f"{path}: {error}") from error

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

from understudy.core.files import refuse_link, sync_folder
from understudy.studies.store import checksums, schema
from understudy.studies.store.schema import StoreError

PATIENCE = 60.0  # seconds that a writer waits for another's transaction
WAL_BYTES = 64 * 2**20  # what the log beside the file is cut to after its contents moved
ALMOST_FULL = 2**20  # bytes free: with fewer, a failed write is put down to the full disk


class StoreFull(OSError):
    """The disk is full; `errno` is ENOSPC. The transaction was undone, what was there is whole.

    `rounds` is how many rounds the call that was stopped had stored before.
    """

    rounds = 0

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


class StoreBusy(StoreError):
    """Another process kept the database locked for too long; nothing was written.

    `rounds` is how many rounds the call that was stopped had stored before.
    """

    rounds = 0


class StoreMoved(StoreError):
    """The database was removed or replaced while it was being written; says where its contents are.

    `rounds` is how many rounds the call that was stopped had stored before.
    """

    rounds = 0


def for_writing(path: Path) -> sqlite3.Connection:
    refuse_link(path)
    new = not path.exists()
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    checksums.define(connection)
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


def migrated_for_reading(path: Path, older: sqlite3.Connection) -> sqlite3.Connection:
    """An older database with today's tables; where nobody may write, a copy of it in memory."""
    try:
        for_writing(path).close()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
        copy = sqlite3.connect(":memory:", isolation_level=None)
        checksums.define(copy)
        older.backup(copy)
        schema.migrate(copy, str(path), schema.STEPS)
        copy.execute("PRAGMA query_only = ON")
        return copy
    finally:
        older.close()
    return for_reading(path)


def _read_only(path: Path, how: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None)
    checksums.define(connection)
    return connection


def file_of(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def rescued(connection: sqlite3.Connection, path: Path) -> Path | None:
    """The contents of a database whose file was removed or replaced, beside it; None: no room.

    The connection still reads the file that it opened, though it has no name any more.
    """
    number = 0
    # a link that leads nowhere exists too: SQLite would make the file that it points to
    while os.path.lexists(copy := path.with_name(f"{path.name}.saved-{number}")):
        number += 1
    try:
        target = sqlite3.connect(copy)
        try:
            connection.backup(target)
        finally:
            target.close()
    except (sqlite3.Error, OSError):
        with suppress(OSError):
            copy.unlink()
        return None
    return copy


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Errors of the database as ours, with the file's name."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite quotes a damaged name in its own message
        raise StoreError(
            f"{path}: damaged: a name in it is no text; move it away to start again"
        ) from error
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
                f"{path}: damaged, or no SQLite database ({error}); move it away to start again"
            ) from error
        if kind == sqlite3.SQLITE_BUSY:
            raise StoreBusy(
                f"{path}: another process kept it locked for {PATIENCE:.0f} seconds"
            ) from error
        raise StoreError(f"{path}: {error}") from error

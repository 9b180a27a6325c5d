"""Crash points and power cuts: what a file system may hold after a process or the power died.

`CrashPoints` counts every call that changes a file (fsync, rename, pwrite, truncate, unlink) and
every statement of SQL, and breaks off before or after the one it is told. `PowerCut` also undoes
what was never synced: contents written since a file's last fsync, and names since the last fsync of
their folder.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CALLS = ("pwrite", "fsync", "replace", "unlink", "ftruncate", "truncate")


class Crash(BaseException):
    """Stands for the kill: nothing of the library catches it."""


class CrashPoints:
    """Lets the calls happen until number `at`; that one breaks off, before or after it is done.

    Parameters
    ----------
    patch : pytest.MonkeyPatch
        Ended by the test.
    at : int
        Which call; calls are counted from 0.
    after : bool
        Whether the call itself is done.
    """

    def __init__(self, patch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.at, self.after, self.count, self.crashed = at, after, 0, False
        self.seen: list[str] = []
        for name in CALLS:
            patch.setattr(os, name, self._counted(name, getattr(os, name)))
        real = sqlite3.connect
        patch.setattr(sqlite3, "connect", lambda *a, **k: Statements(real(*a, **k), self))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.before(name)
            result = real(*arguments, **options)
            self.done()
            return result

        return call

    def before(self, name: str) -> None:
        if self.crashed:
            raise Crash  # a dead process does nothing more
        self.seen.append(name)
        self.count += 1
        if self.count - 1 == self.at and not self.after:
            self.crashed = True
            raise Crash

    def done(self) -> None:
        if self.count - 1 == self.at and self.after:
            self.crashed = True
            raise Crash


class Statements:
    """A connection whose statements are counted. After the crash it is closed as a kill does it."""

    def __init__(self, connection: sqlite3.Connection, points: CrashPoints) -> None:
        self._connection, self._points = connection, points

    def execute(self, statement: str, *arguments: Any) -> Any:
        self._points.before(f"SQL {statement.split()[0]}")
        result = self._connection.execute(statement, *arguments)
        self._points.done()
        return result

    def executemany(self, statement: str, *arguments: Any) -> Any:
        self._points.before(f"SQL {statement.split()[0]}")
        result = self._connection.executemany(statement, *arguments)
        self._points.done()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class PowerCut:
    """Remembers what of a folder is durable, by watching fsync and the names in it.

    A file's contents are durable as of its last fsync; a name (new, renamed, removed) as of the
    last fsync of its folder. `left` is what a power cut at this moment leaves at the least.
    """

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = root
        self._contents: dict[int, bytes] = {}  # inode → as of its last fsync
        self._names: dict[Path, dict[str, int]] = {}  # folder → its durable names
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            self._synced(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

        patch.setattr(os, "fsync", fsync)

    def _synced(self, path: Path) -> None:
        if self.root not in (path, *path.parents):
            return
        if path.is_dir():
            entries = [entry for entry in os.scandir(path) if entry.is_file()]
            self._names[path] = {entry.name: entry.inode() for entry in entries}
        elif path.exists():
            self._contents[path.stat().st_ino] = path.read_bytes()

    def left(self, target: Path) -> None:
        """Write what is durable to `target`: a name whose contents never were is an empty file."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for folder, names in self._names.items():
            place = target / folder.relative_to(self.root)
            place.mkdir(parents=True, exist_ok=True)
            for name, inode in names.items():
                (place / name).write_bytes(self._contents.get(inode, b""))

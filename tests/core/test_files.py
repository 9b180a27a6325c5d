"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from understudy.core.files import replaced, write_file


def test_a_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_file(path, b"old")
    with replaced(path) as file:
        file.write(b"new, ")
        assert path.read_bytes() == b"old"
        file.write(b"and whole")
    assert path.read_bytes() == b"new, and whole"
    assert [inside.name for inside in tmp_path.iterdir()] == ["a.csv"]


def test_what_goes_wrong_in_between_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_file(path, b"old")

    def interrupted() -> None:
        with replaced(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [inside.name for inside in tmp_path.iterdir()] == ["a.csv"]


def test_a_rename_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    write_file(path, b"old")

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", no_room)
        with pytest.raises(OSError, match="No space left"):
            write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [inside.name for inside in tmp_path.iterdir()] == ["a.csv"]


def test_the_file_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        whole = os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        events.append("folder" if whole else f"file of {os.fstat(descriptor).st_size}")
        fsync(descriptor)

    def renamed(source: Path, target: Path) -> None:
        events.append(f"rename to {target.name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_file(tmp_path / "a.csv", b"four")
    assert events == ["file of 4", "rename to a.csv", "folder"]

"""One writer at a time, and the others are told who it is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.memory.writer_lock import FolderInUse, WriterLock, taken

HOLDER = """
import sys
from pathlib import Path
from understudy.memory.writer_lock import WriterLock
lock = WriterLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_told_who_is_first_until_that_one_lets_go(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there yet"
    first = WriterLock(folder)
    here = f"pid {os.getpid()} on {socket.gethostname()}"
    with pytest.raises(FolderInUse) as refused:
        WriterLock(folder)
    assert str(refused.value) == f"{folder}: already being written by {here}"
    with pytest.raises(FolderInUse) as refused:
        WriterLock(folder, patience=0.2, refusal="wait for {who}, or go away")
    assert str(refused.value) == f"{folder}: wait for {here}, or go away"
    first.release()
    WriterLock(folder).release()


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(FolderInUse, match=f"by pid {holder.pid} on "):
            WriterLock(tmp_path)
        holder.kill()
        holder.wait(60)
    WriterLock(tmp_path).release()


def test_a_writer_that_cannot_say_who_it_is_lets_go(tmp_path: Path) -> None:
    (tmp_path / "writer").mkdir()  # so that it cannot be written
    with pytest.raises(IsADirectoryError):
        WriterLock(tmp_path)
    lock = taken(tmp_path / "lock")
    assert lock is not None
    assert taken(tmp_path / "lock") is None
    lock.release()

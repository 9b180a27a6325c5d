"""What processes leave behind: nothing that stays, whenever they were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from understudy import Local, fedavg
from understudy.simulation import clustered_digits
from understudy.simulation.training import pool
from understudy.simulation.training.processes import IDLE, Child
from understudy.studies import Study
from understudy.studies.execution.executors import Worker
from understudy.studies.execution.locks import CellLocks
from understudy.studies.execution.runner import run_study

pytestmark = pytest.mark.process
PATIENCE = 120.0  # seconds


def waited_for(condition: object) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_worker_that_is_killed_at_once_leaves_no_file(temporary: Path) -> None:
    """Before it has read a message, or opened anything."""
    worker = Worker()
    assert list(temporary.iterdir()) == []
    os.kill(worker.pid, signal.SIGKILL)
    assert waited_for(lambda: worker.received()[-1:] != [])
    assert "SIGKILL" in worker.received()[-1][1][0]
    worker.close(kill=True)
    assert list(temporary.iterdir()) == []


def test_what_a_worker_printed_is_in_its_last_words() -> None:
    worker = Worker()
    worker.line.send(("no such message", "at all"))
    worker.line.send(3)  # what cannot be read: it prints a traceback and ends
    assert waited_for(lambda: any(what == "died" for what, _ in worker.received()))
    words = worker.received()[-1][1][0]
    worker.close(kill=True)
    assert "exit code 1" in words
    assert "Traceback" in words


def test_an_idle_worker_is_no_zombie(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends by itself; nobody asks for it any more, and yet it is gone."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.1)
    read, write = os.pipe()
    child = Child(
        "understudy.simulation.training.pool", "serve", 0.1, read,
        environment=pool.ENVIRONMENT, descriptors=[read],
    )  # fmt: skip
    try:
        assert waited_for(lambda: not psutil.pid_exists(child.pid))
        assert not child.alive
        assert child.exit_code(PATIENCE) == IDLE
    finally:
        child.end()
        os.close(read)
        os.close(write)


def test_stray_locks_of_cells_are_removed_and_held_ones_are_not(tmp_path: Path) -> None:
    """A process that is killed leaves its locks' files; those of one that lives are its own."""
    study = Study(
        name="small",
        data=clustered_digits(n_clients=4, n_clusters=2, per_client=8),
        model="softmax",
        strategies={"fedavg": fedavg(local=Local(lr=0.1))},
        rounds=1,
    )
    cells = tmp_path / "cells"
    cells.mkdir()
    stray, held, other = (cells / name for name in ("0" * 16, "1" * 16, "notes"))
    for path in (stray, other):
        path.with_suffix(".lock").touch()
    program = (
        "import sys, time\nfrom filelock import FileLock\n"
        "lock = FileLock(sys.argv[1])\nlock.acquire()\nprint('held', flush=True)\ntime.sleep(600)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(held.with_suffix(".lock"))],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert run_study(study, tmp_path, on="here").done
        found = sorted(path.name for path in cells.glob("*.lock"))
        assert found == sorted([held.name + ".lock", "notes.lock"])
    finally:
        holder.kill()
        holder.communicate()
    locks = CellLocks(cells)
    locks.sweep()
    assert [path.name for path in cells.glob("*.lock")] == ["notes.lock"]


def test_stray_signs_of_this_machine_are_removed(tmp_path: Path) -> None:
    ray = pytest.importorskip("understudy.studies.execution.ray", exc_type=ImportError)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = tmp_path / f"{ray._OWN_SIGNS}{ended.pid}-abc"
    kept = [tmp_path / f"{ray._OWN_SIGNS}{os.getpid()}-abc", tmp_path / ".seen-by-elsewhere-1-abc"]
    for path in (dead, *kept):
        path.touch()
    ray._sweep_signs(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)

"""Full disks: a clean error that names the folder, and the same bits once there is room."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.full_disks import MOUNT_REFUSED, PAGE, ROUNDS
from understudy.core.types import RoundLog
from understudy.journal.file import LogFile

HERE = Path(__file__).parents[2]
NO_ROOM = ("No space left on device", "are free")


def on_full_disks(kind: str, folder: Path, *numbers: list[int]) -> list[dict[str, Any]]:
    """What each case reported: run with disks that only that process sees."""
    words = [json.dumps(one) for one in numbers]
    program = [sys.executable, "-m", "tests.full_disks", kind, str(folder), *words]
    command = ["unshare", "--map-root-user", "--mount", *program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    except FileNotFoundError:
        pytest.skip("no command unshare")
    if done.returncode == MOUNT_REFUSED or "unshare:" in done.stderr:
        pytest.skip("this machine lets nobody mount a disk of their own")
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_runs(folder: Path, ats: list[int], frees: list[int]) -> int:
    """How many cases there were; those without a single free byte all met the full disk."""
    cases = on_full_disks("runs", folder, ats, frees)
    assert len(cases) == 2 * len(ats) * len(frees)
    for case in cases:
        assert case["same"], case
        assert case["left"] == [], case
        if case["text"].startswith("RuntimeError"):
            # the disk was full in the middle of a round: this run object cannot be continued
            assert "make the run again by the same call" in case["text"], case
        elif case["text"]:
            assert case["disk"] in case["text"], case
            assert any(words in case["text"] for words in NO_ROOM), case
        assert case["text"] or not case["case"].endswith("with 0"), case
    return len(cases)


def check_studies(folder: Path, sizes: list[int]) -> int:
    cases = on_full_disks("studies", folder, sizes)
    assert len(cases) == len(sizes)
    for case in cases:
        assert case["same"], case
        assert case["code"] in (0, 1, 3), case
        assert "Traceback" not in case["text"], case
        if case["code"]:
            assert f"{case['disk']}/runs: the disk is full" in case["text"], case
    assert {case["code"] for case in cases} >= {1, 3}
    return len(cases)


@pytest.mark.process
def test_a_run_on_a_full_disk_names_it_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    assert check_runs(tmp_path, [-1, 0, 2], [0, 3 * PAGE]) == 12


@pytest.mark.process
def test_a_study_on_a_full_disk_names_it_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    assert check_studies(tmp_path, [2**17, 96 * PAGE]) == 2


@pytest.mark.full
@pytest.mark.process
@pytest.mark.timeout(1800)
def test_dozens_of_full_disks(tmp_path: Path) -> None:
    runs, studies = tmp_path / "runs", tmp_path / "studies"
    runs.mkdir()
    studies.mkdir()
    frees = [pages * PAGE for pages in (0, 1, 2, 3, 5, 8)]
    n_runs = check_runs(runs, list(range(-1, ROUNDS - 1)), frees)
    n_studies = check_studies(studies, [pages * PAGE for pages in range(16, 160, 6)])
    assert (n_runs, n_studies) == (60, 24)


def test_logs_written_again_after_a_full_disk_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = np.arange(3)
    empty: dict[str, Any] = {"notes": {}, "metrics": {}, "client_metrics": {}}
    made = [RoundLog(t, np.zeros(3, np.int8), (), ids, ids, ids / 3, **empty) for t in range(3)]
    logs = LogFile(tmp_path / "rounds.jsonl", 0)
    logs.append(made[0])
    logs.flush()
    logs.append(made[1])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)  # the line is written by then
        with pytest.raises(OSError, match=r"No space left on device: '.*rounds\.jsonl'"):
            logs.flush()
    logs.append(made[2])
    logs.flush()
    found = list(LogFile(tmp_path / "rounds.jsonl", 3).stored(3))
    assert [one.t for one in found] == [0, 1, 2]
    assert len((tmp_path / "rounds.jsonl").read_bytes().splitlines()) == 3

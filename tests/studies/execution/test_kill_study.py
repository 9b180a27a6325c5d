"""Studies that are interrupted and killed at random moments go on to the same bits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.studies.running import assert_same, contents, study_in
from understudy.core.rng import generator
from understudy.studies.execution.runner import run_study
from understudy.studies.store.store import Store

pytestmark = pytest.mark.process  # it starts and kills processes

WAIT = 240.0  # seconds for what takes five on an idle machine


def wait_until(true: Callable[[], bool], what: str, seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} seconds in vain: {what}"
        time.sleep(0.01)


class Life:
    """A process that runs the study in `folder`, killed at the latest when the test ends."""

    def __init__(self, folder: Path, *overrides: str, runs: Path | None = None, **environment: str):
        self.notes = folder / "notes"
        self.played_before = self.played
        environment = {"COMMIT_EVERY": "0.02", "NOTES": str(self.notes), **environment}
        self._said = open(folder / "said", "w+")  # noqa: SIM115  closed at the end
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(folder / "script.py"), str(folder)),
                *(str(runs or folder / "runs"), *overrides),
            ],
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            process_group=0,
        )

    @property
    def played(self) -> int:
        """Rounds that were begun, over all lives."""
        return self.notes.stat().st_size if self.notes.exists() else 0

    @property
    def said(self) -> str:
        self._said.flush()
        return Path(self._said.name).read_text()

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def wait_for_rounds(self, n: int) -> None:
        """Until this life has begun so many rounds more."""
        goal = self.played + n

        def reached() -> bool:
            assert self.process.poll() is None, f"ended by itself:\n{self.said}"
            return self.played >= goal

        wait_until(reached, f"{n} rounds; it said:\n{self.said}")

    def ended(self) -> int:
        try:
            return self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"never ended; it said:\n{self.said}")

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT)
        self._said.close()


# -- ways to end -----------------------------------------------------------------------------------


def kill_a_cell(life: Life, rng: np.random.Generator) -> None:
    """A worker dies; the parent goes on with its cell in another one."""
    workers = sorted(life.children(), key=lambda child: child.pid)
    victim = workers[int(rng.integers(len(workers)))]
    victim.kill()
    wait_until(lambda: not victim.is_running(), "the parent takes notice of a dead worker")
    life.wait_for_rounds(1)


def kill_the_parent(life: Life, rng: np.random.Generator) -> None:
    """No child outlives it, so the next life finds all locks free."""
    children = life.children()
    assert children
    life.process.kill()
    assert life.ended() == -signal.SIGKILL
    _, alive = psutil.wait_procs(children, WAIT)
    assert not alive, "outlived its parent"


def interrupt(life: Life, rng: np.random.Generator) -> None:
    """Ctrl-C or SIGTERM: rounds end, the command that resumes is printed."""
    children = life.children()
    life.process.send_signal([signal.SIGINT, signal.SIGTERM][int(rng.integers(2))])
    assert life.ended() == 130, life.said
    assert "To resume:\npython " in life.said
    assert not psutil.wait_procs(children, WAIT)[1]


def end_at_random(folder: Path, ways: list[list[Any]], *overrides: str) -> int:
    """One life after another, each ended in some ways; how many kills there were."""
    kills = 0
    for number, life_ends in enumerate(ways):
        rng = generator(number, "kill")
        with Life(folder, *overrides, PACE="0.05") as life:
            life.wait_for_rounds(1)
            for way in life_ends:
                life.wait_for_rounds(int(rng.integers(1, 12)))
                time.sleep(rng.uniform(0, 0.1))
                assert life.process.poll() is None, f"ended by itself:\n{life.said}"
                way(life, rng)
                kills += 1
    return kills


def assert_goes_on_to_the_same_bits(folder: Path, kills: int, **overrides: Any) -> None:
    """Finished in this process, and compared with a run that nobody disturbed."""
    study = study_in(folder, **overrides)
    whole, runs = folder / "whole", folder / "runs"
    n_rounds = sum(cell.task.rounds for cell in study.cells())
    notes = folder / "notes"
    before = notes.stat().st_size
    assert before < n_rounds, "there was nothing left to be played"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NOTES", str(notes))
        patched.setenv("COMMIT_EVERY", "2.0")
        assert not run_study(study, runs, on="here").failed
    # a kill loses the round in progress of two cells, or one whose commit had not ended
    assert notes.stat().st_size <= n_rounds + 4 * kills
    run_study(study, whole, on="here")
    assert_same(contents(runs), contents(whole))


@pytest.mark.timeout(900)
def test_three_kills_and_interrupts_change_no_bit(tmp_path: Path) -> None:
    study_in(tmp_path)
    kills = end_at_random(tmp_path, [[kill_a_cell, interrupt], [kill_the_parent]], "rounds=120")
    assert_goes_on_to_the_same_bits(tmp_path, kills, rounds=120)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_thirty_kills_and_interrupts_change_no_bit(tmp_path: Path) -> None:
    study_in(tmp_path)
    ways = [
        [kill_a_cell, interrupt],
        [kill_the_parent],
        [interrupt],
        [kill_a_cell, kill_the_parent],
    ]
    kills = end_at_random(tmp_path, ways * 5, "rounds=400")
    assert kills == 30
    assert_goes_on_to_the_same_bits(tmp_path, kills, rounds=400)


@pytest.mark.timeout(900)
def test_a_second_ctrl_c_kills(tmp_path: Path) -> None:
    """In the middle of rounds that would take hours."""
    study_in(tmp_path)
    with Life(tmp_path, PACE="10000") as life:
        life.wait_for_rounds(2)
        children = life.children()
        life.process.send_signal(signal.SIGINT)
        wait_until(lambda: "interrupt again to kill them" in life.said, "the first is answered")
        assert life.process.poll() is None
        life.process.send_signal(signal.SIGINT)
        assert life.ended() == 130
        assert not psutil.wait_procs(children, WAIT)[1]
    with Store.open(tmp_path / "runs") as store:
        assert [cell.status for cell in store.cells("small")] == ["stopped"] * 2 + ["waiting"] * 2
    assert_goes_on_to_the_same_bits(tmp_path, kills=1)


# -- two at once -----------------------------------------------------------------------------------


@pytest.mark.timeout(900)
def test_two_studies_that_run_at_once_play_a_shared_cell_once(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    with (
        Life(tmp_path, PACE="0.05") as one,
        Life(tmp_path, 'name="other"', PACE="0.05") as other,
    ):
        assert one.ended() == 0, one.said
        assert other.ended() == 0, other.said
        assert one.played == 4 * 12
    run_study(study, tmp_path / "whole", on="here")
    run_study(study_in(tmp_path, name="other"), tmp_path / "whole", on="here")
    assert_same(contents(tmp_path / "runs"), contents(tmp_path / "whole"))


# -- a disk that is really full --------------------------------------------------------------------

SMALL_DISK = """
mount -t tmpfs -o size=500k tmpfs "$2" || exit 99
"$0" "$1/script.py" "$1" "$2" rounds=60 seeds=1
echo "first $?"
mount -o remount,size=200m "$2" || exit 99
"$0" "$1/script.py" "$1" "$2" rounds=60 seeds=1
echo "second $?"
cp -r "$2" "$3"
"""


@pytest.mark.timeout(900)
def test_a_disk_that_is_really_full_stops_cleanly_and_is_gone_on_with(tmp_path: Path) -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("unshare -rm is refused here: no small disk can be made")
    study = study_in(tmp_path / "study", rounds=60, seeds=1)
    (tmp_path / "disk").mkdir()
    ran = subprocess.run(
        [
            *("unshare", "-rm", "sh", "-c", SMALL_DISK, sys.executable),
            *(str(tmp_path / name) for name in ("study", "disk", "runs")),
        ],
        capture_output=True,
        text=True,
        timeout=WAIT,
        env={**os.environ, "COMMIT_EVERY": "0"},
        check=False,
    )
    if ran.returncode == 99:
        pytest.skip("mounting a tmpfs is refused here: no small disk can be made")
    assert ran.stdout.split("\n")[0] == "first 1", ran.stdout + ran.stderr
    last = [line for line in ran.stderr.split("\n") if "the disk is full" in line][-1]
    assert last.startswith(
        "understudy.studies.store.connection.StoreFull: " + str(tmp_path / "disk")
    )
    assert last.endswith("bytes free")
    assert "second 0" in ran.stdout, ran.stdout + ran.stderr
    run_study(study, tmp_path / "whole", on="here")
    assert_same(contents(tmp_path / "runs"), contents(tmp_path / "whole"))

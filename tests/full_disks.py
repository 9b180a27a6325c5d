"""Fills small disks at many points of runs and studies: started in a mount namespace of its own.

Each case prints one line of JSON. A case that takes the process with it (SIGBUS) is the one after
the last line. Exit code 77: this machine lets nobody mount a disk.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch

import understudy.server.loop as loop
from tests.simulation.small import all_facts, federation
from tests.studies.running import contents
from understudy import FixedDropout, Momentum, Stale, Strategy, fdms, simulate
from understudy.cli import main

MOUNT_REFUSED = 77
PAGE = 4096
STRATEGIES = {"stale": Strategy(compensator=Stale(), server=Momentum()), "fdms": fdms()}
ROUNDS = 5
FULL = -1  # the round after which the disk is full: before the first one

STUDY = """
name = "small"
rounds = 6
seeds = 2
[data]
name = "digits"
partition = "clustered"
n_clients = 8
n_clusters = 2
per_client = 8
[model]
name = "mlp"
hidden = 32
[local]
lr = 0.1
[strategies]
stale = "stale"
fdms = "fdms"
[availability]
half = {name = "fixed_dropout", alpha = 0.5}
"""


def mounted(disk: Path, size: int) -> None:
    """A new, empty disk of this many bytes."""
    disk.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    if subprocess.run(command, capture_output=True).returncode:
        sys.exit(MOUNT_REFUSED)


def fill(disk: Path, free: int) -> None:
    """Leave this many bytes on the disk, at most."""
    with open(disk / "ballast", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(disk).free - free))


def played(run: Any) -> Any:
    """All that a finished run is: its logs and its model, to the bit."""
    logs = list(run)
    return all_facts(logs), run.state.params.numpy().tobytes()


def a_run(disk: Path | None, name: str) -> Any:
    return simulate(
        federation(sizes=(9,) * 12, shape=(40,), dtype=torch.float32),
        STRATEGIES[name],
        model="mlp",
        rounds=ROUNDS,
        seed=1,
        availability=FixedDropout(0.5),
        folder=None if disk is None else disk / "run",
    )


def full_after(disk: Path, name: str, at: int, free: int, *, same_run: bool) -> str:
    """The error of a run whose disk is full after round `at`; then there is room again."""
    try:
        if at == FULL:
            fill(disk, free)
        with a_run(disk, name) as run:
            try:
                for log in run:
                    if log.t == at:
                        fill(disk, free)
            except OSError:
                if same_run:  # as in a notebook: room is made, and the loop is begun again
                    (disk / "ballast").unlink()
                    list(run)
                raise
    except (OSError, RuntimeError) as error:
        (disk / "ballast").unlink(missing_ok=True)
        return f"{type(error).__name__}: {error}"
    (disk / "ballast").unlink(missing_ok=True)
    return ""


def runs(root: Path, ats: list[int], frees: list[int]) -> None:
    loop.COMMIT_EVERY = 0.0
    expected = {name: played(a_run(None, name)) for name in STRATEGIES}
    for number, (name, at, free) in enumerate(itertools.product(STRATEGIES, ats, frees)):
        disk = root / f"run-{number}"
        mounted(disk, 2**22)
        text = full_after(disk, name, at, free, same_run=number % 2 == 1)
        left = sorted(path.name for path in disk.rglob("*.new"))
        with a_run(disk, name) as run:
            same = played(run) == expected[name]
        report(case=f"{name} at {at} with {free}", text=text, same=same, left=left, disk=str(disk))
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def study(file: Path, folder: Path) -> tuple[int, str]:
    """The exit code of the command, and what it printed to stderr."""
    errors = io.StringIO()
    arguments = ["run", str(file), "--folder", str(folder), "--on", "here", "--no-report"]
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        try:
            main(arguments)
        except SystemExit as ended:
            return int(ended.code or 0), errors.getvalue()
    return 0, errors.getvalue()


def studies(root: Path, sizes: list[int]) -> None:
    file = root / "study.toml"
    file.write_text(STUDY)
    code, text = study(file, root / "roomy")
    assert code == 0, text
    expected = contents(root / "roomy")
    for size in sizes:
        disk = root / f"study-{size}"
        mounted(disk, size)
        code, text = study(file, disk / "runs")
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        again, trouble = study(file, disk / "runs")
        assert again == 0, (size, trouble)
        same = contents(disk / "runs") == expected
        report(case=f"study of {size}", code=code, text=text, same=same, disk=str(disk))
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, where, *numbers = sys.argv[1:]
    if kind == "runs":
        runs(Path(where), json.loads(numbers[0]), json.loads(numbers[1]))
    else:
        studies(Path(where), json.loads(numbers[0]))

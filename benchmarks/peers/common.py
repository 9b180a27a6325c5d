"""What every engine's script needs: options, the clock, the process tree, one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.workloads import WORKLOADS, Workload

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Options:
    workload: Workload
    rounds: int
    warmup: int

    @property
    def total(self) -> int:
        return self.warmup + self.rounds


def options(description: str | None) -> Options:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--workload", required=True, choices=sorted(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds")
    parser.add_argument("--warmup", type=int, default=1, help="rounds before, not measured")
    given = parser.parse_args()
    if given.rounds < 1 or given.warmup < 1:
        parser.error("--rounds and --warmup must be at least 1")
    return Options(WORKLOADS[given.workload], given.rounds, given.warmup)


def alone_on_the_network() -> None:
    """Start this process again where only a loopback device exists; return there.

    Ray and torchrun listen on all interfaces, which nobody who runs a benchmark asked for.
    """
    if os.environ.get("BENCH_ALONE"):
        return
    if not shutil.which("unshare") or not shutil.which("ip"):
        sys.exit("needs `unshare` and `ip` (Linux) to keep its ports off the network")
    environment = dict(os.environ, BENCH_ALONE="1")
    flags = "-n" if os.geteuid() == 0 else "-rn"
    inside = 'ip link set lo up && exec "$@"'
    again = [sys.executable, *sys.orig_argv[1:]]
    os.execvpe("unshare", ["unshare", flags, "sh", "-c", inside, "sh", *again], environment)


def process_tree(root: int) -> list[int]:
    """`root` and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it ended meanwhile
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    tree, to_visit = [], [root]
    while to_visit:
        pid = to_visit.pop()
        tree.append(pid)
        to_visit += children.get(pid, [])
    return tree


def tree_pss_mb(root: int) -> float:
    """Memory of the tree in MB, shared pages counted once (proportional set size)."""
    kilobytes = 0
    for pid in process_tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024


def tree_cpu_seconds(root: int) -> float:
    """User and system time of the tree, with that of children already waited for."""
    ticks = 0
    for pid in process_tree(root):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        ticks += sum(int(field) for field in stat.rpartition(")")[2].split()[11:15])
    return ticks / CLOCK_TICKS


def _process_start() -> float:
    """When this process was started, as a time.time()."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    up_at = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    return up_at + int(fields[19]) / CLOCK_TICKS


class Stopwatch:
    """Told at the end of every round; knows which rounds count.

    `root` is the process whose tree is measured: this one unless a launcher stands above it.
    """

    def __init__(self, given: Options, root: int | None = None) -> None:
        self.given = given
        self.root = os.getpid() if root is None else root
        self.started = float(os.environ.get("BENCH_STARTED") or _process_start())
        self.marks: list[float] = []
        self.startup = 0.0
        self.cpu = 0.0
        self.pss = 0.0

    def round_done(self) -> None:
        self.marks.append(time.perf_counter())
        if len(self.marks) == 1:
            self.startup = time.time() - self.started
        if len(self.marks) == self.given.warmup:
            self.cpu = tree_cpu_seconds(self.root)
            self.marks[-1] = time.perf_counter()  # looking at the tree is not part of a round
        if len(self.marks) == self.given.total:
            self.cpu = tree_cpu_seconds(self.root) - self.cpu
            self.pss = tree_pss_mb(self.root)

    def report(self, peer: str, version: str, steps_per_round: float, **more: object) -> None:
        """Print the line, or fail if not the asked work was done."""
        if len(self.marks) != self.given.total:
            sys.exit(f"{len(self.marks)} rounds were made instead of {self.given.total}")
        expected = self.given.workload.steps_per_round
        if steps_per_round != expected:
            sys.exit(f"{steps_per_round} local steps a round were made instead of {expected}")
        counted = self.marks[self.given.warmup - 1 :]
        line = {
            "peer": peer,
            "version": version,
            "workload": self.given.workload.name,
            "seconds_per_round": [round(end - start, 6) for start, end in pairwise(counted)],
            "cpu_seconds_per_round": round(self.cpu / self.given.rounds, 4),
            "steps_per_round": int(steps_per_round),
            "startup_seconds": round(self.startup, 3),
            "pss_mb": round(self.pss, 1),
            **more,
        }
        print(json.dumps(line), flush=True)

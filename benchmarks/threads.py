"""The kernels in threads of one process, and in worker processes: the evidence for threads.

Run, from the top of the project: ``python -m benchmarks.threads`` (``--turns 3``). Each figure is
taken in a process of its own, in turns; ``benchmarks/threads.json`` has the medians. Both ways end
with the same bits, which is checked.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import torch

from benchmarks.models import build
from benchmarks.ours import federation_of, local_of
from benchmarks.workloads import WORKLOADS
from understudy.core.types import Cohort
from understudy.simulation import TrainingTask, local_trainer
from understudy.simulation.training.trainers.loop_trainer import LoopTrainer

NAMES, WAYS = ("W1", "W2", "W3"), ("processes", "threads")
ROUNDS = {"W1": 6, "W2": 4, "W3": 30}


def measure(name: str, way: str, started: float) -> dict[str, float]:
    """Training alone, of a few rounds; the first two are for warming up."""
    workload = WORKLOADS[name]
    torch.set_num_threads(1)
    federation, module = federation_of(workload), build(workload.model)
    local = local_of(workload)
    task = TrainingTask.of(federation, module, local, 0, workers=2, engine="kernels")
    # the other one spreads rounds over worker processes, whichever engine the task has
    trainer = local_trainer(task) if way == "threads" else LoopTrainer(task)
    params, ids, seconds = task.layout.vector(module), np.array(workload.trained), []
    nobody = np.zeros((0, 2), dtype=np.int64)
    for t in range(ROUNDS[name] + 2):
        begin = time.perf_counter()
        arrived = trainer.train(params, Cohort(t, ids, np.ones(len(ids)), ids, nobody))
        seconds.append(time.perf_counter() - begin)
        if t == 0:
            startup = time.time() - started
    me = psutil.Process()
    memory = sum(one.memory_full_info().pss for one in [me, *me.children(recursive=True)])
    return {
        "seconds_per_round": statistics.median(seconds[2:]),
        "startup_seconds": startup,
        "pss_mb": memory / 1e6,
        "sum_of_updates": float(torch.as_tensor(arrived.deltas).double().sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # in a process of its own
    given = parser.parse_args()
    if given.one:
        name, way, started = given.one
        print(json.dumps(measure(name, way, float(started))))
        return
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name in NAMES:
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(given.turns):
            for way in WAYS:
                command = [sys.executable, "-m", "benchmarks.threads", "--one", name, way]
                line = subprocess.check_output([*command, repr(time.time())], text=True)
                found[way].append(json.loads(line))
        assert len({one["sum_of_updates"] for way in WAYS for one in found[way]}) == 1
        figures[name] = {
            way: {key: statistics.median(one[key] for one in found[way]) for key in found[way][0]}
            for way in WAYS
        }
        for way in WAYS:
            told = figures[name][way]
            print(
                f"{name} {way:<10}{told['seconds_per_round']:8.4f} s a round, first round after "
                f"{told['startup_seconds']:.1f} s, {told['pss_mb']:.0f} MB"
            )
    Path(__file__).with_suffix(".json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Where the time of a round goes: the profile of a workload on one core.

Run, from the top of the project: ``python -m benchmarks.round_parts --workload W4``.

CPU milliseconds, medians over the rounds: of the whole round, of its training, and within that of
the kernels' calls and of drawing which examples form each step. What is left is Python around them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch

from benchmarks.models import build
from benchmarks.ours import federation_of, local_of, sampler_of
from benchmarks.workloads import WORKLOADS
from understudy import fedavg
from understudy.simulation import simulate
from understudy.simulation.training import kernel_engine
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.trainers.kernel_trainer import KernelTrainer

WARMUP = 5


class Clock:
    """CPU seconds spent in some functions, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, its time counted."""

        def counted(*args: Any, **more: Any) -> Any:
            begin = time.process_time()
            try:
                return function(*args, **more)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - begin

        return counted


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="W4", choices=sorted(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    workload = WORKLOADS[given.workload]
    torch.set_num_threads(1)
    run = simulate(
        federation_of(workload),
        fedavg(sampler=sampler_of(workload), local=local_of(workload)),
        model=build(workload.model),
        rounds=given.rounds + WARMUP,
        evaluate=(),
        workers=1,
    )
    clock, trainer = Clock(), cast(KernelTrainer, run._trainer)
    engine: KernelEngine = trainer._threads._engine
    engine.library = replace(engine.library, train=clock.around("kernels", engine.library.train))
    kernel_engine.drawn = clock.around("drawing examples", kernel_engine.drawn)
    trainer.train = clock.around("training", trainer.train)  # type: ignore[method-assign]
    found: dict[str, list[float]] = {}
    loop = iter(run)
    for t in range(given.rounds + WARMUP):
        clock.spent.clear()
        begin = time.process_time()
        next(loop)
        clock.spent["whole round"] = time.process_time() - begin
        for name, seconds in clock.spent.items() if t >= WARMUP else ():
            found.setdefault(name, []).append(1000 * seconds)
    whole = statistics.median(found["whole round"])
    for name, spent in sorted(found.items(), key=lambda one: -statistics.median(one[1])):
        middle = statistics.median(spent)
        print(f"{name:18} {middle:9.3f} ms {100 * middle / whole:5.0f} %")


if __name__ == "__main__":
    main()

"""Understudy's own simulation of a workload, reported like a peer's.

Run, from the top of the project: ``python -m benchmarks.ours --workload W1 --rounds 3``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from benchmarks.models import build
from benchmarks.peers import common
from benchmarks.workloads import Workload, client_slice, load_stored
from understudy import fedavg
from understudy.core.roles import Sampler
from understudy.core.types import Floats, Ints, Outcome, RoundEnd, RoundStart, Setup
from understudy.memory.pixels import ByteScale, Pixels
from understudy.parts.local import Local
from understudy.parts.samplers.uniform import Everyone, Uniform
from understudy.simulation import Federation, batch_plan, simulate

WORKERS = 2


@dataclass(frozen=True)
class FixedClients:
    """The same clients in every round."""

    ids: tuple[int, ...]

    def init(self, setup: Setup) -> None:
        return None

    def pick(self, state: None, start: RoundStart) -> tuple[Ints, Floats]:
        return np.array(self.ids), np.ones(len(self.ids))

    def learn(self, state: None, end: RoundEnd) -> None:
        return None


def federation_of(workload: Workload) -> Federation:
    """The workload's data."""
    stored, labels = load_stored(workload)
    examples = torch.from_numpy(stored)
    everything = np.arange(len(labels))
    return Federation(
        x=Pixels(examples, ByteScale()) if workload.pictures else examples,
        y=torch.from_numpy(labels),
        clients=tuple(everything[client_slice(workload, k)] for k in range(len(workload.sizes))),
        test=everything[-1:],
    )


def local_of(workload: Workload) -> Local:
    """How its clients train."""
    passes = {} if workload.epochs is None else {"epochs": workload.epochs}
    return Local(
        lr=workload.lr,
        steps=workload.steps,
        batch_size=workload.batch_size,
        weight_decay=workload.weight_decay,
        **passes,
    )


def sampler_of(workload: Workload) -> Sampler[Any]:
    """Who trains."""
    if workload.cohort is not None:
        return Uniform(workload.cohort)
    everyone = len(workload.trained) == len(workload.sizes)
    return Everyone() if everyone else FixedClients(workload.trained)


def main() -> None:
    given = common.options(__doc__)
    workload = given.workload
    watch = common.Stopwatch(given)
    torch.set_num_threads(1)
    strategy = fedavg(sampler=sampler_of(workload), local=local_of(workload))
    run = simulate(
        federation_of(workload),
        strategy,
        model=build(workload.model),
        rounds=given.total,
        seed=0,
        evaluate=(),
        workers=WORKERS,
    )
    inside: list[float] = []
    came: set[tuple[int, ...]] = set()
    for log in run:
        watch.round_done()
        inside.append(log.timings["round"])
        came.add(tuple(np.flatnonzero(log.outcome == Outcome.CAME).tolist()))
    if workload.cohort is None and came != {workload.trained}:
        raise RuntimeError(f"other clients came than were asked: {came}")
    if {len(ids) for ids in came} != {workload.clients_per_round}:
        raise RuntimeError(f"expected {workload.clients_per_round} clients in each round")
    rng = np.random.default_rng(0)  # every batch of a plan is one step, whatever is in it
    plans = (batch_plan(workload.sizes[client], strategy.local, 0, rng) for client in came.pop())
    steps = sum(len(plan) for plan in plans)
    watch.report(
        "understudy",
        version("understudy-fl"),
        steps,
        seconds_by_its_own_log=[round(seconds, 6) for seconds in inside[given.warmup :]],
        torch=torch.__version__,
        engine=run.engine,
    )


if __name__ == "__main__":
    main()

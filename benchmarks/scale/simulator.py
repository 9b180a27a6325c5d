"""Whole simulations by kernels, of up to 100,000 clients: time a round, memory, start-up, logs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from benchmarks.scale.measuring import Entry, entry, median_of
from understudy import Ignore, Local, Strategy, Uniform
from understudy.simulation import Federation, simulate

EXAMPLES = 10  # of each client: tiny ones


def resident() -> float:
    """Megabytes of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def federation(n: int) -> Federation:
    rng = np.random.default_rng(0)
    size = n * EXAMPLES + 200
    return Federation(
        x=torch.from_numpy(rng.random((size, 60), dtype=np.float32)),
        y=torch.from_numpy(rng.integers(0, 10, size)),
        clients=tuple(np.split(np.arange(size - 200), n)),
        test=np.arange(size - 200, size),
    )


def rounds(n: int, n_rounds: int = 200, asked: int = 1000) -> Iterator[Entry]:
    """Softmax regression 60→10, everything logged to a folder."""
    asked = min(asked, n)
    strategy = Strategy(
        sampler=Uniform(asked),
        compensator=Ignore(),
        local=Local(lr=0.1, epochs=1, batch_size=10),
    )
    with tempfile.TemporaryDirectory() as name:
        data, begin = federation(n), perf_counter()
        run = simulate(
            data, strategy, model="softmax", rounds=n_rounds, evaluate_every=50, folder=name
        )
        spent, memory = [], []
        for log in run:
            spent.append(log.timings["round"])
            memory.append(resident())
            if log.t == 0:
                start = perf_counter() - begin
        logged = (Path(name) / "rounds.jsonl").stat().st_size / n_rounds
    early = min(20, n_rounds // 4)
    yield entry(
        "a simulated round",
        n_clients=n,
        seconds=median_of(spent[1:]),
        asked=asked,
        microseconds_per_asked=round(1e6 * median_of(spent[1:]) / asked, 1),
        start_seconds=round(start, 2),
        megabytes=round(memory[-1]),
        megabytes_more_since_early=round(memory[-1] - memory[early], 1),
        log_bytes_per_round=round(logged),
    )

"""Memories in files: how fast FedAR sums up what it remembers, against a plain read of the file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import torch

from benchmarks.scale.measuring import Entry, entry, forget, median_of, plain_read
from understudy import Arrivals, FedAR, Population, Strategy, Uniform
from understudy.memory.precision import RowFormat
from understudy.server.checkpoint import commit

ROOM = 0.6  # share of the free disk that a memory may take
CACHED = 0.5  # of the free memory: a file that surely stays in the system's cache
ARRIVALS = 20  # updates in the round that is measured, but a quarter of the clients at most


def largest_width(n: int, wanted: int, folder: Path) -> int:
    """d, or less where the disk is too small."""
    free = shutil.disk_usage(folder).free * ROOM
    return int(min(wanted, free / (1.3 * 4 * n)))


def aggregate(n: int, wanted: int, precision: str, folder: Path | None) -> Iterator[Entry]:
    """FedAR's fill and aggregate over everybody's remembered update, from a file not in memory."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        d = largest_width(n, wanted, Path(name))
        came = min(ARRIVALS, n // 4)  # the sum is of the others
        strategy = Strategy(sampler=Uniform(came), compensator=FedAR(precision=precision))
        state = strategy.init(Population(n), torch.zeros(d), seed=0, folder=Path(name) / "run")
        memory = state.compensator
        draw = torch.Generator().manual_seed(0)
        row = torch.randn(d, generator=draw)
        for client in range(n):
            memory.put(client, row.roll(client) * 0.01)
            memory.last_seen[client] = 0
        commit(state)
        path = memory.rows.path
        stored = RowFormat(precision, d, torch.float32)
        size = n * stored.stored_width * stored.stored_dtype.itemsize

        def measured(before: Callable[[], None]) -> tuple[float, float]:
            """Median seconds of three sums, and GB/s of as many plain reads."""
            spent, limits = [], []
            for _ in range(3):
                before()
                limits.append(plain_read(path, size))
                before()
                cohort = strategy.select(state, np.ones(n))
                deltas = torch.randn(len(cohort.asked), d, generator=draw)
                applied = strategy.apply(state, cohort, Arrivals(cohort.asked, deltas))
                spent.append(applied.timings["fill"] + applied.timings["aggregate"])
            return median_of(spent), median_of(limits)

        cached: dict[str, float | None] = {"cached_seconds": None, "cached_share_of_limit": None}
        if size < CACHED * psutil.virtual_memory().available:
            seconds, limit = measured(lambda: None)
            share = size / seconds / 1e9 / limit
            cached = {
                "cached_seconds": round(seconds, 5),
                "cached_share_of_limit": round(share, 3),
            }
        seconds, limit = measured(lambda: forget(path, memory.rows.block().data))
        state.close()
        yield entry(
            f"FedAR: sum of a memory, {precision}",
            n_clients=n,
            seconds=seconds,
            rate=size / seconds / 1e9,
            unit="GB/s",
            limit=limit,
            d=d,
            wanted_d=wanted,
            gigabytes=round(size / 1e9, 2),
            **cached,
        )

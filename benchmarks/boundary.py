"""What the checks before the compiled kernels cost: ``python -m benchmarks.boundary``.

Microseconds of each, the least of many repetitions. Those of a call are made once for each part of
a round that a thread takes, those of a client once for each client, those of a construction once a
run. Written to boundary.json.
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from understudy.core.threads import one_thread
from understudy.simulation import build
from understudy.simulation.training.kernels.chain import chain_of
from understudy.simulation.training.kernels.memory import memory, rows

INT64, FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)
D, N, DRAWN, K = 7850, 60_000, 400, 20


def least(task: Callable[[], object], number: int) -> float:
    """Microseconds."""
    return min(timeit.repeat(task, number=number, repeat=15)) / number * 1e6


def main() -> None:
    x, y = torch.zeros(N, 784), torch.zeros(N, dtype=torch.int64)
    labels, order = y.numpy(), np.random.default_rng(0).integers(0, N, DRAWN)
    vector, matrix = torch.zeros(D), torch.zeros(K, D)
    ints, params = np.zeros(1 + 80 + 2 * DRAWN, dtype=INT64), torch.zeros(D)
    image, cnn = torch.zeros(2, 1, 28, 28), build("fdms_cnn", (1, 28, 28), 10, 0)

    def limited() -> None:
        with one_thread():
            pass

    torch.set_num_threads(1)  # as a run is made
    found = {
        "a call: where the data lie": least(lambda: memory("x", x, FLOAT32, (N, 784)), 2000),
        "a call: where the parameters lie": least(lambda: memory("p", vector, FLOAT32, (D,)), 2000),
        "a call: where the rows lie": least(
            lambda: rows("matrix", matrix, FLOAT32, D, writes=True), 2000
        ),
        "a client: where indices and labels lie": least(
            lambda: memory("ints", ints, INT64, ints.shape, writes=True), 5000
        ),
        f"a client: {DRAWN} labels gathered": least(lambda: labels[order], 5000),
        "a round: shape and type of parameters": least(
            lambda: (tuple(params.shape), params.dtype) == ((D,), torch.float32), 5000
        ),
        "a round: torch and BLAS on one thread": least(limited, 500),
        "a construction: the forward followed": least(lambda: chain_of(cnn, image), 20),
    }
    for name, microseconds in found.items():
        print(f"{microseconds:9.2f} µs  {name}")
    path = Path(__file__).with_name("boundary.json")
    path.write_text(json.dumps({name: round(us, 2) for name, us in found.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()

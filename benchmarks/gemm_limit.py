"""The matrix products of each workload alone, on one core: two yardsticks for all engines.

Run, from the top of the project: ``python -m benchmarks.gemm_limit --workload W1``.

A step is: gather the batch, then per layer the products of the forward pass, of the weight's
gradient and, but for the first layer, of the input's gradient. A convolution counts as the product
of its patches (batch · output pixels, input channels · k²), whose making is not counted.

The first yardstick is the time of these products by ``torch.mm``. It is no limit: they are thin,
and how fast torch's BLAS is on thin products depends on the CPU. The second is: the same
multiply-adds at the speed of a large square product, by torch's BLAS or NumPy's, whichever is
faster here.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.workloads import WORKLOADS, Workload, load

# Of each layer: rows per example, inputs, outputs.
LAYERS = {
    "mnist_cnn": ((24 * 24, 25, 10), (8 * 8, 250, 20), (1, 320, 50), (1, 50, 10)),
    "lenet": ((28 * 28, 75, 6), (10 * 10, 150, 16), (1, 400, 120), (1, 120, 84), (1, 84, 10)),
    "softmax_784": ((1, 784, 10),),
    "softmax_60": ((1, 60, 10),),
    "mlp_200": ((1, 784, 200), (1, 200, 200), (1, 200, 10)),
    "mcmahan_cnn": ((28 * 28, 25, 32), (14 * 14, 800, 64), (1, 3136, 512), (1, 512, 10)),
}
SECONDS = 1.0  # of measuring
LARGE = 1024  # rows and columns of the large product


def one_step(workload: Workload, x: torch.Tensor) -> Callable[[], None]:
    """A function that does the products of one step, into memory that is there already."""
    products = []
    for position, (rows, inputs, outputs) in enumerate(LAYERS[workload.model]):
        n = rows * workload.batch_size
        below, weight = torch.randn(n, inputs), torch.randn(inputs, outputs)
        above = torch.randn(n, outputs)
        products.append((below, weight, torch.empty(n, outputs)))
        products.append((below.T, above, torch.empty(inputs, outputs)))
        if position:
            products.append((above, weight.T, torch.empty(n, inputs)))
    picks = torch.randint(len(x), (1000, workload.batch_size))
    batch = torch.empty(workload.batch_size, *workload.shape)
    turn = 0

    def step() -> None:
        nonlocal turn
        turn = (turn + 1) % len(picks)
        torch.index_select(x, 0, picks[turn], out=batch)
        for left, right, into in products:
            torch.mm(left, right, out=into)

    return step


def multiply_adds(workload: Workload) -> int:
    """Of one step."""
    each = [rows * inputs * outputs for rows, inputs, outputs in LAYERS[workload.model]]
    return workload.batch_size * (2 * each[0] + 3 * sum(each[1:]))


def by_products(workload: Workload) -> float:
    """CPU seconds of one round's products."""
    step = one_step(workload, torch.from_numpy(load(workload)[0]))
    return seconds_of(step) * workload.steps_per_round


def at_full_speed(workload: Workload) -> float:
    """CPU seconds of one round's multiply-adds at the speed of a large product."""
    one, other, into = (torch.randn(LARGE, LARGE) for _ in range(3))
    arrays = [matrix.numpy() for matrix in (one, other, into)]
    with threadpool_limits(1):  # which is faster, depends on the processor
        large = min(
            seconds_of(lambda: torch.mm(one, other, out=into)),
            seconds_of(lambda: np.matmul(*arrays[:2], out=arrays[2])),
        )
    return multiply_adds(workload) * workload.steps_per_round * large / LARGE**3


def seconds_of(step: Callable[[], object]) -> float:
    """CPU seconds of a call: the median of ten spans, so that noise counts less."""
    start = time.process_time()
    made = 0
    while time.process_time() - start < SECONDS / 10:
        step()
        made += 1
    spans = []
    for _ in range(10):
        start = time.process_time()
        for _ in range(made):
            step()
        spans.append((time.process_time() - start) / made)
    return sorted(spans)[5]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the matrix products of a round.")
    parser.add_argument("--workload", required=True, choices=sorted(WORKLOADS))
    workload = WORKLOADS[parser.parse_args().workload]
    torch.set_num_threads(1)
    with torch.inference_mode():
        found = {
            "products_cpu_seconds": round(by_products(workload), 5),
            "at_full_speed_cpu_seconds": round(at_full_speed(workload), 5),
        }
    print(json.dumps({"workload": workload.name, **found}))


if __name__ == "__main__":
    main()

"""The compiled kernels against the loop, net by net: the evidence for the rule that chooses.

Run, from the top of the project: ``python -m benchmarks.engines`` (``--json engines.json`` keeps
the figures, ``--isa avx2`` takes that build). Both engines train the same client in turns, in one
process on one core; a figure is the least CPU time of a step over all turns.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.parts.local import Local
from understudy.simulation.training.convolution_backend import kernels, measure
from understudy.simulation.training.engines import LARGE_STEP
from understudy.simulation.training.jobs import Engine, Job, Recipe
from understudy.simulation.training.kernel_engine import KernelEngine, kernel_plan
from understudy.simulation.training.kernels.library import chosen_isa
from understudy.simulation.training.local_sgd import LoopEngine

N_CLASSES, STEPS, TURNS = 10, 8, 12


@dataclass(frozen=True)
class Case:
    """A net and the batches it is trained in."""

    name: str
    shape: tuple[int, ...]  # of one example
    make: Callable[[], nn.Module]
    batches: tuple[int, ...] = (5, 10, 20, 50)


def mlp(*sizes: int) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return make


def cnn(
    shape: tuple[int, int, int],
    channels: tuple[int, ...],
    kernel: int,
    hidden: tuple[int, ...],
    *,
    same: bool = False,
    pooled: bool = True,
) -> Callable[[], nn.Module]:
    """Convolutions, each with ReLU and (where `pooled`) a maximum of 2 × 2; then a perceptron."""

    def make() -> nn.Module:
        layers: list[nn.Module] = []
        inputs, rows, columns = shape
        for outputs in channels:
            padding = kernel // 2 if same else 0
            layers += [nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.ReLU()]
            inputs, rows, columns = (
                outputs,
                rows + 2 * padding - kernel + 1,
                columns + 2 * padding - kernel + 1,
            )
            if pooled:
                layers.append(nn.MaxPool2d(2))
                rows, columns = rows // 2, columns // 2
        return nn.Sequential(
            *layers, nn.Flatten(), *mlp(inputs * rows * columns, *hidden, N_CLASSES)()
        )

    return make


GREY, COLOUR = (1, 28, 28), (3, 32, 32)
CASES = (
    Case("softmax 60", (60,), mlp(60, 10), (10, 64)),
    Case("softmax 784", (784,), mlp(784, 10), (5, 64, 600)),
    Case("softmax 3072", (3072,), mlp(3072, 10), (10, 64)),
    Case("MLP 784-200-200", (784,), mlp(784, 200, 200, 10), (1, 10, 50, 200)),
    Case("MLP 784-1000-1000", (784,), mlp(784, 1000, 1000, 10), (10, 50, 200)),
    Case("MLP 3072-512-256", (3072,), mlp(3072, 512, 256, 10), (10, 50, 200)),
    Case("MLP 784-2000-2000", (784,), mlp(784, 2000, 2000, 10), (10, 50)),
    Case("CNN 10/20 5×5 (FL-FDMS)", GREY, cnn(GREY, (10, 20), 5, (50,)), (1, 5, 20, 100)),
    Case("LeNet-5 colour", COLOUR, cnn(COLOUR, (6, 16), 5, (120, 84)), (5, 20, 100)),
    Case("CNN 16/32 5×5 same", GREY, cnn(GREY, (16, 32), 5, (128,), same=True)),
    Case("CNN 32/64 5×5 same (McMahan)", GREY, cnn(GREY, (32, 64), 5, (512,), same=True)),
    Case("CNN 32/64 5×5 same colour", COLOUR, cnn(COLOUR, (32, 64), 5, (512,), same=True)),
    Case("CNN 32/64 3×3", GREY, cnn(GREY, (32, 64), 3, (128,))),
    Case("CNN 64/64 5×5 colour", COLOUR, cnn(COLOUR, (64, 64), 5, (384, 192))),
    Case("VGG 16/16/32 3×3 colour", COLOUR, cnn(COLOUR, (16, 16, 32), 3, (64,), same=True)),
    Case("VGG 32/64/128 3×3 colour", COLOUR, cnn(COLOUR, (32, 64, 128), 3, (128,), same=True)),
    Case("VGG 64/128/256 3×3 colour", COLOUR, cnn(COLOUR, (64, 128, 256), 3, (256,), same=True)),
    Case("CNN 8/8 3×3 unpooled", GREY, cnn(GREY, (8, 8), 3, (), pooled=False)),
    Case("CNN 128/128 3×3 8×8", (64, 8, 8), cnn((64, 8, 8), (128, 128), 3, (), same=True)),
)

# Nets on which the rule's threshold was not set: whether it holds for others, too.
FRESH = (
    Case("MLP 561-100", (561,), mlp(561, 100, 10), (16, 128)),
    Case("MLP 784-512-256-128", (784,), mlp(784, 512, 256, 128, 10), (8, 32, 128)),
    Case("MLP 3072-1024", (3072,), mlp(3072, 1024, 10), (8, 32, 64)),
    Case("LeNet 6/16 5×5 grey", GREY, cnn(GREY, (6, 16), 5, (120, 84)), (8, 32, 128)),
    Case("CNN 16/32 3×3", GREY, cnn(GREY, (16, 32), 3, (128,)), (8, 32, 128)),
    Case("CNN 20/50 5×5", GREY, cnn(GREY, (20, 50), 5, (500,)), (8, 32, 128)),
    Case("CNN 32/32/64 3×3 colour", COLOUR, cnn(COLOUR, (32, 32, 64), 3, (64,)), (8, 32, 64)),
    Case("CNN 48/96 5×5 colour", COLOUR, cnn(COLOUR, (48, 96), 5, (256,)), (8, 32)),
)


def milliseconds(case: Case, batch_size: int, turns: int) -> dict[str, float]:
    """CPU time of a step by each engine, and the work that the rule looks at."""
    torch.manual_seed(0)
    module, rng = case.make(), np.random.default_rng(0)
    n = STEPS * batch_size
    x = torch.from_numpy(rng.standard_normal((n, *case.shape), dtype=np.float32))
    y = torch.from_numpy(rng.integers(0, N_CLASSES, n))
    cost = measure(module, x[:1], batch_size)
    local = Local(lr=0.01, steps=STEPS, batch_size=batch_size)
    recipe = Recipe(module, cross_entropy, local, 0, (np.arange(n),), cost.onednn)
    layout = Layout.of(module)
    params = layout.vector(module).clone()
    engines: dict[str, Engine] = {
        "loop": LoopEngine(recipe, x, y),
        "kernels": KernelEngine(recipe, x, y),
    }
    least = dict.fromkeys(engines, np.inf)
    for _ in range(turns):
        for name, engine in engines.items():
            matrix = torch.empty(1, layout.size)
            with kernels(cost.onednn):
                begun = time.process_time()
                engine.train(Job(0, [0], [0], params, matrix))
                took = time.process_time() - begun
            least[name] = min(least[name], took / STEPS * 1e3)
    plan = kernel_plan(recipe, x, y)
    work = batch_size * (plan.multiply_adds + plan.linear_multiply_adds)
    return {name: round(float(value), 4) for name, value in least.items()} | {"work": work}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time both engines on many nets.")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--isa", choices=("avx512", "avx2"), help="the build to take")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--only", default="", help="nets whose name has this in it")
    parser.add_argument("--fresh", action="store_true", help="nets that did not set the threshold")
    given = parser.parse_args()
    if given.isa:
        os.environ["UNDERSTUDY_KERNELS"] = given.isa
    torch.set_num_threads(1)
    rows = []
    for case in FRESH if given.fresh else CASES:
        if given.only not in case.name:
            continue
        for batch_size in case.batches:
            found = milliseconds(case, batch_size, given.turns)
            module = case.make()
            largest = largest_convolution(module, case.shape)
            row = {
                "net": case.name,
                "batch": batch_size,
                "parameters": sum(parameter.numel() for parameter in module.parameters()),
                "largest_convolution": largest,
                **found,
                "ratio": round(found["loop"] / found["kernels"], 2),
                "rule": "loop" if found["work"] > LARGE_STEP else "kernels",
            }
            rows.append(row)
            print(
                f"{case.name:<30} batch {batch_size:>3}  work {found['work']:8.1e}  "
                f"loop {found['loop']:9.3f} ms  kernels {found['kernels']:9.3f} ms  "
                f"{row['ratio']:6.2f}×  {row['rule']}",
                flush=True,
            )
    if given.json:
        about = {"isa": chosen_isa(), "torch": torch.__version__}
        given.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


def largest_convolution(module: nn.Module, shape: tuple[int, ...]) -> int:
    """Multiply-adds of one example in the largest convolution."""
    largest = 0

    def count(layer: nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal largest
        if isinstance(layer, nn.Conv2d):
            largest = max(largest, output.numel() * layer.weight[0].numel())

    for layer in module.modules():
        layer.register_forward_hook(count)
    with torch.no_grad():
        module(torch.zeros(1, *shape))
    return largest


if __name__ == "__main__":
    main()

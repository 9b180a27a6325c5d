"""The kernels never read or write out of bounds: plans run by a C program under the sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import SEED, federation
from tests.simulation.training.kernels.nets import made, recipe, trained
from tests.simulation.training.kernels.test_same_bits import every_layer
from understudy.core.flat import Layout
from understudy.core.rng import generator, torch_seed
from understudy.parts.local import Local, Proximal
from understudy.simulation import build as build_model
from understudy.simulation.training.batches import drawn
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernels import compile as compilation
from understudy.simulation.training.kernels.library import NEEDS, processor_flags

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("run_plan.c")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")


def odd(channels: int, rows: int, columns: int, kernel: int, padding: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 3, kernel, padding=padding), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(3, 2, (2, 3), padding=(2, 1)), nn.Sigmoid(), nn.AvgPool2d(2, 1), nn.Flatten(),
        nn.LazyLinear(13), nn.ReLU(), nn.LazyLinear(10),
    )  # fmt: skip


def odd_net(*numbers: int) -> nn.Module:
    net = odd(*numbers)
    net(torch.zeros(1, *numbers[:3]))  # lazy layers learn their shapes
    return net


NETS = {
    "fdms_cnn": ((1, 28, 28), lambda: build_model("fdms_cnn", (1, 28, 28), 10, 1)),
    "lenet5": ((3, 32, 32), lambda: build_model("lenet5", (3, 32, 32), 10, 1)),
    "mlp": ((61,), lambda: build_model("mlp", (61,), 10, 1)),
    "softmax": ((7,), lambda: build_model("softmax", (7,), 10, 1)),
    "every layer": ((3, 28, 21), every_layer),
    "5 × 5": ((1, 5, 5), lambda: odd_net(1, 5, 5, 1, 0)),
    "33 × 6": ((7, 33, 6), lambda: odd_net(7, 33, 6, 5, 2)),
    "17 × 31": ((2, 17, 31), lambda: odd_net(2, 17, 31, 4, 1)),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """``program(isa, bits)``: the C program with the kernels in it, sanitized."""
    folder, made = tmp_path_factory.mktemp("sanitized"), {}
    if not compilation.supported():
        pytest.skip("the kernels are compiled on x86-64 Linux only")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")

    def compiled(isa: str, bits: int) -> Path:
        path = folder / f"{isa}-{bits}"
        if path not in made:
            flags = [flag for flag in compilation.FLAGS if flag not in ("-shared", "-O2")]
            command = ["gcc", *flags, *SANITIZERS, *compilation.INSTRUCTIONS[isa]]
            command += [f"-DBITS={bits}", f"-I{compilation.SOURCE.parent}", str(PROGRAM)]
            command += ["-o", str(path), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            made[path] = path
        return made[path]

    return compiled


def written(path: Path, engine: KernelEngine, module: nn.Module, correction: np.ndarray) -> None:
    """The first client's round, as the program reads it."""
    plan, local = engine.plan, engine.recipe.local
    held = engine.recipe.clients[0]
    batches = drawn(len(held), local, 0, generator(SEED, "batches", 0, 0))
    order = held[batches.examples]
    rates = [local.lr_at(0), local.weight_decay, local.rule.mu, local.momentum]
    seed = torch_seed(SEED, "dropout", 0, 0)
    arrays = [
        *(plan.head, plan.ops, plan.offsets, plan.taps),
        *(engine.x.numpy(), engine.y.numpy()[order], order, batches.lengths, np.array(rates)),
        *(Layout.of(module).vector(module).numpy(), correction),
        *(np.array([plan.size, seed]), np.array(plan.spans)),
    ]
    with path.open("wb") as file:
        file.write(np.int64(len(arrays)).tobytes())
        for array in arrays:
            file.write(np.int64(array.nbytes).tobytes() + np.ascontiguousarray(array).tobytes())


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("isa", ["plain", "avx2", "avx512"])
def test_nothing_is_touched_outside_its_array(build, program, tmp_path, isa, dtype, net):
    if not NEEDS.get(isa, set()) <= processor_flags():
        pytest.skip(f"this processor has no {isa}")
    shape, make = NETS[net]
    number = getattr(torch, dtype)
    data, module = federation((23, 4), shape, 10, dtype=number), made(make, number)
    for terms in ({}, {"momentum": 0.9, "weight_decay": 0.1, "rule": Proximal(0.1)}):
        local = Local(lr=0.05, epochs=2, batch_size=9, **terms)
        engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build(dtype))
        correction = np.zeros((2, engine.plan.d if terms else 0), dtype=dtype)
        written(tmp_path / "plan", engine, module, correction[0])
        bits = np.dtype(dtype).itemsize * 8
        done = subprocess.run([program(isa, bits), tmp_path / "plan"], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        corrections = torch.from_numpy(correction) if terms else None
        matrix, ((_, loss),) = trained(engine, module, [0], corrections=corrections)
        assert done.stdout[:-8] == matrix[0].numpy().tobytes(), "the bits are those of the build"
        assert np.frombuffer(done.stdout[-8:])[0] / 46 == loss


@pytest.mark.parametrize("isa", ["plain", "avx2"])
def test_a_step_beyond_an_array_is_noticed(build, program, tmp_path, isa):
    """A plan that says a wrong number: one image more than there is room for, a shorter arena."""
    if not NEEDS.get(isa, set()) <= processor_flags():
        pytest.skip(f"this processor has no {isa}")
    data = federation((23, 4), (1, 28, 28), 10, dtype=torch.float32)
    module = made(NETS["fdms_cnn"][1], torch.float32)
    local = Local(lr=0.05, epochs=1, batch_size=23)
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build("float32"))
    engine.plan.head[7] = 23  # the chunk
    assert engine.plan.chunk < 23
    written(tmp_path / "plan", engine, module, np.zeros(0, dtype=np.float32))
    done = subprocess.run([program(isa, 32), tmp_path / "plan"], capture_output=True)
    assert done.returncode != 0
    assert b"AddressSanitizer" in done.stderr

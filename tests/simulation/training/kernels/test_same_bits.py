"""Same bits: whoever is trained with whom, in which thread, by which build of which compiler."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import federation
from tests.simulation.training.kernels.nets import made, recipe, trained
from understudy.parts.local import Local, Proximal
from understudy.simulation import build as build_model
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernels.library import Library, Unavailable, loaded

SIZES = (40, 7, 31, 1, 64)


def every_layer() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 7, (3, 2), padding=(1, 2)), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(7, 5, 3, bias=False), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout(0.3),
        nn.Conv2d(5, 11, (1, 3), padding=1), nn.MaxPool2d(3, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(66, 33), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(33, 10),
    )  # fmt: skip


CASES = {
    "fdms_cnn": ((1, 28, 28), lambda: build_model("fdms_cnn", (1, 28, 28), 10, 1), {}),
    "lenet5": ((3, 32, 32), lambda: build_model("lenet5", (3, 32, 32), 10, 1), {}),
    "mlp": ((45,), lambda: build_model("mlp", (45,), 10, 1), {"momentum": 0.5}),
    "softmax": ((784,), lambda: build_model("softmax", (784,), 10, 1), {"weight_decay": 0.01}),
    "every layer": (
        (3, 28, 21),
        every_layer,
        {"weight_decay": 0.01, "momentum": 0.9, "rule": Proximal(0.1)},
    ),
}


def results(library: Library, case: str, dtype: str) -> tuple[bytes, ...]:
    """All bits of two clients' rounds, with and without corrections."""
    shape, make, terms = CASES[case]
    number = getattr(torch, dtype)
    data, module = federation(SIZES, shape, 10, dtype=number), made(make, number)
    local = Local(lr=0.05, epochs=2, batch_size=9, **terms)
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=library)
    d, rng = engine.plan.d, np.random.default_rng(0)
    corrections = torch.from_numpy(0.1 * rng.normal(size=(5, d))).to(number)
    found = []
    for more in ({}, {"corrections": corrections}):
        matrix, losses = trained(engine, module, range(5), **more)
        assert torch.isfinite(matrix).all()
        assert matrix.abs().max(dim=1).values.min() > 1e-4, "everyone moved"
        found += [matrix.numpy().tobytes(), np.array(losses).tobytes()]
    outputs = engine.outputs(matrix[0], np.arange(len(data.y)))
    return *found, outputs.numpy().tobytes()


def assert_same_bits(build, isa: str, cc: str | None, dtype: str) -> None:
    other, own = build(dtype, isa, cc), build(dtype)
    for case in CASES:
        assert results(other, case, dtype) == results(own, case, dtype), case


def test_both_installed_builds(build):
    for isa in ("avx2", "avx512"):
        assert_same_bits(build, isa, None, "float32")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("isa", ["avx512", "avx2", "plain"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_every_compiler_and_instruction_set(build, cc, isa, dtype):
    assert_same_bits(build, isa, cc, dtype)


def test_the_installed_library_is_compiled_from_this_source(build):
    for dtype in (np.float32, np.float64):
        try:
            library = loaded(np.dtype(dtype))
        except Unavailable as reason:
            pytest.skip(str(reason))
        own = build(dtype)
        name = np.dtype(dtype).name
        assert results(library, "every layer", name) == results(own, "every layer", name)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_of_a_client_depend_on_nobody_else(build, case, dtype):
    """Alone, together, in another order, in another row."""
    shape, make, terms = CASES[case]
    number = getattr(torch, dtype)
    data, module = federation(SIZES, shape, 10, dtype=number), made(make, number)
    local = Local(lr=0.05, epochs=2, batch_size=9, **terms)
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build(dtype))
    together, losses = trained(engine, module, range(5), t=2)
    shuffled, shuffled_losses = trained(engine, module, [3, 1, 4, 0, 2], t=2)
    for position, client in enumerate([3, 1, 4, 0, 2]):
        assert torch.equal(shuffled[position], together[client])
        assert shuffled_losses[position] == losses[client]
    for client in range(5):
        alone, result = trained(engine, module, [client], t=2)
        assert torch.equal(alone[0], together[client])
        assert result == [losses[client]]
    other_round, _ = trained(engine, module, [0], t=3)
    assert not torch.equal(other_round[0], together[0])


def test_threads_train_side_by_side(build):
    """An engine to each: they share nothing but the library and the data."""
    shape, make, terms = CASES["every layer"]
    data, module = federation(SIZES, shape, 10, dtype=torch.float32), made(make, torch.float32)
    local = Local(lr=0.05, epochs=3, batch_size=9, **terms)

    def one(client: int) -> tuple[torch.Tensor, list[tuple[int, float]]]:
        engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build("float32"))
        matrix, losses = trained(engine, module, [client])
        return matrix[0], losses

    expected = [one(client) for client in range(5)]
    with ThreadPoolExecutor(4) as pool:
        for _, found in itertools.product(range(3), [list(pool.map(one, range(5)))]):
            for (row, losses), (own, own_losses) in zip(found, expected, strict=True):
                assert torch.equal(row, own)
                assert losses == own_losses

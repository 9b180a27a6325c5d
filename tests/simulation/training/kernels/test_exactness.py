"""The kernels against torch: float64 over several steps, float32 in single ones.

In float32, and over several steps, a near-tie of a maximum pooling can send two right results
apart; in float64 it does not happen here.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.simulation.small import federation
from tests.simulation.training.kernels.nets import (
    apart,
    assert_like_torch,
    by_kernels,
    by_loop,
    by_torch_with_masks,
    made,
    recipe,
)
from understudy.core.flat import Layout
from understudy.parts.local import Local, Proximal
from understudy.simulation import build as build_model
from understudy.simulation.training.dropout import factors
from understudy.simulation.training.evaluation import outputs_of
from understudy.simulation.training.kernel_engine import KernelEngine

SIZES = (9, 12, 5)
MIXED = {"lr": 0.1, "epochs": 2, "batch_size": 4}  # short last batches: 1, none, 1

TERMS = {
    "plain": {},
    "weight decay": {"weight_decay": 0.05},
    "momentum": {"momentum": 0.9},
    "proximal": {"rule": Proximal(0.7)},
    "all": {"weight_decay": 0.05, "momentum": 0.9, "rule": Proximal(0.7)},
}


def small_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["softmax", "mlp", "fdms_cnn", "lenet5", "fedgs_fmnist"])
def test_built_in_models(build, name, dtype):
    shape = (3, 32, 32) if name == "lenet5" else (1, 28, 28)
    data = federation(SIZES, shape, n_classes=10, dtype=dtype)
    module = made(lambda: build_model(name, shape, 10, seed=1), dtype)
    library = build(str(dtype).removeprefix("torch."))
    if dtype == torch.float64:
        assert_like_torch(library, module, data, Local(**MIXED), [0, 1, 2])
    else:
        single = Local(lr=0.1, steps=1, batch_size=5)
        assert_like_torch(library, module, data, single, [0, 1, 2], within=1e-5)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize(
    "length",
    [
        {"steps": 1, "batch_size": 4},
        {"steps": 7, "batch_size": 3},
        {"epochs": 2, "batch_size": 4},
        {"epochs": 2, "batch_size": 1},
        {"epochs": 2, "batch_size": 100},  # more than anybody has
    ],
    ids=str,
)
def test_terms_of_the_update(build, terms, length):
    data = federation(SIZES, (2, 10, 11), n_classes=5)
    local = Local(lr=0.2, **length, **TERMS[terms])
    assert_like_torch(build("float64"), made(small_net), data, local, [0, 1, 2])


def test_starts_and_corrections_of_each_row(build):
    data, module = federation(SIZES, (2, 10, 11), n_classes=5), made(small_net)
    d, rng = Layout.of(module).size, np.random.default_rng(3)
    vectors = {
        name: torch.from_numpy(0.3 * rng.normal(size=(3, d))) for name in ("starts", "corrections")
    }
    seen = []
    for names in (("starts",), ("corrections",), ("starts", "corrections"), ()):
        some = {name: vectors[name] for name in names}
        for terms in ("plain", "all"):
            local = Local(**MIXED, **TERMS[terms])
            matrix, _ = assert_like_torch(build("float64"), module, data, local, [2, 0, 1], **some)
            seen.append(matrix)
    for i, one in enumerate(seen):
        assert all(apart(one, other) > 1e-3 for other in seen[:i]), "each had its effect"


@pytest.mark.parametrize("t", [0, 1, 40])
def test_growing_batches_and_schedules(build, t):
    """Batches of 2, 4 and 82 out of 70, 90 and 5 examples: one goes in several chunks."""
    data, module = federation((70, 90, 5), (2, 10, 11), n_classes=5), made(small_net)
    local = Local(lr=0.3, epochs=1, batch_size=2, batch_growth=1, schedule=lambda t: 1 / (1 + t))
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build("float64"))
    chunk = engine.plan.chunk
    assert chunk < 82
    _, results = assert_like_torch(build("float64"), module, data, local, [0, 1, 2], t=t)
    assert [steps for steps, _ in results] == {
        0: [35, 45, 3], 1: [18, 23, 2], 40: [1, 2, 1],
    }[t]  # fmt: skip


# -- any chain of layers ---------------------------------------------------------------------------

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
POOLS = {
    "max 2": lambda: nn.MaxPool2d(2),
    "max 3": lambda: nn.MaxPool2d(3),
    "max 3, 2": lambda: nn.MaxPool2d(3, 2),
    "max 2×1": lambda: nn.MaxPool2d((2, 1)),
    "average 2": lambda: nn.AvgPool2d(2),
    "average 3": lambda: nn.AvgPool2d(3),
    "average 2×3, 1×2": lambda: nn.AvgPool2d((2, 3), (1, 2)),
}


@st.composite
def chains(draw):
    """(module, shape of an example, number of classes): nets of one to three blocks."""
    channels, rows, columns = (
        draw(st.integers(1, 7)),
        draw(st.integers(5, 33)),
        draw(st.integers(5, 33)),
    )
    shape, layers = (channels, rows, columns), []

    def activation() -> None:
        kind = draw(st.sampled_from(["none", *ACTIVATIONS]))
        if kind != "none":
            layers.append(ACTIVATIONS[kind]())

    if draw(st.booleans()):
        activation()
    for _ in range(draw(st.integers(0, 3))):
        kernel = draw(st.integers(1, 5)), draw(st.integers(1, 5))
        padding = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        sides = (rows + 2 * padding[0] - kernel[0] + 1, columns + 2 * padding[1] - kernel[1] + 1)
        if min(sides) < 1:
            break
        outputs, bias = draw(st.integers(1, 7)), draw(st.booleans())
        layers.append(nn.Conv2d(channels, outputs, kernel, padding=padding, bias=bias))
        (rows, columns), channels = sides, outputs
        activation()
        pool = draw(st.sampled_from(["none", *POOLS]))
        if pool != "none" and min(rows, columns) >= 3:
            layers.append(POOLS[pool]())
            _, channels, rows, columns = layers[-1](torch.zeros(1, channels, rows, columns)).shape
            activation()
    layers.append(nn.Flatten())
    units, n_classes = channels * rows * columns, draw(st.integers(2, 19))
    for _ in range(draw(st.integers(0, 2))):
        hidden = draw(st.integers(1, 40))
        layers.append(nn.Linear(units, hidden, bias=draw(st.booleans())))
        activation()
        units = hidden
    layers.append(nn.Linear(units, n_classes, bias=draw(st.booleans())))
    return nn.Sequential(*layers), shape, n_classes


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(
    chain=chains(),
    batch_size=st.integers(1, 17),
    size=st.integers(1, 40),
    terms=st.sampled_from(list(TERMS)),
    seed=st.integers(0, 2**20),
)
def test_any_chain_of_any_shape(build, chain, batch_size, size, terms, seed):
    net, shape, n_classes = chain
    torch_state = torch.get_rng_state()
    torch.manual_seed(seed)
    for part in net.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    torch.set_rng_state(torch_state)
    data = federation((size,), shape, n_classes)
    local = Local(lr=0.05, steps=3, batch_size=batch_size, **TERMS[terms])
    assert_like_torch(build("float64"), net.double(), data, local, [0])
    single = Local(lr=0.05, steps=1, batch_size=batch_size, **TERMS[terms])
    expected, _ = by_loop(net, data, single, [0])
    halved = federation((size,), shape, n_classes, dtype=torch.float32)
    largest = float(Layout.of(net).vector(net).abs().max())
    found, _ = by_kernels(build("float32"), net.float(), halved, single, [0])
    # an update is a difference of weights, and these are rounded
    rounding = 2**-23 * largest
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max() + rounding


@pytest.mark.parametrize("n_classes", [1, 2, 3, 15, 16, 17, 62, 130])
def test_numbers_of_classes(build, n_classes):
    data = federation(SIZES, (37,), n_classes)
    module = made(lambda: nn.Linear(37, n_classes))
    if n_classes == 1:  # the only class is certain: nothing moves
        matrix, results = by_kernels(build("float64"), module, data, Local(**MIXED), [0, 1, 2])
        assert not matrix.any()
        assert [loss for _, loss in results] == [0, 0, 0]
    else:
        assert_like_torch(build("float64"), module, data, Local(**MIXED), [0, 1, 2])


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 30.0, 1e4])
def test_activations_of_small_and_large_numbers(build, kind, scale):
    """Outputs of the forward pass, element by element: relative to torch's, in both types."""
    for dtype, within in (("float64", 1e-15), ("float32", 3e-7)):
        data = federation((50,), (200,), n_classes=200)
        x = (scale * data.x).to(getattr(torch, dtype))
        module = nn.Sequential(ACTIVATIONS[kind](), nn.Linear(200, 200, bias=False)).to(x.dtype)
        with torch.no_grad():
            module[1].weight.copy_(torch.eye(200))
        data = type(data)(x, data.y, data.clients, data.test, n_classes=200)
        engine = KernelEngine(recipe(module, data, Local()), data.x, data.y, library=build(dtype))
        found = engine.outputs(Layout.of(module).vector(module), np.arange(50)).double()
        expected = ACTIVATIONS[kind]()(x[:50].double())
        tiny = 1e-300 if dtype == "float64" else 1e-37
        wrong = (found - expected).abs() > within * expected.abs() + tiny
        assert not wrong.any(), (found[wrong], expected[wrong])


def test_outputs_are_those_of_the_module(build):
    data = federation(SIZES, (3, 32, 32), n_classes=10, n_test=150)
    module = made(lambda: build_model("lenet5", (3, 32, 32), 10, seed=1))
    engine = KernelEngine(recipe(module, data, Local()), data.x, data.y, library=build("float64"))
    params = Layout.of(module).vector(module)
    found = engine.outputs(params, data.test)
    expected = outputs_of(module, data.x, data.test)
    assert found.shape == (150, 10)
    assert apart(found, expected) <= 1e-13
    few = engine.outputs(params, data.test[40:43])
    assert torch.equal(few, found[40:43]), "whoever else is asked"
    assert engine.outputs(params, data.test[:0]).shape == (0, 10)


# -- dropout ---------------------------------------------------------------------------------------


def dropout_net(p: float) -> nn.Module:
    return nn.Sequential(
        nn.Dropout(p),
        nn.Conv2d(2, 3, 3),
        nn.Dropout(p),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 20),
        nn.ReLU(),
        nn.Dropout(p),
        nn.Linear(20, 5),
    )


@pytest.mark.parametrize("p", [0.5, 0.1, 0.75])
@pytest.mark.parametrize("t", [0, 3])
def test_dropout_has_the_masks_of_the_addressed_generator(build, p, t):
    data, module = federation(SIZES, (2, 10, 11), n_classes=5), made(lambda: dropout_net(p))
    local = Local(**MIXED)
    found, _ = by_kernels(build("float64"), module, data, local, [0, 1, 2], t=t)
    for client in range(3):
        expected = by_torch_with_masks(module, data, local, client, t)
        assert apart(found[client], expected) <= 1e-12


def test_dropout_in_chunks_and_in_evaluation(build):
    """Positions count through the batch, whatever the chunks; in evaluation nothing is dropped."""
    data = federation((150,), (3, 32, 32), n_classes=5)
    module = made(
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 5), nn.Dropout(0.5), nn.Flatten(), nn.Linear(6 * 28 * 28, 5)
        )
    )
    local = Local(lr=0.01, steps=2, batch_size=150)
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build("float64"))
    assert engine.plan.chunk < 150
    found, _ = by_kernels(build("float64"), module, data, local, [0])
    assert apart(found[0], by_torch_with_masks(module, data, local, 0)) <= 1e-12
    outputs = engine.outputs(Layout.of(module).vector(module), data.test)
    assert apart(outputs, outputs_of(module, data.x, data.test)) <= 1e-13


def test_factors_are_what_dropout_asks_for():
    kept = factors(seed=1, step=0, layer=0, n=200_000, p=0.25)
    assert set(kept.tolist()) == {0.0, 1 / 0.75}
    assert np.mean(kept == 0) == pytest.approx(0.25, abs=0.004)  # four standard deviations
    assert (factors(1, 0, 0, 1000, 0.0) == 1).all()
    whole = factors(1, 0, 0, 100, 0.5)
    np.testing.assert_array_equal(factors(1, 0, 0, 90, 0.5, first=10), whole[10:])
    streams = [
        factors(seed, step, layer, 4000, 0.5) == 0
        for seed, step, layer in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (2**63 - 1, 5, 2)]
    ]
    for i, one in enumerate(streams):
        for other in streams[:i]:  # independent: half of the places agree
            assert np.mean(one == other) == pytest.approx(0.5, abs=0.04)
        assert np.mean(one[1:] == one[:-1]) == pytest.approx(0.5, abs=0.04)

"""Softmax regression by the kernels against the general loop, in float64 where values count."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import SEED, cohort, federation
from tests.simulation.training.kernels.nets import recipe, trained
from understudy.core.flat import Layout
from understudy.parts.local import Local, Proximal, Scaffold
from understudy.simulation import Federation, TrainingTask, local_trainer
from understudy.simulation import build as build_model
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.local_sgd import LoopEngine


def linear(bias: bool = True, dtype: torch.dtype = torch.float64, features: int = 6) -> nn.Module:
    return build_model(lambda: nn.Linear(features, 3, bias=bias), (features,), 3, seed=1).to(dtype)


def assert_the_same(library, module, data, local, clients, t=0, **vectors):
    """Kernels and loop give the same updates, numbers of steps and losses."""
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=library)
    found = trained(engine, module, clients, t, **vectors)
    loop = trained(
        LoopEngine(recipe(module, data, local), data.x, data.y), module, clients, t, **vectors
    )
    assert loop[0].abs().amax(dim=1).min() > 1e-4, "every client moved"
    torch.testing.assert_close(found[0], loop[0], rtol=1e-10, atol=1e-13)
    for (steps, loss), (loop_steps, loop_loss) in zip(found[1], loop[1], strict=True):
        assert steps == loop_steps
        assert loss == pytest.approx(loop_loss, rel=1e-10)
    return found


SINGLE = {"lr": 0.1, "steps": 1, "batch_size": 4}
SETTINGS = {
    "plain": {},
    "weight decay": {"weight_decay": 0.05},
    "momentum": {"momentum": 0.9},
    "proximal": {"rule": Proximal(0.7)},
    "all": {"weight_decay": 0.05, "momentum": 0.9, "rule": Proximal(0.7)},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "length",
    [
        {"steps": 1, "batch_size": 4},
        {"steps": 7, "batch_size": 3},
        {"epochs": 3, "batch_size": 3},  # sizes 8, 12, 5: last batches of 2, 3, 2
        {"epochs": 2, "batch_size": 100},  # more than anybody has
        {"epochs": 1, "batch_size": 1},
    ],
    ids=str,
)
def test_softmax_regression_equals_the_loop(build, setting, length):
    local = Local(lr=0.3, **length, **SETTINGS[setting])
    assert_the_same(build("float64"), linear(), federation(), local, [0, 1, 2])


@pytest.mark.parametrize(
    "local", [Local(**SINGLE), Local(lr=0.2, epochs=3, batch_size=3)], ids=["single", "several"]
)
@pytest.mark.parametrize("bias", [True, False])
def test_starts_and_corrections_of_each_row(build, local, bias):
    """As `Scaffold` sends them: a correction is added to each gradient, of weights and biases."""
    module, data = linear(bias), federation()
    d = Layout.of(module).size
    rng = np.random.default_rng(3)
    corrections = torch.from_numpy(rng.normal(size=(3, d)))
    starts = torch.from_numpy(rng.normal(size=(3, d)))
    for vectors in ({"corrections": corrections}, {"starts": starts}):
        assert_the_same(build("float64"), module, data, local, [2, 0, 1], **vectors)
    matrix, _ = assert_the_same(
        build("float64"), module, data, local, [2, 0, 1], corrections=corrections, starts=starts
    )
    without, _ = assert_the_same(build("float64"), module, data, local, [2, 0, 1])
    assert not torch.allclose(matrix, without)


def test_corrections_of_scaffold_through_the_trainer():
    data, module = federation(), linear()
    local = Local(lr=0.2, epochs=2, batch_size=3, rule=Scaffold())
    params = Layout.of(module).vector(module)
    shifts = torch.from_numpy(np.random.default_rng(1).normal(size=(3, len(params))))
    asked = cohort([1, 2], correction=lambda client: shifts[client])
    arrivals = local_trainer(TrainingTask.of(data, module, local, SEED)).train(params, asked)
    loop = LoopEngine(recipe(build_model(module, (), 0, 0), data, local), data.x, data.y)
    expected, results = trained(loop, module, [1, 2], corrections=shifts[[1, 2]])
    torch.testing.assert_close(arrivals.deltas, expected, rtol=1e-10, atol=1e-13)
    assert arrivals.n_steps.tolist() == [steps for steps, _ in results] == [8, 4]


@pytest.mark.parametrize("t", [0, 1, 5])
def test_growing_batches_and_schedules(build, t):
    """Batches of 2, 4 and 12 out of 8, 12 and 5 examples."""
    local = Local(lr=0.3, epochs=2, batch_size=2, batch_growth=1, schedule=lambda t: 1 / (1 + t))
    _, results = assert_the_same(build("float64"), linear(), federation(), local, [0, 1, 2], t)
    assert [steps for steps, _ in results] == {
        0: [8, 12, 6], 1: [4, 6, 4], 5: [2, 2, 2],
    }[t]  # fmt: skip


def test_flatten_in_front_and_very_unequal_clients(build):
    """Layers that put the weights elsewhere."""
    sizes = tuple(int(size) for size in np.random.default_rng(0).integers(1, 60, 40))
    data = federation(sizes, (2, 3, 40))
    module = build_model(
        lambda: nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(240, 3))), (), 0, 2
    ).double()
    assert_the_same(
        build("float64"), module, data, Local(lr=0.05, epochs=2, batch_size=40), range(40)
    )


def test_bits_of_a_client_depend_on_nobody_else(build):
    """Alone, together, in another order, in another row: in float32 and in float64."""
    sizes = (50, 7, 31, 50, 1, 64, 33, 12, 5, 40, 22)
    for dtype, features in ((torch.float32, 61), (torch.float32, 784), (torch.float64, 17)):
        data = federation(sizes, (features,), dtype=dtype)
        local = Local(lr=0.1, epochs=2, batch_size=8, momentum=0.5, weight_decay=0.01)
        module = linear(dtype=dtype, features=features)
        engine = KernelEngine(
            recipe(module, data, local),
            data.x,
            data.y,
            library=build(str(dtype).removeprefix("torch.")),
        )
        together, losses = trained(engine, module, range(len(sizes)))
        assert torch.isfinite(together).all()
        order = np.random.default_rng(4).permutation(len(sizes))
        shuffled, shuffled_losses = trained(engine, module, order.tolist())
        for position, client in enumerate(order):
            assert torch.equal(shuffled[position], together[client])
            assert shuffled_losses[position] == losses[client]
        for client in range(len(sizes)):
            alone, result = trained(engine, module, [client])
            assert torch.equal(alone[0], together[client])
            assert result == [losses[client]]
        few, _ = trained(engine, module, [4, 1, 8])
        assert torch.equal(few, together[[4, 1, 8]])


@pytest.mark.parametrize("batch_size", [1, 2, 3, 10, 64])
@pytest.mark.parametrize("n_classes", [2, 10, 62])
def test_bits_of_a_client_depend_on_nobody_else_whatever_the_shapes(build, batch_size, n_classes):
    data = federation((30, 4, 21, 9), (37,), n_classes, dtype=torch.float32)
    module = build_model("softmax", (37,), n_classes, 0)
    local = Local(lr=0.1, epochs=1, batch_size=batch_size)
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build("float32"))
    together, losses = trained(engine, module, [0, 1, 2, 3])
    for client in range(4):
        alone, result = trained(engine, module, [client])
        assert torch.equal(alone[0], together[client])
        assert result == [losses[client]]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e308])
def test_an_example_of_somebody_else_does_not_reach_a_client(build, bad):
    """Not even where a short batch is padded: the first example of all is not theirs."""
    data = federation()
    module, local = linear(), Local(lr=0.1, epochs=2, batch_size=4)
    others = [client for client in range(3) if 0 not in data.clients[client]]
    spoilt = data.x.clone()
    spoilt[0] = bad
    expected, found = (
        trained(
            KernelEngine(recipe(module, data, local), x, data.y, library=build("float64")),
            module,
            others,
        )
        for x in (data.x, spoilt)
    )
    assert torch.isfinite(expected[0]).all()
    assert torch.equal(found[0], expected[0])
    assert found[1] == expected[1]


@pytest.mark.parametrize("make", [lambda: nn.Linear(6, 2), lambda: nn.Sequential(nn.Linear(6, 2))])
def test_labels_beyond_the_outputs_are_an_error(make):
    """Three classes, two outputs: as the loop does, not numbers out of the next example's place."""
    data, module = federation(), make().double()
    with pytest.raises((IndexError, ValueError)):
        trained(LoopEngine(recipe(module, data, Local()), data.x, data.y), module, [0, 1, 2])
    params = Layout.of(module).vector(module)
    with pytest.raises((IndexError, ValueError)):
        local_trainer(TrainingTask.of(data, module, Local(), SEED)).train(params, cohort([0, 1, 2]))


def test_a_batch_size_beyond_all_sizes_takes_no_more_memory(build):
    """A huge batch size is a way to say: all of it. Nothing is padded to it."""
    data, module = federation(), linear()

    def full(batch_size):
        local = Local(epochs=2, batch_size=batch_size)
        engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=build("float64"))
        tracemalloc.start()
        try:
            matrix, results = trained(engine, module, [0, 1, 2])
            return matrix, results, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    expected, results, _ = full(12)
    vast, vast_results, peak = full(100_000)
    torch.testing.assert_close(vast, expected, rtol=1e-12, atol=1e-14)
    assert [steps for steps, _ in vast_results] == [steps for steps, _ in results] == [2, 2, 2]
    # the data are 25 examples of six numbers; one column of 100,000 would be 800 kB
    assert peak < 400_000


def test_large_logits_do_not_overflow(build):
    """Outputs of ±3,000: exp would be infinite; the loss of a sure and wrong answer is 6,000."""
    x = torch.tensor([[3000.0], [3000.0]], dtype=torch.float64)
    y = torch.tensor([0, 1])
    data = Federation(x, y, (np.array([0]),), np.array([1]), n_classes=2)
    module = nn.Linear(1, 2, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-1.0], [1.0]]))
    local = Local(lr=1e-6, steps=1, batch_size=1)
    matrix, results = trained(
        KernelEngine(recipe(module, data, local), data.x, data.y, library=build("float64")),
        module,
        [0],
    )
    assert results == [(1, 6000.0)]
    # the gradient is (softmax − e_y) x = (−1, 1) · 3000
    torch.testing.assert_close(matrix[0], torch.tensor([3e-3, -3e-3], dtype=torch.float64))


def test_a_client_that_diverges_ends_in_no_numbers_and_without_a_warning(build):
    """The server refuses such an update; the loop is as quiet about it."""
    data, module = federation(dtype=torch.float32), linear(dtype=torch.float32)
    local = Local(lr=1e38, epochs=3, batch_size=3, weight_decay=10)
    own = recipe(module, data, local)
    for engine in (
        KernelEngine(own, data.x, data.y, library=build("float32")),
        LoopEngine(own, data.x, data.y),
    ):
        matrix, _ = trained(engine, build_model(module, (), 0, 0), [0, 1])
        assert not torch.isfinite(matrix).all(dim=1).any()

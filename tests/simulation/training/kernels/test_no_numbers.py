"""NaN and infinity travel as in torch; a client that diverges ends nothing and spoils nobody."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import federation
from tests.simulation.training.kernels.nets import by_kernels, by_loop, made, recipe, trained
from understudy.core.flat import Layout
from understudy.parts.local import Local
from understudy.simulation import Federation
from understudy.simulation.training.kernel_engine import KernelEngine

CONVOLUTIONAL = {
    "relu after": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(3, 4, 3),
        nn.MaxPool2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(4, 5),
    ),
    "relu before": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 5)
    ),
    "average": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Sigmoid(), nn.Flatten(),
        nn.Linear(48, 5),
    ),
    "linear": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(220, 7), nn.ReLU(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 5)
    ),
}  # fmt: skip


def spoilt(value: float, where: tuple[int, ...], dtype: torch.dtype) -> Federation:
    """Some numbers of the first example of client 0 are something else."""
    data = federation((6, 7, 5), (2, 10, 11), n_classes=5, dtype=dtype)
    x = data.x.clone()
    x[(int(data.clients[0][0]), *where)] = value
    return Federation(x, data.y, data.clients, data.test, n_classes=5)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", [(), (0,), (1, 4, 5), (0, 0, 0), (1, 9, 10)], ids=str)
@pytest.mark.parametrize("net", CONVOLUTIONAL)
def test_bad_inputs(build, net, where, value):
    data, module = spoilt(value, where, torch.float64), made(CONVOLUTIONAL[net])
    for local in (Local(lr=0.1, steps=1, batch_size=6), Local(lr=0.1, epochs=2, batch_size=4)):
        found, losses = by_kernels(build("float64"), module, data, local, [0, 1, 2])
        expected, loop_losses = by_loop(module, data, local, [0, 1, 2])
        assert not torch.isfinite(expected[0]).all()
        assert torch.isfinite(expected[1:]).all()
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12, equal_nan=True)
        np.testing.assert_allclose(losses, loop_losses, rtol=1e-10)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("net", CONVOLUTIONAL)
def test_bad_weights(build, net, value):
    """One weight of the first layer, and one of the last."""
    data = federation((6, 7, 5), (2, 10, 11), n_classes=5)
    local = Local(lr=0.1, steps=2, batch_size=4)
    for position in (4, -6):
        module = made(CONVOLUTIONAL[net])
        layout = Layout.of(module)
        params = layout.vector(module)
        params[position] = value
        layout.load(module, params)
        found, _ = by_kernels(build("float64"), module, data, local, [0, 1, 2])
        expected, _ = by_loop(module, data, local, [0, 1, 2])
        assert not torch.isfinite(expected).all(dim=1).any()
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("net", CONVOLUTIONAL)
def test_what_a_diverging_client_leaves_does_not_reach_the_next(build, net, dtype):
    """Not even where batches are shorter than its own: the arena is full of NaN."""
    number = getattr(torch, dtype)
    data, module = spoilt(torch.nan, (), number), made(CONVOLUTIONAL[net], number)
    local = Local(lr=0.1, epochs=2, batch_size=7, momentum=0.5)
    fresh = KernelEngine(recipe(module, data, local), data.x, data.y, library=build(dtype))
    used = KernelEngine(recipe(module, data, local), data.x, data.y, library=build(dtype))
    bad, _ = trained(used, module, [0])
    assert torch.isnan(bad).all()
    found, expected = (trained(engine, module, [2, 1]) for engine in (used, fresh))
    assert torch.isfinite(expected[0]).all()
    assert torch.equal(found[0], expected[0])
    assert found[1] == expected[1]


def test_a_client_that_diverges_ends_in_no_numbers_and_without_a_warning(build):
    data = federation((6, 7, 5), (2, 10, 11), n_classes=5, dtype=torch.float32)
    module = made(CONVOLUTIONAL["relu after"], torch.float32)
    local = Local(lr=1e38, epochs=3, batch_size=3, weight_decay=10)
    for matrix, results in (
        by_kernels(build("float32"), module, data, local, [0, 1]),
        by_loop(module, data, local, [0, 1]),
    ):
        assert not torch.isfinite(matrix).all(dim=1).any()
        assert [steps for steps, _ in results] == [6, 9]


def test_large_logits_do_not_overflow(build):
    """Outputs of ±3,000: exp would be infinite; the loss of a sure and wrong answer is 6,000."""
    x, y = torch.tensor([[3000.0], [3000.0]], dtype=torch.float64), torch.tensor([0, 1])
    data = Federation(x, y, (np.array([0]),), np.array([1]), n_classes=2)
    module = nn.Linear(1, 2, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-1.0], [1.0]]))
    local = Local(lr=1e-6, steps=1, batch_size=1)
    matrix, results = by_kernels(build("float64"), module, data, local, [0])
    assert results == [(1, 6000.0)]
    # the gradient is (softmax − e_y) x = (−1, 1) · 3000
    torch.testing.assert_close(matrix[0], torch.tensor([3e-3, -3e-3], dtype=torch.float64))

"""What the tests of this folder share: nets, and how an engine's results are asked for."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy

from tests.simulation.small import SEED
from understudy.core.flat import Layout
from understudy.core.rng import generator, torch_seed
from understudy.parts.local import Local
from understudy.simulation import Federation, batch_plan
from understudy.simulation.training.dropout import factors
from understudy.simulation.training.jobs import Engine, Job, Recipe
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernels.library import Library, Unavailable, loaded
from understudy.simulation.training.local_sgd import LoopEngine

try:
    loaded(np.dtype(np.float32))
    MISSING = ""
except Unavailable as unavailable:
    MISSING = str(unavailable)
needs_kernels = pytest.mark.skipif(bool(MISSING), reason=MISSING)

Result = tuple[torch.Tensor, list[tuple[int, float]]]


def made(make: Any, dtype: torch.dtype = torch.float64, seed: int = 1) -> nn.Module:
    """A module with first weights of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: nn.Module = make()
    return module.to(dtype)


def recipe(module: nn.Module, data: Federation, local: Local, loss: Any = cross_entropy) -> Recipe:
    return Recipe(copy.deepcopy(module), loss, local, SEED, data.clients, onednn=False)


def trained(
    engine: Engine,
    module: nn.Module,
    clients: Any,
    t: int = 0,
    starts: torch.Tensor | None = None,
    corrections: torch.Tensor | None = None,
) -> Result:
    """(rows of the matrix, [(steps, loss), …]) of the clients, each in the row of its position."""
    params = Layout.of(module).vector(module)
    matrix = torch.full((len(clients), len(params)), torch.nan, dtype=params.dtype)
    rows = list(range(len(clients)))
    return matrix, engine.train(Job(t, list(clients), rows, params, matrix, starts, corrections))


def by_kernels(
    library: Library, module: nn.Module, data: Federation, local: Local, clients: Any, **more: Any
) -> Result:
    engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=library)
    return trained(engine, module, clients, **more)


def by_loop(module: nn.Module, data: Federation, local: Local, clients: Any, **more: Any) -> Result:
    return trained(LoopEngine(recipe(module, data, local), data.x, data.y), module, clients, **more)


def apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference of two updates, relative to the largest entry."""
    assert found.shape == expected.shape
    largest = float(expected.abs().max())
    assert np.isfinite(largest)
    difference = float((found.double() - expected.double()).abs().max())
    return difference / largest if largest else difference


def assert_like_torch(
    library: Library,
    module: nn.Module,
    data: Federation,
    local: Local,
    clients: Any,
    within: float = 1e-12,
    **more: Any,
) -> Result:
    """Kernels and torch's own gradients give the same updates, steps and losses."""
    found = by_kernels(library, module, data, local, clients, **more)
    expected = by_loop(module, data, local, clients, **more)
    for row, (own, other) in enumerate(zip(found[0], expected[0], strict=True)):
        assert apart(own, other) <= within, f"row {row}"
    for (steps, loss), (loop_steps, loop_loss) in zip(found[1], expected[1], strict=True):
        assert steps == loop_steps
        assert abs(loss - loop_loss) <= within * max(1, abs(loop_loss))
    return found


# -- dropout: torch's gradients with the masks of the addressed generator --------------------------


class AddressedDropout(nn.Module):
    """Dropout in torch by `factors`; `begin` says whose."""

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p, self.layer, self.seed, self.step = p, layer, 0, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = factors(self.seed, self.step, self.layer, x.numel(), self.p)
        self.step += 1
        return x * torch.from_numpy(mask).to(x.dtype).reshape(x.shape)


def addressed(module: nn.Module) -> nn.Module:
    """A copy whose dropout layers ask `factors`."""
    module, layer = copy.deepcopy(module), 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Dropout):
                setattr(parent, name, AddressedDropout(child.p, layer))
                layer += 1
    return module


def by_torch_with_masks(
    module: nn.Module, data: Federation, local: Local, client: int, t: int = 0
) -> torch.Tensor:
    """The update of one client: plain steps of torch."""
    module = addressed(module)
    held = data.clients[client]
    start = Layout.of(module).vector(module)
    for part in module.modules():
        if isinstance(part, AddressedDropout):
            part.seed = torch_seed(SEED, "dropout", t, client)
    parameters = list(module.parameters())
    for batch in batch_plan(len(held), local, t, generator(SEED, "batches", t, client)):
        chosen = torch.from_numpy(held[batch])
        loss = F.cross_entropy(module(data.x[chosen]), data.y[chosen])
        with torch.no_grad():
            for parameter, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter -= local.lr_at(t) * g
    return Layout.of(module).vector(module) - start

"""The general loop against torch's own optimizer, on every model and on awkward ones.

Values are compared in float64: in float32 a near-tie of a maximum pooling can send two right
results apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, l1_loss, mse_loss

from tests.simulation.small import SEED, cohort, federation
from understudy.core.flat import Layout
from understudy.core.rng import generator, torch_seed
from understudy.parts.local import Local, Proximal
from understudy.simulation import Federation, TrainingTask, batch_plan, build, local_trainer
from understudy.simulation.data.models import MODELS
from understudy.simulation.training.local_sgd import LoopEngine


def twin(
    module: nn.Module,
    data: Federation,
    local: Local,
    client: int,
    t: int = 0,
    loss_of: Callable[..., torch.Tensor] = cross_entropy,
) -> tuple[dict[str, torch.Tensor], float]:
    """Plain torch: loader, optimizer, the proximal term in the loss; (state dict, mean loss)."""
    start = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = torch.optim.SGD(
        (parameter for parameter in module.parameters() if parameter.requires_grad),
        lr=local.lr_at(t),
        momentum=local.momentum,
        weight_decay=local.weight_decay,
    )
    held = data.clients[client]
    plan = batch_plan(len(held), local, t, generator(SEED, "batches", t, client))
    own = torch.utils.data.TensorDataset(data.x[held], data.y[held])
    loader = torch.utils.data.DataLoader(own, batch_sampler=[batch.tolist() for batch in plan])
    module.train()
    total, seen = 0.0, 0
    with torch.random.fork_rng(devices=[]):
        batches = list(loader)  # the loader draws from torch's generator too
        torch.manual_seed(torch_seed(SEED, "dropout", t, client))
        for x, y in batches:
            optimizer.zero_grad(set_to_none=False)
            loss = loss_of(module(x), y)
            total, seen = total + loss.item() * len(x), seen + len(x)
            for parameter, first in zip(module.parameters(), start, strict=True):
                loss = loss + local.rule.mu / 2 * ((parameter - first) ** 2).sum()
            loss.backward()
            optimizer.step()
    return module.state_dict(), total / seen


def assert_like_torch(make, data, local, loss_of=cross_entropy, asked=None, t=0):
    """All values of all clients, by name; buffers too."""
    module = build(make, data.x.shape[1:], data.n_classes, seed=1).to(data.x.dtype)
    layout = Layout.of(module)
    params = layout.vector(module)
    trainer = local_trainer(
        TrainingTask.of(data, module, local, SEED, loss_of, workers=1, engine="loop")
    )
    assert isinstance(trainer._here, LoopEngine)
    asked = list(range(data.n_clients)) if asked is None else asked
    arrivals = trainer.train(params, cohort(asked, t))
    for position, client in enumerate(asked):
        other = build(module, (), 0, 0)
        expected, loss = twin(other, data, local, client, t, loss_of)
        found = layout.named(params + arrivals.deltas[position])
        for name, values in found.items():
            torch.testing.assert_close(values, expected[name], rtol=1e-9, atol=1e-12, msg=name)
        moved = arrivals.deltas[position][: layout.n_parameters].abs().max()
        assert moved > 1e-6
        assert arrivals.losses[position] == pytest.approx(loss, rel=1e-9)
    assert torch.equal(layout.vector(module), params), "the given module stays as it is"
    return arrivals


# images as small as each model takes them, and few steps: ResNet-18 has 11 million parameters
SHAPES = {
    "mlp": (6,),
    "fdms_cnn": (1, 16, 16),
    "lenet5": (3, 16, 16),
    "fedgs_cifar": (3, 16, 16),
    "fedgs_fmnist": (1, 8, 8),
    "resnet18": (3, 8, 8),
}


def test_every_model_is_in_this_file():
    sequences = {"char_lstm", "char_transformer"}  # in test_sequences.py
    assert {"softmax", *SHAPES} | sequences == set(MODELS)


@pytest.mark.parametrize("name", SHAPES)
def test_every_model_equals_torch_optim(name):
    """Sizes 7 and 4 in batches of 3: last batches of one."""
    data = federation((7, 4), SHAPES[name], dtype=torch.float64)
    rule = Proximal(0.1)
    local = Local(lr=0.05, steps=4, batch_size=3, momentum=0.9, weight_decay=0.01, rule=rule)
    if name == "resnet18":
        local = Local(lr=0.05, steps=2, batch_size=2, momentum=0.9, weight_decay=0.01)
    assert_like_torch(name, data, local)


def test_softmax_regression_under_another_loss():
    def smoothed(outputs, labels):
        return cross_entropy(outputs, labels, label_smoothing=0.1)

    assert_like_torch("softmax", federation(), Local(epochs=2, batch_size=3), smoothed)


class Awkward(nn.Module):
    """Buffers of both kinds, dropout, a frozen layer, a layer that is never used, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8, momentum=None)  # a plain mean: counts batches
        self.dropout = nn.Dropout(0.4)
        self.middle = nn.Linear(8, 8, bias=False)
        self.again = nn.Linear(8, 8, bias=False)
        self.again.weight = self.middle.weight
        self.unused = nn.Linear(2, 2)
        self.last = nn.Linear(8, 3)
        self.first.bias.requires_grad_(False)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("hidden", torch.zeros(()), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += len(x)
            self.calls += 1
            self.hidden += 0.01
        h = self.dropout(self.norm(self.first(x)))
        h = torch.tanh(self.again(torch.tanh(self.middle(h))))
        return self.last(h) * (1 + self.hidden) / (1 + 0.1 * self.calls)


@pytest.mark.parametrize(
    "local",
    [
        Local(lr=0.1, epochs=2, batch_size=3),
        Local(lr=0.1, epochs=2, batch_size=3, momentum=0.9),
        Local(lr=0.1, epochs=2, batch_size=3, weight_decay=0.1),
        Local(lr=0.1, steps=7, batch_size=4, momentum=0.5, weight_decay=0.1, rule=Proximal(0.5)),
    ],
    ids=lambda local: re.sub(r" at 0x\w+", "", str(local)),
)
def test_an_awkward_module_equals_torch_optim(local):
    """Sizes 8, 12, 6; batches of 3 leave 2 or nothing, since BatchNorm refuses a batch of one."""
    data = federation((8, 12, 6))
    arrivals = assert_like_torch(Awkward, data, local, asked=[2, 0, 1], t=3)
    layout = Layout.of(Awkward().double())
    frozen = [layout.named(delta)["first.bias"] for delta in arrivals.deltas]
    assert all((values == 0).all() for values in frozen)
    unused = [layout.named(delta)["unused.weight"] for delta in arrivals.deltas]
    decays = bool(local.weight_decay)
    assert all((values != 0).all() if decays else (values == 0).all() for values in unused)
    seen = [float(layout.named(delta)["seen"]) for delta in arrivals.deltas]
    plans = [batch_plan(n, local, 3, np.random.default_rng(0)) for n in (6, 8, 12)]
    assert seen == [float(sum(len(batch) for batch in plan)) for plan in plans]


def test_bits_of_a_client_do_not_depend_on_the_company_or_the_engine_before():
    """In float32, one trainer used again and again."""
    data = federation((8, 12, 6), dtype=torch.float32)
    local = Local(lr=0.1, epochs=2, batch_size=3, momentum=0.9)
    module = build(Awkward, (6,), 3, 1)
    trainer = local_trainer(TrainingTask.of(data, module, local, SEED, workers=1))
    params = trainer.task.layout.vector(module)
    together = trainer.train(params, cohort([0, 1, 2]))
    kept, losses = together.deltas.clone(), together.losses.copy()
    trainer.train(params + 1, cohort([1], 4))
    for asked in ([2], [1, 0], [2, 0, 1]):
        again = trainer.train(params, cohort(asked))
        assert torch.equal(again.deltas, kept[asked])
        assert again.losses.tolist() == losses[asked].tolist()


# -- regression and other targets -----------------------------------------------------------------


def regression(targets: tuple[int, ...] = (1,)) -> Federation:
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.normal(size=(24, 6)))
    y = torch.from_numpy(rng.normal(size=(24, *targets)))
    return Federation(x, y, (np.arange(9), np.arange(9, 20)), np.arange(20, 24))


@pytest.mark.parametrize("loss", [mse_loss, l1_loss, nn.SmoothL1Loss()], ids=["2", "1", "smooth"])
def test_regression_equals_torch_optim(loss):
    local = Local(lr=0.05, epochs=2, batch_size=4, momentum=0.5)
    assert_like_torch(lambda: nn.Linear(6, 1), regression(), local, loss)


def test_several_targets_and_inputs_that_are_words():
    assert_like_torch(lambda: nn.Linear(6, 2), regression((2,)), Local(batch_size=4), mse_loss)
    words = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (20, 5)))
    labels = torch.from_numpy(np.random.default_rng(1).integers(0, 3, 20))
    data = Federation(words, labels, (np.arange(7), np.arange(7, 16)), np.arange(16, 20))

    def bag() -> nn.Module:
        return nn.Sequential(nn.EmbeddingBag(11, 4), nn.Linear(4, 3)).double()

    module = bag()
    layout = Layout.of(module)
    params = layout.vector(module)
    local = Local(lr=0.5, epochs=2, batch_size=3, momentum=0.5)
    arrivals = local_trainer(TrainingTask.of(data, module, local, SEED)).train(
        params, cohort([0, 1])
    )
    for client in (0, 1):
        other = bag()
        layout.load(other, params)
        expected, _ = twin(other, data, local, client)
        for name, values in layout.named(params + arrivals.deltas[client]).items():
            torch.testing.assert_close(values, expected[name], rtol=1e-9, atol=1e-12)


def test_by_hand():
    """One weight w = 1, examples x = 2 with target 0: loss (2w)² and gradient 8w.

    lr 1/16 and momentum ½: v = 8, w = ½; v = 4 + 4 = 8, w = 0; losses 4 and 1, mean 2.5.
    """
    x, y = torch.full((3, 1), 2.0), torch.zeros(3, 1)
    data = Federation(x, y, (np.array([0, 1]),), np.array([2]))
    module = nn.Linear(1, 1, bias=False)
    nn.init.ones_(module.weight)
    local = Local(lr=1 / 16, steps=2, batch_size=2, momentum=0.5)
    arrivals = local_trainer(TrainingTask.of(data, module, local, SEED, mse_loss)).train(
        torch.ones(1), cohort([0])
    )
    assert arrivals.deltas.tolist() == [[-1.0]]
    assert arrivals.losses.tolist() == [2.5]
    assert arrivals.n_steps.tolist() == [2]
    assert arrivals.n_examples.tolist() == [2]

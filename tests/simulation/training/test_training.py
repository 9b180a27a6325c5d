"""Local training against a naive twin on torch.optim.SGD, in float64 where values are compared."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.core.rng import generator, torch_seed
from understudy.core.types import Cohort
from understudy.parts.local import Local, Plain, Proximal
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.models import build
from understudy.simulation.training.batches import batch_plan
from understudy.simulation.training.convolution_backend import kernels
from understudy.simulation.training.evaluation import evaluate
from understudy.simulation.training.trainers.choice import local_trainer
from understudy.simulation.training.trainers.task import TrainingTask

SEED = 5


def federation(dtype=torch.float64):
    """Three clients of 8, 12 and 5 examples, six features, three classes."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(30, 6))).to(dtype)
    y = torch.from_numpy(rng.integers(0, 3, size=30))
    order = rng.permutation(30)
    return Federation(x, y, (order[:8], order[8:20], order[20:25]), order[25:], n_classes=3)


def network():
    """BatchNorm for buffers, dropout for torch's generator, a frozen parameter."""
    module = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
    ).double()
    module[0].bias.requires_grad_(False)
    return module


def cohort(asked, t=0, **optional):
    ids = np.array(asked, dtype=np.int64)
    return Cohort(t, ids, np.ones(len(ids)), ids, np.zeros((0, 2), dtype=np.int64), **optional)


def twin(module, data, local, client, t, shift=None):
    """Plain torch: an optimizer, a loss with the proximal term in it; (delta, mean loss)."""
    layout = Layout.of(module)
    before = layout.vector(module)
    start = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = torch.optim.SGD(
        module.parameters(),
        lr=local.lr * local.schedule(t),
        momentum=local.momentum,
        weight_decay=local.weight_decay,
    )
    x, y = data.x[data.clients[client]], data.y[data.clients[client]]
    torch.manual_seed(torch_seed(SEED, "dropout", t, client))
    module.train()
    total, seen = 0.0, 0
    for batch in batch_plan(len(x), local, t, generator(SEED, "batches", t, client)):
        optimizer.zero_grad()
        loss = cross_entropy(module(x[batch]), y[batch])
        total, seen = total + loss.item() * len(batch), seen + len(batch)
        for parameter, first in zip(module.parameters(), start, strict=True):
            loss = loss + local.rule.mu / 2 * ((parameter - first) ** 2).sum()
        loss.backward()
        if shift is not None:
            for name, parameter in module.named_parameters():
                if parameter.grad is not None:
                    parameter.grad += layout.named(shift)[name]
        optimizer.step()
    return layout.vector(module) - before, total / seen


SETTINGS = {
    "plain": Local(lr=0.1, epochs=2, batch_size=3),
    "momentum": Local(lr=0.05, epochs=3, batch_size=3, momentum=0.9),
    "weight decay": Local(lr=0.1, epochs=2, batch_size=3, weight_decay=0.05),
    "proximal": Local(lr=0.1, epochs=2, batch_size=3, rule=Proximal(mu=0.7)),
    "steps": Local(lr=0.1, steps=5, batch_size=5),
    "growing": Local(lr=0.1, epochs=2, batch_size=2, batch_growth=1, schedule=lambda t: 0.5**t),
    "all": Local(lr=0.1, epochs=3, batch_size=3, momentum=0.5, weight_decay=0.1, rule=Proximal(1)),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_loop_equals_torch_optim(setting):
    local, data, t = SETTINGS[setting], federation(), 2
    module = build(network, (6,), 3, seed=1)
    params = Layout.of(module).vector(module)
    arrivals = local_trainer(TrainingTask.of(data, module, local, SEED)).train(
        params, cohort([1, 0, 2], t)
    )
    for position, client in enumerate([1, 0, 2]):
        delta, loss = twin(build(network, (6,), 3, seed=1), data, local, client, t)
        assert delta.abs().max() > 1e-3
        torch.testing.assert_close(arrivals.deltas[position], delta, rtol=1e-10, atol=1e-12)
        assert arrivals.losses[position] == pytest.approx(loss, rel=1e-10)
    assert arrivals.ids.tolist() == [1, 0, 2]
    assert arrivals.n_examples.tolist() == [12, 8, 5]


def test_corrections_are_added_to_each_gradient_of_parameters_only():
    local, data = SETTINGS["momentum"], federation()
    module = build(network, (6,), 3, seed=1)
    layout = Layout.of(module)
    params = layout.vector(module)
    shifts = torch.linspace(-1, 1, 3 * layout.size).double().view(3, -1)
    trainer = local_trainer(TrainingTask.of(data, module, local, SEED))
    arrivals = trainer.train(params, cohort([0, 2], correction=lambda i: shifts[i]))
    for position, client in enumerate([0, 2]):
        expected, _ = twin(build(network, (6,), 3, seed=1), data, local, client, 0, shifts[client])
        torch.testing.assert_close(arrivals.deltas[position], expected, rtol=1e-10, atol=1e-12)


def test_a_client_starts_where_the_cohort_says_and_its_delta_counts_from_there():
    local, data = SETTINGS["plain"], federation()
    module = build("mlp", (6,), 3, seed=1).double()
    layout = Layout.of(module)
    own = torch.stack([torch.full((layout.size,), 0.1 * i).double() for i in range(3)])
    trainer = local_trainer(TrainingTask.of(data, module, local, SEED))
    unused = torch.zeros(layout.size, dtype=torch.float64)
    arrivals = trainer.train(unused, cohort([0, 2], start=lambda i: own[i]))
    for position, client in enumerate([0, 2]):
        other = build("mlp", (6,), 3, seed=9).double()
        layout.load(other, own[client])
        expected, _ = twin(other, data, local, client, 0)
        torch.testing.assert_close(
            arrivals.deltas[position].double(), expected, rtol=1e-6, atol=1e-7
        )


def test_clients_do_not_reach_into_each_other():
    """Alone or after others, bit for bit: buffers, batch counts and dropout are each one's own.

    BatchNorm without momentum averages by its count of batches, which is not in the vector.
    """

    def counting():
        return nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=None), nn.Dropout(), nn.Linear(8, 3)
        )

    data, local = federation(torch.float32), Local(epochs=2, batch_size=3, momentum=0.5)
    module = build(counting, (6,), 3, seed=0)
    params = Layout.of(module).vector(module)
    together = local_trainer(TrainingTask.of(data, module, local, SEED)).train(
        params, cohort([0, 1, 2])
    )
    for client in range(3):
        fresh = build(counting, (6,), 3, seed=0)
        alone = local_trainer(TrainingTask.of(data, fresh, local, SEED)).train(
            params, cohort([client])
        )
        assert torch.equal(alone.deltas[0], together.deltas[client])
        assert alone.losses[0] == together.losses[client]


def test_same_seed_same_bits_and_another_seed_or_round_others():
    data, local = federation(torch.float32), Local(epochs=1, batch_size=3)
    module = build("softmax", (6,), 3, seed=0)
    params = Layout.of(module).vector(module)

    def deltas(seed, t):
        return (
            local_trainer(TrainingTask.of(data, module, local, seed))
            .train(params, cohort([0, 1], t))
            .deltas
        )

    assert torch.equal(deltas(1, 0), deltas(1, 0))
    assert not torch.equal(deltas(1, 0), deltas(2, 0))
    assert not torch.equal(deltas(1, 0), deltas(1, 1))


def test_torch_is_left_as_it_was():
    data, module = federation(), build(network, (6,), 3, seed=0)
    trainer = local_trainer(TrainingTask.of(data, module, Local(batch_size=3), SEED))
    params = trainer.task.layout.vector(module)
    torch.set_num_threads(2)
    try:
        torch.manual_seed(77)
        expected = torch.rand(3)
        torch.manual_seed(77)
        trainer.train(params, cohort([0, 1]))
        build(network, (6,), 3, seed=4)
        assert torch.equal(torch.rand(3), expected)
        assert torch.get_num_threads() == 2
        with kernels(onednn=False):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_nobody_asked_means_no_arrivals():
    data, module = federation(), build("mlp", (6,), 3, seed=0).double()
    trainer = local_trainer(TrainingTask.of(data, module, Local(), SEED))
    arrivals = trainer.train(trainer.task.layout.vector(module), cohort([]))
    assert len(arrivals) == 0
    assert len(arrivals.deltas) == 0


def test_a_plan_of_epochs_sees_every_example_once_a_pass():
    plan = batch_plan(8, Local(epochs=3, batch_size=3), 0, np.random.default_rng(0))
    assert [len(batch) for batch in plan] == [3, 3, 2] * 3
    passes = np.concatenate(plan).reshape(3, 8)
    assert (np.sort(passes, axis=1) == np.arange(8)).all()
    assert not (passes[0] == passes[1]).all()


@pytest.mark.parametrize(
    ("steps", "sizes"), [(1, [3]), (3, [3, 3, 2]), (4, [3, 3, 2, 3]), (7, [3, 3, 2, 3, 3, 2, 3])]
)
def test_a_plan_of_steps_has_that_many(steps, sizes):
    local = Local(epochs=5, steps=steps, batch_size=3)
    plan = batch_plan(8, local, 0, np.random.default_rng(0))
    assert [len(batch) for batch in plan] == sizes


def test_batches_grow_with_the_round():
    local = Local(epochs=1, batch_size=2, batch_growth=1)
    sizes = [[len(b) for b in batch_plan(7, local, t, np.random.default_rng(0))] for t in (0, 1, 9)]
    assert sizes == [[2, 2, 2, 1], [4, 3], [7]]


def test_losses_are_means_over_each_clients_examples_in_evaluation_mode():
    data, module = federation(), build(network, (6,), 3, seed=0)
    trainer = local_trainer(TrainingTask.of(data, module, Local(), SEED))
    params = trainer.task.layout.vector(module)
    module.eval()
    with torch.no_grad():
        expected = [
            cross_entropy(module(data.x[held]), data.y[held]).item() for held in data.clients
        ]
    np.testing.assert_allclose(trainer.losses(params, np.array([2, 0])), [expected[2], expected[0]])


def test_accuracy_by_hand():
    """A model that always says class 1 is right on the share of labels that are 1."""
    data = federation()
    module = nn.Linear(6, 3).double()
    with torch.no_grad():
        module.weight.zero_()
        module.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    loss, accuracy = evaluate(module, data, data.test)
    ones = (data.y[data.test] == 1).double().mean().item()
    assert accuracy == pytest.approx(ones)
    # log(e + 2) for every label, minus 1 where the label is 1
    assert loss == pytest.approx(np.log(np.e + 2) - ones)


def test_models_by_name_function_or_module():
    for model in ("mlp", lambda: nn.Linear(6, 3)):
        one, same, other = (build(model, (6,), 3, seed) for seed in (0, 0, 1))
        layout = Layout.of(one)
        assert torch.equal(layout.vector(one), layout.vector(same))
        assert not torch.equal(layout.vector(one), layout.vector(other))
    given = nn.Linear(6, 3)
    copied = build(given, (6,), 3, seed=0)
    assert copied is not given
    assert torch.equal(copied.weight, given.weight)
    assert build("softmax", (1, 8, 8), 10, 0)(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    with pytest.raises(ValueError, match=r"model: expected one of 'softmax', 'mlp'.*got 'cnn'"):
        build("cnn", (6,), 3, 0)
    with pytest.raises(TypeError, match="returns a module, got 3"):
        build(lambda: 3, (6,), 3, 0)


def test_plain_is_the_rule_without_a_pull():
    assert Local().rule == Plain()
    assert Plain().mu == 0

"""Clients' optimizers beyond SGD: torch's own, with the same bits whoever trains, and resumed."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.simulation.small import SEED, all_facts, cohort, federation
from understudy import Bernoulli, Local, Proximal, Scaffold, Strategy, inverse_time, mifa
from understudy.core.describe import describe
from understudy.core.flat import Layout
from understudy.core.rng import generator
from understudy.simulation import (
    TrainingTask,
    batch_plan,
    build,
    clustered_digits,
    local_trainer,
    simulate,
)
from understudy.simulation.training.jobs import Recipe
from understudy.simulation.training.kernel_engine import kernel_plan
from understudy.simulation.training.kernels.chain import Refused
from understudy.simulation.training.local_sgd import LoopEngine

ADAM = Local(lr=0.01, epochs=2, batch_size=3, optimizer="adam")

CASES = [
    (ADAM, torch.optim.Adam, {}),
    (
        Local(lr=0.01, steps=5, batch_size=4, optimizer="AdamW", weight_decay=0.1),
        torch.optim.AdamW,
        {"weight_decay": 0.1},
    ),
    (
        Local(
            lr=0.01,
            schedule=inverse_time,
            batch_size=4,
            optimizer="adam",
            optimizer_options={"betas": [0.8, 0.9], "amsgrad": True},
        ),
        torch.optim.Adam,
        {"betas": (0.8, 0.9), "amsgrad": True},
    ),
    (
        Local(lr=0.01, epochs=2, batch_size=3, optimizer="rmsprop", momentum=0.5),
        torch.optim.RMSprop,
        {"momentum": 0.5},
    ),
    (Local(lr=0.1, batch_size=3, optimizer="adagrad"), torch.optim.Adagrad, {}),
    (Local(lr=0.01, batch_size=3, optimizer="rprop"), torch.optim.Rprop, {}),
    (
        Local(
            lr=0.1,
            batch_size=3,
            optimizer="SGD",
            momentum=0.9,
            optimizer_options={"nesterov": True},
        ),
        torch.optim.SGD,
        {"momentum": 0.9, "nesterov": True},
    ),
    (
        Local(lr=0.01, epochs=2, batch_size=3, optimizer="adam", rule=Proximal(0.5)),
        torch.optim.Adam,
        {},
    ),
]


@pytest.mark.parametrize(("local", "cls", "arguments"), CASES)
@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_a_client_trains_as_torch_does(model, local, cls, arguments):
    """Its own loop with torch's optimizer, made anew for the round; t = 3, so η_t counts."""
    data, t = federation((8, 5)), 3
    module = build(model, data.x.shape[1:], data.n_classes, seed=1).double()
    layout = Layout.of(module)
    params = layout.vector(module)
    trainer = local_trainer(TrainingTask.of(data, module, local, SEED, workers=1))
    arrivals = trainer.train(params, cohort([0, 1], t))
    for client in (0, 1):
        twin = build(module, (), 0, 0)
        first = [parameter.detach().clone() for parameter in twin.parameters()]
        optimizer = cls(twin.parameters(), lr=local.lr * local.schedule(t), **arguments)
        held = data.clients[client]
        for batch in batch_plan(len(held), local, t, generator(SEED, "batches", t, client)):
            loss = cross_entropy(twin(data.x[held[batch]]), data.y[held[batch]])
            for parameter, start in zip(twin.parameters(), first, strict=True):
                loss = loss + local.rule.mu / 2 * ((parameter - start) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        expected = layout.vector(twin) - params
        torch.testing.assert_close(arrivals.deltas[client], expected, rtol=1e-9, atol=1e-12)
        assert arrivals.deltas[client].abs().max() > 1e-4


def test_only_the_general_loop_takes_it():
    data = federation(dtype=torch.float32)
    module = build("softmax", data.x.shape[1:], data.n_classes, seed=1)

    def recipe(local):
        return Recipe(module, cross_entropy, local, SEED, data.clients, True)

    assert kernel_plan(recipe(Local()), data.x, data.y).n_classes == data.n_classes
    with pytest.raises(Refused, match="the optimizer is not plain SGD but 'adam'"):
        kernel_plan(recipe(ADAM), data.x, data.y)
    nesterov = Local(momentum=0.9, optimizer_options={"nesterov": True})
    with pytest.raises(Refused, match="the optimizer is not plain SGD"):
        kernel_plan(recipe(nesterov), data.x, data.y)
    assert isinstance(
        local_trainer(TrainingTask.of(data, module, ADAM, SEED, workers=1))._here, LoopEngine
    )


def test_the_same_bits_with_workers_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("understudy.simulation.training.trainers.loop_trainer.WORTH_WORKERS", 0.0)
    federated = clustered_digits()
    strategy = mifa(local=Local(lr=0.01, schedule=inverse_time, optimizer="adam"))

    def run(**options):
        return simulate(
            federated, strategy, model="softmax", availability=Bernoulli(0.7), rounds=5, **options
        )

    alone = run(workers=1)
    logs = all_facts(alone)
    assert alone.last.metrics["test_loss"] > 0
    spread = run(workers=2)
    assert all_facts(spread) == logs
    assert torch.equal(spread.state.params, alone.state.params)
    with run(workers=1, folder=tmp_path) as broken:
        for _ in zip(range(2), broken, strict=False):
            pass
    resumed = run(workers=2, folder=tmp_path)
    assert all_facts(resumed) == logs
    assert torch.equal(resumed.state.params, alone.state.params)


# -- what is refused, when it is made -------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adamm"}, r"optimizer: expected one of 'adadelta', .*got 'adamm'"),
        ({"optimizer": 3}, r"optimizer: expected one of .*got 3"),
        ({"optimizer": "optimizer"}, r"optimizer: expected one of"),
        ({"optimizer": "lbfgs"}, r"optimizer: .*'lbfgs', which evaluates the loss several times"),
        ({"optimizer": "SparseAdam"}, r"optimizer: .*sparse gradients only"),
        (
            {"optimizer": "adam", "optimizer_options": {"beta": 0.9}},
            r"optimizer_options: expected options of Adam, which are betas, eps, .*got 'beta'",
        ),
        (
            {"optimizer": "adam", "optimizer_options": {"lr": 0.9}},
            r"optimizer_options: 'lr' is a field of Local; write lr=",
        ),
        (
            {"optimizer": "rmsprop", "optimizer_options": {"momentum": 0.9}},
            r"optimizer_options: 'momentum' is a field of Local",
        ),
        (
            {"optimizer": "adam", "optimizer_options": {"weight_decay": 0.9}},
            r"optimizer_options: 'weight_decay' is a field of Local",
        ),
        (
            {"optimizer": "adam", "optimizer_options": {"params": []}},
            r"optimizer_options: expected options of Adam",
        ),
        (
            {"optimizer": "adam", "optimizer_options": {"betas": (1.5, 0.9)}},
            r"optimizer_options: Adam refuses .*1\.5",
        ),
        (
            {"optimizer_options": {"nesterov": True}},
            r"optimizer_options: SGD refuses .*[Nn]esterov",
        ),
        ({"optimizer": "adam", "momentum": 0.9}, r"momentum: expected 0, since Adam has none"),
        ({"optimizer": "rprop", "weight_decay": 0.9}, r"weight_decay: expected 0, since Rprop has"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(settings, message):
    with pytest.raises(ValueError, match=message):
        Local(**settings)


def test_options_are_plain_data():
    with pytest.raises(TypeError, match="optimizer_options: expected a table"):
        Local(optimizer="adam", optimizer_options=3)
    with pytest.raises(TypeError, match=r"optimizer_options\['eps'\]: expected numbers or text"):
        Local(optimizer="adam", optimizer_options={"eps": torch.ones(())})
    given = {"eps": 1e-6}
    local = Local(optimizer="adam", optimizer_options=given)
    given["eps"] = 1.0
    assert local.optimizer_options == {"eps": 1e-6}
    assert local == Local(optimizer="adam", optimizer_options={"eps": 1e-6})
    assert hash(local) == hash(Local(optimizer="adam", optimizer_options={"eps": 1e-6}))


def test_scaffold_needs_plain_steps():
    with pytest.raises(ValueError, match=r"local.optimizer: expected 'sgd' .*Scaffold.*'adam'"):
        Strategy(local=Local(optimizer="adam", rule=Scaffold()))


def test_plain_sgd_is_described_as_before():
    assert "optimizer" not in describe(Local())
    assert "optimizer_options" not in describe(Local())
    told = describe(Local(optimizer="adam", optimizer_options={"betas": (0.9, 0.99)}))
    assert told["optimizer"] == "adam"
    assert told["optimizer_options"] == {"betas": [0.9, 0.99]}


def test_a_frozen_layer_stays(monkeypatch):
    data = federation(dtype=torch.float32)
    module = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    module[0].weight.requires_grad_(False)
    layout = Layout.of(module)
    local = Local(lr=0.01, optimizer="adamw", weight_decay=0.1)
    trainer = local_trainer(TrainingTask.of(data, module, local, SEED, workers=1))
    (delta,) = trainer.train(layout.vector(module), cohort([0])).deltas
    named = layout.named(delta)
    assert (named["0.weight"] == 0).all()
    assert (named["2.weight"] != 0).all()

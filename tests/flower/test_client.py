"""`client_app`: our trainers in a ClientApp, adapters, buffers, evaluation."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from torch import nn
from torch.nn.functional import mse_loss

from tests.flower.loopback import LoopbackGrid, nodes_of
from understudy import Local, Scaffold, Strategy, fdms
from understudy.core.flat import Layout
from understudy.core.types import Cohort
from understudy.flower import ClientData, UnderstudyStrategy, client_app
from understudy.flower.messages.local_config import local_of
from understudy.simulation import Federation, TrainingTask, local_trainer

N, WIDTH = 40, 5


def data(context):
    """Two classes that a line can tell apart, other examples for each client."""
    rng = torch.Generator().manual_seed(int(context.node_config["partition-id"]))
    x = torch.randn(N, WIDTH, generator=rng)
    y = (x.sum(dim=1) > 0).long()
    return ClientData(x, y, x_test=x[:10] * 1.5, y_test=y[:10], n_classes=2)


class Adapted(nn.Module):
    """A frozen base and a small adapter: what LoRA is, in small."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, 2)
        nn.init.constant_(self.base.weight, 0.25)
        nn.init.zeros_(self.base.bias)
        for parameter in self.base.parameters():
            parameter.requires_grad = False
        self.down = nn.Parameter(torch.full((1, WIDTH), 0.1))
        self.up = nn.Parameter(torch.zeros(2, 1))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def run(module, arrays, strategy=None, rounds=5, make_data=data, loss=None, **options):
    app = client_app(module, make_data, **({} if loss is None else {"loss": loss}))
    grid = LoopbackGrid(nodes_of(app, 4))
    adapter = UnderstudyStrategy(strategy, clock=grid.time.clock(), **options)
    return adapter.start(grid, arrays, num_rounds=rounds), adapter, grid


def test_only_the_adapters_travel():
    module = Adapted()
    adapters = {
        name: value for name, value in module.state_dict().items() if name in ("down", "up")
    }
    result, adapter, grid = run(module, ArrayRecord(adapters), fdms(), rounds=8)
    assert set(result.arrays) == {"down", "up"}
    assert adapter.server.state.n_parameters == WIDTH + 2
    assert all(
        set(record) <= {"down", "up"}
        for message in grid.sent
        for record in message.content.array_records.values()
    )
    accuracy = [record["accuracy"] for record in result.evaluate_metrics_clientapp.values()]
    assert accuracy[-1] > 0.9
    assert {one.outcome.name for one in adapter.outcomes} == {"CAME"}


def test_buffers_and_counts_of_a_normalised_model():
    def module():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

    arrays = ArrayRecord(module().state_dict())
    result, adapter, _ = run(module, arrays, rounds=3)
    assert list(result.arrays) == list(arrays)
    assert result.arrays["1.num_batches_tracked"].numpy() == 0
    assert not np.array_equal(result.arrays["1.running_mean"].numpy(), np.zeros(4))
    state = adapter.server.state
    assert (state.n_parameters, len(state.params)) == (4 * 5 + 4 + 4 + 4 + 2 * 4 + 2, 42 + 8)


def test_scaffold_sends_variates_and_steps():
    local = Local(lr=0.1, epochs=2, batch_size=8, rule=Scaffold())
    module = nn.Linear(WIDTH, 2)
    _, adapter, grid = run(module, ArrayRecord(module.state_dict()), Strategy(local=local))
    state = adapter.server.state
    assert state.local.own.known.all()
    mean = torch.stack([state.local.own.get(i) for i in range(4)]).mean(dim=0)
    torch.testing.assert_close(state.local.common, mean, rtol=1e-4, atol=1e-6)
    last = [m for m in grid.sent if m.metadata.message_type == "train"][-1]
    told = last.content.array_records["correction"]
    assert set(told) == {"weight", "bias"}
    assert np.abs(told["weight"].numpy()).max() > 0


def test_labels_that_are_a_column_of_a_table_are_learnt():
    """Ids in the neighbouring column, as a table of labels has them."""

    def viewed(context):
        held = data(context)
        table = torch.stack([torch.arange(len(held.y)) * 10**9, held.y], dim=1)
        return ClientData(held.x, table[:, 1], held.x, held.y, n_classes=2)

    def plain(context):
        held = data(context)
        return ClientData(held.x, held.y, held.x, held.y, n_classes=2)

    module = nn.Linear(WIDTH, 2)
    nn.init.zeros_(module.weight)
    strategy = Strategy(local=Local(lr=0.5, epochs=2, batch_size=8))
    results = [
        run(module, ArrayRecord(module.state_dict()), strategy, 8, make)[0]
        for make in (viewed, plain)
    ]
    found, expected = (list(result.evaluate_metrics_clientapp.values()) for result in results)
    assert found[-1]["accuracy"] == expected[-1]["accuracy"] > 0.9
    for name in ("weight", "bias"):
        assert np.array_equal(results[0].arrays[name].numpy(), results[1].arrays[name].numpy())


def test_clients_train_with_the_strategys_optimizer():
    """As data in the ConfigRecord, and to the bits of the simulator's loop."""
    local = Local(
        lr=0.01,
        epochs=2,
        batch_size=8,
        optimizer="AdamW",
        weight_decay=0.1,
        optimizer_options={"betas": (0.8, 0.9)},
    )
    module = nn.Linear(WIDTH, 2)
    start = Layout.of(module).vector(module)
    _, adapter, grid = run(module, ArrayRecord(module.state_dict()), Strategy(local=local), 1)
    sent = [m for m in grid.sent if m.metadata.message_type == "train"][-1]
    (config,) = [r for r in sent.content.config_records.values() if "lr" in r]
    assert config["optimizer"] == "AdamW"
    assert json.loads(config["optimizer-options"]) == {"betas": [0.8, 0.9]}
    assert local_of(config) == replace(local, optimizer_options={"betas": [0.8, 0.9]})
    held = [data(Context(1, 5, {"partition-id": i}, RecordDict(), {})) for i in range(4)]
    federation = Federation(
        torch.cat([one.x for one in held] + [held[0].x[:1]]),
        torch.cat([one.y for one in held] + [held[0].y[:1]]),
        tuple(np.arange(N * i, N * (i + 1)) for i in range(4)),
        np.array([4 * N]),
    )
    everyone = np.arange(4)
    cohort = Cohort(0, everyone, np.ones(4), everyone, np.zeros((0, 2), dtype=np.int64))
    trainer = local_trainer(
        TrainingTask.of(federation, module, local, adapter.server.seed, workers=1)
    )
    deltas = trainer.train(start, cohort).deltas
    torch.testing.assert_close(
        adapter.server.state.params, start + deltas.mean(dim=0), rtol=0, atol=1e-7
    )


def test_a_regression_with_its_own_loss():
    def targets(context):
        held = data(context)
        return ClientData(held.x, held.x.sum(dim=1, keepdim=True))

    module = nn.Linear(WIDTH, 1)
    result, adapter, _ = run(
        module,
        ArrayRecord(module.state_dict()),
        Strategy(local=Local(lr=0.05, epochs=5, batch_size=10)),
        make_data=targets,
        loss=mse_loss,
        rounds=10,
    )
    losses = [record["loss"] for record in result.evaluate_metrics_clientapp.values()]
    assert losses[-1] < 0.01 < losses[0]
    assert adapter.server.state.label_counts is None  # there are none to tell


def test_targets_that_would_be_broadcast_are_an_error():
    def targets(context):
        held = data(context)
        return ClientData(held.x, held.x.sum(dim=1))

    module = nn.Linear(WIDTH, 1)
    app = client_app(module, targets, mse_loss)
    message = message_with(ArrayRecord(module.state_dict()))
    context = Context(1, 5, {"partition-id": 0}, RecordDict(), {})
    with pytest.raises(ValueError, match=r"y: expected targets of shape \(n, 1\).* got \(n,\)"):
        app(message, context)
    with pytest.raises(ValueError, match="give loss=…"):
        client_app(module, targets)(message, context)


def message_with(arrays, **config):
    LoopbackGrid([])  # sets who we are: outside a run Flower makes no messages
    values = ConfigRecord({"server-round": 1, "lr": 0.1, "batch-size": 8, **config})
    return Message(RecordDict({"arrays": arrays, "config": values}), 5, "train")


def test_what_does_not_fit_is_an_error_that_names_it():
    module = nn.Linear(WIDTH, 2)
    app, context = client_app(module, data), Context(1, 5, {"partition-id": 0}, RecordDict(), {})
    arrays = ArrayRecord(module.state_dict())
    assert app(message_with(arrays), context).has_content()
    other = ArrayRecord(nn.Linear(WIDTH, 3).state_dict())
    with pytest.raises(ValueError, match=r"arrays\['weight'\]: the model here has \(2, 5\)"):
        app(message_with(other), context)
    with pytest.raises(ValueError, match=r"arrays\['v'\]: the model here has no such name"):
        app(message_with(ArrayRecord({"v": arrays["weight"]})), context)
    message = message_with(arrays)
    del message.content["config"]["lr"]
    with pytest.raises(ValueError, match=r"config: expected 'lr'"):
        app(message, context)
    with pytest.raises(TypeError, match="model: expected a torch module"):
        client_app("mlp", data)


def test_the_server_does_not_change_the_clients_own_module():
    module = nn.Linear(WIDTH, 2)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    run(module, ArrayRecord(module.state_dict()), rounds=2)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_what_is_sent_does_not_depend_on_who_else_is_there():
    """The same client in the same round with the same seed: the same bits."""
    module = nn.Linear(WIDTH, 2)
    app, context = client_app(module, data), Context(1, 5, {"partition-id": 0}, RecordDict(), {})
    arrays = ArrayRecord(module.state_dict())
    replies = [
        app(message_with(arrays, **{"seed": seed, "client-number": number}), context)
        for seed, number in ((1, 3), (1, 3), (2, 3), (1, 4))
    ]
    weights = [reply.content["arrays"]["weight"].numpy() for reply in replies]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])
    assert not np.array_equal(weights[0], weights[3])

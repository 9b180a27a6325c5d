"""Which engine trains a model, and that both train it alike."""

from __future__ import annotations

import copy
import functools
import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy, mse_loss

from tests.simulation.small import SEED, cohort, federation
from tests.simulation.training.kernels.nets import made, needs_kernels, recipe, trained
from understudy import fedavg
from understudy.core.flat import Layout
from understudy.core.rng import generator
from understudy.parts.local import Local
from understudy.simulation import (
    Federation,
    TrainingTask,
    batch_plan,
    build,
    local_trainer,
    simulate,
)
from understudy.simulation.run import OtherEngine
from understudy.simulation.training.engines import LARGE_STEP, choose, engine_for
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernels import library
from understudy.simulation.training.local_sgd import LoopEngine


class MyLinear(nn.Linear):
    """Forward may be anything in a subclass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) ** 2


class MyNetwork(nn.Module):
    """One linear layer, in a forward that cannot be looked into."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flip(1))


class MySequence(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(-x)


def frozen(names: tuple[str, ...]) -> nn.Module:
    module = nn.Linear(6, 3)
    for name in names:
        getattr(module, name).requires_grad_(False)
    return module


def hooked() -> nn.Module:
    module = nn.Linear(6, 3)
    module.register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)
    return module


def parametrized() -> nn.Module:
    return nn.utils.parametrizations.weight_norm(nn.Linear(6, 3))


class Tied(nn.Module):
    """Two layers, one weight: what one learns the other knows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


class CalledTwice(nn.Module):
    """One layer that a forward calls twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class OtherInEvaluation(nn.Module):
    """Another way through the module once it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) if self.training else torch.tanh(self.layer(x))


def listed_twice() -> nn.Module:
    """The same layer at two places of a sequence."""
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(6, 3))


def smoothed(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs, labels, label_smoothing=0.1)


def chosen(module: nn.Module, loss=cross_entropy, x=None, y=None, engine="auto"):
    data = federation(dtype=torch.float32)
    x, y = data.x if x is None else x, data.y if y is None else y
    return choose(recipe(module, data, Local(), loss), x, y, engine)


CHAINS = {
    "linear": lambda: nn.Linear(6, 3),
    "without bias": lambda: nn.Linear(6, 3, bias=False),
    "sequence": lambda: nn.Sequential(nn.Linear(6, 3)),
    "flattened": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Flatten()), nn.Sequential(nn.Linear(6, 3))),
    "softmax": lambda: build("softmax", (6,), 3, 0),
    "mlp": lambda: build("mlp", (6,), 3, 0),
    "two layers": lambda: nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3)),
    "relu": lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU()),
    "dropout": lambda: nn.Sequential(nn.Dropout(), nn.Linear(6, 3)),
}


@needs_kernels
@pytest.mark.parametrize("name", CHAINS)
def test_plain_chains_get_the_kernels(name):
    found = chosen(CHAINS[name]())
    assert found.name == f"kernels {library.VERSION}"
    assert found.addressed_dropout == (name == "dropout")
    assert chosen(CHAINS[name](), engine="kernels").name == found.name


@pytest.mark.parametrize("name", CHAINS)
def test_the_loop_by_name(name):
    found = chosen(CHAINS[name](), engine="loop")
    assert (found.name, found.reason) == ("loop", 'engine="loop"')
    assert found.addressed_dropout == (name == "dropout")


@pytest.mark.parametrize("name", CHAINS)
def test_the_loop_by_the_environment(name, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_ENGINE", "loop")
    found = chosen(CHAINS[name]())
    assert (found.name, found.reason) == ("loop", "UNDERSTUDY_ENGINE=loop")
    with pytest.raises(ValueError, match="engine: 'kernels' cannot train this: UNDERSTUDY_ENGINE"):
        chosen(CHAINS[name](), engine="kernels")


def test_an_engine_that_is_none():
    with pytest.raises(ValueError, match="engine: expected one of 'auto', 'loop', 'kernels'"):
        chosen(nn.Linear(6, 3), engine="numba")
    with pytest.raises(ValueError, match="engine: expected one of 'auto', 'loop', 'kernels'"):
        simulate(federation(), fedavg(), model="softmax", rounds=1, engine="numba")


@needs_kernels
def test_large_steps_get_the_loop():
    """A linear layer's 1,000 · n multiply-adds count twice, times the batch."""
    data = federation((50, 20), (1000,), 10, dtype=torch.float32)

    def of(n: int, batch_size: int):
        module = nn.Sequential(nn.Linear(1000, n, bias=False))
        return choose(recipe(module, data, Local(batch_size=batch_size)), data.x, data.y)

    n = int(LARGE_STEP / (2 * 1000 * 50))
    assert of(n, 50).plan is not None
    assert of(n, 10**9).plan is not None, "nobody has more than 50 examples"
    assert of(n + 1, 50).plan is None
    assert of(n + 1, 50).reason == "its steps are large (3.5e+08 multiply-adds)"
    assert of(n + 1, 49).plan is not None


OTHERS = {
    "subclass": lambda: MyLinear(6, 3),
    "subclass inside": lambda: nn.Sequential(nn.Flatten(), MyLinear(6, 3)),
    "another forward": MyNetwork,
    "another forward inside": lambda: nn.Sequential(MyNetwork()),
    "another sequence": lambda: MySequence(nn.Linear(6, 3)),
    "another sequence inside": lambda: nn.Sequential(MySequence(nn.Linear(6, 3))),
    "batch norm": lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)),
    "flattens the batch": lambda: nn.Sequential(nn.Flatten(0), nn.Linear(6, 3)),
    "frozen bias": lambda: frozen(("bias",)),
    "frozen weight": lambda: frozen(("weight",)),
    "hook": hooked,
    "parametrized": parametrized,
    "other in evaluation": OtherInEvaluation,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_modules_get_the_loop(name):
    found = chosen(OTHERS[name]())
    assert found.plan is None
    assert found.reason
    with pytest.raises(ValueError, match="engine: 'kernels' cannot train this: "):
        chosen(OTHERS[name](), engine="kernels")


# -- parameters that serve twice -------------------------------------------------------------------

SHARED = {
    "tied": (Tied, "parameters are shared between layers"),
    "listed twice": (listed_twice, "parameters are shared between layers"),
    "called twice": (CalledTwice, "parameter 'layer.weight' is used more than once"),
}


@pytest.mark.parametrize("name", SHARED)
def test_parameters_that_serve_twice_are_refused_by_the_kernels(name):
    make, reason = SHARED[name]
    found = chosen(make())
    assert (found.plan, found.name, found.reason) == (None, "loop", reason)
    with pytest.raises(ValueError, match=f"engine: 'kernels' cannot train this: {reason}"):
        chosen(make(), engine="kernels")


@pytest.mark.parametrize("name", SHARED)
def test_parameters_that_serve_twice_are_trained_in_a_run(name):
    """Two rounds of everyone, against torch's own gradients: each counts once in the average."""
    data, local = federation(dtype=torch.float64), Local(lr=0.2, epochs=2, batch_size=3)
    module = made(SHARED[name][0])
    run = simulate(data, fedavg(local=local), model=module, rounds=2, seed=SEED, workers=1)
    *_, last = run
    assert run.engine == "loop"
    layout, sizes = Layout.of(module), [len(held) for held in data.clients]
    params = layout.vector(module)
    for t in range(2):
        rows = [by_torch(module, params, data, local, client, t) for client in range(len(sizes))]
        params = torch.stack(rows).T @ torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    torch.testing.assert_close(run.state.params, params, rtol=1e-10, atol=1e-12)
    assert (params - layout.vector(module)).abs().max() > 1e-3
    with torch.no_grad():
        loss = float(cross_entropy(run.module().eval()(data.x[data.test]), data.y[data.test]))
    assert last.metrics["test_loss"] == pytest.approx(loss, rel=1e-12)


def by_torch(
    module: nn.Module, params: torch.Tensor, data: Federation, local: Local, client: int, t: int
) -> torch.Tensor:
    """A client's model after its round, by torch's optimizer."""
    module, held = copy.deepcopy(module), data.clients[client]
    Layout.of(module).load(module, params)
    optimizer = torch.optim.SGD(module.parameters(), lr=local.lr_at(t))
    for batch in batch_plan(len(held), local, t, generator(SEED, "batches", t, client)):
        optimizer.zero_grad()
        cross_entropy(module(data.x[held[batch]]), data.y[held[batch]]).backward()
        optimizer.step()
    return Layout.of(module).vector(module)


@pytest.mark.parametrize(
    "loss",
    [
        smoothed,
        functools.partial(cross_entropy, label_smoothing=0.1),
        functools.partial(cross_entropy, weight=torch.tensor([1.0, 2.0, 3.0])),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(reduction="sum"),
        mse_loss,
        lambda outputs, labels: cross_entropy(outputs, labels),
    ],
)
def test_other_losses_get_the_loop(loss):
    found = chosen(nn.Linear(6, 3), loss)
    assert (found.plan, found.reason) == (None, "the loss is not torch's cross_entropy")


def test_other_types_get_the_loop():
    data = federation(dtype=torch.float32)
    assert chosen(nn.Linear(6, 3).double(), x=data.x).plan is None
    assert chosen(nn.Linear(6, 3), y=data.y.float()).plan is None
    halves = federation(dtype=torch.bfloat16)
    assert chosen(nn.Linear(6, 3).bfloat16(), x=halves.x).plan is None


@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(6, 3), lambda: nn.Sequential(nn.Flatten(1, 1), nn.Linear(6, 3))]
)
def test_inputs_that_are_not_flat_get_the_loop(make):
    """Outputs (n, 2, 3) are two classes for each of three labels, to torch's cross-entropy."""
    rng = np.random.default_rng(0)
    x, y = (
        torch.from_numpy(rng.normal(size=(9, 2, 6))),
        torch.from_numpy(rng.integers(0, 2, (9, 3))),
    )
    data = Federation(x, y, (np.arange(5), np.arange(5, 8)), np.array([8]), n_classes=2)
    module = make().double()
    params = Layout.of(module).vector(module)
    arrivals = local_trainer(TrainingTask.of(data, module, Local(batch_size=3), SEED)).train(
        params, cohort([0, 1])
    )
    loop = LoopEngine(recipe(build(module, (), 0, 0), data, Local(batch_size=3)), x, y)
    expected, _ = trained(loop, module, [0, 1])
    torch.testing.assert_close(arrivals.deltas, expected, rtol=1e-10, atol=1e-13)


# -- both engines agree ----------------------------------------------------------------------------


class Functional(nn.Module):
    """Dropout as a layer and as a call, twice with another share, and once without effect."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 40), nn.Linear(40, 3)
        self.layer = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(F.relu(self.first(x)), 0.25, training=self.training)
        return self.second(F.dropout(self.layer(x), 0.5, training=False))


def dropping() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 50), nn.ReLU(), nn.Dropout(0.5), nn.Linear(50, 20), nn.Dropout(0.5),
        nn.Linear(20, 3),
    )  # fmt: skip


@needs_kernels
@pytest.mark.parametrize("make", [dropping, Functional])
def test_a_chain_with_dropout_is_trained_alike_by_both(make):
    data, module = federation(dtype=torch.float64), made(make)
    local = Local(lr=0.1, epochs=3, batch_size=3, momentum=0.5)
    own = recipe(module, data, local)
    results = []
    for engine, kind in (("kernels", KernelEngine), ("loop", LoopEngine)):
        choice = choose(own, data.x, data.y, engine)
        trains = engine_for(replace(own, engine=choice), data.x, data.y)
        assert type(trains) is kind
        results.append(trained(trains, module, [0, 1, 2], t=3))
    (found, losses), (expected, expected_losses) = results
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13)
    for (steps, loss), (other_steps, other) in zip(losses, expected_losses, strict=True):
        assert (steps, loss) == (other_steps, pytest.approx(other, rel=1e-12))
    without = LoopEngine(own, data.x, data.y)  # torch's own generator
    assert not torch.allclose(trained(without, module, [0, 1, 2], t=3)[0], expected, rtol=1e-3)


def test_the_loop_draws_dropout_by_address_whoever_is_trained():
    data, module = federation(dtype=torch.float64), made(dropping)
    own = recipe(module, data, Local(lr=0.1, epochs=2, batch_size=3))
    own = replace(own, engine=choose(own, data.x, data.y, "loop"))
    engine = LoopEngine(own, data.x, data.y)
    before = torch.get_rng_state()
    together, _ = trained(engine, module, [0, 1, 2])
    alone, _ = trained(engine, module, [2])
    assert torch.equal(alone[0], together[2])
    assert torch.equal(torch.get_rng_state(), before)


# -- a run and its engine --------------------------------------------------------------------------


def short(folder=None, engine="auto", rounds=2, **more):
    data = federation((8, 12, 5), (6,), 3, dtype=torch.float32)
    return simulate(
        data, fedavg(local=Local(lr=0.1, batch_size=4)), model="mlp", rounds=rounds,
        folder=folder, engine=engine, workers=1, **more,
    )  # fmt: skip


@needs_kernels
def test_a_run_says_what_trains_it(caplog):
    with caplog.at_level(logging.INFO, "understudy"):
        assert short().engine == f"kernels {library.VERSION}"
        assert short(engine="loop").engine == "loop"
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if line.startswith("clients are trained")] == [
        f"clients are trained by: kernels {library.VERSION}",
        'clients are trained by: loop (engine="loop")',
    ]


@needs_kernels
def test_both_engines_give_nearly_the_same_rounds():
    kernels, loop = (list(short(engine=engine)) for engine in ("auto", "loop"))
    for own, other in zip(kernels, loop, strict=True):
        assert own.metrics["test_loss"] == pytest.approx(other.metrics["test_loss"], rel=1e-4)


@needs_kernels
def test_resuming_by_another_engine_is_an_error_that_names_both(tmp_path):
    name = f"kernels {library.VERSION}"
    for first, then in (("auto", "loop"), ("loop", "auto")):
        folder = tmp_path / first
        list(short(folder, first))
        here, there = ("loop", name) if then == "loop" else (name, "loop")
        with pytest.raises(OtherEngine, match=f"by the engine '{there}', and here '{here}'"):
            short(folder, then, rounds=3)
        assert [log.t for log in short(folder, first, rounds=3)] == [0, 1, 2]


def test_a_run_stored_before_engines_had_names_is_resumed_by_the_loop(tmp_path, monkeypatch):
    from understudy.simulation.settings import Simulation

    about = Simulation.about

    def without(self, *args):
        told = json.loads(about(self, *args))
        del told["engine"]
        return json.dumps(told)

    with monkeypatch.context() as before:
        before.setattr(Simulation, "about", without)
        list(short(tmp_path, "loop"))
    assert len(list(short(tmp_path, "loop", rounds=3))) == 3


@needs_kernels
@pytest.mark.parametrize("model", ["softmax", "mlp", "fdms_cnn", "lenet5"])
def test_the_kernels_evaluate_too(model):
    """What they say is what torch says, up to rounding; no example depends on the others."""
    shape = (1, 16, 16) if model != "lenet5" else (3, 16, 16)
    data = federation((30, 20), shape, 10, dtype=torch.float32)
    module = build(model, shape, 10, 0)
    trainer = local_trainer(TrainingTask.of(data, module, Local(batch_size=4), SEED, workers=1))
    assert trainer.task.recipe.engine.plan is not None
    params, indices = trainer.task.layout.vector(module), np.array([49, 3, 3, 0, 17, 30])
    found = trainer.outputs(params, indices)
    with torch.no_grad():
        torch.testing.assert_close(found, module(data.x[indices]), rtol=1e-4, atol=1e-5)
    for position, index in enumerate(indices):
        assert torch.equal(trainer.outputs(params, np.array([index]))[0], found[position])
    loop = local_trainer(
        TrainingTask.of(data, module, Local(batch_size=4), SEED, workers=1, engine="loop")
    )
    assert torch.equal(loop.outputs(params, indices), module.eval()(data.x[indices]).detach())


@needs_kernels
@pytest.mark.parametrize("model", ["softmax", "mlp", "fdms_cnn", "lenet5"])
def test_the_kernels_compute_the_losses_of_clients_too(model, monkeypatch):
    """For Power-of-Choice: torch's losses up to rounding, torch's module not called."""
    shape = (1, 16, 16) if model != "lenet5" else (3, 16, 16)
    data = federation((30, 7, 260), shape, 10, dtype=torch.float32)
    module, local = build(model, shape, 10, 0), Local(batch_size=4)
    kernels, loop = (
        local_trainer(TrainingTask.of(data, module, local, SEED, workers=1, engine=engine))
        for engine in ("kernels", "loop")
    )
    params, ids = kernels.task.layout.vector(module), np.array([2, 0, 1])
    expected = loop.losses(params, ids)
    for position, client in enumerate(ids):  # batches of a client are its own, whoever is asked
        assert loop.losses(params, np.array([client]))[0] == expected[position]
    for engine in (kernels._threads._engine, kernels.task):
        monkeypatch.setattr(engine.recipe.module, "forward", None)
    found = kernels.losses(params, ids)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for position, client in enumerate(ids):
        assert kernels.losses(params, np.array([client]))[0] == found[position]
    assert kernels.losses(params, np.zeros(0, dtype=np.int64)).tolist() == []


@needs_kernels
def test_losses_are_of_validation_examples_where_a_client_has_some():
    """Client 1 has none: its training examples count."""
    data = federation((8, 6), (6,), 3, n_test=9, dtype=torch.float32)
    held = (data.test[:4], np.zeros(0, dtype=np.int64))
    data = Federation(data.x, data.y, data.clients, data.test[4:], n_classes=3, validation=held)
    module = build("mlp", (6,), 3, 0)
    for engine in ("kernels", "loop"):
        trainer = local_trainer(
            TrainingTask.of(data, module, Local(), SEED, workers=1, engine=engine)
        )
        found = trainer.losses(trainer.task.layout.vector(module), np.array([1, 0]))
        with torch.no_grad():
            expected = [
                float(cross_entropy(module(data.x[own]), data.y[own]))
                for own in (data.clients[1], held[0])
            ]
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_module_that_goes_another_way_in_evaluation_is_evaluated_by_torch():
    data = federation((8, 6), (6,), 3, dtype=torch.float32)
    module = made(OtherInEvaluation, torch.float32).train()
    trainer = local_trainer(TrainingTask.of(data, module, Local(), SEED, workers=1))
    params = trainer.task.layout.vector(module)
    assert trainer.task.recipe.engine.reason == "its forward does something else in evaluation"
    with torch.no_grad():
        expected = torch.tanh(module.layer(data.x[data.clients[1]]))
    assert torch.equal(trainer.outputs(params, data.clients[1]), expected)
    assert trainer.losses(params, np.array([1]))[0] == pytest.approx(
        float(cross_entropy(expected, data.y[data.clients[1]])), rel=1e-6
    )


@pytest.mark.parametrize("engine", ["auto", "loop"])
def test_weights_that_lie_in_another_order_are_trained_and_evaluated(engine):
    """Channels last: a `view` behind a convolution would fail before it is trained."""

    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(2, 3, 2), nn.Linear(3 * 3 * 3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x).view(len(x) if engine == "loop" else x.size(0), -1))

    data = federation((8, 9), (2, 4, 4), 3)
    module = made(Viewing)
    results = []
    for kind in (torch.contiguous_format, torch.channels_last):
        run = simulate(
            data, fedavg(), model=module.to(memory_format=kind), rounds=2, seed=1, engine=engine
        )
        results.append([log.metrics["test_loss"] for log in run])
    assert results[0] == results[1]

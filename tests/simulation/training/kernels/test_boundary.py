"""What reaches the kernels is checked: the answer is the loop's, or an error that says why."""

from __future__ import annotations

import random
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.simulation.small import cohort, federation
from tests.simulation.training.kernels.nets import (
    assert_like_torch,
    made,
    needs_kernels,
    recipe,
    trained,
)
from understudy import fedavg
from understudy.core.flat import Layout
from understudy.core.roles import Trainer
from understudy.parts.local import Local
from understudy.simulation import Federation, TrainingTask, local_trainer, simulate
from understudy.simulation.training.engines import choose, engine_for
from understudy.simulation.training.jobs import Job
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernels.memory import memory
from understudy.simulation.training.local_sgd import LoopEngine

pytestmark = needs_kernels

WAIT = 120.0  # seconds, at most
LOCAL = Local(lr=0.1, epochs=2, batch_size=4)


def alike(module: nn.Module, data: Federation, clients: Any = (0, 1)) -> str:
    """By the engine that is chosen and by the loop: the same rows. Says which was chosen."""
    own = recipe(module, data, LOCAL)
    own = replace(own, engine=choose(own, data.x, data.y))
    found, losses = trained(engine_for(own, data.x, data.y), module, clients)
    expected, loop_losses = trained(LoopEngine(own, data.x, data.y), module, clients)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(losses, loop_losses, rtol=1e-9)
    return own.engine.name


# -- labels and inputs that are views --------------------------------------------------------------


def test_labels_that_are_a_column_of_a_table_are_the_column(build):
    """Its neighbour holds large numbers: read as labels they would be addresses far outside."""
    data = federation((20, 21), (6,), 3)
    table = torch.stack([torch.arange(len(data.y)) * 10**9, data.y], dim=1)
    viewed = Federation(data.x, table[:, 1], data.clients, data.test)
    module, engine = made(lambda: nn.Linear(6, 3)), KernelEngine
    expected = engine(recipe(module, data, LOCAL), data.x, data.y, library=build("float64"))
    found = engine(recipe(module, viewed, LOCAL), viewed.x, viewed.y, library=build("float64"))
    assert torch.equal(trained(found, module, [0, 1])[0], trained(expected, module, [0, 1])[0])
    assert alike(module, viewed).startswith("kernels")


def test_a_run_on_columns_of_a_table_has_the_bits_of_one_on_copies():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(300, 6)).astype(np.float32))
    table = torch.stack([torch.arange(300), (x[:, 0] > 0).long()], dim=1)
    clients, test = list(np.split(np.arange(240), 8)), np.arange(240, 300)
    runs = [
        simulate(Federation(x, y, clients, test), fedavg(local=LOCAL), model="mlp", rounds=3)
        for y in (table[:, 1], table[:, 1].clone())
    ]
    logs = [list(run) for run in runs]
    assert torch.equal(runs[0].state.params, runs[1].state.params)
    assert logs[0][-1].metrics["test_accuracy"] > 0.8


@pytest.mark.parametrize("value", [3, -1, -100, 2**62])
def test_labels_changed_in_place_to_no_class_are_an_error(build, value):
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    data = Federation(data.x, data.y.clone(), data.clients, data.test)
    engine = KernelEngine(recipe(module, data, LOCAL), data.x, data.y, library=build("float64"))
    before, _ = trained(engine, module, [1])
    data.y[int(data.clients[0][2])] = value
    with pytest.raises(IndexError, match=r"y: expected labels of 0 \.\. 2 for the model's outputs"):
        trained(engine, module, [0])
    after, _ = trained(engine, module, [1])  # whoever has good labels
    assert torch.equal(before, after)


def test_inputs_that_the_forward_fails_with_get_the_loop_and_its_error():
    """Torch flattens no examples of one number each."""
    data = federation((8, 9), (1,), 3)
    data = Federation(data.x.flatten(), data.y, data.clients, data.test)
    module = made(lambda: nn.Sequential(nn.Flatten(), nn.Linear(1, 3)))
    choice = choose(recipe(module, data, LOCAL), data.x, data.y)
    assert choice.plan is None
    assert choice.reason.startswith("its forward fails: Dimension out of range")


def test_inputs_that_need_gradients_are_trained_alike():
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    needing = Federation(data.x.clone().requires_grad_(), data.y, data.clients, data.test)
    assert alike(module, needing).startswith("kernels")


@pytest.mark.parametrize("kind", ["transposed", "every second", "a part of each", "offset"])
def test_inputs_that_are_views_are_trained_alike(kind):
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    wide = torch.cat([data.x, data.x], dim=1)
    x = {
        "transposed": lambda: data.x.t().contiguous().t(),
        "every second": lambda: data.x.repeat_interleave(2, dim=0)[::2],
        "a part of each": lambda: wide[:, 6:],
        "offset": lambda: torch.cat([torch.zeros(1), data.x.flatten()])[1:].view(-1, 6),
    }[kind]()
    assert torch.equal(x, data.x)
    alike(module, Federation(x, data.y, data.clients, data.test))


@pytest.mark.parametrize("name", ["x", "y"])
def test_data_that_were_taken_away_are_an_error(build, name):
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    given = {"x": data.x.clone(), "y": data.y.clone()}
    engine = KernelEngine(recipe(module, data, LOCAL), **given, library=build("float64"))
    given[name].untyped_storage().resize_(8)
    with pytest.raises(ValueError, match=rf"{name}: expected memory of \d+ bytes, got 8"):
        trained(engine, module, [0])


def test_inputs_of_another_shape_are_an_error(build):
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    x = data.x.clone()
    engine = KernelEngine(recipe(module, data, LOCAL), x, data.y, library=build("float64"))
    x.resize_(len(x), 2, 3)
    with pytest.raises(ValueError, match=r"x: expected examples of shape \(6,\), got \(2, 3\)"):
        trained(engine, module, [0])


# -- what layers say of themselves -----------------------------------------------------------------


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5))


def head_cut() -> nn.Module:
    """Three outputs, and `out_features` still says five."""
    module = net()
    module[2].weight = nn.Parameter(module[2].weight[:3].detach().clone())
    module[2].bias = nn.Parameter(module[2].bias[:3].detach().clone())
    return module


def short_bias() -> nn.Module:
    """Torch adds the one number to all outputs."""
    module = net()
    module[2].bias = nn.Parameter(torch.ones(1))
    return module


def doubled(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return 2 * nn.functional.linear(x, self.weight, self.bias)


def own_forward() -> nn.Module:
    module = net()
    module[2].forward = types.MethodType(doubled, module[2])
    return module


def low_rank() -> nn.Module:
    """As adapters are put into a layer: its forward is replaced by one with more to it."""
    module = net()
    head, more = module[2], nn.Linear(7, 5, bias=False)
    head.more = more
    plain = head.forward
    head.forward = lambda x: plain(x) + more(x)
    return module


def stride_changed() -> nn.Module:
    module = nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 2, (1, 1)), nn.Flatten(), nn.Linear(8, 3)
    )
    module[1].stride = (1, 2)
    return module


class Hooked(nn.Linear):
    """A class whose forward is not torch's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).flip(1)


SURGERY = {
    "head cut": head_cut,
    "short bias": short_bias,
    "own forward": own_forward,
    "low rank": low_rank,
    "another class": lambda: nn.Sequential(nn.Linear(6, 7), Hooked(7, 3)),
    "weight norm": lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 7)), nn.ReLU(), nn.Linear(7, 3)
    ),
    "stride changed": stride_changed,
}


@pytest.mark.parametrize("name", SURGERY)
def test_modules_after_surgery_are_trained_as_they_are(name):
    data, module = federation((8, 9), (6,), 3), made(SURGERY[name])
    engine = alike(module, data)
    assert engine.startswith("kernels") == (name == "head cut")


def test_attributes_are_not_believed(build):
    """The sizes of a plan are those of the weights."""
    data, module = federation((8, 9), (6,), 3), made(net)
    module[0].in_features, module[2].out_features = 1000, 1000
    assert_like_torch(build("float64"), module, data, LOCAL, [0, 1])


# -- forwards of one's own -------------------------------------------------------------------------


class Own(nn.Module):
    """A chain by itself; what is done with its hidden layer is a subclass's."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 7), nn.Linear(7, 3)
        self.rng, self.first.calls = random.Random(3), 0

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.hidden(self.first(x)))


class Reversed(torch.autograd.Function):
    """Another gradient than its forward's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


class OwnGradient(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return Reversed.apply(x)


class Mixed(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x)


class OwnDice(Own):
    """Decided by a generator of the module's own: its `repr` does not change."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.training and self.rng.random() < 0.2 else torch.relu(x)


class Counting(Own):
    """On a layer of torch's."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        self.first.calls += self.training
        return torch.relu(x) if self.first.calls < 4 else x


class OnlyTheHead(Own):
    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        return self.second.parameters(recurse)


class ByKind(Own):
    """Something else for what is no tensor."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) if isinstance(x, torch.Tensor) else torch.relu(x)


class ByNumber(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        several = isinstance(x, torch.Tensor) and len(x) > 3
        return torch.tanh(x) if several else torch.relu(x)


class Recomputed(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(torch.relu, x, use_reentrant=False)


OWN = {kind.__name__: kind for kind in (OwnGradient, Mixed, OwnDice, Counting, OnlyTheHead)}
OWN |= {kind.__name__: kind for kind in (ByKind, ByNumber, Recomputed)}


@pytest.mark.parametrize("name", OWN)
def test_forwards_that_are_no_chain_when_one_looks_closer_get_the_loop(name):
    data, module = federation((8, 9), (6,), 3), made(OWN[name])
    choice = choose(recipe(module, data, LOCAL), data.x, data.y)
    assert (choice.plan, choice.addressed_dropout) == (None, False)
    assert choice.reason


def test_a_plain_forward_of_ones_own_is_trained_by_the_kernels():
    assert alike(made(Own), federation((8, 9), (6,), 3)).startswith("kernels")


@pytest.mark.parametrize("engine", ["kernels", "loop"])
def test_mixed_precision_around_a_run_changes_nothing(engine):
    data = federation((8, 9), (6,), 3, dtype=torch.float32)

    def losses() -> list[float]:
        run = simulate(data, fedavg(local=LOCAL), model="mlp", rounds=3, seed=1, engine=engine)
        return [log.metrics["test_loss"] for log in run]

    alone = losses()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert losses() == alone


# -- convolutions of any width ---------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 15, 16, 17, 21, 24, 32, 33, 40, 64, 65])
def test_convolutions_of_any_width_behind_another_layer(width):
    """64 is the most that the kernels take."""
    data = federation((4, 5), (1, 3, 66), 3)

    def make() -> nn.Module:
        left = 66 - width + 1
        return nn.Sequential(
            nn.Conv2d(1, 2, 1), nn.Conv2d(2, 3, (2, width)), nn.Flatten(),
            nn.Linear(3 * 2 * left, 3),
        )  # fmt: skip

    assert alike(made(make), data).startswith("kernels") == (width <= 64)


# -- parameters and indices ------------------------------------------------------------------------


def trainers() -> list[Trainer]:
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    return [
        local_trainer(TrainingTask.of(data, module, LOCAL, 1, engine=name))
        for name in ("kernels", "loop")
    ]


BAD_PARAMS = {
    "short": (torch.zeros(3, dtype=torch.float64), ValueError),
    "long": (torch.zeros(22, dtype=torch.float64), ValueError),
    "half": (torch.zeros(21, dtype=torch.float16), ValueError),
    "whole numbers": (torch.zeros(21, dtype=torch.int64), ValueError),
    "matrix": (torch.zeros(3, 7, dtype=torch.float64), ValueError),
    "array": (np.zeros(21), TypeError),
}


@pytest.mark.parametrize("name", BAD_PARAMS)
def test_parameters_that_do_not_fit_are_the_same_error_for_both_engines(name):
    params, kind = BAD_PARAMS[name]
    told = set()
    for trainer in trainers():
        for call in (
            lambda by: by.train(params, cohort([0])),
            lambda by: by.losses(params, np.array([0])),
            lambda by: by.outputs(params, np.array([0])),
        ):
            with pytest.raises(kind, match="params: expected") as error:
                call(trainer)
            told.add(str(error.value))
    assert len(told) == 1


@pytest.mark.parametrize("made_of", ["a view", "needs gradients"])
def test_parameters_that_fit_are_taken_however_they_lie(made_of):
    by_kernels, by_loop = trainers()
    vector = torch.randn(21, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    params = vector.repeat_interleave(2)[::2] if made_of == "a view" else vector.requires_grad_()
    asked = np.arange(5)
    for trainer in (by_kernels, by_loop):
        arrivals = trainer.train(params, cohort([0, 1]))
        plain = trainer.train(vector.detach().clone(), cohort([0, 1]), into="plain")
        assert torch.equal(arrivals.deltas, plain.deltas)
        assert not arrivals.deltas.requires_grad
    found, expected = (by.outputs(params, asked) for by in (by_kernels, by_loop))
    torch.testing.assert_close(found, expected)


BAD_INDICES = {
    "beyond": (np.array([0, 10**6]), IndexError),
    "negative": (np.array([0, -1]), IndexError),
    "fractions": (np.array([0.0, 1.0]), TypeError),
    "a matrix": (np.zeros((2, 2), dtype=np.int64), TypeError),
}


@pytest.mark.parametrize("name", BAD_INDICES)
def test_indices_that_do_not_fit_are_the_same_error_for_both_engines(name):
    indices, kind = BAD_INDICES[name]
    told = set()
    for trainer in trainers():
        with pytest.raises(kind, match="indices: expected") as error:
            trainer.outputs(torch.zeros(21, dtype=torch.float64), indices)
        told.add(str(error.value))
    assert len(told) == 1


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_indices_of_any_whole_type_are_taken(dtype):
    indices = np.array([3, 1, 4, 1, 5, 9, 2, 6]).astype(dtype)[::2]
    params = torch.linspace(-1, 1, 21, dtype=torch.float64)
    found, expected = (by.outputs(params, indices) for by in trainers())
    torch.testing.assert_close(found, expected)


def test_the_engine_itself_refuses_indices_of_examples_that_are_not_there(build):
    """A client's own list, changed after the engine was made."""
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    for beyond in (-1, len(data.x), 2**62):
        held = data.clients[0].copy()
        own = replace(recipe(module, data, LOCAL), clients=(held, data.clients[1]))
        engine = KernelEngine(own, data.x, data.y, library=build("float64"))
        held[3] = beyond
        with pytest.raises(IndexError, match=r"clients\[0\]: expected indices of 0 \.\. "):
            trained(engine, module, [0])
        params = Layout.of(module).vector(module)
        with pytest.raises(IndexError, match="indices: expected indices of 0"):
            engine.outputs(params, np.array([0, beyond]))


def test_rows_that_do_not_fit_are_refused(build):
    data, module = federation((8, 9), (6,), 3), made(lambda: nn.Linear(6, 3))
    engine = KernelEngine(recipe(module, data, LOCAL), data.x, data.y, library=build("float64"))
    params = Layout.of(module).vector(module)

    def job(**changed: Any) -> Job:
        matrix = torch.zeros(1, 21, dtype=torch.float64)
        return replace(Job(0, [0], [0], params, matrix), **changed)

    rows = torch.zeros(1, 42, dtype=torch.float64)
    for name, refused in {
        "matrix: expected rows of 21 numbers": job(matrix=rows),
        "matrix: expected numbers that lie densely": job(matrix=rows[:, ::2]),
        "matrix: expected float64": job(matrix=torch.zeros(1, 21)),
        "starts: expected rows of 21 numbers": job(starts=rows),
        "rows: expected 0 .. 0, got 1": job(rows=[1]),
        "corrections: expected float64": job(corrections=torch.zeros(1, 21)),
    }.items():
        with pytest.raises((ValueError, TypeError, IndexError), match=name):
            engine.train(refused)
    assert not rows.any()


def test_one_function_says_where_numbers_lie():
    """A view is copied where it is read, and refused where it would be written."""
    kind, table = np.dtype(np.int64), torch.arange(12).view(6, 2)
    column = memory("y", table[:, 1], kind, (6,))
    assert column.owner.tolist() == [1, 3, 5, 7, 9, 11]
    assert column.address == column.owner.data_ptr() != table.data_ptr()
    dense = memory("y", table, kind, (6, 2), writes=True)
    assert (dense.address, dense.owner) == (table.data_ptr(), table)
    array = np.arange(6)
    assert memory("y", array, kind, (6,), writes=True).address == array.ctypes.data
    array.flags.writeable = False
    assert memory("y", array, kind, (6,)).address == array.ctypes.data
    shifted = np.frombuffer(b"\0" + array.tobytes(), dtype=np.int64, offset=1)
    aligned = memory("y", shifted, kind, (6,))
    assert (aligned.address % 8, aligned.owner.tolist()) == (0, [0, 1, 2, 3, 4, 5])
    for values, writes, told in (
        (table[:, 1], True, "y: expected numbers that lie densely in memory, got a view"),
        (array, True, "y: expected numbers that lie densely and can be written, got a view"),
        (table[:5, 1], False, r"y: expected shape \(6,\), got \(5,\)"),
        (table[:, 1].int(), False, "y: expected int64, got torch.int32"),
        (array.astype(">i8"), False, "y: expected int64, got >i8"),
        (table[:, 1].to("meta"), False, "y: expected a plain tensor in the CPU's memory"),
        (table[:, 1].to_sparse(), False, "y: expected a plain tensor in the CPU's memory"),
        ([1] * 6, False, "y: expected a torch tensor, got list"),
    ):
        with pytest.raises((ValueError, TypeError), match=told):
            memory("y", values, kind, (6,), writes=writes)


OPTIMIZED = """
import numpy as np, torch
from tests.simulation.training.kernels.test_boundary import trainers
assert False, "asserts are off"
by = trainers()[0]
for params, indices in ((torch.zeros(3).double(), [0]), (torch.zeros(21).double(), [10**9])):
    try:
        by.outputs(params, np.array(indices))
        print("no error")
    except (ValueError, IndexError) as error:
        print(type(error).__name__)
"""


@pytest.mark.process
def test_checks_are_there_without_asserts():
    done = subprocess.run(
        [sys.executable, "-O", "-c", OPTIMIZED],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    assert done.stdout.split() == ["ValueError", "IndexError"], done.stdout + done.stderr

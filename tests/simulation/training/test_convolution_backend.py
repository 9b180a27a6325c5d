"""Which convolution kernels train a model: a rule, kept with the run, and put back afterwards."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.simulation.small import SEED, cohort, federation
from understudy import CheckpointError, Local, fedavg
from understudy.memory.tensor_stream import Reader
from understudy.simulation import TrainingTask, build, local_trainer, simulate
from understudy.simulation.training.convolution_backend import kernels, measure


def flags() -> tuple[bool, bool, int]:
    return (
        torch.backends.mkldnn.enabled,
        torch._C._get_nnpack_enabled(),
        torch.get_num_threads(),
    )


def test_the_two_networks_of_fdms_by_hand():
    """MNIST, batch 5: off. CIFAR, batch 20: on. Multiply-adds of one example:

    MNIST: 24·24·10·25 = 144,000 from one channel, 8·8·20·10·25 = 320,000, 320·50 + 50·10 = 16,500.
    The second convolution does 5 · 320,000 = 1.6e6 < 4e6 a call: none is for oneDNN.
    CIFAR: 28·28·6·3·25 = 352,800, 10·10·16·6·25 = 240,000, 400·120 + 120·84 + 84·10 = 58,920.
    20 · 352,800 = 7.1e6 and 20 · 240,000 = 4.8e6 are both: 592,800 of 651,720.
    """
    mnist = measure(build("fdms_cnn", (1, 28, 28), 10, 0), torch.zeros(1, 1, 28, 28), 5)
    assert (mnist.per_example, mnist.onednn) == (480_500, False)
    cifar = measure(build("lenet5", (3, 32, 32), 10, 0), torch.zeros(1, 3, 32, 32), 20)
    assert (cifar.per_example, cifar.onednn) == (651_720, True)


def test_the_rule_by_hand():
    """A 1×1 convolution from two channels to two on 10×10: 400 a call and example, 4e6 at 10,000.

    One channel: never, however large the call. Groups: channels in each count.
    """
    image = torch.zeros(1, 2, 10, 10)
    two = nn.Conv2d(2, 2, 1)
    assert not measure(two, image, 9_999).onednn
    assert measure(two, image, 10_000).onednn
    assert measure(two, image, 10_000).per_example == 400
    grouped = nn.Conv2d(2, 2, 1, groups=2)
    assert measure(grouped, image, 10**6).per_example == 200
    assert not measure(grouped, image, 10**6).onednn
    assert not measure(nn.Conv2d(1, 4, 3), torch.zeros(1, 1, 10, 10), 10**6).onednn
    # at least half of all multiply-adds: 400 in the convolution, then 200 · 2 and 200 · 3
    layers = nn.Flatten(), nn.Linear(200, 2)
    assert measure(nn.Sequential(two, *layers), image, 10_000).onednn
    layers = nn.Flatten(), nn.Linear(200, 3)
    assert not measure(nn.Sequential(two, *layers), image, 10_000).onednn


def test_one_and_three_dimensions_and_models_without_convolutions():
    """Conv1d: 8 positions · 4 outputs · 2 inputs · 3 taps; Conv3d: 2³ · 4 · 2 · 3³."""
    line = measure(nn.Conv1d(2, 4, 3), torch.zeros(1, 2, 10), 1)
    assert line.per_example == 192
    cube = measure(nn.Conv3d(2, 4, 3), torch.zeros(1, 2, 4, 4, 4), 1)
    assert cube.per_example == 1728
    plain = measure(nn.Linear(6, 3), torch.zeros(1, 6), 1)
    assert (plain.per_example, plain.onednn) == (18, True)
    # no layer that is known: each parameter once
    assert measure(nn.Sequential(nn.PReLU(6)), torch.zeros(1, 6), 1).per_example == 6


def test_measuring_changes_nothing():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(), nn.Flatten())
    module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    measure(module, torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0)), 4)
    assert torch.equal(torch.rand(2), expected)
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(layer._forward_hooks for layer in module.modules())


@pytest.mark.parametrize("onednn", [True, False])
def test_flags_hold_inside_and_are_put_back(onednn):
    before = flags()
    with kernels(onednn):
        assert flags() == (onednn, False, 1)
        with kernels(not onednn):
            assert flags() == (not onednn, False, 1)
        assert flags() == (onednn, False, 1)
    assert flags() == before
    with pytest.raises(KeyError), kernels(onednn):
        raise KeyError
    assert flags() == before


class Spy:
    """A loss that notes the flags it is computed under."""

    def __init__(self, fails: bool = False) -> None:
        self.seen: list[tuple[bool, bool, int]] = []
        self.fails = fails

    def __call__(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.seen.append(flags())
        if self.fails:
            raise ArithmeticError("a loss of the user's")
        return cross_entropy(outputs, labels)


@pytest.mark.parametrize(
    ("model", "shape", "batch_size", "onednn"),
    [("fdms_cnn", (1, 28, 28), 5, False), ("lenet5", (3, 32, 32), 20, True)],
)
def test_training_uses_the_rule_and_leaves_torch_as_it_was(model, shape, batch_size, onednn):
    data = federation((20, 21), shape, 10, dtype=torch.float32)
    module, spy = build(model, shape, 10, 0), Spy()
    trainer = local_trainer(
        TrainingTask.of(data, module, Local(batch_size=batch_size), SEED, spy, workers=1)
    )
    assert trainer.task.recipe.onednn is onednn
    spy.seen.clear()  # what targets were looked at with
    params = trainer.task.layout.vector(module)
    torch.set_num_threads(2)
    try:
        before = flags()
        trainer.train(params, cohort([0, 1]))
        assert flags() == before
        assert set(spy.seen) == {(onednn, False, 1)}
        spy.fails = True
        with pytest.raises(ArithmeticError, match="a loss of the user's"):
            trainer.train(params, cohort([0, 1]))
        assert flags() == before
        with pytest.raises(ArithmeticError):
            trainer.losses(params, np.array([0]))
        assert flags() == before
    finally:
        torch.set_num_threads(1)


def test_the_growing_batch_does_not_change_the_choice():
    """One choice for a whole run, by its first batch size, or its bits would hang on the round."""
    data = federation((20, 21), (3, 32, 32), 10, dtype=torch.float32)
    local = Local(batch_size=5, batch_growth=1)
    trainer = local_trainer(TrainingTask.of(data, build("lenet5", (3, 32, 32), 10, 0), local, SEED))
    assert trainer.task.recipe.onednn is False


def test_the_choice_is_stored_with_the_run(tmp_path, monkeypatch):
    data = federation((10, 11), (3, 16, 16), 10, dtype=torch.float32)

    def call():
        strategy = fedavg(local=Local(batch_size=5))
        return simulate(data, strategy, model="lenet5", rounds=1, folder=tmp_path)

    list(call())
    about = Reader(tmp_path / "server" / "state.safetensors").about
    stored = json.loads(about["numbers"]["extra.about"])
    assert stored["onednn"] is False
    monkeypatch.setattr("understudy.simulation.training.convolution_backend.LARGE_CALL", 1)
    with pytest.raises(CheckpointError, match="onednn is False there, True here"):
        call()


def test_a_model_is_measured_once_a_run(tmp_path, monkeypatch):
    measured = []

    def counted(module, example, batch_size):
        measured.append(batch_size)
        return measure(module, example, batch_size)

    monkeypatch.setattr("understudy.simulation.training.preparation.measure", counted)
    data = federation((10, 11), (3, 16, 16), 10, dtype=torch.float32)
    strategy = fedavg(local=Local(batch_size=5))
    list(simulate(data, strategy, model="lenet5", rounds=1, folder=tmp_path))
    assert measured == [5]

"""Targets and outputs of different shape are an error before the first step, unless on purpose."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from understudy import Local, Run, fedavg
from understudy.simulation import Federation, Simulation, simulate
from understudy.simulation.training.targets import check_targets

STRATEGY = fedavg(local=Local(lr=0.1, epochs=5, batch_size=10))


def plane(shape=(-1,)):
    """y = 2 a − b, 4 clients; the variance of y is 5."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 2))).float()
    y = (2 * x[:, 0] - x[:, 1]).reshape(shape)
    return Federation.from_arrays(x, y, clients=np.arange(200) % 4)


def test_targets_without_a_column_become_one_for_built_in_models():
    flat = simulate(plane(), STRATEGY, model="softmax", loss=F.mse_loss, rounds=5)
    column = simulate(plane((-1, 1)), STRATEGY, model="softmax", loss=F.mse_loss, rounds=5)
    for a, b in zip(flat, column, strict=True):
        assert a.metrics == b.metrics
    assert flat.last.metrics["test_loss"] < 0.01  # not 5, that of the mean
    assert torch.equal(flat.state.params, column.state.params)
    assert flat.federation.y.shape == (200, 1)


def test_a_federation_in_columns_is_made_once_and_else_is_itself():
    federation = plane()
    assert federation.in_columns() is federation.in_columns()
    assert federation.y.shape == (200,)
    columns = plane((-1, 1))
    assert columns.in_columns() is columns
    assert copy.deepcopy(federation).in_columns().y.shape == (200, 1)


@pytest.mark.parametrize(
    "loss",
    [
        F.mse_loss,
        F.l1_loss,
        F.smooth_l1_loss,
        F.huber_loss,
        nn.MSELoss(),
        partial(F.mse_loss, reduction="mean"),
        lambda outputs, targets: 3 * F.mse_loss(target=targets, input=outputs),
        lambda outputs, targets: ((outputs - targets) ** 2).mean(),
        lambda outputs, targets: (targets.double() - torch.sigmoid(outputs)).abs().mean(),
    ],
)
def test_a_loss_that_would_broadcast_is_refused_before_the_first_step(loss):
    message = r"y: expected targets of shape \(n, 1\).*outputs have shape \(batch, 1\), got \(n,\)"
    with pytest.raises(ValueError, match=message):
        Run(plane(), STRATEGY, Simulation(model=lambda: nn.Linear(2, 1), loss=loss, rounds=1))


def test_a_target_of_several_columns_for_one_output_is_refused():
    module = nn.Linear(2, 1)
    with pytest.raises(ValueError, match=r"targets of shape \(n, 1\).* got \(n, 4\)"):
        check_targets(module, F.mse_loss, torch.zeros(5, 2), torch.zeros(5, 4))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_examples_are_enough(n):
    with pytest.raises(ValueError, match="mse_loss would broadcast"):
        check_targets(nn.Linear(2, 1), F.mse_loss, torch.zeros(n, 2), torch.zeros(n))


@pytest.mark.parametrize("loss", [F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss()])
def test_logits_in_a_column_and_labels_without_are_refused(loss):
    with pytest.raises(ValueError, match="binary_cross_entropy_with_logits would broadcast"):
        check_targets(nn.Linear(2, 1), loss, torch.zeros(4, 2), torch.ones(4))


QUANTILES = torch.tensor([0.1, 0.5, 0.9])


def pinball(outputs, targets):
    """Three quantiles of one target: one side is expanded on purpose."""
    error = targets - outputs
    return torch.maximum(QUANTILES * error, (QUANTILES - 1) * error).mean()


def ranking(outputs, targets):
    """All pairs: both sides are expanded on purpose, and of the same thing."""
    score = outputs.squeeze(1)
    differ = (score[:, None] - score[None]) * torch.sign(targets[:, None] - targets[None])
    return F.softplus(-differ).mean() + F.mse_loss(score, torch.zeros(()).expand(len(score)))


class Words(nn.Module):
    """(b, L) words -> (b, C, L) logits."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Embedding(7, 7)

    def forward(self, x):
        return self.inner(x).transpose(1, 2)


@pytest.mark.parametrize(
    ("module", "loss", "x", "y"),
    [
        (
            nn.Linear(2, 1),
            lambda o, y: F.mse_loss(o.squeeze(1), y),
            torch.zeros(6, 2),
            torch.ones(6),
        ),
        (nn.Linear(2, 1), lambda o, y: F.mse_loss(o, y[:, None]), torch.zeros(6, 2), torch.ones(6)),
        (nn.Linear(2, 3), pinball, torch.zeros(6, 2), torch.ones(6, 1)),
        (nn.Linear(2, 1), ranking, torch.zeros(6, 2), torch.ones(6)),
        (nn.Linear(2, 3), nn.CrossEntropyLoss(), torch.zeros(6, 2), torch.arange(6) % 3),
        (nn.Linear(2, 3), F.multi_margin_loss, torch.zeros(6, 2), torch.arange(6) % 3),
        (Words(), nn.CrossEntropyLoss(), torch.zeros(6, 4).long(), torch.zeros(6, 4).long()),
        (Words(), F.cross_entropy, torch.zeros(6, 4).long(), torch.zeros(6, 4).long()),
        (nn.Linear(2, 3), F.cross_entropy, torch.zeros(6, 2), torch.full((6, 3), 1 / 3)),
        (
            nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)),
            F.mse_loss,
            torch.zeros(6, 2),
            torch.ones(6),
        ),
    ],
)
def test_shapes_that_differ_for_a_reason_are_let_through(module, loss, x, y):
    check_targets(module, loss, x, y)
    assert torch.isfinite(loss(module(x), y))


@pytest.mark.parametrize(
    "y", [torch.rand(6), torch.ones(6, 1), torch.full((6, 2), 0.7), torch.tensor([[-1.0, 2.0]] * 6)]
)
def test_a_regression_needs_a_loss(y):
    with pytest.raises(ValueError, match=r"y: targets of a floating type.*give loss=…"):
        check_targets(nn.Linear(2, y.shape[-1]), F.cross_entropy, torch.zeros(6, 2), y)
    with pytest.raises(ValueError, match="give loss=…"):
        simulate(plane(), STRATEGY, model="mlp", rounds=1)


def test_looking_changes_nothing():
    """Neither torch's generator, nor the module's mode and statistics."""
    module = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1), nn.Dropout(0.5)).train()
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()

    def noisy(outputs, targets):
        return F.mse_loss(outputs + torch.rand(()), targets)

    check_targets(module, noisy, torch.zeros(6, 2), torch.ones(6, 1))
    assert torch.equal(state, torch.get_rng_state())
    assert module.training
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


def test_other_errors_of_a_loss_are_the_first_steps_to_raise():
    def broken(outputs, targets):
        raise KeyError("no such thing")

    check_targets(nn.Linear(2, 1), broken, torch.zeros(6, 2), torch.ones(6, 1))

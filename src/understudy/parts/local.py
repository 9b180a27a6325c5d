"""`Local`: how clients train; its rules `Plain`, `Proximal` (FedProx) and `Scaffold` (SCAFFOLD)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.roles import LocalRule, Schedule
from understudy.core.types import Ints, RoundEnd, Setup
from understudy.memory.rows import RowStore
from understudy.parts.optimizers import check_optimizer
from understudy.parts.schedules import constant

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


UPDATE, LAST_GRADIENT = "update", "last_gradient"  # what a client sends


@dataclass(frozen=True)
class Plain:
    """Plain stochastic gradient descent."""

    mu = 0.0
    needs_steps = False

    def init(self, setup: Setup) -> None:
        return None

    def correction(self, state: None, ids: Ints) -> None:
        return None

    def learn(self, state: None, end: RoundEnd) -> None:
        return None


@dataclass(frozen=True)
class Proximal:
    """FedProx: each gradient gets μ (w − w_start), which holds the client near the global model.

    Parameters
    ----------
    mu : float
        μ ≥ 0; FedGS's comparison uses 0.01, FL-FDMS's 0.2.
    """

    mu: float = 0.01
    needs_steps = False

    def __post_init__(self) -> None:
        checks.number("mu", self.mu, low=0)

    def init(self, setup: Setup) -> None:
        return None

    def correction(self, state: None, ids: Ints) -> None:
        return None

    def learn(self, state: None, end: RoundEnd) -> None:
        return None


@dataclass
class ScaffoldState:
    common: torch.Tensor  # (d,) c
    own: RowStore  # c_i, zero where there is no row


@dataclass(frozen=True)
class Scaffold:
    """SCAFFOLD, option II, zero initial variates, all kept by the server.

    A client adds c − c_i to each gradient and sends back Δ_i and its number of steps K_i; then
    c_i ← c_i − c − Δ_i / (K_i η) and c ← c + (1/N) Σ Δc_i. Nothing else travels.

    Notes
    -----
    A late update is dropped: the variates it would need are gone. Momentum and optimizers other
    than SGD are refused, because Δ_i / (K_i η) is the mean gradient of plain steps only. Buffers
    have no variate.

    References
    ----------
    Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, 2020.
    """

    mu = 0.0
    needs_steps = True

    def check(self, strategy: Strategy) -> None:
        refuse_unless_plain_steps(self, strategy)

    def init(self, setup: Setup) -> ScaffoldState:
        return ScaffoldState(common=torch.zeros_like(setup.params), own=setup.rows())

    def correction(self, state: ScaffoldState, ids: Ints) -> Callable[[int], torch.Tensor]:
        # rows in a file are on the CPU, wherever the model is
        device = state.common.device
        return lambda client: state.common - state.own.get(client).to(device)

    def learn(self, state: ScaffoldState, end: RoundEnd) -> None:
        if not len(end.arrivals):
            return
        assert end.arrivals.n_steps is not None  # refused before it comes here
        eta, n_active = end.lr(end.t), int(end.active.sum())
        change = torch.zeros_like(state.common)
        for (client, delta), n_steps in zip(end.arrivals, end.arrivals.n_steps, strict=True):
            before = state.own.get(client).to(state.common.device)
            after = before - state.common - delta / (float(n_steps) * eta)
            after[end.n_parameters :] = 0
            change += after - before  # first: `before` is borrowed from the row that is written
            state.own.put(client, after)
        state.common += change / n_active


def reply_of(local: Local) -> str:
    """What a client sends: its displacement, or the last gradient times −η."""
    return str(getattr(local.rule, "reply", UPDATE))


def refuse_unless_plain_steps(rule: LocalRule, strategy: Strategy) -> None:
    """For `check`: the rule reads gradients off what clients send."""
    name = type(rule).__name__
    if strategy.local.momentum > 0:
        raise ValueError(
            f"local.momentum: expected 0 with {name}, whose variates are gradients of plain steps, "
            f"got {strategy.local.momentum!r}"
        )
    if not strategy.local.plain_sgd:
        raise ValueError(
            f"local.optimizer: expected 'sgd' without options with {name}, whose variates are "
            f"gradients of plain steps, got {strategy.local.optimizer!r}"
        )


@dataclass(frozen=True)
class Local:
    """How a client trains in one round.

    Parameters
    ----------
    lr : float
        Local step η_L.
    schedule : function of the updates made
        Factor on `lr` after t = 0, 1, … updates of the model: a round in which the model stood
        still does not count.
    epochs : int
        Passes over the client's data; not used when `steps` is given.
    steps : int, optional
        Number of batches instead of epochs.
    batch_size : int
        Examples a batch (in round 0).
    batch_growth : float
        B_t = batch_size · (1 + batch_growth · t): 1 gives FL-FDMS's growing batch.
    momentum, weight_decay : float
        As in torch's SGD; given to other optimizers too, and refused where they have none.
    rule : LocalRule
        `Plain`, `Proximal`, `Scaffold`, `AmplifiedScaffold` or `Focus`.
    optimizer : str
        A class of ``torch.optim`` in upper or lower case, such as ``"adam"``; created for each
        client and round, without memory.
    optimizer_options : dict
        Its other arguments, as numbers: ``{"betas": (0.9, 0.99)}``.

    Examples
    --------
    >>> from understudy import Local
    >>> local = Local(lr=0.001, optimizer="adamw", weight_decay=0.01)
    """

    lr: float = 0.1
    schedule: Schedule = constant
    epochs: int = 1
    steps: int | None = None
    batch_size: int = 32
    batch_growth: float = 0
    momentum: float = 0.0
    weight_decay: float = 0.0
    rule: LocalRule = field(default_factory=Plain)
    optimizer: str = added("0.1", "sgd")
    optimizer_options: Mapping[str, Any] = added("0.1", factory=dict, hash=False)

    def __post_init__(self) -> None:
        checks.number("lr", self.lr, low=0, low_open=True)
        checks.function("schedule", self.schedule)
        checks.integer("epochs", self.epochs, low=1)
        if self.steps is not None:
            checks.integer("steps", self.steps, low=1)
        checks.integer("batch_size", self.batch_size, low=1)
        checks.number("batch_growth", self.batch_growth, low=0)
        checks.number("momentum", self.momentum, low=0, high=1, high_open=True)
        checks.number("weight_decay", self.weight_decay, low=0)
        checks.part("rule", self.rule, "init", "correction", "learn")
        check_optimizer(self)
        object.__setattr__(self, "optimizer_options", dict(self.optimizer_options))

    @property
    def plain_sgd(self) -> bool:
        """Whether steps are those of SGD with momentum, which all engines can make."""
        return str(self.optimizer).lower() == "sgd" and not self.optimizer_options

    def lr_at(self, t: int) -> float:
        """The local step after `t` updates of the model."""
        return float(self.lr * self.schedule(t))

    def batch_size_at(self, t: int) -> int:
        """B_t, the batch size of round `t`."""
        return max(1, round(self.batch_size * (1 + self.batch_growth * t)))

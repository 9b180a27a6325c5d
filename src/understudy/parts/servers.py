"""`Sgd`, `Momentum`, `Adam`, `Yogi`: server optimizers (Reddi et al., 2021).

They act on the parameters; buffers behind them (running means, …) take the aggregated value as it
is, since a scaled or adaptive step could make a running variance negative.

References
----------
Reddi et al., Adaptive Federated Optimization, 2021 (their algorithm 2; no bias correction).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from understudy.core import checks
from understudy.core.roles import Schedule
from understudy.core.types import Setup
from understudy.parts.schedules import constant


@dataclass
class FirstMoment:
    n_parameters: int
    m: torch.Tensor  # (n_parameters,)


@dataclass
class TwoMoments:
    n_parameters: int
    m: torch.Tensor  # (n_parameters,)
    v: torch.Tensor  # (n_parameters,)


@dataclass
class NoMoment:
    n_parameters: int


@dataclass(frozen=True)
class Sgd:
    """x ← x + lr · Δ.

    Parameters
    ----------
    lr : float
        Server step η.
    schedule : function of the updates made
        Factor on `lr` after t = 0, 1, … updates of the model.
    """

    lr: float = 1.0
    schedule: Schedule = constant

    def __post_init__(self) -> None:
        _check_step(self.lr, self.schedule)

    def init(self, setup: Setup) -> NoMoment:
        return NoMoment(setup.n_parameters)

    def step(
        self, state: NoMoment, params: torch.Tensor, update: torch.Tensor, t: int
    ) -> torch.Tensor:
        change = update[: state.n_parameters] * (self.lr * self.schedule(t))
        return _moved(params, update, change)


@dataclass(frozen=True)
class Momentum:
    """m ← β m + Δ, x ← x + lr · m.

    Parameters
    ----------
    lr, schedule
        As in `Sgd`.
    beta : float
        β in [0, 1).
    """

    lr: float = 1.0
    beta: float = 0.9
    schedule: Schedule = constant

    def __post_init__(self) -> None:
        _check_step(self.lr, self.schedule)
        checks.number("beta", self.beta, low=0, high=1, high_open=True)

    def init(self, setup: Setup) -> FirstMoment:
        return FirstMoment(setup.n_parameters, torch.zeros_like(setup.params[: setup.n_parameters]))

    def step(
        self, state: FirstMoment, params: torch.Tensor, update: torch.Tensor, t: int
    ) -> torch.Tensor:
        state.m.mul_(self.beta).add_(update[: state.n_parameters])
        return _moved(params, update, state.m * (self.lr * self.schedule(t)))


@dataclass(frozen=True)
class Adam:
    """FedAdam: m ← β₁m + (1−β₁)Δ, v ← β₂v + (1−β₂)Δ², x ← x + lr · m / (√v + τ).

    Parameters
    ----------
    lr, schedule
        As in `Sgd`.
    beta1, beta2 : float
        β₁, β₂ in [0, 1).
    tau : float
        τ > 0, the degree of adaptivity; v starts at τ².
    """

    lr: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    schedule: Schedule = constant

    def __post_init__(self) -> None:
        _check_adaptive(self)

    def init(self, setup: Setup) -> TwoMoments:
        return _two_moments(setup, self.tau)

    def step(
        self, state: TwoMoments, params: torch.Tensor, update: torch.Tensor, t: int
    ) -> torch.Tensor:
        def second(v: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
            return v.mul_(self.beta2).add_(square, alpha=1 - self.beta2)

        return _adaptive(self, state, params, update, t, second)


@dataclass(frozen=True)
class Yogi:
    """FedYogi: as `Adam`, but v ← v − (1−β₂) Δ² sign(v − Δ²).

    Parameters
    ----------
    lr, beta1, beta2, tau, schedule
        As in `Adam`.
    """

    lr: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    schedule: Schedule = constant

    def __post_init__(self) -> None:
        _check_adaptive(self)

    def init(self, setup: Setup) -> TwoMoments:
        return _two_moments(setup, self.tau)

    def step(
        self, state: TwoMoments, params: torch.Tensor, update: torch.Tensor, t: int
    ) -> torch.Tensor:
        def second(v: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
            return v.sub_(square * torch.sign(v - square), alpha=1 - self.beta2)

        return _adaptive(self, state, params, update, t, second)


def _adaptive(
    part: Adam | Yogi,
    state: TwoMoments,
    params: torch.Tensor,
    update: torch.Tensor,
    t: int,
    second: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    delta = update[: state.n_parameters]
    state.m.mul_(part.beta1).add_(delta, alpha=1 - part.beta1)
    second(state.v, delta.square())
    change = state.m / (state.v.sqrt() + part.tau) * (part.lr * part.schedule(t))
    return _moved(params, update, change)


def _moved(params: torch.Tensor, update: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    return params + torch.cat([change, update[len(change) :]])


def _two_moments(setup: Setup, tau: float) -> TwoMoments:
    leading = setup.params[: setup.n_parameters]
    return TwoMoments(
        setup.n_parameters, torch.zeros_like(leading), torch.full_like(leading, tau**2)
    )


def _check_step(lr: float, schedule: Schedule) -> None:
    checks.number("lr", lr, low=0, low_open=True)
    checks.function("schedule", schedule)


def _check_adaptive(part: Adam | Yogi) -> None:
    _check_step(part.lr, part.schedule)
    checks.number("beta1", part.beta1, low=0, high=1, high_open=True)
    checks.number("beta2", part.beta2, low=0, high=1, high_open=True)
    checks.number("tau", part.tau, low=0, low_open=True)

"""Parts that only the studies of other readings need: what a paper or its code says elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from torch import nn

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Bools, Floats, Ints, Population, RoundEnd, RoundStart, Setup
from understudy.papers.fedgs_synthetic import fedgs_synthetic
from understudy.parts.availability.dropout import FixedDropout, FixedDropoutState
from understudy.parts.availability.skewed import (
    ROUNDS_PER_DAY,
    SkewedState,
    draw_somebody,
    lognormal_chances,
    repeated_rates,
)
from understudy.simulation.data.federation import Federation


def fdms_cnn_320() -> nn.Module:
    """FL-FDMS's network for MNIST by the paper's words: one fully connected layer of 320 units."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(320, 320), nn.ReLU(), nn.Linear(320, 10),
    )  # fmt: skip


def synthetic_without_validation(
    alpha: float = 0.5, beta: float = 0.5, n_clients: int = 30, seed: int = 97
) -> Federation:
    """The authors' Synthetic without its held-out part: losses are asked on what is trained on."""
    return replace(fedgs_synthetic(alpha, beta, n_clients, seed=seed), validation=None)


@dataclass(frozen=True)
class AtMostDropout:
    """At most αN clients are missing: in each round a number from 0 to round(αN), equally likely.

    Parameters
    ----------
    alpha : float
        α, the largest share of clients that are missing, in [0, 1].
    first_round_full : bool
        Whether nobody is missing in round 0.
    keep_one_per_group : bool
        Whether one client of each group is always present, as in `FixedDropout`.
    """

    alpha: float = 0.5
    first_round_full: bool = False
    keep_one_per_group: bool = added("0.2", False, before=True)

    def __post_init__(self) -> None:
        self._exactly()  # which checks them

    def init(self, population: Population) -> FixedDropoutState:
        return self._exactly().init(population)

    def _exactly(self) -> FixedDropout:
        return FixedDropout(self.alpha, self.keep_one_per_group, self.first_round_full)

    def draw(self, state: FixedDropoutState, t: int, rng: np.random.Generator) -> Bools:
        n_clients = len(state.groups)
        n_present = int(rng.integers(state.n_present, n_clients + 1))
        chosen = FixedDropoutState(state.groups, state.n_groups, n_present)
        return self._exactly().draw(chosen, t, rng)

    def rates(self, state: FixedDropoutState, t: int) -> Floats:
        each = [
            self._exactly().rates(FixedDropoutState(state.groups, state.n_groups, n_present), t)
            for n_present in range(state.n_present, len(state.groups) + 1)
        ]
        return np.asarray(np.mean(each, axis=0))


@dataclass(frozen=True)
class SinLogNormal23:
    """SLN as the authors' code has it: days of 24 rounds that step by 2π/23.

    Parameters
    ----------
    beta : float
        β in [0, 1), as in `SinLogNormal`.
    seed : int
        Which clients.
    """

    beta: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0, high=1, high_open=True)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population) -> SkewedState:
        return SkewedState(p=lognormal_chances(population.n_clients, self.beta, self.seed))

    def draw(self, state: SkewedState, t: int, rng: np.random.Generator) -> Bools:
        return draw_somebody(self._chances(state, t), rng, f"SinLogNormal23 (round {t})")

    def rates(self, state: SkewedState, t: int) -> Floats:
        return repeated_rates(self._chances(state, t))

    def _chances(self, state: SkewedState, t: int) -> Floats:
        angle = 2 * math.pi * (t % ROUNDS_PER_DAY) / (ROUNDS_PER_DAY - 1)
        return state.p * (0.4 * math.sin(angle) + 0.5)


@dataclass(frozen=True)
class HalfOfThoseThere:
    """FedAvg (S = 50) read as half of the reachable clients, by chance, at least one."""

    share: float = field(default=0.5)

    def __post_init__(self) -> None:
        checks.number("share", self.share, low=0, high=1, low_open=True)

    def init(self, setup: Setup) -> None:
        return None

    def pick(self, state: None, start: RoundStart) -> tuple[Ints, Floats]:
        reachable = np.flatnonzero(start.available)
        m = min(max(1, int(self.share * len(reachable))), len(reachable))
        return start.rng.choice(reachable, size=m, replace=False), np.ones(m)

    def learn(self, state: None, end: RoundEnd) -> None:
        return None

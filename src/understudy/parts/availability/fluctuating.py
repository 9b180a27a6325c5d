"""`Sine`, `Staircase` (FedAWE): independent draws whose probabilities rise and fall together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.roles import Chances
from understudy.core.types import Bools, Floats, Population
from understudy.parts.availability.bernoulli import BernoulliState
from understudy.parts.availability.chances import chances_of, check_chances


@dataclass(frozen=True)
class Sine:
    """p_i(t) = p_i · (amplitude · sin(2πt/period) + 1 − amplitude), and 0 where below `cut`.

    Parameters
    ----------
    p : float or Chances
        p_i: the same for everyone, or what gives each client its own.
    amplitude : float
        In [0, ½]; 0: constant, ½: the factor runs from 1 down to 0.
    period : float
        Rounds, > 0.
    cut : float
        A probability below it is 0, in [0, 1]: whoever comes seldom has times of never coming.

    Notes
    -----
    The defaults are FedAWE's sine; its interleaved sine has a cut of 0.1. All clients rise and fall
    together; for peaks that are spread there is `Diurnal`. A round without anybody is possible and
    is not drawn again.

    References
    ----------
    Xiang et al., Efficient Federated Learning against Heterogeneous and Non-stationary Client
    Unavailability, NeurIPS 2024.
    """

    p: float | Chances = 0.5
    amplitude: float = 0.3
    period: float = 20
    cut: float = 0.0

    def __post_init__(self) -> None:
        check_chances("p", self.p)
        checks.number("amplitude", self.amplitude, low=0, high=0.5)
        checks.number("period", self.period, low=0, low_open=True)
        checks.number("cut", self.cut, low=0, high=1)

    def init(self, population: Population) -> BernoulliState:
        return BernoulliState(p=chances_of(self.p, population))

    def draw(self, state: BernoulliState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.p)) < self.rates(state, t)  # <: nobody comes at a rate of 0

    def rates(self, state: BernoulliState, t: int) -> Floats:
        factor = self.amplitude * math.sin(2 * math.pi * t / self.period) + 1 - self.amplitude
        rates = np.clip(state.p * factor, 0.0, 1.0)
        return np.where(rates < self.cut, 0.0, rates)


@dataclass(frozen=True)
class Staircase:
    """p_i(t) = p_i in every first block of rounds, low · p_i in every second.

    Parameters
    ----------
    p : float or Chances
        p_i: the same for everyone, or what gives each client its own.
    low : float
        Factor in the second, fourth, … block, in [0, 1].
    rounds_each : int
        Length of a block.

    Notes
    -----
    The defaults are FedAWE's. A round without anybody is possible and is not drawn again.

    References
    ----------
    Xiang et al., Efficient Federated Learning against Heterogeneous and Non-stationary Client
    Unavailability, NeurIPS 2024.
    """

    p: float | Chances = 0.5
    low: float = 0.4
    rounds_each: int = 10

    def __post_init__(self) -> None:
        check_chances("p", self.p)
        checks.number("low", self.low, low=0, high=1)
        checks.integer("rounds_each", self.rounds_each, low=1)

    def init(self, population: Population) -> BernoulliState:
        return BernoulliState(p=chances_of(self.p, population))

    def draw(self, state: BernoulliState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.p)) < self.rates(state, t)

    def rates(self, state: BernoulliState, t: int) -> Floats:
        return state.p * (self.low if (t // self.rounds_each) % 2 else 1.0)

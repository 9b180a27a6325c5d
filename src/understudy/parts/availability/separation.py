"""`MinSeparation`: whoever was there rests for some rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.core import checks
from understudy.core.roles import Availability
from understudy.core.types import Bools, Floats, Ints, Population
from understudy.parts.availability.bernoulli import Bernoulli


@dataclass
class MinSeparationState:
    last: Ints  # (N,) last round in which a client was there
    inner: Any


@dataclass(frozen=True)
class MinSeparation:
    """A client that was there rests for some rounds; otherwise `inner` decides.

    Parameters
    ----------
    rounds : int
        R, rounds of rest, ≥ 0. With independent draws of probability p a client is there in a share
        p/(1 + R p) of all rounds.
    inner : Availability
        Any; it is drawn for all in each round.

    Notes
    -----
    Being there counts, whether the sampler asked or not: attendance then is the same for all
    strategies. `rates` are probabilities given who rests: 0, or those of `inner`.

    References
    ----------
    Debiasing Federated Learning with Correlated Client Participation, ICLR 2025 (arXiv 2410.01209).
    """

    rounds: int = 3
    inner: Availability = field(default_factory=lambda: Bernoulli(0.5))

    def __post_init__(self) -> None:
        checks.integer("rounds", self.rounds, low=0)
        checks.part("inner", self.inner, "init", "draw", "rates")

    def init(self, population: Population) -> MinSeparationState:
        never = np.full(int(population.n_clients), -1 - self.rounds, dtype=np.int64)
        return MinSeparationState(never, self.inner.init(population))

    def draw(self, state: MinSeparationState, t: int, rng: np.random.Generator) -> Bools:
        here = np.asarray(self.inner.draw(state.inner, t, rng)) & ~self._resting(state, t)
        state.last[here] = t
        return here

    def rates(self, state: MinSeparationState, t: int) -> Floats | None:
        rates = self.inner.rates(state.inner, t)
        return None if rates is None else np.where(self._resting(state, t), 0.0, rates)

    def _resting(self, state: MinSeparationState, t: int) -> Bools:
        # a round drawn a second time is drawn as at first: its own visits do not count
        return (state.last < t) & (t - state.last <= self.rounds)

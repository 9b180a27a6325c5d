"""`FedAU` (Wang and Ji, 2024): each update times the mean interval at which its client comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Bools, Contributions, Floats, Ints, RoundEnd, Setup

NEVER = 100_000  # rounds: no absence is ever so long


@dataclass
class Intervals:
    """From one participation of a client to the next, in rounds: FedAU's estimate of 1/p_i."""

    running: Ints  # (N,) rounds of the interval that has not ended
    total: Ints  # (N,) rounds of those that have
    ended: Ints  # (N,) how many have

    @classmethod
    def empty(cls, setup: Setup) -> Intervals:
        """Nobody came yet; a client that joins later begins then."""
        running, total, ended = np.zeros((3, setup.population.n_clients), dtype=np.int64)
        return cls(running, total, ended)

    def omega(self) -> Floats:
        """(N,) ω_i, the mean interval; 1 before the first has ended."""
        return np.where(self.ended > 0, self.total / np.maximum(self.ended, 1), 1.0)

    def count(self, end: RoundEnd, longest: int) -> None:
        """Take in a round, also an empty one (algorithm 2): who came ends an interval."""
        self.running[end.active] += 1
        over: Bools = self.running >= longest  # ended by its length, without a participation
        over[end.came] = True
        self.total[over] += self.running[over]
        self.ended[over] += 1
        self.running[over] = 0


@dataclass(frozen=True)
class FedAU:
    """FedAU: (1/N) Σ_{i∈A} ω_i Δ_i, with ω_i the mean interval between i's participations.

    ω_i estimates one over the probability of coming, whatever keeps a client away: that it cannot
    be reached, is not picked, or fails. It is 1 until the client has come once; the interval that
    ends now counts from the next time on.

    Parameters
    ----------
    max_interval : int
        K ≥ 1: after so many rounds without a participation an interval ends all the same, so that
        ω_i ≤ K. By default never.

    Notes
    -----
    K is what the authors' code has by default; its examples also run 50, which bounds the variance
    and biases the weights of those who come less often.

    Weights by examples take the place of 1/N where the strategy says so. An update that comes late
    is no participation, and is dropped.

    References
    ----------
    Wang and Ji, A Lightweight Method for Tackling Unknown Participation Statistics in Federated
    Averaging, ICLR 2024 (algorithms 1 and 2).
    """

    max_interval: int = NEVER
    signed = False
    normalised = False

    def __post_init__(self) -> None:
        checks.integer("max_interval", self.max_interval, low=1)

    def init(self, setup: Setup) -> Intervals:
        return Intervals.empty(setup)

    def fill(self, state: Intervals, end: RoundEnd) -> Contributions:
        came = end.came
        coef = end.base[came] / end.base.sum() * state.omega()[came]
        return Contributions.of((came, end.fresh(), np.arange(len(came)), coef))

    def learn(
        self, state: Intervals, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        state.count(end, self.max_interval)
        return {}

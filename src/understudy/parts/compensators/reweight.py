"""`FedAvgIS`, `FedAU`, `HorvitzThompson`: weights by how often a client comes, or is picked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Bools, Contributions, Floats, Ints, RoundEnd, Setup

NEVER = 100_000  # rounds: no absence is ever so long


@dataclass(frozen=True)
class FedAvgIS:
    """Importance sampling: (1/N) Σ_{i∈A} Δ_i / p_i, with known probabilities of coming p_i.

    Notes
    -----
    Unbiased where everyone reachable is asked. p comes from ``select(…, p=…)`` or, without it,
    from ``Population(p=…)``. A client that came although its p is 0 in this round is left out,
    and counted in the note ``is_impossible``.

    References
    ----------
    The baseline "FedAvg with importance sampling" of Gu et al. (MIFA), 2021, and of FedAR, 2024.
    """

    signed = False
    normalised = False

    def init(self, setup: Setup) -> None:
        if setup.population.p is None:
            raise ValueError(
                "FedAvgIS: needs each client's probability of coming; give Population(p=...), "
                "and where it changes from round to round select(..., p=...) too"
            )

    def fill(self, state: None, end: RoundEnd) -> Contributions:
        assert end.p is not None
        came, p = end.came, end.p[end.came]
        possible = p > 0
        coef = (
            end.base[came] / end.base.sum() * np.divide(1, p, where=possible, out=np.zeros_like(p))
        )
        rows = np.flatnonzero(possible)
        notes = {"is_impossible": float((~possible).sum())} if not possible.all() else {}
        return Contributions.of((came[rows], end.fresh(), rows, coef[rows]), notes=notes)

    def learn(self, state: None, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        return {}


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


@dataclass(frozen=True)
class HorvitzThompson:
    """The sampler's weights as they are: Σ_{i∈A} v_i n_i Δ_i / Σ_j n_j, with v_i i's weight.

    Where v_i is one over the probability that i is picked, as with `F3AST`, this is unbiased;
    `Ignore` divides by Σ_{i∈A} v_i n_i in place of the sum over all clients.

    Notes
    -----
    With a sampler whose weights are 1 (`Everyone`, `Uniform`) the step shrinks with the share of
    those who come. n_j is 1 with ``weighting="clients"``.

    References
    ----------
    Horvitz and Thompson, A Generalization of Sampling Without Replacement From a Finite Universe,
    1952.
    """

    signed = False
    normalised = False

    def init(self, setup: Setup) -> None:
        return None

    def fill(self, state: None, end: RoundEnd) -> Contributions:
        came = end.came
        coef = end.q[came] / end.base.sum()
        return Contributions.of((came, end.fresh(), np.arange(len(came)), coef))

    def learn(self, state: None, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        return {}

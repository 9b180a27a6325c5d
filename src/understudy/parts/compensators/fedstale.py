"""`FedStale` (Rodio and Neglia, 2024): fresh updates by their rates, old ones by a factor β."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Contributions, Floats, RoundEnd, Setup
from understudy.memory.precision import PRECISIONS
from understudy.parts.compensators.memory import Memory
from understudy.parts.compensators.reweight import NEVER, Intervals


@dataclass
class FedStaleState:
    memory: Memory
    intervals: Intervals  # counted also where p is known: one part, one state


@dataclass(frozen=True)
class FedStale:
    """FedStale: Σ_{i∈A} (α_i/p_i) (Δ_i − β y_i) + β Σ_j α_j y_j, then y_i ← Δ_i.

    y_j is the last update of client j, zero before its first; α_i its share of the objective. β = 0
    is `FedAvgIS`, without a memory; β = 1 removes the variance of absence as far as old updates
    still fit, as `FedVARP` does.

    Parameters
    ----------
    beta : float
        β in [0, 1].
    rates : {"estimated", "known"}
        Where p_i comes from: one over the mean interval between participations, as `FedAU`
        estimates it; or ``select(…, p=…)``, or ``Population(p=…)``.
    max_interval : int
        K of that estimate, see `FedAU`.
    precision : {"full", "float16", "bfloat16", "int8"}
        How updates are remembered: as the model is, in half of the room, or in a quarter.

    Notes
    -----
    The paper knows p; its code has both. The estimate is our default, since it also counts who was
    not picked or failed. β is the paper's to tune, between 0 for old updates that no longer fit and
    1; 0.5 is ours.

    An old update is rescaled by η_t/η_s, from the step it was made with to the current one. A
    client that came although its known p is 0 in this round has no fresh term; the note
    ``fedstale_impossible`` counts it.

    References
    ----------
    Rodio and Neglia, FedStale: Leveraging Stale Client Updates in Federated Learning, 2024
    (algorithm 1).
    """

    beta: float = 0.5
    rates: str = "estimated"
    max_interval: int = NEVER
    precision: str = "full"
    signed = True
    normalised = False

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0, high=1)
        checks.choice("rates", self.rates, ("estimated", "known"))
        checks.integer("max_interval", self.max_interval, low=1)
        checks.choice("precision", self.precision, PRECISIONS)

    def init(self, setup: Setup) -> FedStaleState:
        if self.rates == "known" and setup.population.p is None:
            raise ValueError(
                "FedStale(rates='known'): needs each client's probability of coming; give "
                "Population(p=...), or let it be estimated by rates='estimated'"
            )
        return FedStaleState(Memory.empty(setup, self.precision), Intervals.empty(setup))

    def fill(self, state: FedStaleState, end: RoundEnd) -> Contributions:
        came, memory = end.came, state.memory
        alpha = end.base / end.base.sum()
        inverse = self._inverse(state, end)[came]
        fresh = alpha[came] * inverse
        coef = self.beta * alpha
        coef[came] -= self.beta * fresh
        remembered = np.flatnonzero(memory.rows.known & end.active & (coef != 0))
        old = coef[remembered] * memory.rescaled(end, remembered)
        impossible = float((inverse == 0).sum())
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), fresh),
            (remembered, memory.block(), memory.rows.slot[remembered], old),
            notes={"fedstale_impossible": impossible} if impossible else {},
        )

    def stand_ins(self, state: FedStaleState, end: RoundEnd) -> Contributions:
        """Those of an absent client are β y_j; of one that came (Δ_i − β y_i)/p_i + β y_i."""
        return self.fill(state, end).with_shares(end.base / end.base.sum())

    def _inverse(self, state: FedStaleState, end: RoundEnd) -> Floats:
        """(N,) 1/p_i; 0 where p_i is."""
        if self.rates == "estimated":
            return state.intervals.omega()
        assert end.p is not None
        return np.divide(1.0, end.p, where=end.p > 0, out=np.zeros_like(end.p))

    def learn(
        self, state: FedStaleState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        state.memory.store(end)
        state.intervals.count(end, self.max_interval)
        return {}

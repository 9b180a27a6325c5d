"""`VanishingDropout`: ever fewer clients are missing, as FL-FDMS's bound asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Bools, Floats, Population


@dataclass
class VanishingDropoutState:
    n_clients: int


@dataclass(frozen=True)
class VanishingDropout:
    """Exactly round(α_t N) clients are missing in round t = 0, 1, …, with α_t = α/(t + 1)^power.

    Who is missing is redrawn in every round; any may be among them.

    Parameters
    ----------
    alpha : float
        α, the share of clients that are missing in round 0, in [0, 1].
    power : float
        0.5 is α/√(t + 1), 1 is α/(t + 1), 0 the same number in every round.

    Notes
    -----
    FL-FDMS's bound of what absence costs, Ψ̄, is the mean over rounds of α_t²σ_P²: with a constant α
    it stays, with 0.5 it falls like ln(T)/T, with 1 like 1/T. With N clients nobody is missing any
    more once α_t N < ½.

    References
    ----------
    Wang & Xu, Combating Client Dropout in Federated Learning via Friend Model Substitution.
    """

    alpha: float = 0.5
    power: float = 0.5

    def __post_init__(self) -> None:
        checks.number("alpha", self.alpha, low=0, high=1)
        checks.number("power", self.power, low=0)

    def init(self, population: Population) -> VanishingDropoutState:
        return VanishingDropoutState(int(population.n_clients))

    def draw(self, state: VanishingDropoutState, t: int, rng: np.random.Generator) -> Bools:
        present = np.ones(state.n_clients, dtype=np.bool_)
        present[rng.permutation(state.n_clients)[: self._missing(state, t)]] = False
        return present

    def rates(self, state: VanishingDropoutState, t: int) -> Floats:
        n = state.n_clients
        return np.full(n, (n - self._missing(state, t)) / n)

    def _missing(self, state: VanishingDropoutState, t: int) -> int:
        share = self.alpha / float((t + 1) ** self.power)
        return round(share * state.n_clients)

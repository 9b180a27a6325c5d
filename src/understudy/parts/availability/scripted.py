"""`LastRoundsAway` (FedAR, fig. 1): one client leaves and does not come back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Bools, Floats, Population


@dataclass
class LastRoundsAwayState:
    n_clients: int


@dataclass(frozen=True)
class LastRoundsAway:
    """One client is away in the last rounds of a run; everybody else is always there.

    Parameters
    ----------
    client : int
        Who goes away.
    rounds_away : int
        How many rounds it misses, at most `rounds`; FedAR's "stale 3" is 3, its "fresh" 0.
    rounds : int
        T, the rounds of the run: it comes in rounds 0 .. rounds − rounds_away − 1. In a longer run
        it stays away.

    References
    ----------
    Jiang et al., FedAR: Addressing Client Unavailability in Federated Learning with Local Update
    Approximation and Rectification, 2024 (fig. 1: five clients, nine rounds, client 0).
    """

    client: int = 0
    rounds_away: int = 3
    rounds: int = 9

    def __post_init__(self) -> None:
        checks.integer("client", self.client, low=0)
        checks.integer("rounds", self.rounds, low=1)
        checks.integer("rounds_away", self.rounds_away, low=0, high=int(self.rounds))

    def init(self, population: Population) -> LastRoundsAwayState:
        checks.integer("client", self.client, low=0, high=int(population.n_clients) - 1)
        return LastRoundsAwayState(int(population.n_clients))

    def draw(self, state: LastRoundsAwayState, t: int, rng: np.random.Generator) -> Bools:
        present = np.ones(state.n_clients, dtype=np.bool_)
        if self.rounds_away:
            present[self.client] = t < self.rounds - self.rounds_away
        return present

    def rates(self, state: LastRoundsAwayState, t: int) -> Floats:
        rates = np.ones(state.n_clients)
        if self.rounds_away:
            rates[self.client] = float(t < self.rounds - self.rounds_away)
        return rates

"""`Markov`: sessions; whoever is present tends to stay, whoever is away stays away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Bools, Floats, Population


@dataclass
class MarkovState:
    now: Floats  # (N,) presence (0 or 1) in round t; before the first draw, its probability
    t: int  # last round drawn, -1 before the first
    before: Floats  # (N,) the same of the draw before that,
    t_before: int  # so that round t can be drawn, or its rates be asked for, again


@dataclass(frozen=True)
class Markov:
    """Each client comes and goes by itself as a two-state Markov chain.

    A client that is there leaves with probability a = 1/session in each round, one that is away
    comes back with probability b = a p/(1 − p). In the long run it is there a share p of all
    rounds, and a visit lasts `session` rounds on average.

    Parameters
    ----------
    p : float
        Share of rounds in which a client is there, in (0, 1].
    session : float
        Mean length of a visit in rounds, ≥ 1 and ≥ p/(1 − p) (a client cannot be away for less
        than a round). 1/(1 − p) makes rounds independent; above it presence is sticky.

    Notes
    -----
    Round 0 is drawn from the stationary law. `rates` are probabilities given the round before: b
    or 1 − a, and p for round 0. Rounds may be skipped (the chain then makes several steps at once),
    not revisited, but for the last. A round without anybody is possible and is not drawn again.
    """

    p: float = 0.5
    session: float = 5.0

    def __post_init__(self) -> None:
        checks.number("p", self.p, low=0, high=1, low_open=True)
        checks.number("session", self.session, low=1)
        if self.p < 1 and self.session < self.p / (1 - self.p) * (1 - 1e-12):
            raise ValueError(
                f"session: expected at least p/(1 - p) = {self.p / (1 - self.p):g} rounds at "
                f"p={self.p!r}, because a client cannot be away for less than one round, "
                f"got {self.session!r}"
            )

    @property
    def memory(self) -> float:
        """1 − a − b: correlation of a client's presence in neighbouring rounds."""
        return 0.0 if self.p == 1 else 1 - 1 / (self.session * (1 - self.p))

    def init(self, population: Population) -> MarkovState:
        stationary = np.full(population.n_clients, float(self.p))
        return MarkovState(now=stationary, t=-1, before=stationary.copy(), t_before=-1)

    def draw(self, state: MarkovState, t: int, rng: np.random.Generator) -> Bools:
        rates = self.rates(state, t)
        here: Bools = rng.random(len(rates)) <= rates
        if t > state.t:
            state.before, state.t_before = state.now, state.t
        state.now, state.t = here.astype(np.float64), t
        return here

    def rates(self, state: MarkovState, t: int) -> Floats:
        if t < state.t:
            raise ValueError(f"t: expected round {state.t} or a later one, got {t}")
        known, since = (state.now, state.t) if t > state.t else (state.before, state.t_before)
        # k steps of the chain: the distance from the stationary law shrinks by `memory` each
        return np.clip(self.p + (known - self.p) * self.memory ** (t - since), 0.0, 1.0)

"""`Markov`: sessions; whoever is present tends to stay, whoever is away stays away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.roles import Chances
from understudy.core.types import Bools, Floats, Population
from understudy.parts.availability.chances import chances_of, check_chances


@dataclass
class MarkovState:
    now: Floats  # (N,) presence (0 or 1) in round t; before the first draw, its probability
    t: int  # last round drawn, -1 before the first
    before: Floats  # (N,) the same of the draw before that,
    t_before: int  # so that round t can be drawn, or its rates be asked for, again
    _p: float | Floats  # of everybody, or (N,) each client's own
    _memory: float | Floats  # the same of `memory`


@dataclass(frozen=True)
class Markov:
    """Each client comes and goes by itself as a two-state Markov chain.

    A client that is there leaves with probability a = 1/session in each round, one that is away
    comes back with probability b = a p/(1 − p). In the long run it is there a share p of all
    rounds, and a visit lasts `session` rounds on average.

    Parameters
    ----------
    p : float or Chances
        Share of rounds in which a client is there, in (0, 1]; or what gives each client its own.
    session : float
        Mean length of a visit in rounds, ≥ 1 and ≥ p/(1 − p) (a client cannot be away for less
        than a round). 1/(1 − p) makes rounds independent; above it presence is sticky.
    comes_back : float, optional
        In place of `session`: b, in (0, 1]; then a = b (1/p − 1). Where that would be more than
        1, a is 1 and b is p/(1 − p), as in FedAU's code.

    Notes
    -----
    Round 0 is drawn from the stationary law. `rates` are probabilities given the round before: b
    or 1 − a, and p for round 0. Rounds may be skipped (the chain then makes several steps at once),
    not revisited, but for the last. A round without anybody is possible and is not drawn again.
    """

    p: float | Chances = 0.5
    session: float = 5.0
    comes_back: float | None = added("0.2", None)

    def __post_init__(self) -> None:
        check_chances("p", self.p, low_open=True)
        checks.number("session", self.session, low=1)
        if self.comes_back is not None:
            checks.number("comes_back", self.comes_back, low=0, high=1, low_open=True)
        elif not isinstance(self.p, Chances):
            self._check_session(self.p)

    def _check_session(self, p: float) -> None:
        if p < 1 and self.session < p / (1 - p) * (1 - 1e-12):
            raise ValueError(
                f"session: expected at least p/(1 - p) = {p / (1 - p):g} rounds at "
                f"p={p!r}, because a client cannot be away for less than one round, "
                f"got {self.session!r}"
            )

    @property
    def memory(self) -> float:
        """1 − a − b: correlation of a client's presence in neighbouring rounds, at the same p."""
        if isinstance(self.p, Chances):
            raise ValueError("memory: each client has its own where p is no number")
        return self._memory(self.p)

    def _memory(self, p: float) -> float:
        if p == 1:
            return 0.0
        if self.comes_back is None:
            return 1 - 1 / (self.session * (1 - p))
        leaves = self.comes_back * (1 / p - 1)
        # leaving at once, it comes back with p/(1 − p)
        return 1 - leaves - self.comes_back if leaves <= 1 else -p / (1 - p)

    def init(self, population: Population) -> MarkovState:
        stationary = chances_of(self.p, population)
        p: float | Floats = stationary
        memory: float | Floats
        if isinstance(self.p, Chances):
            memory = np.array([self._of_client(one) for one in stationary.tolist()])
        else:
            p, memory = self.p, self.memory  # numbers: an array's power may differ in the last bit
        return MarkovState(stationary.copy(), -1, stationary.copy(), -1, p, memory)

    def _of_client(self, p: float) -> float:
        if not p:
            return 1.0  # it never comes
        if self.comes_back is None:
            self._check_session(p)
        return self._memory(p)

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
        p, memory = state._p, state._memory
        return np.clip(p + (known - p) * memory ** (t - since), 0.0, 1.0)

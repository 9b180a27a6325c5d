"""`LeastAvailableFirst` (REFL, Abdelmoniem et al., 2023): those who will seldom be there again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Floats, Ints, RoundEnd, RoundStart, Setup
from understudy.parts.samplers.uniform import check_m, count_of

AT_WORK = 5  # rounds in which a client that owes an answer may be busy with it, and not away


@dataclass
class Attendance:
    rounds: Ints  # (N,) in which each client was there, or away
    there: Ints  # (N,) in how many of them it could be reached
    last: Ints  # (N,) round of the last pick


@dataclass(frozen=True)
class LeastAvailableFirst:
    """REFL's participant selection: the m reachable clients that are least likely to be reachable.

    Who is often there can be asked another time. Clients picked within the last `rest` rounds come
    last, whatever their probability; ties are broken by chance.

    Parameters
    ----------
    m : int, float or None
        As in `Uniform`.
    rest : int
        Rounds in which a client is not picked again while there are others; 0: none.
    rates : {"estimated", "known"}
        Where the probabilities come from: the share of past rounds in which a client could be
        reached, 0.5 before the first; or ``select(…, p=…)``, or ``Population(p=…)``.

    Notes
    -----
    In the paper each client forecasts its own availability in the time of the next round; the
    authors' code reads it off the trace, as yes or no, with an accuracy that is a setting. Our
    estimate is what a server sees by itself. A known p is that of this round, not of the next.

    A pick counts whether the client comes or not. Who cannot be reached and owes an answer of the
    last five rounds may be at work: such a round says nothing of a client. Else the slow would be
    taken for the absent, and be picked first.

    References
    ----------
    Abdelmoniem, Sahu, Canini and Fahmy, REFL: Resource-Efficient Federated Learning, EuroSys 2023
    (section 4.1).
    """

    m: int | float | None = None
    rest: int = 5
    rates: str = "estimated"

    def __post_init__(self) -> None:
        check_m("m", self.m)
        checks.integer("rest", self.rest, low=0)
        checks.choice("rates", self.rates, ("estimated", "known"))

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> Attendance:
        if self.rates == "known" and setup.population.p is None:
            raise ValueError(
                "LeastAvailableFirst(rates='known'): needs each client's probability of being "
                "reachable; give Population(p=...), or let it be estimated by rates='estimated'"
            )
        n = setup.population.n_clients
        rounds, there = np.zeros((2, n), dtype=np.int64)
        return Attendance(rounds, there, last=np.full(n, -self.rest - 1, dtype=np.int64))

    def pick(self, state: Attendance, start: RoundStart) -> tuple[Ints, Floats]:
        shuffled = start.rng.permutation(np.flatnonzero(start.available))
        m = min(self.count(int(start.active.sum())), len(shuffled))
        resting = start.t - state.last[shuffled] <= self.rest
        order = np.lexsort((self._probability(state, start)[shuffled], resting))
        return shuffled[order][:m], np.ones(m)

    def _probability(self, state: Attendance, start: RoundStart) -> Floats:
        if self.rates == "known":
            assert start.p is not None
            return start.p
        return np.where(state.rounds > 0, state.there / np.maximum(state.rounds, 1), 0.5)

    def learn(self, state: Attendance, end: RoundEnd) -> None:
        if end.cohort.available is not None:
            there, pending = end.cohort.available, end.cohort.pending
            told = end.active.copy()
            told[pending[end.t - pending[:, 1] <= AT_WORK, 0]] = False
            state.rounds[told | there] += 1
            state.there[there] += 1
        state.last[end.cohort.wanted] = end.t

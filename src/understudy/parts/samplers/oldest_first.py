"""`OldestFirst` (FedLaAvg, Yan et al., 2020): the clients that were picked longest ago."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.types import Floats, Ints, RoundEnd, RoundStart, Setup
from understudy.parts.samplers.uniform import check_m, count_of


@dataclass
class LastPicked:
    last: Ints  # (N,) round of the last pick, -1 never


@dataclass(frozen=True)
class OldestFirst:
    """FedLaAvg's choice: the m reachable clients whose last pick is longest ago.

    Those never picked come first; ties are broken by chance.

    Parameters
    ----------
    m : int, float or None
        As in `Uniform`.

    References
    ----------
    Yan et al., Distributed Non-Convex Optimization with Sublinear Speedup under Intermittent
    Client Availability, 2020.
    """

    m: int | float | None = None

    def __post_init__(self) -> None:
        check_m("m", self.m)

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> LastPicked:
        return LastPicked(np.full(setup.population.n_clients, -1, dtype=np.int64))

    def pick(self, state: LastPicked, start: RoundStart) -> tuple[Ints, Floats]:
        shuffled = start.rng.permutation(np.flatnonzero(start.available))
        m = min(self.count(int(start.active.sum())), len(shuffled))
        ids = shuffled[np.argsort(state.last[shuffled], kind="stable")][:m]
        return ids, np.ones(m)

    def learn(self, state: LastPicked, end: RoundEnd) -> None:
        state.last[end.cohort.wanted] = end.t

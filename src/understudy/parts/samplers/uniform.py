"""`Everyone`, `Uniform`, `ByData`: all clients, at random, or in proportion to their examples."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from understudy.core import checks
from understudy.core.claims import without_gaps
from understudy.core.types import Floats, Ints, Population, RoundEnd, RoundStart, Setup

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

DEFAULT_SHARE = 0.2  # of the clients, where m is not given: FedGS's experiments


def check_m(name: str, m: object) -> None:
    """Refuse a number of clients that is neither an int >= 1 nor a fraction in (0, 1] nor None."""
    if isinstance(m, Integral):
        checks.integer(name, m, low=1)
    elif m is not None:
        checks.number(name, m, low=0, high=1, low_open=True)


def count_of(m: object, n_active: int) -> int:
    """How many clients `m` means: 1 is one, 1.0 is all of them, None is 20 %."""
    if isinstance(m, Integral):
        return int(m)
    share = float(m) if isinstance(m, Real) else DEFAULT_SHARE
    return max(1, int(share * n_active + 1e-9))  # 0.1 * 30 must be 3


@dataclass(frozen=True)
class Everyone:
    """All clients are wanted, whether they can be reached or not."""

    def init(self, setup: Setup) -> None:
        return None

    def pick(self, state: None, start: RoundStart) -> tuple[Ints, Floats]:
        ids = np.flatnonzero(start.active)
        return ids, np.ones(len(ids))

    def learn(self, state: None, end: RoundEnd) -> None:
        return None


@dataclass(frozen=True)
class Uniform:
    """m of the reachable clients, by chance, without replacement.

    Parameters
    ----------
    m : int, float or None
        An int counts clients, a float is a fraction of the active ones; None is 20 %.
    """

    m: int | float | None = None

    def __post_init__(self) -> None:
        check_m("m", self.m)

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> None:
        return None

    def pick(self, state: None, start: RoundStart) -> tuple[Ints, Floats]:
        reachable = np.flatnonzero(start.available)
        m = min(self.count(int(start.active.sum())), len(reachable))
        ids = start.rng.choice(reachable, size=m, replace=False)
        return ids, np.ones(m)

    def learn(self, state: None, end: RoundEnd) -> None:
        return None


@dataclass(frozen=True)
class ByData:
    """MDSample: m draws among the reachable, with replacement, in proportion to their examples.

    Drawn twice counts twice; a plain mean then already is the mean by examples, so with this
    sampler a strategy weighs clients alike by default, and ``weighting="examples"`` is refused.

    Parameters
    ----------
    m : int, float or None
        As in `Uniform`: the number of draws.
    """

    m: int | float | None = None
    draws_by_examples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_m("m", self.m)

    def check(self, strategy: Strategy) -> None:
        if strategy.weighting == "examples":
            raise ValueError(
                "weighting: expected 'clients' with ByData, which draws by examples already, "
                "got 'examples'"
            )

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> None:
        return None

    def pick(self, state: None, start: RoundStart) -> tuple[Ints, Floats]:
        reachable = np.flatnonzero(start.available)
        if not len(reachable):
            return reachable, np.zeros(0)
        size = known_sizes(start.population)[reachable]
        m = self.count(int(start.active.sum()))
        drawn = start.rng.choice(reachable, size=m, replace=True, p=size / size.sum())
        ids, times = np.unique(drawn, return_counts=True)
        return ids, times.astype(np.float64)

    def learn(self, state: None, end: RoundEnd) -> None:
        return None


def known_sizes(population: Population) -> Floats:
    """(N,) examples of each client; a usual number where unknown, 1 where none is known."""
    if population.n_examples is None:
        return np.ones(population.n_clients)
    return without_gaps(population.n_examples, population.claimed)

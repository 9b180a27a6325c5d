"""`Arriving`, `Departing`, `RoundRobin` (DPFL): who is there follows a plan.

Clients come, leave or take turns in the order of their ids. Nothing is drawn, so that rates are 0
or 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Bools, Floats, Population


@dataclass
class PlanState:
    n_clients: int


@dataclass(frozen=True)
class Arriving:
    """Some are there from the start, the others arrive a few at a time, and all stay.

    Parameters
    ----------
    initial : float or int
        Who is there from the start: a share of all clients, or how many; the lowest ids.
    start : int
        The round in which the first of the others arrive.
    every : int
        Rounds from one arrival to the next, ≥ 1.
    at_once : int
        How many arrive together, ≥ 1.

    References
    ----------
    Dynamic Participation in Federated Learning: Benchmarks and a Knowledge Pool Plugin, 2025
    (arXiv 2511.16523), incremental arrival.
    """

    initial: int | float = 0.2
    start: int = 10
    every: int = 10
    at_once: int = 1

    def __post_init__(self) -> None:
        _check_number_of("initial", self.initial, low=0)
        _check_steps(self.start, self.every, self.at_once)

    def init(self, population: Population) -> PlanState:
        return PlanState(int(population.n_clients))

    def draw(self, state: PlanState, t: int, rng: np.random.Generator) -> Bools:
        return self._here(state, t)

    def _here(self, state: PlanState, t: int) -> Bools:
        n = _number_of("initial", self.initial, state.n_clients)
        n += self.at_once * _moves(t, self.start, self.every)
        return np.arange(state.n_clients) < n

    def rates(self, state: PlanState, t: int) -> Floats:
        return self._here(state, t).astype(np.float64)


@dataclass(frozen=True)
class Departing:
    """Everyone is there at first; then clients leave for good, a few at a time.

    Parameters
    ----------
    remaining : float or int
        Who never leaves: a share of all clients, or how many; the lowest ids. 0: in the end nobody
        is left, and the model stays as it is.
    start : int
        The round in which the first leave.
    every : int
        Rounds from one departure to the next, ≥ 1.
    at_once : int
        How many leave together, ≥ 1; the highest ids first.

    References
    ----------
    Dynamic Participation in Federated Learning: Benchmarks and a Knowledge Pool Plugin, 2025
    (arXiv 2511.16523), incremental departure.
    """

    remaining: int | float = 0.2
    start: int = 10
    every: int = 10
    at_once: int = 1

    def __post_init__(self) -> None:
        _check_number_of("remaining", self.remaining, low=0)
        _check_steps(self.start, self.every, self.at_once)

    def init(self, population: Population) -> PlanState:
        return PlanState(int(population.n_clients))

    def draw(self, state: PlanState, t: int, rng: np.random.Generator) -> Bools:
        return self._here(state, t)

    def _here(self, state: PlanState, t: int) -> Bools:
        left = state.n_clients - self.at_once * _moves(t, self.start, self.every)
        kept = _number_of("remaining", self.remaining, state.n_clients)
        return np.arange(state.n_clients) < max(left, kept)

    def rates(self, state: PlanState, t: int) -> Floats:
        return self._here(state, t).astype(np.float64)


@dataclass(frozen=True)
class RoundRobin:
    """A window of neighbouring ids is there; it moves on, and some of it overlaps with the last.

    Parameters
    ----------
    present : float or int
        Clients in the window: a share of all, or how many; at least one.
    overlap : float or int
        Who is there in the next turn too: a share of the window (never all of it), or how many.
    rounds_each : int
        Rounds of a turn, ≥ 1.

    Notes
    -----
    After the last id comes the first. DPFL's window moves on by one client: an overlap of
    `present` − 1. Without overlap it is `Cyclic`, but for windows that go past the last id.

    References
    ----------
    Dynamic Participation in Federated Learning: Benchmarks and a Knowledge Pool Plugin, 2025
    (arXiv 2511.16523), round robin.
    """

    present: int | float = 0.2
    overlap: int | float = 0.5
    rounds_each: int = 1

    def __post_init__(self) -> None:
        _check_number_of("present", self.present, low=1)
        _check_number_of("overlap", self.overlap, low=0)
        checks.integer("rounds_each", self.rounds_each, low=1)
        if isinstance(self.present, int | np.integer) and isinstance(
            self.overlap, int | np.integer
        ):
            checks.integer("overlap", self.overlap, low=0, high=int(self.present) - 1)

    def init(self, population: Population) -> PlanState:
        n = int(population.n_clients)
        window = max(_number_of("present", self.present, n), 1)
        if isinstance(self.overlap, int | np.integer):
            checks.integer("overlap", self.overlap, low=0, high=window - 1)
        return PlanState(n)

    def draw(self, state: PlanState, t: int, rng: np.random.Generator) -> Bools:
        return self._here(state, t)

    def _here(self, state: PlanState, t: int) -> Bools:
        n = state.n_clients
        window = max(_number_of("present", self.present, n), 1)
        step = max(window - _number_of("overlap", self.overlap, window), 1)
        first = step * (t // self.rounds_each) % n
        return (np.arange(n) - first) % n < window

    def rates(self, state: PlanState, t: int) -> Floats:
        return self._here(state, t).astype(np.float64)


def _check_number_of(name: str, value: object, *, low: int) -> None:
    """A whole number counts clients, any other is a share of them."""
    if isinstance(value, int | np.integer):
        checks.integer(name, value, low=low)
    else:
        checks.number(name, value, low=0, high=1, low_open=low > 0)


def _number_of(name: str, value: int | float, n: int) -> int:
    if isinstance(value, int | np.integer):
        checks.integer(name, value, low=0, high=n)
        return int(value)
    return round(value * n)


def _check_steps(start: int, every: int, at_once: int) -> None:
    checks.integer("start", start, low=0)
    checks.integer("every", every, low=1)
    checks.integer("at_once", at_once, low=1)


def _moves(t: int, start: int, every: int) -> int:
    """How many arrivals or departures there were up to round t."""
    return 0 if t < start else 1 + (t - start) // every

"""`Cyclic` (Cho et al., 2023), `OwnCycle`, `Diurnal`: turns, cycles, and times of day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.rng import generator
from understudy.core.roles import Chances
from understudy.core.types import Bools, Floats, Ints, Population
from understudy.parts.availability.chances import chances_of, check_chances
from understudy.parts.availability.facts import label_shares

ORDERS = ("ids", "labels")


@dataclass
class CyclicState:
    group: Ints  # (N,) 0 .. n_groups-1, the order of turns
    n_groups: int


@dataclass(frozen=True)
class Cyclic:
    """CyCP: groups of clients take turns; whose turn it is, is there, and nobody else.

    Parameters
    ----------
    n_groups : int, optional
        Into how many groups of neighbouring ids, as equal as possible, clients are divided. None:
        the population's own `groups`, in the order of their numbers.
    rounds_each : int
        Rounds a turn lasts.
    by : {"ids", "labels"}
        With `n_groups`: which clients are a group, neighbouring ids, or neighbours in the order of
        their commonest labels (then of ids); that needs `Population.label_counts`.

    Notes
    -----
    In the paper the server then samples from the group: that is the sampler's part.

    References
    ----------
    Cho et al., On the Convergence of Federated Averaging with Cyclic Client Participation, 2023.
    """

    n_groups: int | None = None
    rounds_each: int = 1
    by: str = added("0.2", "ids")

    def __post_init__(self) -> None:
        if self.n_groups is not None:
            checks.integer("n_groups", self.n_groups, low=1)
        checks.integer("rounds_each", self.rounds_each, low=1)
        checks.choice("by", self.by, ORDERS)
        if self.by == "labels" and self.n_groups is None:
            raise ValueError("by: expected n_groups with 'labels', got n_groups=None")

    def init(self, population: Population) -> CyclicState:
        n_clients = int(population.n_clients)
        if self.n_groups is not None:
            if self.n_groups > n_clients:
                raise ValueError(
                    f"n_groups: expected at most one group per client, {n_clients}, "
                    f"got {self.n_groups}"
                )
            group = _blocks(n_clients, int(self.n_groups))
            if self.by == "labels":
                commonest = label_shares(population, "Cyclic").argmax(axis=1)
                group[np.argsort(commonest, kind="stable")] = group.copy()
            return CyclicState(group, int(self.n_groups))
        if population.groups is None:
            raise ValueError(
                "Cyclic needs population.groups, the group of each client, and there is none; give "
                "Population(n_clients, groups=[…]), or Cyclic(n_groups=4) to divide them by id"
            )
        names, group = np.unique(population.groups, return_inverse=True)
        return CyclicState(group.astype(np.int64), len(names))

    def draw(self, state: CyclicState, t: int, rng: np.random.Generator) -> Bools:
        return np.asarray(state.group == self._turn(state, t))

    def rates(self, state: CyclicState, t: int) -> Floats:
        return np.asarray(state.group == self._turn(state, t), dtype=np.float64)

    def _turn(self, state: CyclicState, t: int) -> int:
        return (t // self.rounds_each) % state.n_groups


def _blocks(n_clients: int, n_groups: int) -> Ints:
    """(N,) group of each client: neighbouring ids, sizes that differ by one at most."""
    sizes = [len(block) for block in np.array_split(np.arange(n_clients), n_groups)]
    return np.repeat(np.arange(n_groups), sizes)


@dataclass
class OwnCycleState:
    active: Ints  # (N,) rounds of each cycle in which a client is there
    offset: Ints  # (N,) where in its cycle it is in round 0


@dataclass(frozen=True)
class OwnCycle:
    """Each client is there for a share p_i of its cycle, then away; cycles start at random.

    Parameters
    ----------
    p : float or Chances
        Share of a cycle: the same for everyone, or what gives each client its own.
    cycle : int
        Rounds of a cycle, ≥ 1. A client is there for round(p_i · cycle) of them, at least one.
    seed : int
        Where in its cycle each client starts: two runs with different seeds of their own still meet
        the same clients.

    Notes
    -----
    The start is drawn uniformly from the cycle, so that round 0 is like any other; in FedAU's code
    nobody starts in the middle of a visit. Given the starts nothing is random, and `rates` are 0
    or 1.

    References
    ----------
    Wang & Ji, A Lightweight Method for Tackling Unknown Participation Statistics in Federated
    Averaging, ICLR 2024 (cyclic participation).
    """

    p: float | Chances = 0.5
    cycle: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check_chances("p", self.p)
        checks.integer("cycle", self.cycle, low=1)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population) -> OwnCycleState:
        p = chances_of(self.p, population)
        active = np.maximum(np.rint(p * self.cycle).astype(np.int64), 1)
        rng = generator(self.seed, "availability/init")
        return OwnCycleState(active, rng.integers(self.cycle, size=len(p)))

    def draw(self, state: OwnCycleState, t: int, rng: np.random.Generator) -> Bools:
        return self._here(state, t)

    def rates(self, state: OwnCycleState, t: int) -> Floats:
        return self._here(state, t).astype(np.float64)

    def _here(self, state: OwnCycleState, t: int) -> Bools:
        return np.asarray((t + state.offset) % self.cycle < state.active)


@dataclass
class DiurnalState:
    phase: Floats  # (N,) hour of a client's peak, as a share of the day, in [0, 1)


@dataclass(frozen=True)
class Diurnal:
    """Days and nights: p_k(t) = low + (high − low) (1 + cos 2π(t/period − φ_k))/2.

    Parameters
    ----------
    period : float
        Rounds in a day, > 0.
    low, high : float
        Probability in the dead of night and at the peak, 0 ≤ low ≤ high ≤ 1.
    spread : float
        Share of the day over which the peaks φ_k are spread, uniformly, in [0, 1]. 0: all peak in
        round 0; 1: all around the globe, and the number of those who are there hardly changes.
    seed : int
        Which φ_k: two runs with different seeds of their own still meet the same clients.

    Notes
    -----
    A round without anybody is possible and is not drawn again.
    """

    period: float = 24
    low: float = 0.1
    high: float = 0.9
    spread: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        checks.number("period", self.period, low=0, low_open=True)
        checks.number("low", self.low, low=0, high=1)
        checks.number("high", self.high, low=self.low, high=1)
        checks.number("spread", self.spread, low=0, high=1)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population) -> DiurnalState:
        rng = generator(self.seed, "availability/init")
        return DiurnalState(phase=self.spread * rng.random(population.n_clients))

    def draw(self, state: DiurnalState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.phase)) <= self.rates(state, t)

    def rates(self, state: DiurnalState, t: int) -> Floats:
        daylight = (1 + np.cos(2 * np.pi * (t / self.period - state.phase))) / 2
        return self.low + (self.high - self.low) * daylight

"""`Failure`, `Latency`, `Deadline`, `Combined`: asked clients that fail or answer late.

A `Delay` part gives the seconds from the question to the answer's arrival. The server closes a
round when everyone asked has answered, and at `deadline` seconds at the latest; an answer that
comes after that is late.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.types import Cohort, Floats, Ints, Population
from understudy.parts.local import Local

BITS_PER_PARAMETER = 32


@runtime_checkable
class Delay(Protocol):
    """How long a client that was asked takes to answer.

    A part may also have ``sends(state, cohort)``, called in each round before `delay`: it notes in
    its state what the round's cohort sends down. Wrappers pass it on by `tell_of_cohort`.
    """

    @property
    def deadline(self) -> float:
        """Seconds after which the server closes a round; infinity: it waits for all that come."""
        ...

    def init(self, population: Population, n_params: int, local: Local) -> Any: ...

    def delay(self, state: Any, asked: Ints, t: int, rng: np.random.Generator) -> Floats:
        """(len(asked),) seconds until each answer arrives; infinity: it never comes.

        A client's delay does not depend on who else is asked.
        """
        ...


def tell_of_cohort(delay: Delay, state: Any, cohort: Cohort) -> None:
    """Let a delay know what the round sends to the asked, where it wants to."""
    sends = getattr(delay, "sends", None)
    if sends is not None:
        sends(state, cohort)


# -- the clock -------------------------------------------------------------------------------------


def round_seconds(seconds: Floats, deadline: float = math.inf) -> float:
    """How long a round lasts, from the delays of those who were asked.

    Until the slowest has answered; until the deadline if somebody has not by then, or if nobody was
    asked at all. Without a deadline the server notices who fails and does not wait for them.
    """
    waited = np.minimum(seconds, deadline)
    waited = waited[np.isfinite(waited)]
    if len(seconds) == 0 and math.isfinite(deadline):
        return float(deadline)
    return float(waited.max(initial=0.0))


# -- parts -----------------------------------------------------------------------------------------


@dataclass
class FailureState:
    n_clients: int


@dataclass(frozen=True)
class Failure:
    """A client that was asked fails with probability p: its update of this round never arrives.

    Parameters
    ----------
    p : float
        Probability of a failure, in [0, 1], drawn for each client in each round. Who does not
        fail answers at once.
    """

    p: float = 0.1

    deadline = math.inf

    def __post_init__(self) -> None:
        checks.number("p", self.p, low=0, high=1)

    def init(self, population: Population, n_params: int, local: Local) -> FailureState:
        return FailureState(int(population.n_clients))

    def delay(self, state: FailureState, asked: Ints, t: int, rng: np.random.Generator) -> Floats:
        # drawn for all clients, so that nobody's fate depends on who else is asked
        return np.where(rng.random(state.n_clients) < self.p, math.inf, 0.0)[asked]


@dataclass
class LatencyState:
    step_seconds: Floats  # (N,) of one local step
    link: Floats  # (N,) factor on the median link, up and down
    sizes: Floats  # (N,) training examples, NaN where they do not matter
    n_down: int  # vectors that travel to a client: the model, and a correction
    n_params: int
    _local: Local


@dataclass(frozen=True)
class Latency:
    """Download, local steps, upload: each client has a speed and a link of its own.

    delay = (d_down · 32 bits / download + steps · step_seconds + d · 32 bits / upload) · jitter

    Parameters
    ----------
    step_seconds : float
        Median over clients of the seconds a local step takes, ≥ 0.
    step_spread : float
        Standard deviation of its logarithm over clients, ≥ 0; with 0.7 one client in twenty is
        more than three times as slow as the median.
    download_mbit, upload_mbit : float
        Median over clients of the link, in million bits a second, > 0.
    link_spread : float
        Standard deviation of the link's logarithm over clients, ≥ 0; the same factor up and down.
    jitter : float
        Standard deviation of the logarithm of a factor on the whole, drawn in each round, ≥ 0.
    seed : int
        Which speeds and links: two runs with different seeds of their own meet the same clients.

    Notes
    -----
    Steps are those of `Local` in round t: `steps`, or epochs · ⌈n_i / B_t⌉, which needs
    `Population.n_examples`. A model travels as d numbers of 32 bits; where a round's cohort has a
    correction (SCAFFOLD), two such vectors travel down.
    """

    step_seconds: float = 0.05
    step_spread: float = 0.7
    download_mbit: float = 20.0
    upload_mbit: float = 5.0
    link_spread: float = 0.7
    jitter: float = 0.1
    seed: int = 0

    deadline = math.inf

    def __post_init__(self) -> None:
        checks.number("step_seconds", self.step_seconds, low=0)
        checks.number("step_spread", self.step_spread, low=0)
        checks.number("download_mbit", self.download_mbit, low=0, low_open=True)
        checks.number("upload_mbit", self.upload_mbit, low=0, low_open=True)
        checks.number("link_spread", self.link_spread, low=0)
        checks.number("jitter", self.jitter, low=0)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population, n_params: int, local: Local) -> LatencyState:
        checks.integer("n_params", n_params, low=1)
        n_clients = int(population.n_clients)
        # one row per client: more clients leave the first ones' speeds as they are
        drawn = generator(self.seed, "delay/init").normal(size=(n_clients, 2))
        return LatencyState(
            step_seconds=self.step_seconds * np.exp(self.step_spread * drawn[:, 0]),
            link=np.exp(self.link_spread * drawn[:, 1]),
            sizes=sizes_for_steps("Latency", population, local),
            n_down=1,
            n_params=int(n_params),
            _local=local,
        )

    def sends(self, state: LatencyState, cohort: Cohort) -> None:
        state.n_down = cohort.vectors_down

    def delay(self, state: LatencyState, asked: Ints, t: int, rng: np.random.Generator) -> Floats:
        megabits = state.n_params * BITS_PER_PARAMETER / 1e6
        links = megabits * (state.n_down / self.download_mbit + 1 / self.upload_mbit) / state.link
        computing = steps_in_round(state._local, state.sizes, t) * state.step_seconds
        jitter = np.exp(self.jitter * rng.normal(size=len(state.link)))
        return np.asarray(((links + computing) * jitter)[asked])


def sizes_for_steps(asker: str, population: Population, local: Local) -> Floats:
    """(N,) training examples, where epochs make steps of them; else NaN."""
    if local.steps is not None:
        return np.full(population.n_clients, np.nan)
    sizes = population.n_examples
    if sizes is None or np.isnan(sizes).any():
        raise ValueError(
            f"{asker} needs population.n_examples of every client to know how many steps its "
            f"{local.epochs} epochs are; give Population(n_clients, n_examples=[…]), or "
            "Local(steps=…)"
        )
    return sizes.copy()


def steps_in_round(local: Local, sizes: Floats, t: int) -> Floats:
    """(N,) local steps of each client in round `t`."""
    if local.steps is not None:
        return np.full(len(sizes), float(local.steps))
    return np.asarray(local.epochs * np.ceil(sizes / local.batch_size_at(t)))


@dataclass(frozen=True)
class Deadline:
    """The server waits so many seconds and no longer; who needs more is late.

    A late client counts as absent in its round; its update arrives in a later one, where a
    compensator with a memory makes use of it: ⌈s / seconds⌉ − 1 rounds later for one that takes s,
    where every round lasts until the deadline.

    Parameters
    ----------
    latency : Delay
        How long clients take: `Latency`, or `Combined(Failure(…), Latency(…))`.
    seconds : float
        The deadline, > 0.
    """

    latency: Delay = field(default_factory=Latency)
    seconds: float = 60.0

    def __post_init__(self) -> None:
        checks.part("latency", self.latency, "init", "delay")
        checks.number("seconds", self.seconds, low=0, low_open=True)

    @property
    def deadline(self) -> float:
        return min(float(self.seconds), self.latency.deadline)

    def init(self, population: Population, n_params: int, local: Local) -> Any:
        return self.latency.init(population, n_params, local)

    def sends(self, state: Any, cohort: Cohort) -> None:
        tell_of_cohort(self.latency, state, cohort)

    def delay(self, state: Any, asked: Ints, t: int, rng: np.random.Generator) -> Floats:
        return self.latency.delay(state, asked, t, rng)


@dataclass
class CombinedState:
    first: Any
    second: Any


@dataclass(frozen=True)
class Combined:
    """Two delays, one after the other: seconds add up, and the earlier deadline counts.

    Parameters
    ----------
    first, second : Delay
        Such as `Failure` and `Latency`: who fails never answers, however fast it is.
    """

    first: Delay = field(default_factory=Failure)
    second: Delay = field(default_factory=Latency)

    def __post_init__(self) -> None:
        checks.part("first", self.first, "init", "delay")
        checks.part("second", self.second, "init", "delay")

    @property
    def deadline(self) -> float:
        return min(self.first.deadline, self.second.deadline)

    def init(self, population: Population, n_params: int, local: Local) -> CombinedState:
        return CombinedState(
            self.first.init(population, n_params, local),
            self.second.init(population, n_params, local),
        )

    def sends(self, state: CombinedState, cohort: Cohort) -> None:
        tell_of_cohort(self.first, state.first, cohort)
        tell_of_cohort(self.second, state.second, cohort)

    def delay(self, state: CombinedState, asked: Ints, t: int, rng: np.random.Generator) -> Floats:
        first = self.first.delay(state.first, asked, t, rng)
        return first + self.second.delay(state.second, asked, t, rng)

"""`MoreDataFirst`, `LessDataFirst`, `YMaxFirst`, `YCycle`, `LogNormal`, `SinLogNormal` (FedGS).

Who is there depends on data size, on labels, on luck, on the hour. With `Always` (their IDL) these
are the seven of the paper's Table 1; the formulas are those of the authors' public code. In each of
them client k is there in round t with probability p_k(t), whatever the others do, and a round in
which nobody would be there is drawn again. `rates` is what comes of that, p / (1 − Π(1 − p)); the
formula's own p is `chances`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.types import Bools, Floats, Population
from understudy.parts.availability.facts import held_labels, known_sizes, smallest_label

MOST_TRIES = 10_000  # somebody with p = 0.001 still comes in all but 5 of 100,000 such rounds
ROUNDS_PER_LABEL = 10  # YCycle: T = 10 C
ROUNDS_PER_DAY = 24  # SinLogNormal


def draw_somebody(p: Floats, rng: np.random.Generator, mode: str) -> Bools:
    """(N,) who is there: U ≤ p, drawn again (with the generator's next numbers) if nobody is."""
    if not (p > 0).any():
        raise ValueError(f"{mode}: no client can ever come: all probabilities are 0")
    for _ in range(MOST_TRIES):
        here: Bools = rng.random(len(p)) <= p
        if here.any():
            return here
    raise ValueError(
        f"{mode}: no client came in {MOST_TRIES} draws of one round; the largest probability is "
        f"{p.max():g}, expected larger ones or more clients"
    )


def repeated_rates(p: Floats) -> Floats:
    """(N,) how often each is there when a draw without anybody is repeated: p / (1 − Π(1 − p))."""
    # through logarithms: 1 − Π(1 − p) itself would lose all digits of small p
    with np.errstate(divide="ignore"):
        somebody = -np.expm1(np.log1p(-p).sum())
    return np.minimum(p / somebody, 1.0) if somebody > 0 else p.copy()


@dataclass
class SkewedState:
    p: Floats  # (N,) in [0, 1]


@dataclass(frozen=True)
class MoreDataFirst:
    """MDF: the more data, the more often; p_k = n_k^β / max n^β.

    Parameters
    ----------
    beta : float
        β ≥ 0, how much size matters; 0: everyone is always there. FedGS uses 0.9.

    Notes
    -----
    Needs `Population.n_examples`. Somebody has p = 1, so that no round is ever without anybody.

    References
    ----------
    Wang et al., FedGS: Federated Graph-based Sampling with Arbitrary Client Availability, 2023,
    Table 1.
    """

    beta: float = 0.9

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0)

    def init(self, population: Population) -> SkewedState:
        sizes = known_sizes(population, "MoreDataFirst")
        return SkewedState(p=(sizes / sizes.max()) ** self.beta)

    def draw(self, state: SkewedState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.p)) <= state.p  # somebody has p = 1

    def rates(self, state: SkewedState, t: int) -> Floats:
        return state.p.copy()


@dataclass(frozen=True)
class LessDataFirst:
    """LDF: the less data, the more often; p_k = n_k^−β / max n^−β.

    Parameters
    ----------
    beta : float
        β ≥ 0, how much size matters; 0: everyone is always there. FedGS uses 0.9.

    Notes
    -----
    Needs `Population.n_examples`. Somebody has p = 1, so that no round is ever without anybody.

    References
    ----------
    Wang et al., FedGS: Federated Graph-based Sampling with Arbitrary Client Availability, 2023,
    Table 1.
    """

    beta: float = 0.9

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0)

    def init(self, population: Population) -> SkewedState:
        sizes = known_sizes(population, "LessDataFirst")
        return SkewedState(p=(sizes.min() / sizes) ** self.beta)

    def draw(self, state: SkewedState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.p)) <= state.p  # somebody has p = 1

    def rates(self, state: SkewedState, t: int) -> Floats:
        return state.p.copy()


@dataclass(frozen=True)
class YMaxFirst:
    """YMF: the larger a client's smallest label, the more often; β · min(label)/(C − 1) + 1 − β.

    Parameters
    ----------
    beta : float
        β in [0, 1], how much labels matter; FedGS uses 0.9.

    Notes
    -----
    Needs `Population.label_counts`, whose columns are the classes 0 .. C−1. `rates` counts in that
    a draw without anybody is repeated. `LabelBernoulli` is the same without the repetition.

    References
    ----------
    Wang et al., FedGS: Federated Graph-based Sampling with Arbitrary Client Availability, 2023,
    Table 1.
    """

    beta: float = 0.9

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0, high=1)

    def init(self, population: Population) -> SkewedState:
        place = smallest_label(population, "YMaxFirst")
        return SkewedState(p=self.beta * place + 1 - self.beta)

    def draw(self, state: SkewedState, t: int, rng: np.random.Generator) -> Bools:
        return draw_somebody(state.p, rng, "YMaxFirst")

    def rates(self, state: SkewedState, t: int) -> Floats:
        return repeated_rates(state.p)

    def chances(self, state: SkewedState, t: int) -> Floats:
        """(N,) the formula's p, of one draw."""
        return state.p.copy()


@dataclass
class YCycleState:
    held: Bools  # (N, C) whether a client holds an example of a class


@dataclass(frozen=True)
class YCycle:
    """YC: the labels have their turns, ten rounds each; who holds the label of the hour is there.

    p_k(t) = β · 1[k holds a label y with y/C < r ≤ (y + 1)/C] + 1 − β, where r = (1 + t mod T)/T
    and T = 10 C: label y has the rounds 10 y .. 10 y + 9 of each period.

    Parameters
    ----------
    beta : float
        β in [0, 1]; who does not hold the label is there with probability 1 − β. FedGS uses 0.9.

    Notes
    -----
    Needs `Population.label_counts`, whose columns are the classes 0 .. C−1. The bounds are compared
    as whole numbers, so that no rounding moves a label's turn. `rates` counts in that a draw
    without anybody is repeated. With β = 1 a label that nobody holds leaves a round without anybody
    to draw, which is an error.

    References
    ----------
    Wang et al., FedGS: Federated Graph-based Sampling with Arbitrary Client Availability, 2023,
    Table 1.
    """

    beta: float = 0.9

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0, high=1)

    def init(self, population: Population) -> YCycleState:
        return YCycleState(held=held_labels(population, "YCycle"))

    def draw(self, state: YCycleState, t: int, rng: np.random.Generator) -> Bools:
        return draw_somebody(self.chances(state, t), rng, f"YCycle (round {t})")

    def rates(self, state: YCycleState, t: int) -> Floats:
        return repeated_rates(self.chances(state, t))

    def chances(self, state: YCycleState, t: int) -> Floats:
        """(N,) the formula's p(t), of one draw."""
        n_classes = state.held.shape[1]
        # y/C < (1 + t mod T)/T <= (y + 1)/C, all times T = 10 C
        label = (t % (ROUNDS_PER_LABEL * n_classes)) // ROUNDS_PER_LABEL
        return np.where(state.held[:, label], 1.0, 1 - self.beta)


def lognormal_chances(n_clients: int, beta: float, seed: int) -> Floats:
    """(N,) c_k / max c, where c_k ~ LogNormal(0, ln 1/(1 − β))."""
    # as logarithms: the ratio never overflows, however wide the law
    logarithms = -math.log1p(-beta) * generator(seed, "availability/init").normal(size=n_clients)
    return np.asarray(np.exp(logarithms - logarithms.max()))


@dataclass(frozen=True)
class LogNormal:
    """LN: some are nearly always there, many seldom; c_k / max c, c_k ~ LogNormal(0, ln 1/(1 − β)).

    Parameters
    ----------
    beta : float
        β in [0, 1), how unequal clients are; 0: everyone is always there. FedGS uses 0.5.
    seed : int
        Which c_k: two runs with different seeds of their own still meet the same clients.

    Notes
    -----
    ln 1/(1 − β) is the standard deviation of ln c_k. Somebody has p = 1, so that no round is ever
    without anybody.

    References
    ----------
    Wang et al., FedGS: Federated Graph-based Sampling with Arbitrary Client Availability, 2023,
    Table 1.
    """

    beta: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0, high=1, high_open=True)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population) -> SkewedState:
        return SkewedState(p=lognormal_chances(population.n_clients, self.beta, self.seed))

    def draw(self, state: SkewedState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.p)) <= state.p  # somebody has p = 1

    def rates(self, state: SkewedState, t: int) -> Floats:
        return state.p.copy()


@dataclass(frozen=True)
class SinLogNormal:
    """SLN: as `LogNormal`, times 0.4 sin(2π (1 + t mod 24)/24) + 0.5: days of 24 rounds.

    Parameters
    ----------
    beta : float
        β in [0, 1), how unequal clients are. FedGS uses 0.5.
    seed : int
        Which c_k: two runs with different seeds of their own still meet the same clients.

    Notes
    -----
    The factor runs from 0.9 (round 5 of a day) to 0.1 (round 17). It is that of the docstring in
    the authors' code; the code itself steps by 2π/23. In the small hours of a small population
    nearly every draw is repeated, and `rates`, which counts that in, is well above p_k(t).

    References
    ----------
    Wang et al., FedGS: Federated Graph-based Sampling with Arbitrary Client Availability, 2023,
    Table 1.
    """

    beta: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, low=0, high=1, high_open=True)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population) -> SkewedState:
        return SkewedState(p=lognormal_chances(population.n_clients, self.beta, self.seed))

    def draw(self, state: SkewedState, t: int, rng: np.random.Generator) -> Bools:
        return draw_somebody(self.chances(state, t), rng, f"SinLogNormal (round {t})")

    def rates(self, state: SkewedState, t: int) -> Floats:
        return repeated_rates(self.chances(state, t))

    def chances(self, state: SkewedState, t: int) -> Floats:
        """(N,) the formula's p(t), of one draw."""
        hour = 1 + t % ROUNDS_PER_DAY
        return state.p * (0.4 * math.sin(2 * math.pi * hour / ROUNDS_PER_DAY) + 0.5)

"""`Bernoulli` (as in FedAR), `LabelBernoulli` (as in MIFA): independent draws per client."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.roles import Chances
from understudy.core.types import Bools, Floats, Population
from understudy.parts.availability.chances import chances_of, check_chances
from understudy.parts.availability.facts import smallest_label


@dataclass
class BernoulliState:
    p: Floats  # (N,) of each client


@dataclass(frozen=True)
class Bernoulli:
    """Client i is reachable with probability p_i, in every round, independently of the others.

    Parameters
    ----------
    p : float or Chances
        The same p_i for everyone, or what gives each client its own: `LabelDirichlet`,
        `LabelHalves`.
    p_min : float
        Instead of `p`: p_i is drawn once, uniformly from [p_min, 1]; FedAR's experiments use 0.1
        and 0.5.
    seed : int
        With `p_min`, which p_i: two runs with different seeds of their own still meet the same
        clients.

    Notes
    -----
    A round in which nobody can be reached is possible and is not drawn again.

    References
    ----------
    Jiang et al., FedAR: Addressing Client Unavailability in Federated Learning with Local Update
    Approximation and Rectification, 2024.

    Examples
    --------
    >>> from understudy import Bernoulli, Population
    >>> Bernoulli(0.3).init(Population(3)).p
    array([0.3, 0.3, 0.3])
    >>> Bernoulli(p_min=0.3).init(Population(3)).p.round(2)
    array([0.3 , 0.41, 0.33])
    """

    p: float | Chances | None = field(default=None, metadata={"added": "0.2", "or": "p_min"})
    p_min: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        checks.integer("seed", self.seed, low=0)
        if (self.p is None) == (self.p_min is None):
            both = f"p={self.p!r} and p_min={self.p_min!r}"
            raise ValueError(
                "Bernoulli: expected either p, the probability of everyone, or p_min, where each "
                f"client's is drawn from [p_min, 1], got {'neither' if self.p is None else both}"
            )
        if self.p is not None:
            check_chances("p", self.p)
        if self.p_min is not None:
            checks.number("p_min", self.p_min, low=0, high=1)

    def init(self, population: Population) -> BernoulliState:
        n = population.n_clients
        if self.p is not None:
            return BernoulliState(p=chances_of(self.p, population))
        assert self.p_min is not None
        rng = generator(self.seed, "availability/init")
        return BernoulliState(p=rng.uniform(self.p_min, 1.0, size=n))

    def draw(self, state: BernoulliState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.p)) <= state.p

    def rates(self, state: BernoulliState, t: int) -> Floats:
        return state.p.copy()


@dataclass(frozen=True)
class LabelBernoulli:
    """As `Bernoulli`, but who comes seldom is decided by the data: small labels are seldom there.

    p_i = p_min + (1 − p_min) · (smallest label that i holds) / (C − 1), so that the classes with
    small labels are hardly ever seen where those who hold them are away.

    Parameters
    ----------
    p_min : float
        Probability of a client that holds label 0, in [0, 1]; one that holds only the last label
        always comes.

    Notes
    -----
    This is the adversarial pattern of MIFA's public code. FedAR says only that the probability
    varies from p_min to 1 and shares MIFA's other settings, so that it may be meant there too [?];
    its uniform reading is `Bernoulli`. The probabilities are those of `YMaxFirst(1 − p_min)`,
    which however repeats a draw in which nobody is there; this one does not.

    References
    ----------
    Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, 2021.
    """

    p_min: float = 0.1

    def __post_init__(self) -> None:
        checks.number("p_min", self.p_min, low=0, high=1)

    def init(self, population: Population) -> BernoulliState:
        place = smallest_label(population, "LabelBernoulli")
        return BernoulliState(p=self.p_min + (1 - self.p_min) * place)

    def draw(self, state: BernoulliState, t: int, rng: np.random.Generator) -> Bools:
        return rng.random(len(state.p)) <= state.p

    def rates(self, state: BernoulliState, t: int) -> Floats:
        return state.p.copy()

"""Each client tosses its own coin in each round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.types import Bools, Floats, Population
from understudy.parts.availability.facts import smallest_label


@dataclass
class BernoulliState:
    p: Floats  # (N,) in [p_min, 1]


@dataclass(frozen=True)
class Bernoulli:
    """Client i is reachable with probability p_i, in every round anew and whatever the others do.

    Parameters
    ----------
    p_min : float
        p_i is drawn once, uniformly from [p_min, 1]; FedAR's experiments use 0.1 and 0.5.
    seed : int
        Which p_i: two runs with different seeds of their own still meet the same clients.

    Notes
    -----
    A round in which nobody can be reached is possible and is not drawn again.

    References
    ----------
    Jiang et al., FedAR: Addressing Client Unavailability in Federated Learning with Local Update
    Approximation and Rectification, 2024.
    """

    p_min: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        checks.number("p_min", self.p_min, low=0, high=1)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population) -> BernoulliState:
        rng = generator(self.seed, "availability/init")
        return BernoulliState(p=rng.uniform(self.p_min, 1.0, size=population.n_clients))

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

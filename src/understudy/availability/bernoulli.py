"""Each client tosses its own coin in each round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy import checks
from understudy.rng import generator
from understudy.types import Bools, Floats, Population


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

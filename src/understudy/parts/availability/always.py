"""`Always`: every client can be reached in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.types import Bools, Floats, Population


@dataclass
class AlwaysState:
    n_clients: int


@dataclass(frozen=True)
class Always:
    """Everyone can be reached in every round: what the other availabilities are compared with."""

    def init(self, population: Population) -> AlwaysState:
        return AlwaysState(int(population.n_clients))

    def draw(self, state: AlwaysState, t: int, rng: np.random.Generator) -> Bools:
        return np.ones(state.n_clients, dtype=np.bool_)

    def rates(self, state: AlwaysState, t: int) -> Floats:
        return np.ones(state.n_clients)

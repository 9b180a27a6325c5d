"""`FullStart`: everyone in the first round, then as another availability draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.core import checks
from understudy.core.roles import Availability
from understudy.core.types import Bools, Floats, Population
from understudy.parts.availability.always import Always


@dataclass
class FullStartState:
    n_clients: int
    inner: Any


@dataclass(frozen=True)
class FullStart:
    """Everyone can be reached in round 0; from then on `inner` decides.

    `MIFA` then has seen everyone at once and never waits: FedAR's words on it, "requires all
    clients to participate in the first round".

    Parameters
    ----------
    inner : Availability
        Any; round 0 is drawn too, so that all other rounds are as without this wrapper.
    """

    inner: Availability = field(default_factory=Always)

    def __post_init__(self) -> None:
        checks.part("inner", self.inner, "init", "draw", "rates")

    def init(self, population: Population) -> FullStartState:
        return FullStartState(int(population.n_clients), self.inner.init(population))

    def draw(self, state: FullStartState, t: int, rng: np.random.Generator) -> Bools:
        drawn = self.inner.draw(state.inner, t, rng)
        return np.ones(state.n_clients, dtype=np.bool_) if t == 0 else drawn

    def rates(self, state: FullStartState, t: int) -> Floats | None:
        return np.ones(state.n_clients) if t == 0 else self.inner.rates(state.inner, t)

"""A share of the reachable clients: Flower's `fraction_train`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Floats, Ints, RoundEnd, RoundStart, Setup


@dataclass(frozen=True)
class Sampled:
    """A share of the reachable clients, by chance, but not fewer than a minimum."""

    share: float  # of those who can be reached, rounded down
    at_least: int = 0  # as far as there are so many

    def __post_init__(self) -> None:
        checks.number("share", self.share, low=0, high=1, low_open=True)
        checks.integer("at_least", self.at_least, low=0)

    def init(self, setup: Setup) -> None:
        return None

    def pick(self, state: None, start: RoundStart) -> tuple[Ints, Floats]:
        reachable = np.flatnonzero(start.available)
        m = max(int(self.share * len(reachable)), self.at_least)
        m = min(m, len(reachable))
        return start.rng.choice(reachable, size=m, replace=False), np.ones(m)

    def learn(self, state: None, end: RoundEnd) -> None:
        return None

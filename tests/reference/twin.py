"""What all compensator twins share: the order of a round, and the plain weighted sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# (represented client, row, coefficient, vector); a row is ("came", i), ("memory", i),
# ("model", i) or ("mixture", -1)
Part = tuple[int, tuple[str, int], float, np.ndarray]


@dataclass
class Facts:
    """One round, as a twin sees it."""

    t: int
    wanted: list[int]
    came: dict[int, np.ndarray]
    q: np.ndarray  # (N,)
    base: np.ndarray  # (N,)
    lr: Callable[[int], float]
    p: np.ndarray | None
    active: np.ndarray  # (N,) bool
    late: dict[int, tuple[int, np.ndarray]]
    params: np.ndarray | None


def constant_step(t: int) -> float:
    return 1.0


class Twin:
    """A round is: fill from the old memory, sum, then learn."""

    fills_without_arrivals = False

    def __init__(self, n_clients: int, d: int) -> None:
        self.n_clients = n_clients
        self.d = d
        self.parts: list[Part] = []

    def fill(self, facts: Facts) -> list[Part]:
        raise NotImplementedError

    def learn(self, facts: Facts) -> None:
        """Nothing to remember."""

    def round(
        self,
        t,
        wanted,
        came,
        q,
        *,
        base,
        lr=constant_step,
        p=None,
        active=None,
        late=None,
        params=None,
    ) -> np.ndarray | None:
        if active is None:
            active = np.ones(self.n_clients, dtype=bool)
        facts = Facts(t, list(wanted), dict(came), q, base, lr, p, active, late or {}, params)
        # a round in which nobody came takes no step, but of those that step on late updates
        asked = facts.came or self.fills_without_arrivals
        self.parts = self.fill(facts) if asked else []
        update = weighted_sum(self.parts, self.d) if self.parts else None
        self.learn(facts)
        return update


def weighted_sum(parts: list[Part], d: int) -> np.ndarray:
    update = np.zeros(d)
    for _, _, coef, vector in parts:
        for entry in range(d):
            update[entry] += coef * vector[entry]
    return update


class LastUpdates:
    """The last update of each client, and the round it started from."""

    def __init__(self) -> None:
        self.update: dict[int, np.ndarray] = {}
        self.last_seen: dict[int, int] = {}

    def learn(self, facts: Facts) -> None:
        for i, delta in facts.came.items():
            self.update[i] = delta.copy()
            self.last_seen[i] = facts.t
        # a late one is remembered as of its start round, and only if nothing newer is there
        for i, (start, delta) in facts.late.items():
            if i not in self.last_seen or start > self.last_seen[i]:
                self.update[i] = delta.copy()
                self.last_seen[i] = start

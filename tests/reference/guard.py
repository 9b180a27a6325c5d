"""NormGuard: an arrival much longer than those of the last rounds is scaled down."""

from __future__ import annotations

import math

import numpy as np


def median(values: list[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


class NormGuardTwin:
    def __init__(self, factor: float, n_parameters: int) -> None:
        self.factor = factor
        self.n_parameters = n_parameters
        self.rounds: list[list[float]] = []  # norms after scaling, rounds in which someone came

    def norm(self, delta: np.ndarray) -> float:
        return math.sqrt(sum(float(delta[entry]) ** 2 for entry in range(self.n_parameters)))

    def guard(
        self, came: dict[int, np.ndarray], late: dict[int, tuple[int, np.ndarray]]
    ) -> tuple[dict[int, np.ndarray], dict[int, tuple[int, np.ndarray]]]:
        pool = [norm for norms in self.rounds[-5:] for norm in norms]
        if not pool:
            pool = [self.norm(delta) for delta in came.values()]
        if not pool:
            return came, late  # nothing is known yet, and nobody came
        bound = self.factor * median(pool)

        def scaled(delta: np.ndarray) -> np.ndarray:
            norm = self.norm(delta)
            return delta * (bound / norm) if norm > bound else delta

        came = {i: scaled(delta) for i, delta in came.items()}
        late = {i: (start, scaled(delta)) for i, (start, delta) in late.items()}
        if came:
            self.rounds.append([self.norm(delta) for delta in came.values()])
        return came, late

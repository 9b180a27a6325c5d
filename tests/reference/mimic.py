"""MimiC: (1/|A|) sum_{i in A} (Delta_i - Delta_i^last + U_i^last); at first Delta_i alone.

What is remembered is a step: it takes eta_t/eta_s.
"""

from __future__ import annotations

import numpy as np

from tests.reference.twin import Facts, Part, Twin, weighted_sum


class MimiCTwin(Twin):
    def __init__(self, n_clients: int, d: int) -> None:
        super().__init__(n_clients, d)
        self.own: dict[int, np.ndarray] = {}  # Delta_i^last
        self.common: dict[int, np.ndarray] = {}  # U_i^last
        self.eta: dict[int, float] = {}

    def fill(self, facts: Facts) -> list[Part]:
        total = 0.0
        for i in facts.came:
            total += facts.q[i]
        parts: list[Part] = []
        for i, delta in facts.came.items():
            share = facts.q[i] / total
            corrected = delta
            if i in self.own:
                rescale = facts.lr(facts.t) / self.eta[i]
                corrected = delta - rescale * self.own[i] + rescale * self.common[i]
            parts.append((i, ("came", i), share, corrected))
        return parts

    def learn(self, facts: Facts) -> None:
        if not facts.came:
            return
        update = weighted_sum(self.parts, self.d)
        for i, delta in facts.came.items():
            self.own[i], self.common[i] = delta.copy(), update.copy()
            self.eta[i] = facts.lr(facts.t)

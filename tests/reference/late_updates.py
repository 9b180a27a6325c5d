"""REFL: (sum_fresh n_i Delta_i + sum_late s_i n_i Delta_i) / (sum_fresh n_i + sum_late s_i n_i)."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.twin import Facts, Part, Twin


class LateUpdatesTwin(Twin):
    fills_without_arrivals = True

    def __init__(self, n_clients, d, rule="refl", beta=0.35, c=10.0, max_age=None) -> None:
        super().__init__(n_clients, d)
        self.rule, self.beta, self.c, self.max_age = rule, beta, c, max_age
        self.n_late = 0

    def fill(self, facts: Facts) -> list[Part]:
        parts: list[Part] = [(i, ("came", i), facts.q[i], delta) for i, delta in facts.came.items()]
        late = {  # rescaled to the current local step
            i: delta * (facts.lr(facts.t) / facts.lr(start))
            for i, (start, delta) in facts.late.items()
        }
        deviation = dict.fromkeys(late, 1.0)  # Lambda_i / Lambda_max
        if facts.came and late:
            total = sum(facts.q[i] for i in facts.came)
            mean = np.zeros(self.d)
            for i, delta in facts.came.items():
                mean += facts.q[i] / total * delta
            size = np.dot(mean, mean)
            ratio = {i: np.dot(mean - row, mean - row) / size for i, row in late.items()}
            deviation = {i: ratio[i] / max(ratio.values()) for i in late}
        for i, row in late.items():
            tau = facts.t - facts.late[i][0]
            if self.max_age is not None and tau > self.max_age:
                continue
            weight = {
                "equal": 1.0,
                "inverse": 1 / (tau + 1),
                "root": (1 + tau) ** -0.5,
                "exponential": math.exp(-(tau + 1)),
                "refl": (1 - self.beta) / (tau + 1)
                + self.beta * (1 - math.exp(-deviation[i]) / self.c),
            }[self.rule]
            parts.append((i, ("late", i), weight * facts.base[i], row))
            self.n_late += 1
        everything = sum(weight for _, _, weight, _ in parts)
        return [(i, row, weight / everything, vector) for i, row, weight, vector in parts]

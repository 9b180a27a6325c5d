"""FedStale, as its three sums:

sum_{i in A} alpha_i/p_i Delta_i
+ beta (sum_{j not in A} alpha_j y_j + sum_{i in A} (alpha_i - alpha_i/p_i) y_i).
"""

from __future__ import annotations

from tests.reference.fedau import IntervalsTwin
from tests.reference.twin import Facts, LastUpdates, Part, Twin


class FedStaleTwin(Twin):
    def __init__(
        self,
        n_clients: int,
        d: int,
        beta: float = 0.5,
        rates: str = "estimated",
        cutoff: int = 100_000,
    ) -> None:
        super().__init__(n_clients, d)
        self.beta = beta
        self.rates = rates
        self.last = LastUpdates()
        self.intervals = IntervalsTwin(n_clients, cutoff)

    def fill(self, facts: Facts) -> list[Part]:
        total = 0.0
        for i in range(self.n_clients):
            if facts.active[i]:
                total += facts.base[i]
        parts: list[Part] = []
        now = facts.lr(facts.t)
        for i in range(self.n_clients):
            if not facts.active[i]:
                continue
            alpha = facts.base[i] / total
            p = facts.p[i] if self.rates == "known" else 1.0 / self.intervals.omega(i)
            if i in facts.came:
                parts.append((i, ("came", i), alpha / p, facts.came[i]))
            if i in self.last.update:
                y = self.last.update[i] * (now / facts.lr(self.last.last_seen[i]))
                coef = alpha - alpha / p if i in facts.came else alpha
                parts.append((i, ("memory", i), self.beta * coef, y))
        return parts

    def learn(self, facts: Facts) -> None:
        self.last.learn(facts)
        self.intervals.learn(facts)

"""FedAU: (1/N) sum_{i in A} omega_i Delta_i; omega_i the mean of i's participation intervals.

As its algorithm 2, with a list of intervals and a counter for each client.
"""

from __future__ import annotations

from tests.reference.twin import Facts, Part, Twin


class IntervalsTwin:
    def __init__(self, n_clients: int, cutoff: int) -> None:
        self.cutoff = cutoff  # K
        self.intervals: list[list[int]] = [[] for _ in range(n_clients)]
        self.away = [0] * n_clients

    def omega(self, i: int) -> float:
        if not self.intervals[i]:
            return 1.0
        return sum(self.intervals[i]) / len(self.intervals[i])

    def learn(self, facts: Facts) -> None:
        for i in range(len(self.away)):
            if not facts.active[i]:
                continue
            if i in facts.came:
                self.intervals[i].append(self.away[i] + 1)
                self.away[i] = 0
            else:
                self.away[i] += 1
                if self.away[i] == self.cutoff:
                    self.intervals[i].append(self.cutoff)
                    self.away[i] = 0


class FedAUTwin(Twin):
    def __init__(self, n_clients: int, d: int, cutoff: int = 100_000) -> None:
        super().__init__(n_clients, d)
        self.intervals = IntervalsTwin(n_clients, cutoff)

    def fill(self, facts: Facts) -> list[Part]:
        total = 0.0
        for i in range(self.n_clients):
            if facts.active[i]:
                total += facts.base[i]
        parts: list[Part] = []
        for i, delta in facts.came.items():
            coef = facts.base[i] / total * self.intervals.omega(i)
            parts.append((i, ("came", i), coef, delta))
        return parts

    def learn(self, facts: Facts) -> None:
        self.intervals.learn(facts)

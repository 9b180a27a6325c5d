"""FedAvg with importance sampling: (1/N) sum_{i in A} Delta_i / p_i, with known p_i."""

from __future__ import annotations

from tests.reference.twin import Facts, Part, Twin


class FedAvgISTwin(Twin):
    def fill(self, facts: Facts) -> list[Part]:
        total = 0.0
        for i in range(self.n_clients):
            if facts.active[i]:
                total += facts.base[i]
        parts: list[Part] = []
        for i, delta in facts.came.items():
            parts.append((i, ("came", i), facts.base[i] / total / facts.p[i], delta))
        return parts

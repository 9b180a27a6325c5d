"""FedVARP: (1/N) sum_j y_j + (1/|A|) sum_{i in A} (Delta_i - y_i), then y_i <- Delta_i.

All are per unit of the local step: y_j takes eta_t/eta_s of the round it was made in.
"""

from __future__ import annotations

from tests.reference.twin import Facts, LastUpdates, Part, Twin


class FedVARPTwin(Twin):
    def __init__(self, n_clients: int, d: int) -> None:
        super().__init__(n_clients, d)
        self.last = LastUpdates()  # y_j; one never seen is a zero

    def fill(self, facts: Facts) -> list[Part]:
        everyone = 0.0
        for j in range(self.n_clients):
            if facts.active[j]:
                everyone += facts.base[j]
        those_who_came = 0.0
        for i in facts.came:
            those_who_came += facts.q[i]
        parts: list[Part] = []
        now = facts.lr(facts.t)
        old = {j: y * (now / facts.lr(self.last.last_seen[j])) for j, y in self.last.update.items()}
        for j, y in old.items():
            if facts.active[j]:
                parts.append((j, ("memory", j), facts.base[j] / everyone, y))
        for i, delta in facts.came.items():
            share = facts.q[i] / those_who_came
            parts.append((i, ("came", i), share, delta))
            if i in old:
                parts.append((i, ("memory", i), -share, old[i]))
        return parts

    def learn(self, facts: Facts) -> None:
        self.last.learn(facts)

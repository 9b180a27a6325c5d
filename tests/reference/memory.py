"""MIFA and FedAR: everyone the server remembers speaks in every round."""

from __future__ import annotations

from tests.reference.twin import Facts, LastUpdates, Part, Twin


class MIFATwin(Twin):
    """G_i = Delta_i / eta_s of the last visit; step = eta_t (1/N) sum_i G_i."""

    def __init__(self, n_clients: int, d: int, wait: bool = True) -> None:
        super().__init__(n_clients, d)
        self.wait = wait
        self.last = LastUpdates()
        self.everyone_was_seen = False

    def fill(self, facts: Facts) -> list[Part]:
        active = [i for i in range(self.n_clients) if facts.active[i]]
        if self.wait and not self.everyone_was_seen:
            for i in active:
                if i not in facts.came and i not in self.last.update:
                    return []
        total = 0.0
        for i in active:
            total += facts.base[i]
        parts: list[Part] = []
        for i in active:
            share = facts.base[i] / total  # 1/N
            if i in facts.came:
                parts.append((i, ("came", i), share, facts.came[i]))
            elif i in self.last.update:
                rescale = facts.lr(facts.t) / facts.lr(self.last.last_seen[i])
                parts.append((i, ("memory", i), share * rescale, self.last.update[i]))
            # without waiting, one never seen is a zero
        return parts

    def learn(self, facts: Facts) -> None:
        self.last.learn(facts)
        seen = True
        for i in range(self.n_clients):
            if facts.active[i] and i not in self.last.update:
                seen = False
        if seen:
            self.everyone_was_seen = True


class FedARTwin(Twin):
    """w + (1/N_t) sum_i psi_i Delta_i eta_t/eta_s over those ever seen with psi_i > 0."""

    def __init__(
        self, n_clients: int, d: int, rho: float = 0.1, cutoff=None, psi: str = "power"
    ) -> None:
        super().__init__(n_clients, d)
        self.rho = rho
        self.cutoff = cutoff
        self.psi = psi
        self.last = LastUpdates()

    def weight_of_age(self, age: int, t: int) -> float:
        if self.cutoff is not None and age > self.cutoff(t):
            return 0.0
        if self.psi == "power":
            return min((age + 1.0) ** self.rho, 2.0)
        return min(1.0 + self.rho * age, 2.0)

    def fill(self, facts: Facts) -> list[Part]:
        speaking = []  # (i, row, psi_i * eta_t / eta_s, Delta_i)
        for i in range(self.n_clients):
            if not facts.active[i]:
                continue
            if i in facts.came:
                psi = self.weight_of_age(0, facts.t)
                if psi > 0:
                    speaking.append((i, ("came", i), psi, facts.came[i]))
            elif i in self.last.update:
                start = self.last.last_seen[i]
                psi = self.weight_of_age(facts.t - start, facts.t)
                if psi > 0:
                    rescale = facts.lr(facts.t) / facts.lr(start)
                    speaking.append((i, ("memory", i), psi * rescale, self.last.update[i]))
        total = 0.0  # N_t
        for i, _, _, _ in speaking:
            total += facts.base[i]
        return [(i, row, psi * facts.base[i] / total, delta) for i, row, psi, delta in speaking]

    def learn(self, facts: Facts) -> None:
        self.last.learn(facts)

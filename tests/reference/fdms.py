"""FL-FDMS: friend discovery and model substitution, and its complexity reduction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tests.reference.twin import Facts, Part, Twin


@dataclass
class RaceTwin:
    """Theorem 2's constants."""

    threshold: str = "theorem"
    scale: float = 1.0
    horizon: int = 500  # T
    max_friends: int = 3  # B_max
    beta: float = 0.5
    p: float = 0.01
    delta_f: float = 0.01
    n_clients: int | None = None  # K

    def theta(self, t: int, population: int) -> float:
        """Theta_t, t = 1, 2, ..."""
        k = population if self.n_clients is None else self.n_clients
        above = 2 * math.log(2 * k**2 * self.horizon * self.max_friends) - 2 * math.log(self.p)
        if self.threshold == "theorem":
            # Theta_t, and 0.5 Theta_t in case 2
            return self.scale * (math.sqrt(above / (self.beta * t)) + self.delta_f)
        # the authors' code: 2 beta t under the root, the scale on the root only
        return self.scale * math.sqrt(above / (2 * self.beta * t)) + self.delta_f


class FDMSTwin(Twin):
    def __init__(
        self,
        n_clients: int,
        d: int,
        similarity: str = "cosine",
        race: RaceTwin | None = None,
        n_parameters: int | None = None,
    ) -> None:
        super().__init__(n_clients, d)
        self.similarity = similarity
        self.race = race
        self.n_parameters = d if n_parameters is None else n_parameters
        self.R = [[0.0] * n_clients for _ in range(n_clients)]
        self.count = [[0] * n_clients for _ in range(n_clients)]
        # C_k: all other clients at first
        self.candidates = [{i for i in range(n_clients) if i != k} for k in range(n_clients)]
        self.joined = [0] * n_clients
        self.pairs_needed = 0
        self.pairs_at_most = 0
        self.removals: list[tuple[int, int, int]] = []  # (t, k, i): i left C_k

    def grow(self, n_clients: int, t: int) -> None:
        old = self.n_clients
        for k in range(old):
            self.R[k] += [0.0] * (n_clients - old)
            self.count[k] += [0] * (n_clients - old)
            self.candidates[k] |= set(range(old, n_clients))
        for k in range(old, n_clients):
            self.R.append([0.0] * n_clients)
            self.count.append([0] * n_clients)
            self.candidates.append({i for i in range(n_clients) if i != k})
            self.joined.append(t)
        self.n_clients = n_clients

    # eq. 14
    def score(self, a: np.ndarray, b: np.ndarray) -> float:
        product = norm_a = norm_b = distance = 0.0
        for entry in range(self.n_parameters):
            product += a[entry] * b[entry]
            norm_a += a[entry] ** 2
            norm_b += b[entry] ** 2
            distance += (a[entry] - b[entry]) ** 2
        if self.similarity == "distance":
            return -math.sqrt(distance)
        return 0.5 * (product / (math.sqrt(norm_a) * math.sqrt(norm_b)) + 1.0)

    def best(self, k: int, among: list[int]) -> int | None:
        """argmax_i R_ki over those seen together with k; the lowest id on a tie."""
        friend = None
        for i in sorted(among):
            if self.count[k][i] == 0:
                continue
            if friend is None or self.R[k][i] > self.R[k][friend]:
                friend = i
        return friend

    def friend(self, k: int, came: list[int]) -> int | None:
        friend = self.best(k, [i for i in came if i in self.candidates[k]])
        if friend is None:
            friend = self.best(k, [i for i in came if i not in self.candidates[k]])
        return friend

    # eq. 5
    def fill(self, facts: Facts) -> list[Part]:
        total = 0.0
        for k in facts.wanted:
            total += facts.q[k]
        came_total = 0.0
        for i in facts.came:
            came_total += facts.q[i]
        mean = np.zeros(self.d)
        for i, delta in facts.came.items():
            mean += facts.q[i] / came_total * delta
        parts: list[Part] = []
        for k in facts.wanted:
            share = facts.q[k] / total
            if k in facts.came:
                parts.append((k, ("came", k), share, facts.came[k]))
                continue
            friend = self.friend(k, list(facts.came))
            if friend is None:
                parts.append((k, ("mixture", -1), share, mean))
            else:
                parts.append((k, ("came", friend), share, facts.came[friend]))
        return parts

    # eq. 15, then section 5.3
    def learn(self, facts: Facts) -> None:
        self.pairs_needed = 0
        self.pairs_at_most = 0
        if not facts.came:
            return
        came = sorted(facts.came)
        occurring = set()
        for position, i in enumerate(came):
            for j in came[position + 1 :]:
                if j not in self.candidates[i] and i not in self.candidates[j]:
                    continue  # nobody needs this pair any more
                self.pairs_needed += 1
                occurring |= {i, j}
                r = self.score(facts.came[i], facts.came[j])
                n = self.count[i][j]
                self.R[i][j] = (n * self.R[i][j] + r) / (n + 1)
                self.R[j][i] = self.R[i][j]
                self.count[i][j] = self.count[j][i] = n + 1
        self.pairs_at_most = len(occurring) * (len(occurring) - 1) // 2
        if self.race is not None:
            self.eliminate(facts.t)

    def eliminate(self, t: int) -> None:
        for k in range(self.n_clients):
            best = self.best(k, list(self.candidates[k]))
            if best is None:
                continue
            for i in sorted(self.candidates[k]):
                if self.count[k][i] == 0:
                    continue  # a pair not yet seen together is never removed
                gap = self.R[k][best] - self.R[k][i]
                rounds = t - max(self.joined[k], self.joined[i]) + 1
                if gap >= self.race.theta(rounds, self.n_clients):
                    self.candidates[k].remove(i)
                    self.removals.append((t, k, i))

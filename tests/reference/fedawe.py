"""FedAWE: w = mean_A x_i + eta mean_A (t - tau_i)(x_i^K - x_i); only A receives w.

Clients keep models; the server's is w, or the mean of all clients' by their shares. The update is
the way there from the last one.
"""

from __future__ import annotations

import numpy as np

from tests.reference.twin import Facts, Part, Twin


class FedAWETwin(Twin):
    def __init__(
        self,
        n_clients: int,
        d: int,
        w0: np.ndarray,
        eta: float = 1.0,
        clip: float | None = None,
        model="mean",
    ) -> None:
        super().__init__(n_clients, d)
        self.eta = eta
        self.clip = clip
        self.model = model
        self.x = [w0.copy() for _ in range(n_clients)]
        self.tau = [-1] * n_clients
        self.clipped = 0

    def fill(self, facts: Facts) -> list[Part]:
        total = 0.0
        for i in facts.came:
            total += facts.base[i]
        model, innovation = np.zeros(self.d), np.zeros(self.d)
        for i, delta in facts.came.items():
            share = facts.base[i] / total
            model += share * self.x[i]
            innovation += share * (facts.t - self.tau[i]) * delta
        norm = np.linalg.norm(innovation)
        if self.clip is not None and norm > self.clip:
            innovation *= self.clip / norm
            self.clipped += 1
        self.w = model + self.eta * innovation
        way = self.w - facts.params
        if self.model == "mean":
            way = np.zeros(self.d)
            everyone = sum(facts.base)
            for i in facts.came:
                way += facts.base[i] / everyone * (self.w - self.x[i])
        return [(-1, ("mixture", -1), 1.0, way)]

    def learn(self, facts: Facts) -> None:
        if not facts.came:
            return
        for i in facts.came:
            self.x[i] = self.w.copy()
            self.tau[i] = facts.t

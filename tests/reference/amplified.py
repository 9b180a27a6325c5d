"""Generalized FedAvg (Wang & Ji, 2022), Amplified SCAFFOLD (Crawshaw & Liu, 2024), FOCUS (2025)."""

from __future__ import annotations

import numpy as np

from tests.reference.twin import Facts, Part, Twin


class GeneralizedTwin:
    def __init__(self, start: np.ndarray, period: int, factor: float, n_parameters: int) -> None:
        self.start = start.copy()  # of the period
        self.period = period
        self.factor = factor
        self.n_parameters = n_parameters
        self.next_round = 0
        self.n_late = 0  # periods that ended with a round in which nobody came

    def look(self, now, came, q, parts) -> None:
        """Rounds that were not looked at took no step."""
        self.skipped, self.next_round = range(self.next_round, now.t), now.t + 1

    def amplified(self, x: np.ndarray) -> np.ndarray:
        new = x.copy()
        for j in range(self.n_parameters):
            new[j] = self.start[j] + self.factor * (x[j] - self.start[j])
        self.start = new.copy()
        return new

    def step(self, x: np.ndarray, update: np.ndarray, t: int) -> np.ndarray:
        for r in self.skipped:
            if (r + 1) % self.period == 0:  # a second time nothing has moved since
                x = self.amplified(x)
                self.n_late += 1
        new = x + update
        if self.next_round % self.period == 0:
            new = self.amplified(new)
        return new


class AmplifiedScaffoldTwin:
    """The variates: gradients are summed as they were computed, without corrections."""

    def __init__(self, n_clients: int, d: int, n_parameters: int, period: int) -> None:
        self.n_clients = n_clients
        self.d = d
        self.n_parameters = n_parameters
        self.period = period
        self.variate = np.zeros((n_clients, d))
        self.sums = np.zeros((n_clients, d))
        self.n_steps = [0] * n_clients

    def correction(self, i: int) -> np.ndarray:
        return self.variate.sum(axis=0) / self.n_clients - self.variate[i]

    def learn(
        self, t: int, came: dict[int, np.ndarray], n_steps: dict[int, int], eta: float
    ) -> None:
        for i, delta in came.items():
            # each step moved by -eta (gradient + correction)
            for j in range(self.n_parameters):
                corrected = -delta[j] / eta
                self.sums[i, j] += corrected - n_steps[i] * self.correction(i)[j]
            self.n_steps[i] += n_steps[i]
        if (t + 1) % self.period == 0:
            for i in range(self.n_clients):
                if self.n_steps[i]:
                    self.variate[i] = self.sums[i] / self.n_steps[i]
                    self.sums[i] = 0
                    self.n_steps[i] = 0


class FocusTwin(Twin):
    """The server's sum y of what clients sent; `gradient` is what client i remembers."""

    def __init__(self, n_clients: int, d: int, n_parameters: int) -> None:
        super().__init__(n_clients, d)
        self.n_parameters = n_parameters
        self.y = np.zeros(d)
        self.gradient = np.zeros((n_clients, d))
        self.buffers = np.zeros((n_clients, d - n_parameters))

    def fill(self, facts: Facts) -> list[Part]:
        eta = facts.lr(facts.t)
        k = self.n_parameters
        for i, reply in facts.came.items():
            sent = -reply / eta  # y_i; of buffers, the last one counts as in MIFA
            sent[k:] -= self.buffers[i]
            self.y += sent
            self.gradient[i, :k] += sent[:k]
            self.buffers[i] += sent[k:]
        return [(0, ("mixture", -1), 1.0, -eta * self.y / self.n_clients)]

"""SCAFFOLD, option II, zero initial variates, kept by the server."""

from __future__ import annotations

import numpy as np


class ScaffoldTwin:
    """The variates alone: c and c_i. The update itself is aggregated by whatever compensates."""

    def __init__(self, n_clients: int, d: int, n_parameters: int) -> None:
        self.n_clients = n_clients
        self.d = d
        self.n_parameters = n_parameters  # buffers have no gradient, so no variate either
        self.c = [0.0] * d
        self.c_i = [[0.0] * d for _ in range(n_clients)]

    def correction(self, i: int) -> np.ndarray:
        """c - c_i, added to each local gradient of client i."""
        return np.array([self.c[entry] - self.c_i[i][entry] for entry in range(self.d)])

    def learn(self, t: int, came: dict[int, np.ndarray], n_steps: dict[int, int], lr) -> None:
        change = [0.0] * self.d  # sum over those who came of Delta c_i
        for i, delta in came.items():
            for entry in range(self.n_parameters):
                # c_i+ = c_i - c + (x - y_i) / (K_i eta), and x - y_i = -Delta_i
                new = self.c_i[i][entry] - self.c[entry] - delta[entry] / (n_steps[i] * lr(t))
                change[entry] += new - self.c_i[i][entry]
                self.c_i[i][entry] = new
        # c+ = c + (1/N) sum Delta c_i, only now: all c_i+ are made with the old c
        for entry in range(self.d):
            self.c[entry] += change[entry] / self.n_clients

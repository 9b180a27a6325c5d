"""Server optimizers of Reddi et al. (2021), algorithm 2: no bias correction, v_0 = tau^2."""

from __future__ import annotations

import math

import numpy as np


class SgdTwin:
    def __init__(self, d: int, lr) -> None:
        self.d = d
        self.lr = lr  # a function of the round

    def step(self, x: np.ndarray, update: np.ndarray, t: int) -> np.ndarray:
        return np.array([x[j] + self.lr(t) * update[j] for j in range(self.d)])


class MomentumTwin:
    def __init__(self, d: int, lr, beta: float) -> None:
        self.d = d
        self.lr = lr
        self.beta = beta
        self.v = [0.0] * d

    def step(self, x: np.ndarray, update: np.ndarray, t: int) -> np.ndarray:
        new = np.zeros(self.d)
        for j in range(self.d):
            self.v[j] = self.beta * self.v[j] + update[j]
            new[j] = x[j] + self.lr(t) * self.v[j]
        return new


class AdaptiveTwin:
    """kind="adam" or "yogi"."""

    def __init__(self, d: int, lr, beta1: float, beta2: float, tau: float, kind: str) -> None:
        self.d = d
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.tau = tau
        self.kind = kind
        self.m = [0.0] * d
        self.v = [tau**2] * d

    def step(self, x: np.ndarray, update: np.ndarray, t: int) -> np.ndarray:
        new = np.zeros(self.d)
        for j in range(self.d):
            delta = float(update[j])
            square = delta * delta
            self.m[j] = self.beta1 * self.m[j] + (1 - self.beta1) * delta
            if self.kind == "adam":
                self.v[j] = self.beta2 * self.v[j] + (1 - self.beta2) * square
            else:
                sign = (self.v[j] > square) - (self.v[j] < square)
                self.v[j] = self.v[j] - (1 - self.beta2) * square * sign
            new[j] = x[j] + self.lr(t) * self.m[j] / (math.sqrt(self.v[j]) + self.tau)
        return new

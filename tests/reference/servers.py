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


class BufferedTwin:
    """Buffers behind the parameters take their aggregated value, whatever the optimizer."""

    def __init__(self, inner, n_parameters: int) -> None:
        self.inner = inner
        self.n_parameters = n_parameters

    def step(self, x: np.ndarray, update: np.ndarray, t: int) -> np.ndarray:
        k = self.n_parameters
        return np.concatenate([self.inner.step(x[:k], update[:k], t), x[k:] + update[k:]])


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


class ExtrapolatedTwin:
    """FedExP, eq. 8, before an inner server; `rows` is "fresh" or "all"."""

    def __init__(self, inner, d: int, n_parameters: int, rows, scale, epsilon, damping) -> None:
        self.inner = inner
        self.d = d
        self.n_parameters = n_parameters
        self.rows = rows
        self.scale = scale
        self.epsilon = epsilon
        self.damping = damping
        self.logs: list[float] = []  # of every step's own factor
        self.factor = 1.0

    def look(self, now, came, q, parts) -> None:
        """The round's rows: (weight, vector)."""
        if self.rows == "fresh":
            weighted = [(q[i], delta) for i, delta in came.items()]
        else:
            by_row: dict[tuple[str, int], list] = {}
            for _, row, coef, vector in parts:
                by_row.setdefault(row, [0.0, vector])[0] += coef
            weighted = [(coef, vector) for coef, vector in by_row.values()]
        total = sum(abs(weight) for weight, _ in weighted)
        squares, mean = 0.0, [0.0] * self.n_parameters
        for weight, vector in weighted:
            for j in range(self.n_parameters):
                squares += abs(weight) / total * float(vector[j]) ** 2
                mean[j] += weight / total * float(vector[j])
        below = sum(entry * entry for entry in mean) + self.epsilon
        self.logs.append(math.log(max(1.0, self.scale * squares / below)))

    def step(self, x: np.ndarray, update: np.ndarray, t: int) -> np.ndarray:
        newest_first = self.logs[::-1] if self.damping else self.logs[-1:]
        weights = [self.damping**age for age in range(len(newest_first))]
        mean = sum(w * value for w, value in zip(weights, newest_first, strict=True))
        self.factor = math.exp(mean / sum(weights))
        longer = update.copy()
        for j in range(self.n_parameters):
            longer[j] = self.factor * update[j]
        return self.inner.step(x, longer, t)

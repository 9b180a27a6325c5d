"""FedMGDA+ (Hu et al., 2022, algorithm 1) and FedFV (Wang et al., 2021, algorithms 1 to 3)."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.reference.twin import Part


def told(parts: list[Part], d: int) -> dict[int, tuple[float, np.ndarray]]:
    """Client -> (share, stand-in): its rows, weighted within it."""
    shares: dict[int, float] = {}
    sums: dict[int, np.ndarray] = {}
    for client, _, coef, vector in parts:
        shares[client] = shares.get(client, 0.0) + coef
        sums[client] = sums.get(client, np.zeros(d)) + coef * vector
    return {k: (shares[k], sums[k] / shares[k]) for k in sorted(shares) if shares[k] > 0}


class FedMGDATwin:
    """Weights found by moving weight between two clients at a time, until no pair gains."""

    def __init__(self, d: int, epsilon: float, length: str) -> None:
        self.d = d
        self.epsilon = epsilon
        self.length = length

    def __call__(self, parts: list[Part]) -> np.ndarray:
        clients = told(parts, self.d)
        share = np.array([s for s, _ in clients.values()])
        norm = [float(np.sqrt(np.sum(x**2))) for _, x in clients.values()]
        unit = [x / n for (_, x), n in zip(clients.values(), norm, strict=True)]
        mean = sum(s * n for s, n in zip(share, norm, strict=True))
        start = share / share.sum()
        low = [max(0.0, s - self.epsilon) for s in start]
        high = [min(1.0, s + self.epsilon) for s in start]
        weight = list(start)
        step = sum(w * g for w, g in zip(weight, unit, strict=True))
        for _ in range(4000):
            moved = 0.0
            for i, j in itertools.combinations(range(len(unit)), 2):
                way = unit[i] - unit[j]  # t more for i, t less for j
                square = float(way @ way)
                if square < 1e-18:
                    continue
                t = -float(step @ way) / square
                t = min(max(t, low[i] - weight[i], weight[j] - high[j]), high[i] - weight[i])
                t = min(t, weight[j] - low[j])
                weight[i] += t
                weight[j] -= t
                step = step + t * way
                moved = max(moved, abs(t))
            if moved < 1e-15:
                break
        step = sum(w * g for w, g in zip(weight, unit, strict=True))
        return step * (mean if self.length == "mean" else 1.0)


class FedFVTwin:
    def __init__(self, d: int, alpha: float, external: str) -> None:
        self.d = d
        self.alpha = alpha
        self.external = external
        self.losses: dict[int, float] = {}  # of those who came

    def look(self, now, came) -> None:
        self.losses = {i: float(now.losses[i]) for i in came}

    def __call__(self, parts: list[Part]) -> np.ndarray:
        clients = told(parts, self.d)
        total = sum(s for s, _ in clients.values())
        inside = [k for k in clients if self.external != "absent" or k in self.losses]
        share = {k: clients[k][0] for k in inside}
        share = {k: s * total / sum(share.values()) for k, s in share.items()}
        g = {k: clients[k][1] for k in clients}
        order = sorted(inside, key=lambda k: (self.losses.get(k, -math.inf), k))
        kept = order[math.ceil((len(order) - 1) * (1 - self.alpha)) :] if self.alpha else []
        new = {k: g[k].copy() for k in inside}
        for i in inside:
            if i in kept:
                continue
            for j in order:
                dot = float(g[j] @ new[i])
                if j != i and dot < 0:
                    new[i] = new[i] - g[j] * dot / float(g[j] @ g[j])
        mean = sum(share[k] * new[k] for k in inside)
        plain = sum(share[k] * g[k] for k in inside)
        outside = [k for k in clients if (k in self.losses) == (self.external == "came")]
        if self.external != "none":
            against = [g[k] for k in outside if float(g[k] @ mean) < 0]
            if against:
                g_con = sum(against)
                dot = float(mean @ g_con)
                if dot < 0:
                    mean = mean - g_con * dot / float(g_con @ g_con)
        return mean * math.sqrt(float(plain @ plain) / float(mean @ mean))

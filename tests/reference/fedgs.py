"""FedGS: the graph by plain loops, and the pick by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np


def distances(similarity: np.ndarray, edges: str = "code") -> np.ndarray:
    """H: shortest paths, divided by the largest finite one; unreachable = 1."""
    n = len(similarity)
    v = np.array(similarity, dtype=float)
    for i in range(n):
        v[i, i] = 0.0
    if edges == "code":  # min-max normalised, over the matrix with a zero diagonal
        low, high = v.min(), v.max()
        v = (v - low) / (high - low)
    h = np.full((n, n), math.inf)
    for i in range(n):
        h[i, i] = 0.0
        for j in range(n):
            if i == j:
                continue
            if edges == "code" and v[i, j] > 0.01:
                h[i, j] = math.exp(-(v[i, j] ** 2) / 0.1)
            if edges == "paper" and v[i, j] >= 0.1:
                h[i, j] = math.exp(-v[i, j] / 0.01)
    for middle in range(n):
        for i in range(n):
            for j in range(n):
                h[i, j] = min(h[i, j], h[i, middle] + h[middle, j])
    largest = max(x for x in h.flat if math.isfinite(x))
    for i in range(n):
        for j in range(n):
            h[i, j] = h[i, j] / largest if math.isfinite(h[i, j]) else 1.0
    return h


def objective(chosen, h: np.ndarray, v, m: int, alpha: float, scale: str) -> float:
    """s'((alpha/N) H - diag(z)) s, z_k = 2 (v_k - mean v - M/N) + 1."""
    n = len(h)
    mean = sum(v) / n
    spread = 0.0  # s'Hs: both (i, j) and (j, i)
    for i in chosen:
        for j in chosen:
            if i != j:
                spread += h[i, j]
    penalty = 0.0
    for k in chosen:
        penalty += 2 * (v[k] - mean - m / n) + 1
    if m == 1:
        return -penalty
    factor = alpha / n if scale == "paper" else alpha * (n - 1) / (m * (m - 1))
    return factor * spread - penalty


def best_pick(available, h: np.ndarray, v, m: int, alpha: float, scale: str):
    """(best value, all picks that reach it)."""
    m = min(m, len(available))
    best, picks = -math.inf, []
    for chosen in itertools.combinations(sorted(available), m):
        value = objective(chosen, h, v, m, alpha, scale)
        if value > best + 1e-10:
            best, picks = value, [chosen]
        elif abs(value - best) <= 1e-10:
            picks.append(chosen)
    return best, picks

"""Weighted coordinate-wise median and trimmed mean over distinct rows."""

from __future__ import annotations

import numpy as np

from tests.reference.twin import Part

CLOSE = 1e-12  # a rounding error must not decide whether a cumulative weight "is" one half


def distinct_rows(parts: list[Part]) -> tuple[list[np.ndarray], list[float], float]:
    """Vectors, weights that sum to one, and the sum of all coefficients."""
    vectors: dict[tuple[str, int], np.ndarray] = {}
    weights: dict[tuple[str, int], float] = {}
    for _, row, coef, vector in parts:
        vectors[row] = vector
        weights[row] = weights.get(row, 0.0) + coef
    total = sum(weights.values())
    return list(vectors.values()), [weights[row] / total for row in vectors], total


def weighted_median(values: list[float], weights: list[float]) -> float:
    ordered = sorted((v, w) for v, w in zip(values, weights, strict=True) if w > 0)
    cumulative = 0.0
    for position, (value, weight) in enumerate(ordered):
        cumulative += weight
        if abs(cumulative - 0.5) < CLOSE:
            return (value + ordered[position + 1][0]) / 2
        if cumulative > 0.5:
            return value
    raise AssertionError("the weights do not sum to one")


def weighted_trimmed_mean(values: list[float], weights: list[float], share: float) -> float:
    ordered = sorted(zip(values, weights, strict=True))
    result, below = 0.0, 0.0
    for value, weight in ordered:
        above = below + weight
        # the part of [below, above] that lies in [share, 1 - share]
        kept = max(0.0, min(above, 1.0 - share) - max(below, share))
        result += kept * value
        below = above
    return result / (1.0 - 2.0 * share)


def median(parts: list[Part], d: int) -> np.ndarray:
    vectors, weights, total = distinct_rows(parts)
    return np.array(
        [total * weighted_median([v[entry] for v in vectors], weights) for entry in range(d)]
    )


def trimmed_mean(parts: list[Part], d: int, share: float) -> np.ndarray:
    vectors, weights, total = distinct_rows(parts)
    return np.array(
        [
            total * weighted_trimmed_mean([v[entry] for v in vectors], weights, share)
            for entry in range(d)
        ]
    )

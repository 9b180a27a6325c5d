"""Weights of friends for `Kriging`: which mixture of those who came is nearest to a client."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Floats, Ints

TINY = 1e-30


def expected_cosines(cosine: Floats, together: Floats, now: Floats, prior: float) -> Floats:
    """(k, N) cosine expected of each pair, from running means and the rounds behind them.

    Parameters
    ----------
    cosine, together : (k, N)
        Running mean cosine of each of the k who came with everyone, and the (decayed) number of
        joint rounds behind it.
    now : (k, k)
        This round's cosines: where no pair was seen together before, their mean is expected.
    prior : float
        Joint rounds' worth of the mean of all pairs that each pair begins with.
    """
    k, total = len(now), together.sum()
    pairs = max(k * k - k, 1)
    mean = (together * cosine).sum() / total if total > 0 else (now.sum() - np.trace(now)) / pairs
    return np.asarray((together * cosine + prior * mean) / (together + prior))


def weights_of_friends(
    cosine: Floats,
    expected: Floats,
    mean: Floats,
    nugget: float,
    *,
    itself: bool = False,
    nearest: int | None = None,
) -> Floats:
    """(r, k) weights of those who came for each of r clients: not negative, of sum 1.

    W = argmin_w w'(C + λI)w − 2w'(R + λ·prior) with Σw = 1, the equations of ordinary kriging with
    a nugget that pulls towards the plain mean; then cut at 0 and normalised.

    Parameters
    ----------
    cosine : (k, k)
        C, this round's cosines of those who came.
    expected : (r, k)
        R, the cosines expected of each client with those who came.
    mean : (k,)
        The plain mean's weights.
    nugget : float
        λ > 0.
    itself : bool
        The r clients are those who came, each to be mixed of the others.
    nearest : int, optional
        Look at the so many of largest R only; None: at all.
    """
    others = 1.0 - np.eye(len(expected)) if itself else np.ones_like(expected)
    prior = others * mean
    prior /= np.maximum(prior.sum(axis=1, keepdims=True), TINY)
    if nearest is not None and nearest < len(mean) - itself:
        return _of_nearest(cosine, expected, mean, nugget, others, nearest)
    return _of_all(cosine, expected, prior, nugget, others, itself)


def _of_all(
    cosine: Floats, expected: Floats, prior: Floats, nugget: float, others: Floats, itself: bool
) -> Floats:
    """One inverse for all clients; without j by the block formula of the inverse."""
    inverse = np.linalg.inv(cosine + nugget * np.eye(len(cosine)))
    to_match = ((expected + nugget * prior) * others) @ inverse
    of_ones = others @ inverse
    if itself:
        own = np.diag(inverse)
        to_match -= (np.diag(to_match) / own)[:, None] * inverse
        of_ones -= (np.diag(of_ones) / own)[:, None] * inverse
    return _cut(_constrained(to_match, of_ones), prior) * others


def _of_nearest(
    cosine: Floats, expected: Floats, mean: Floats, nugget: float, others: Floats, nearest: int
) -> Floats:
    """The same equations over each client's nearest alone: as many small systems as clients."""
    near = _largest(np.where(others > 0, expected, -np.inf), nearest)
    matrix = cosine[near[:, :, None], near[:, None, :]] + nugget * np.eye(nearest)
    prior = mean[near] / np.maximum(mean[near].sum(axis=1, keepdims=True), TINY)
    sides = np.take_along_axis(expected, near, axis=1) + nugget * prior
    solved = np.linalg.solve(matrix, np.stack([sides, np.ones_like(sides)], axis=2))
    weights = np.zeros_like(expected)
    np.put_along_axis(
        weights, near, _cut(_constrained(solved[:, :, 0], solved[:, :, 1]), prior), axis=1
    )
    return weights


def _largest(values: Floats, k: int) -> Ints:
    """(r, k) places of the k largest of each row, ascending; ties go to the first."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.sort(order, axis=1)


def _constrained(to_match: Floats, of_ones: Floats) -> Floats:
    """The solution with Σw = 1, from those for the right side and for ones."""
    missing = (1 - to_match.sum(axis=1)) / of_ones.sum(axis=1)
    return np.asarray(to_match + missing[:, None] * of_ones)


def _cut(weights: Floats, prior: Floats) -> Floats:
    kept = np.maximum(weights, 0)
    total = kept.sum(axis=1, keepdims=True)
    return np.where(total > 0, kept / np.maximum(total, TINY), prior)

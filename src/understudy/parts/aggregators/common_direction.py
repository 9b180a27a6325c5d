"""The step that agrees with every client's estimated update, for `Concord`."""

from __future__ import annotations

import numpy as np

from understudy.core.threads import one_thread
from understudy.core.types import Bools, Floats

MOST_SWEEPS = 200  # counted work: then the shares themselves are taken
PATIENCE = 5  # exchanges of all at once without fewer of them wrong, before one at a time
CLOSE = 1e-12


def common_direction(
    gram: Floats, share: Floats, ridge: float, *, centred: bool, bound: float | None
) -> Floats | None:
    """(n,) c ≥ 0 with ⟨D̂_k, Σ c_j D̂_j⟩ ≥ b_k = Σ_j s_j max(⟨D̂_k, D̂_j⟩, 0), up to the ridge.

    c = argmin c'(G + ρI)c − 2b'c with 0 ≤ c ≤ bound · s, G in units of its mean diagonal; None
    where the search did not end. `bound` is at least 1, or None: no upper bound. Where `centred`,
    b + ρs takes the place of b: without conflict, that is with G ≥ 0, c is then s.
    """
    size = np.trace(gram) / len(gram)
    if not 0 < size < np.inf:
        return share.copy()  # nobody moves
    scaled = gram / size
    matrix = scaled + ridge * np.eye(len(gram))
    side = np.maximum(scaled, 0) @ share + (ridge * share if centred else 0.0)
    upper = np.full(len(share), np.inf) if bound is None else bound * share
    return box_least(matrix, side, upper)


def box_least(matrix: Floats, side: Floats, upper: Floats) -> Floats | None:
    """x minimising x'Mx − 2b'x with 0 ≤ x ≤ upper, M > 0; None where that takes too long.

    Block principal pivoting: solve for those inside their bounds, move whatever is then on the
    wrong side of a bound, all at once; where that does not make fewer wrong, one at a time, the
    last of them, which ends for certain (Júdice & Pires, Computers & Operations Research 21, 1994).
    """
    at_lower = np.zeros(len(side), dtype=np.bool_)
    at_upper = at_lower.copy()
    fewest, patience = len(side) + 1, PATIENCE
    for _ in range(MOST_SWEEPS):
        x, slope = _solved(matrix, side, upper, at_lower, at_upper)
        if x is None or slope is None:
            return None
        inside = ~(at_lower | at_upper)
        too_low, too_high = inside & (x < -CLOSE), inside & (x > upper * (1 + CLOSE))
        free = (at_lower & (slope < -CLOSE)) | (at_upper & (slope > CLOSE))
        wrong = too_low | too_high | free
        n_wrong = int(wrong.sum())
        if n_wrong == 0:
            return np.clip(x, 0, upper)
        if n_wrong < fewest:
            fewest, patience = n_wrong, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            last = np.zeros_like(wrong)
            last[np.flatnonzero(wrong)[-1]] = True
            too_low, too_high, free = too_low & last, too_high & last, free & last
        at_lower, at_upper = (at_lower & ~free) | too_low, (at_upper & ~free) | too_high
    return None


def _solved(
    matrix: Floats, side: Floats, upper: Floats, at_lower: Bools, at_upper: Bools
) -> tuple[Floats | None, Floats | None]:
    """x with those at a bound held there, and half the slope of what is minimised."""
    x = np.where(at_upper, np.where(np.isfinite(upper), upper, 0.0), 0.0)
    inside = np.flatnonzero(~(at_lower | at_upper))
    if len(inside):
        from scipy.linalg import LinAlgError, cho_factor, cho_solve  # here: it takes a while

        with one_thread():  # again: its BLAS may have come with the import
            try:
                factor = cho_factor(matrix[np.ix_(inside, inside)])
            except LinAlgError:
                return None, None
            x[inside] = cho_solve(factor, (side - matrix @ x)[inside])
    return x, matrix @ x - side

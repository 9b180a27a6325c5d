"""Pick m clients far from each other that were not picked often: FedGS's p-dispersion (eq. 16-17).

The problem is NP-hard. The paper stops its solver after a fixed wall-clock time; here the work is
counted instead, so that the same seed picks the same clients on a busy machine too.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["pick_dispersed"]

Vector = NDArray[np.float64]
Ids = NDArray[np.int64]

WEAKEST = 64  # members that are tried in a swap where work is counted
_TOLERANCE = 1e-12  # relative: a gain below it is rounding, and must not drive a swap


def pick_dispersed(
    distance: NDArray[np.floating],
    penalty: ArrayLike,
    m: int,
    candidates: ArrayLike,
    coefficient: float,
    rng: np.random.Generator,
    restarts: int = 20,
    enumerate_up_to: int = 5000,
    work: int | None = None,
) -> Ids:
    """The m candidates with the largest coefficient * s'Hs - penalty's, or nearly so.

    Parameters
    ----------
    distance
        H, (N, N), symmetric, float32 or float64. Its diagonal is not read (it counts as zero), and
        only rows are: no copy of H is made. s'Hs counts every pair twice.
    penalty
        z, (N,). A constant added to it changes nothing.
    m
        M >= 1, how many. With no more than m candidates all of them are picked.
    candidates
        A_t, the ids to pick from, in any order, each once.
    coefficient
        alpha / N or the like, >= 0. With 0 the m smallest penalties are picked.
    rng
        Draws one random order of the candidates; nothing else is random.
    restarts
        How many first clients to try, >= 1.
    enumerate_up_to
        Every subset is tried, and the result is exact, if there are at most so many.
    work
        About how many distances the search may read; None: as many as it takes. See
        `counted_search` for what becomes of restarts and swaps.

    Returns
    -------
    The picked ids, ascending.

    Notes
    -----
    Otherwise each restart adds the client of the largest marginal value until there are m, then
    makes the best swap of one member for one of the 4m most promising outsiders (those of the
    largest marginal value) for as long as a swap gains, at most 10m + 20 times. The best of all
    restarts is returned, the earliest if several are equal.

    Ties: everything happens in the random order, and of equals the first in it wins. No client is
    favoured by its number, and the order of `candidates` does not matter. The first clients of the
    restarts are the first of that order too: all different, so no restart repeats another, and
    there are never more restarts than candidates.
    """
    ids, z = _checked(distance, penalty, m, candidates, coefficient, restarts, enumerate_up_to)
    if m >= len(ids):
        return ids
    order = rng.permutation(ids)
    z = z[order]
    z -= z.min()  # |S| is fixed: a common offset only costs precision
    if m == 1 or coefficient == 0:
        return np.sort(order[np.argsort(z, kind="stable")[:m]])
    pairs = _Pairs(distance, order, 2.0 * coefficient)
    if math.comb(len(order), m) <= enumerate_up_to:
        chosen = _enumerate(pairs, z, m)
    else:
        starts = min(restarts, len(order))
        swaps = _Swaps(10 * m + 20, m, 4 * m)
        if work is not None:
            starts, made = counted_search(len(order), m, starts, work)
            swaps = _Swaps(min(swaps.most, made), WEAKEST, 4 * WEAKEST)
        chosen = _search(pairs, z, m, starts, swaps)
    return np.sort(order[chosen])


def counted_search(n: int, m: int, restarts: int, work: int) -> tuple[int, int]:
    """How many restarts, and swaps in each, read about `work` distances; never less than one start.

    Half of the work is for the greedy starts, of m·n distances each; the rest for swaps, of one of
    the 64 weakest members for one of the 256 most promising outsiders. With many members a pair is
    little of a member's marginal value, so that the best swap is among these.
    """
    starts = max(1, min(restarts, work // (2 * m * n)))
    per_start = work // starts
    return starts, max(0, per_start - m * n) // (4 * n + 4 * WEAKEST**2)


@dataclass(frozen=True)
class _Swaps:
    """How many are made at most, and among how many members and outsiders each is looked for."""

    most: int
    weakest: int
    promising: int


class _Pairs:
    """What two candidates add by being picked together, w_ij = 2 * coefficient * H_ij.

    Candidates are counted by their place in the random order, 0..n-1.
    """

    def __init__(self, distance: NDArray[np.floating], order: Ids, factor: float) -> None:
        # H is symmetric: read it along its memory
        self._distance = distance if distance.flags.c_contiguous else distance.T
        self._order = order
        self._factor = factor
        self.n = len(order)

    def row(self, i: int) -> Vector:
        """(n,) w_ij over j, with w_ii = 0."""
        row: Vector = self._distance[self._order[i]].take(self._order).astype(np.float64)
        row *= self._factor
        row[i] = 0.0
        if not math.isfinite(row.sum()):
            raise ValueError(
                "distance must be finite between candidates, got NaN or infinity for client "
                f"{self._order[i]}"
            )
        return row

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Vector:
        """(rows, columns) w; no place may be in both."""
        cells: Vector = self._distance[self._order[rows][:, None], self._order[columns]].astype(
            np.float64
        )
        cells *= self._factor
        return cells


def _enumerate(pairs: _Pairs, z: Vector, m: int) -> NDArray[np.intp]:
    """The best of all subsets of m."""
    n = pairs.n
    if m > n - m:
        # To leave out O is worth sum w(O) - sum_{o in O} (w_o(all) - z_o): the same problem, for
        # the smaller side. At most 5,000 subsets of a small side are a small table.
        regret = np.array([pairs.row(i).sum() for i in range(n)]) - z
        return np.setdiff1d(np.arange(n), _enumerate(pairs, regret, n - m))
    subsets = np.array(list(itertools.combinations(range(n), m)), dtype=np.intp)
    values = -z[subsets].sum(axis=1)
    if m > 1:
        w = np.stack([pairs.row(i) for i in range(n)])
        for a, b in itertools.combinations(range(m), 2):
            values += w[subsets[:, a], subsets[:, b]]
    best = values.max()
    # Sums of the same numbers in another order may differ in the last bit: that is a tie.
    ties = np.flatnonzero(values >= best - _TOLERANCE * np.abs(values).max())
    chosen: NDArray[np.intp] = subsets[ties[0]]
    return chosen


def _search(pairs: _Pairs, z: Vector, m: int, restarts: int, swaps: _Swaps) -> NDArray[np.intp]:
    """The best of some local optima, one from each of the first clients 0..restarts-1."""
    best_value, best = -math.inf, np.arange(0)
    for first in range(restarts):
        members, marginal = _greedy(pairs, z, m, first)
        _swap(pairs, members, marginal, swaps)
        # The marginals' sum holds every pair twice and the penalty once.
        value = float((marginal[members] - z[members]).sum()) / 2
        if not len(best) or value > best_value + _TOLERANCE * abs(best_value):
            best_value, best = value, members
    return best


def _greedy(pairs: _Pairs, z: Vector, m: int, first: int) -> tuple[NDArray[np.intp], Vector]:
    """Members, from `first` on always the best next; and everyone's marginal sum_S w_ij - z_i."""
    members = np.empty(m, dtype=np.intp)
    marginal = -z
    taken = np.zeros(pairs.n)  # -infinity for members
    best = first
    for position in range(m):
        members[position] = best
        taken[best] = -np.inf
        marginal += pairs.row(best)
        best = int((marginal + taken).argmax())
    return members, marginal


def _swap(pairs: _Pairs, members: NDArray[np.intp], marginal: Vector, swaps: _Swaps) -> None:
    """Make the best swaps, in place, until none gains."""
    m = len(members)
    n_promising = min(swaps.promising, pairs.n - m)
    outside = np.ones(pairs.n, dtype=bool)
    outside[members] = False
    for _ in range(swaps.most):
        others = np.flatnonzero(outside)
        promising = others
        if n_promising < len(others):
            cut = len(others) - n_promising
            promising = others[np.sort(np.argpartition(marginal[others], cut)[cut:])]
        tried = np.arange(m)
        if swaps.weakest < m:
            tried = np.sort(np.argpartition(marginal[members], swaps.weakest)[: swaps.weakest])
        # a out, b in: b's marginal without a, less a's own
        gains = marginal[promising] - pairs.block(members[tried], promising)
        gains -= marginal[members[tried]][:, None]
        place, column = divmod(int(gains.argmax()), n_promising)
        if not gains[place, column] > _TOLERANCE * np.abs(marginal[members]).max():
            return
        position = tried[place]
        leaves, enters = members[position], promising[column]
        members[position] = enters
        outside[leaves], outside[enters] = True, False
        marginal += pairs.row(enters)
        marginal -= pairs.row(leaves)


def _checked(
    distance: NDArray[np.floating],
    penalty: ArrayLike,
    m: int,
    candidates: ArrayLike,
    coefficient: float,
    restarts: int,
    enumerate_up_to: int,
) -> tuple[Ids, Vector]:
    """The candidates, ascending, and the penalty as float64."""
    if distance.ndim != 2 or distance.shape[0] != distance.shape[1]:
        raise ValueError(f"distance must have shape (N, N), got {distance.shape}")
    if distance.dtype.kind != "f":
        raise ValueError(f"distance must be of floats, got {distance.dtype}")
    n_clients = len(distance)
    z = np.array(penalty, dtype=np.float64)
    if z.shape != (n_clients,):
        raise ValueError(f"penalty must have shape ({n_clients},), got {z.shape}")
    given = np.asarray(candidates)
    if given.size == 0:
        given = given.astype(np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(
            f"candidates must be a vector of ids, got shape {given.shape} of {given.dtype}"
        )
    ids = np.unique(given).astype(np.int64)
    if len(ids) < len(given):
        raise ValueError("candidates must be different clients, some occur twice")
    if len(ids) and not (ids[0] >= 0 and ids[-1] < n_clients):
        raise ValueError(f"candidates must lie in 0..{n_clients - 1}, got {ids[0]}..{ids[-1]}")
    if not np.isfinite(z[ids]).all():
        raise ValueError("penalty must be finite for every candidate, got NaN or infinity")
    if m < 1:
        raise ValueError(f"m must be at least 1, got {m}")
    if not 0 <= coefficient < math.inf:
        raise ValueError(f"coefficient must be a finite number >= 0, got {coefficient}")
    if restarts < 1:
        raise ValueError(f"restarts must be at least 1, got {restarts}")
    if enumerate_up_to < 0:
        raise ValueError(f"enumerate_up_to must be at least 0, got {enumerate_up_to}")
    return ids, z

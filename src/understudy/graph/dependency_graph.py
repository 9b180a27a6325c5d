"""The 3DG: a graph of the clients in which similar data means a short edge.

A similarity matrix V (how alike are the data of two clients?) becomes edge lengths R, and these
become H, the matrix of shortest paths, which FedGS keeps large among the clients it picks::

    cosine_similarity | update_similarity | functional_similarity   V (N, N)
    refine                                                          V, as clients are first seen
    normalise, edge_lengths                                         R (N, N), infinity: no edge
    shortest_paths                                                  H (N, N) in [0, 1]
    graph_distances                                                 V to H in one call
    edges_of, edge_score, edge_f1, best_edge_score                  how good is a constructed graph?

NaN in V means "not known yet". Everything is float64: the paper's lengths reach exp(-100).

References
----------
Wang et al., "FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability", AAAI 2023,
https://arxiv.org/abs/2211.13975. Equation numbers are this paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.graph.similarity import cosine_similarity, functional_similarity, update_similarity

__all__ = [
    "MAX_CLIENTS",
    "EdgeScore",
    "best_edge_score",
    "cosine_similarity",
    "edge_f1",
    "edge_lengths",
    "edge_score",
    "edges_of",
    "functional_similarity",
    "graph_distances",
    "normalise",
    "refine",
    "shortest_paths",
    "unknown_similarity",
    "update_similarity",
]

Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_CLIENTS = 3000
"""Floyd-Warshall takes about N^3 steps: half a minute here, a quarter of an hour at N=10,000."""

TABLE_3_THRESHOLDS = (0.0, 0.01, 0.05, 0.1, 0.5)
_EDGE_DEFAULTS = {"code": (0.01, 0.1), "paper": (0.1, 0.01)}  # threshold, sigma2


def edge_form(edges: str) -> tuple[float, float]:
    """Threshold and sigma^2 of a form of edge lengths, by default."""
    if edges not in _EDGE_DEFAULTS:
        raise ValueError(f'edges must be "code" or "paper", got {edges!r}')
    return _EDGE_DEFAULTS[edges]


def unknown_similarity(n_clients: int) -> Matrix:
    """V of clients of whom nothing is known: ones on the diagonal, NaN elsewhere."""
    similarity = np.full((n_clients, n_clients), np.nan)
    np.fill_diagonal(similarity, 1.0)
    return similarity


def refine(similarity: Matrix, ids: ArrayLike, fresh: Matrix) -> Matrix:
    """A copy of V with the pairs among `ids` renewed: the graph built and refined round by round.

    Start from `unknown_similarity`. `fresh` is (k, k) for the k `ids`; NaN (not measured) leaves
    the old value.
    """
    old = _square(similarity, "similarity", nan=True)
    new = _square(fresh, "fresh", nan=True)
    who = np.asarray(ids, dtype=np.intp)
    if who.shape != (len(new),) or len(np.unique(who)) != len(who):
        raise ValueError(f"ids must be {len(new)} different clients, as many as fresh has rows")
    if len(who) and not (who.min() >= 0 and who.max() < len(old)):
        raise ValueError(f"ids must lie in 0..{len(old) - 1}, got {who.min()}..{who.max()}")
    pairs = np.ix_(who, who)
    old[pairs] = np.where(np.isnan(new), old[pairs], new)
    return old


def normalise(similarity: ArrayLike) -> Matrix:
    """Min-max normalised V with a zero diagonal.

    Minimum and maximum are taken over the matrix *with* its zero diagonal, as the authors' code
    does: non-negative similarities are therefore only divided by their maximum. NaN stays NaN. A
    matrix without any spread becomes zero.
    """
    matrix = _square(similarity, "similarity", nan=True)
    np.fill_diagonal(matrix, 0.0)
    if matrix.size == 0:
        return matrix
    low, high = float(np.nanmin(matrix)), float(np.nanmax(matrix))
    matrix = (matrix - low) / (high - low) if high > low else matrix * 0.0
    np.fill_diagonal(matrix, 0.0)
    return matrix


def edge_lengths(
    similarity: ArrayLike,
    edges: str = "code",
    threshold: float | None = None,
    sigma2: float | None = None,
) -> Matrix:
    """R: the edge length of every two clients; infinity is no edge, the diagonal is zero.

    Parameters
    ----------
    similarity
        V, (N, N). An unknown pair (NaN) has no edge.
    edges
        ``"code"``: V is min-max normalised, the length is exp(-V^2 / sigma2) where V > threshold;
        threshold 0.01, sigma2 0.1. ``"paper"``: exp(-V / sigma2) where V >= threshold;
        threshold 0.1, sigma2 0.01.
    threshold
        epsilon >= 0; None is the default of that form.
    sigma2
        sigma^2 > 0; None is the default of that form.

    Notes
    -----
    The authors' code made the paper's Table 2; the paper states its own form for Table 3. Lengths
    too small for a float64 are set to the smallest normal one, so that an edge never becomes zero.
    """
    default_threshold, default_sigma2 = edge_form(edges)
    threshold = default_threshold if threshold is None else threshold
    sigma2 = default_sigma2 if sigma2 is None else sigma2
    if not 0 <= threshold < np.inf:
        raise ValueError(f"threshold must be a finite number >= 0, got {threshold}")
    if not 0 < sigma2 < np.inf:
        raise ValueError(f"sigma2 must be a finite number above 0, got {sigma2}")
    if edges == "code":
        v = normalise(similarity)
        connected, exponent = v > threshold, v**2 / sigma2
    else:
        v = _square(similarity, "similarity", nan=True)
        connected, exponent = v >= threshold, v / sigma2
    smallest = np.finfo(np.float64).tiny
    with np.errstate(under="ignore"):
        lengths = np.maximum(np.exp(-np.where(connected, exponent, 0.0)), smallest)
    lengths[~connected] = np.inf
    np.fill_diagonal(lengths, 0.0)
    return lengths


def shortest_paths(lengths: ArrayLike, unknown: Flags | None = None) -> Matrix:
    """H: shortest paths between all clients, divided by the longest finite one.

    Parameters
    ----------
    lengths
        R, (N, N), symmetric, >= 0, infinity: no edge. The diagonal is not read. A length of exactly
        zero is an edge. N may be at most `MAX_CLIENTS`.
    unknown
        (N, N) true where the similarity of a pair is not known. If no path joins such a pair, it
        counts as the mean of all other pairs.

    Returns
    -------
    (N, N) in [0, 1], symmetric, zero diagonal. A pair joined by no path, though known, has 1.

    Notes
    -----
    The mean, because a newcomer should be neither near (it would hardly be picked) nor far (it
    would be picked whoever else is). An unknown pair has no edge of its own: an invented one would
    be a shortcut between clients that *are* known. So what is known of H does not move because
    somebody unknown joined.
    """
    _check_size(lengths)
    graph = _square(lengths, "lengths", nan=False)
    n_clients = len(graph)
    off_diagonal = ~np.eye(n_clients, dtype=bool)
    if (graph[off_diagonal] < 0).any():
        raise ValueError(f"lengths must be >= 0, got {graph[off_diagonal].min()}")
    if unknown is not None and unknown.shape != graph.shape:
        raise ValueError(f"unknown must have shape {graph.shape}, got {unknown.shape}")
    if n_clients < 2:
        return np.zeros_like(graph)

    from scipy.sparse import csgraph

    # SciPy drops an edge of length zero, and from a plain array every edge below 1e-8, which here
    # are the edges of the most alike. A mask keeps the small ones; for zero the smallest subnormal
    # number stands in: N of them in a row are still below the smallest normal one.
    stand_in = np.finfo(np.float64).smallest_subnormal
    graph = np.where(graph == 0, stand_in, graph)
    paths: Matrix = csgraph.floyd_warshall(np.ma.array(graph, mask=np.isinf(graph)))
    paths[paths < np.finfo(np.float64).tiny] = 0.0
    np.fill_diagonal(paths, 0.0)
    reached = np.isfinite(paths)
    longest = float(paths[reached].max())
    if longest > 0:
        paths[reached] /= longest
    paths[~reached] = 1.0
    if unknown is not None:
        adrift = unknown & ~reached
        rest = off_diagonal & ~adrift
        # all adrift: everyone is as far from everyone, whatever the number
        paths[adrift] = paths[rest].mean() if rest.any() else 1.0
    return paths


def graph_distances(
    similarity: ArrayLike,
    edges: str = "code",
    threshold: float | None = None,
    sigma2: float | None = None,
) -> Matrix:
    """H from V in one step; NaN in V is a pair that is not known yet.

    See `edge_lengths` for the parameters, `shortest_paths` for what an unknown pair counts as.
    """
    _check_size(similarity)  # before anything of N x N is computed
    unknown = np.isnan(np.asarray(similarity, dtype=np.float64))
    return shortest_paths(edge_lengths(similarity, edges, threshold, sigma2), unknown)


@dataclass(frozen=True)
class EdgeScore:
    """How well the edges of one graph are those of another (Table 3), all in [0, 1]."""

    precision: float
    recall: float
    f1: float


def edges_of(similarity: ArrayLike, threshold: float) -> Flags:
    """(N, N) true where V >= threshold; false on the diagonal and where V is not known."""
    present = _square(similarity, "similarity", nan=True) >= threshold
    np.fill_diagonal(present, False)
    return present


def edge_score(constructed: Flags, oracle: Flags) -> EdgeScore:
    """Precision, recall and F1 of constructed edges against an oracle's, each pair counted once.

    Parameters
    ----------
    constructed, oracle
        (N, N) bool, see `edges_of`; only what is above the diagonal is read.

    Notes
    -----
    Two graphs without any edge agree: all three are 1. No edge in common: all three are 0.
    """
    if constructed.shape != oracle.shape or constructed.ndim != 2:
        raise ValueError(
            f"constructed and oracle must be (N, N) alike, got {constructed.shape}, {oracle.shape}"
        )
    above = np.triu_indices(len(oracle), 1)
    found, true = constructed[above].astype(bool), oracle[above].astype(bool)
    both = int((found & true).sum())
    if both == 0:
        agreement = 0.0 if found.any() or true.any() else 1.0
        return EdgeScore(agreement, agreement, agreement)
    n_found, n_true = int(found.sum()), int(true.sum())
    return EdgeScore(both / n_found, both / n_true, 2 * both / (n_found + n_true))


def edge_f1(
    constructed: ArrayLike,
    oracle: ArrayLike,
    threshold: float = 0.1,
    oracle_threshold: float = 0.1,
) -> float:
    """F1 of the edges of a constructed similarity matrix against an oracle's (Table 3)."""
    return edge_score(edges_of(constructed, threshold), edges_of(oracle, oracle_threshold)).f1


def best_edge_score(
    constructed: ArrayLike,
    oracle: ArrayLike,
    thresholds: Sequence[float] = TABLE_3_THRESHOLDS,
    oracle_threshold: float = 0.1,
) -> tuple[float, EdgeScore]:
    """The threshold with the highest F1 (the first, if several) and its score, as in Table 3."""
    if not thresholds:
        raise ValueError("thresholds must name at least one threshold, got none")
    true = edges_of(oracle, oracle_threshold)
    scores = [(epsilon, edge_score(edges_of(constructed, epsilon), true)) for epsilon in thresholds]
    return max(scores, key=lambda scored: scored[1].f1)


def _check_size(matrix: ArrayLike) -> None:
    n_clients = np.shape(matrix)[0] if np.ndim(matrix) else 0
    if n_clients > MAX_CLIENTS:
        raise ValueError(
            f"exact shortest paths of at most {MAX_CLIENTS} clients, got {n_clients}: the time "
            f"grows with N^3 (half a minute at {MAX_CLIENTS}); sparse_distances takes more"
        )


def _square(values: ArrayLike, name: str, *, nan: bool) -> Matrix:
    """A float64 copy of a symmetric (N, N) matrix; infinity is allowed where NaN is not."""
    matrix = np.array(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must have shape (N, N), got {matrix.shape}")
    if nan and np.isinf(matrix).any():
        raise ValueError(f"{name} must be finite (or NaN: not known), got infinity")
    if not nan and np.isnan(matrix).any():
        raise ValueError(f"{name} must not hold NaN")
    if not np.allclose(matrix, matrix.T, equal_nan=True):
        i, j = np.argwhere(~np.isclose(matrix, matrix.T, equal_nan=True))[0]
        raise ValueError(
            f"{name} must be symmetric, got {matrix[i, j]} at ({i}, {j}) and {matrix[j, i]} at "
            f"({j}, {i})"
        )
    return (matrix + matrix.T) / 2

"""The 3DG of many clients: nearest neighbours instead of all edges, shortest paths on these.

Floyd-Warshall takes N^3 steps and the exact graph N^2 edges. Shortest paths of the 3DG, however,
run through the most alike, whose edges are exponentially shorter; so the graph here keeps, of the
exact edges,

* those of each client to its k most alike others,
* those among some representatives, clients that are as little alike as can be, and from each client
  to its closest ones: where many hold the same data, its k most alike lead nowhere else, and
* the shortest edge between every two components that these leave.

Every path in it is a path of the exact graph, so no distance is too short before the division by
the longest; and whoever is joined in the exact graph is joined here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.graph.dependency_graph import edge_form

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["MAX_SPARSE_CLIENTS", "rows_of", "sparse_distances", "sparse_edges"]

Matrix = NDArray[np.float64]
SimilarityRows = Callable[[int, int], Matrix]  # (start, stop) -> V[start:stop], NaN: not known

MAX_SPARSE_CLIENTS = 30_000
"""H in float32 is then 3.6 GB, and its paths take several minutes."""

REPRESENTATIVES = 8  # as many for each neighbour that is kept
CLOSEST = 4  # of these, to which each client keeps its edge
BLOCK = 256  # rows of V, and of H, that are looked at together


def rows_of(similarity: NDArray[np.floating]) -> SimilarityRows:
    """The rows of a matrix that is there already."""
    return lambda start, stop: np.asarray(similarity[start:stop], dtype=np.float64)


def sparse_distances(
    rows: SimilarityRows, n_clients: int, edges: str = "code", neighbours: int = 32
) -> NDArray[np.float32]:
    """H of many clients, on a graph of nearest neighbours.

    Parameters
    ----------
    rows
        Gives rows of V; see `rows_of`. Asked for the same rows, it gives the same.
    n_clients
        N.
    edges
        Form of the edge lengths, see `understudy.graph.edge_lengths`.
    neighbours
        k >= 1: the most alike of each client whose edges are kept.

    Returns
    -------
    (N, N) float32 in [0, 1], symmetric up to rounding, zero diagonal. What no path joins is treated
    as in `understudy.graph.shortest_paths`.

    Notes
    -----
    One Dijkstra search a client, N k log N steps each: the paths of 10,000 clients take about a
    minute on one core where Floyd-Warshall would take a quarter of an hour. `docs/scale.md` states
    how far H and FedGS's objective are from the exact ones.
    """
    from scipy.sparse import csgraph

    graph = sparse_edges(rows, n_clients, edges, neighbours)
    paths = np.empty((n_clients, n_clients), dtype=np.float32)
    longest, total, n_pairs = 0.0, 0.0, 0
    adrift = _Adrift()
    for start, stop in _blocks(n_clients):
        found = csgraph.dijkstra(graph, directed=False, indices=np.arange(start, stop))
        reached = np.isfinite(found)
        longest = max(longest, float(found[reached].max(initial=0.0)))
        total += float(found[reached].sum())
        if not reached.all():
            unknown = np.isnan(rows(start, stop)) & ~reached
            adrift.take(start, unknown)
            n_pairs += int((~reached & ~unknown).sum())
        paths[start:stop] = found  # what is not reached stays infinite
    n_reached = n_clients**2 - n_pairs - adrift.n - n_clients
    scale = longest if longest > 0 else 1.0
    for start, stop in _blocks(n_clients):
        block = paths[start:stop]
        np.divide(block, np.float32(scale), out=block)
        block[np.isinf(block)] = 1.0
    if adrift.n:
        rest = n_reached + n_pairs
        adrift.fill(paths, (total / scale + n_pairs) / rest if rest else 1.0)
    return paths


class _Adrift:
    """Pairs of which nothing is known and that no path joins: nearly always whole rows."""

    def __init__(self) -> None:
        self.n = 0
        self._blocks: list[tuple[int, NDArray[np.uint8], int]] = []

    def take(self, start: int, pairs: NDArray[np.bool_]) -> None:
        self.n += int(pairs.sum())
        self._blocks.append((start, np.packbits(pairs, axis=1), pairs.shape[1]))

    def fill(self, paths: NDArray[np.float32], value: float) -> None:
        for start, packed, width in self._blocks:
            pairs = np.unpackbits(packed, axis=1, count=width).astype(np.bool_)
            paths[start : start + len(pairs)][pairs] = value


def sparse_edges(
    rows: SimilarityRows, n_clients: int, edges: str = "code", neighbours: int = 32
) -> csr_matrix:
    """The edges that are kept, each once, with their lengths; see `sparse_distances`."""
    from scipy.sparse import csgraph, csr_matrix

    if neighbours < 1:
        raise ValueError(f"neighbours must be at least 1, got {neighbours}")
    measure = _Lengths.of(rows, n_clients, edges)
    k = min(neighbours, n_clients - 1)
    if k < 1:
        return csr_matrix((n_clients, n_clients))
    near = _Edges(n_clients)
    for start, stop in _blocks(n_clients):
        alike = measure.connected(rows, start, stop)
        best = np.argpartition(-alike, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(alike, best, axis=1)
        near.add(np.repeat(np.arange(start, stop), k), best.ravel(), found.ravel())
    _among_representatives(near, measure, rows, REPRESENTATIVES * neighbours)
    _, part = csgraph.connected_components(near.matrix(measure), directed=False)
    part[~near.joined()] = -1  # who has no edge can have none to another component
    numbers = np.unique(part[part >= 0])
    if len(numbers) > 1:
        near.add(*_between(measure, rows, part, numbers))
    return near.matrix(measure)


def _among_representatives(
    near: _Edges, measure: _Lengths, rows: SimilarityRows, at_most: int
) -> None:
    """Edges of representatives: each is the least like those before it, of all with an edge."""
    joined = near.joined()
    closest = np.where(joined, -np.inf, np.inf)
    chosen: list[int] = []
    table = []
    while len(chosen) < min(at_most, int(joined.sum())):
        one = int(closest.argmin())
        chosen.append(one)
        table.append(measure.connected(rows, one, one + 1)[0])
        closest = np.maximum(closest, table[-1])
        closest[one] = np.inf
    if not chosen:
        return
    ids, alike = np.array(chosen), np.array(table)  # (r,), (r, N)
    r = len(ids)
    near.add(np.repeat(ids, r), np.tile(ids, r), alike[:, ids].ravel())
    if r > CLOSEST:
        best = np.argpartition(-alike, CLOSEST - 1, axis=0)[:CLOSEST]
        everyone = np.tile(np.arange(near.n), CLOSEST)
        near.add(ids[best.ravel()], everyone, np.take_along_axis(alike, best, axis=0).ravel())


def _between(
    measure: _Lengths, rows: SimilarityRows, part: NDArray[np.int32], numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Matrix]:
    """The shortest edge between every two components: its ends, and how alike they are.

    Rows of V are looked at block by block, and the best of each pair of components is kept.
    """
    order = np.argsort(part, kind="stable")
    first = np.searchsorted(part[order], numbers)
    bounds = [*first.tolist(), len(part)]
    best = np.full((len(numbers), len(numbers)), -np.inf)
    ends = np.zeros((2, *best.shape), dtype=np.int64)
    for start, stop in _blocks(len(part)):
        alike = measure.connected(rows, start, stop)[:, order]
        closest = np.maximum.reduceat(alike, first, axis=1)  # (b, components)
        for mine, number in enumerate(numbers.tolist()):
            members = np.flatnonzero(part[start:stop] == number)
            if not len(members):
                continue
            nearest = closest[members].argmax(axis=0)
            found = closest[members][nearest, np.arange(len(numbers))]
            found[mine] = -np.inf
            for other in np.flatnonzero(found > best[mine]).tolist():
                row = members[nearest[other]]
                column = int(alike[row, bounds[other] : bounds[other + 1]].argmax())
                best[mine, other] = found[other]
                ends[:, mine, other] = start + row, order[bounds[other] + column]
    i, j = np.nonzero(np.isfinite(best))
    return ends[0, i, j], ends[1, i, j], best[i, j]


class _Edges:
    """Edges as they are found, some of them twice."""

    def __init__(self, n_clients: int) -> None:
        self.n = n_clients
        self._pairs: list[NDArray[np.int64]] = []
        self._alike: list[Matrix] = []

    def add(self, i: NDArray[np.int64], j: NDArray[np.int64], alike: Matrix) -> None:
        there = np.isfinite(alike) & (i != j)
        low, high = np.minimum(i, j)[there], np.maximum(i, j)[there]
        self._pairs.append(low * self.n + high)
        self._alike.append(alike[there])

    def joined(self) -> NDArray[np.bool_]:
        """(N,) who has an edge."""
        found = np.zeros(self.n, dtype=np.bool_)
        for pairs in self._pairs:
            found[pairs // self.n] = found[pairs % self.n] = True
        return found

    def matrix(self, measure: _Lengths) -> csr_matrix:
        from scipy.sparse import csr_matrix

        pairs, first = np.unique(np.concatenate(self._pairs), return_index=True)
        lengths = measure.lengths(np.concatenate(self._alike)[first])
        return csr_matrix((lengths, (pairs // self.n, pairs % self.n)), shape=(self.n, self.n))


@dataclass(frozen=True)
class _Lengths:
    """How long an edge is, from how alike two clients are."""

    form: str
    threshold: float
    sigma2: float
    low: float  # least and largest of V with its zero diagonal
    high: float

    @classmethod
    def of(cls, rows: SimilarityRows, n_clients: int, edges: str) -> _Lengths:
        threshold, sigma2 = edge_form(edges)
        low = high = 0.0
        if edges == "code":  # the paper's form takes V as it is
            for start, stop in _blocks(n_clients):
                block = _without_self(rows(start, stop), start, 0.0)
                low, high = min(low, np.nanmin(block)), max(high, np.nanmax(block))
        return cls(edges, threshold, sigma2, float(low), float(high))

    def connected(self, rows: SimilarityRows, start: int, stop: int) -> Matrix:
        """(b, N) how alike, normalised where the form says so; -infinity where there is no edge."""
        v = _without_self(rows(start, stop), start, np.nan)
        if self.form == "code":
            v = (v - self.low) / (self.high - self.low) if self.high > self.low else v * 0.0
            there = v > self.threshold
        else:
            there = v >= self.threshold
        return np.where(there, v, -np.inf)

    def lengths(self, alike: Matrix) -> Matrix:
        exponent = (alike**2 if self.form == "code" else alike) / self.sigma2
        with np.errstate(under="ignore"):
            return np.maximum(np.exp(-exponent), np.finfo(np.float64).tiny)


def _without_self(block: Matrix, start: int, value: float) -> Matrix:
    """A copy with another value for each client's similarity to itself."""
    block = np.array(block, dtype=np.float64)
    block[np.arange(len(block)), np.arange(start, start + len(block))] = value
    return block


def _blocks(n_clients: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK, n_clients)) for start in range(0, n_clients, BLOCK))

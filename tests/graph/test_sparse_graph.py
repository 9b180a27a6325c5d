"""The graph of nearest neighbours: equal to the exact one where it may be, and close elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph

from understudy.graph import cosine_similarity, edge_lengths, graph_distances, update_similarity
from understudy.graph.dispersion import counted_search, pick_dispersed
from understudy.graph.similarity import cosine_rows
from understudy.graph.sparse_graph import rows_of, sparse_distances, sparse_edges


def population(n: int, kind: str, seed: int) -> np.ndarray:
    """(N, 10) label counts."""
    rng = np.random.default_rng(seed)
    if kind == "dirichlet":
        return rng.dirichlet(np.full(10, 0.3), size=n)
    counts = np.zeros((n, 10))
    for row in counts:
        row[rng.choice(10, 2, replace=False)] = rng.integers(5, 50, 2) if kind == "shards" else 30
    return counts


@given(
    n=st.integers(1, 40),
    kind=st.sampled_from(["dirichlet", "shards", "clusters"]),
    edges=st.sampled_from(["code", "paper"]),
    unknown=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_with_all_neighbours_it_is_the_exact_graph(
    n: int, kind: str, edges: str, unknown: int, seed: int
) -> None:
    features = population(n, kind, seed)
    features[: min(unknown, n)] = 0  # clients of whom nothing is known
    exact = graph_distances(cosine_similarity(features), edges)
    sparse = sparse_distances(cosine_rows(features, np.arange(n), n), n, edges, neighbours=n)
    np.testing.assert_allclose(sparse, exact, atol=2e-6)


@given(n=st.integers(2, 40), seed=st.integers(0, 1000), k=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_who_is_joined_and_that_no_path_is_too_short(n: int, seed: int, k: int) -> None:
    features = population(n, "shards", seed)
    V = cosine_similarity(features)
    lengths = edge_lengths(V)
    graph = sparse_edges(rows_of(V), n, "code", k)
    paths = csgraph.dijkstra(graph, directed=False)
    exact = csgraph.dijkstra(np.where(np.isinf(lengths), 0, lengths), directed=False)
    assert (np.isfinite(paths) == np.isfinite(exact)).all()
    reached = np.isfinite(exact)
    assert (paths[reached] >= exact[reached] - 1e-9).all()
    kept = graph.tocoo()
    np.testing.assert_allclose(kept.data, lengths[kept.row, kept.col], rtol=1e-12)


@pytest.mark.parametrize("kind", ["dirichlet", "shards", "clusters"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_loss_of_the_objective_is_within_one_percent(kind: str, seed: int) -> None:
    """The stated error: of 500 clients 50 picked, with 32 neighbours."""
    n, m = 500, 50
    features = population(n, kind, seed)
    V = cosine_similarity(features)
    exact, sparse = graph_distances(V), sparse_distances(rows_of(V), n)
    assert np.abs(sparse - exact).mean() < 0.01
    c, z = (n - 1) / (m * (m - 1)), np.random.default_rng(seed).integers(0, 3, n) * 2.0

    def objective(distance: np.ndarray) -> float:
        rng = np.random.default_rng(seed)
        ids = pick_dispersed(distance, z, m, np.arange(n), c, rng)
        return float(c * exact[np.ix_(ids, ids)].sum() - z[ids].sum())

    best = objective(exact)
    assert objective(sparse) >= best - 0.01 * abs(best)


def test_clients_with_the_same_data_do_not_cut_the_graph() -> None:
    """Each client has more twins than neighbours, so that its most alike lead nowhere else."""
    features = np.repeat(population(9, "shards", 3), 30, axis=0)
    V = cosine_similarity(features)
    sparse = sparse_distances(rows_of(V), len(V), neighbours=4)
    assert np.abs(sparse - graph_distances(V)).max() < 0.01


@given(n=st.integers(1, 20), d=st.integers(1, 30), wide=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_rows_of_cosines_are_those_of_the_matrix(n: int, d: int, wide: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d)).astype("f4").astype("f8")
    values[rng.random(n) < 0.2] = 0
    if wide:  # updates, of some of the clients
        known = np.flatnonzero(rng.random(n) < 0.7)
        rows = cosine_rows([torch.tensor(values[i]) for i in known], known, n, least=0.0)
        expected = np.full((n, n), np.nan)
        if len(known):
            expected[np.ix_(known, known)] = update_similarity(values[known])
        np.fill_diagonal(expected, 1.0)
    else:
        rows, expected = cosine_rows(values, np.arange(n), n), cosine_similarity(values)
    found = np.concatenate([rows(i, min(i + 7, n)) for i in range(0, n, 7)])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_counted_search_stays_within_its_work() -> None:
    for n, m in ((10_000, 100), (10_000, 1000), (30_000, 30), (5000, 1000)):
        starts, swaps = counted_search(n, m, 20, 40_000_000)
        assert 1 <= starts <= 20
        assert starts * (m * n + swaps * (4 * n + 4 * 64**2)) <= 40_000_000
    assert counted_search(30_000, 20_000, 20, 40_000_000) == (1, 0)


def test_the_counted_search_is_hardly_worse() -> None:
    n, m = 400, 80
    distance = graph_distances(cosine_similarity(population(n, "dirichlet", 5)))
    c, z = (n - 1) / (m * (m - 1)), np.random.default_rng(5).integers(0, 3, n) * 2.0
    values = []
    for work in (None, 200_000):
        rng = np.random.default_rng(0)
        ids = pick_dispersed(distance, z, m, np.arange(n), c, rng, work=work)
        values.append(float(c * distance[np.ix_(ids, ids)].sum() - z[ids].sum()))
    assert values[1] >= values[0] - 0.02 * abs(values[0])

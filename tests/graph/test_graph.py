"""The 3DG: similarities, edges, shortest paths, growth, and the score of Table 3."""

from __future__ import annotations

import copy
import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from understudy.graph import dependency_graph as graph
from understudy.graph import products, similarity

quick = settings(derandomize=True, deadline=None, max_examples=60)


def naive_cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return dot / norms


def naive_paths(lengths):
    """Floyd-Warshall in plain Python, divided by the longest finite path, unreachable = 1."""
    n = len(lengths)
    paths = [[0.0 if i == j else float(lengths[i][j]) for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                paths[i][j] = min(paths[i][j], paths[i][k] + paths[k][j])
    longest = max(x for row in paths for x in row if x < math.inf)
    return [[1.0 if x == math.inf else x / (longest or 1.0) for x in row] for row in paths]


def symmetric(values):
    return np.triu(values, 1) + np.triu(values, 1).T


# Similarities


def test_cosine_of_three_histograms():
    """(3, 4), (4, 3), (0, 5): cosines (12 + 12) / 25, 20 / 25, 15 / 25."""
    v = graph.cosine_similarity([[3, 4], [4, 3], [0, 5]])
    expected = [[1, 0.96, 0.8], [0.96, 1, 0.6], [0.8, 0.6, 1]]
    np.testing.assert_allclose(v, expected, rtol=1e-14)
    assert v.dtype == np.float64


def test_cosine_keeps_opposite_features_apart():
    assert graph.cosine_similarity([[1.0, 0.0], [-2.0, 0.0]])[0, 1] == -1.0


def test_cosine_of_an_unknown_client_is_not_known():
    v = graph.cosine_similarity([[1.0, 0.0], [0.0, 0.0], [np.nan, 1.0], [1.0, 1.0]])
    known = np.array([True, False, False, True])
    np.testing.assert_array_equal(np.isnan(v), ~(np.outer(known, known) | np.eye(4, dtype=bool)))
    np.testing.assert_array_equal(np.diagonal(v), 1.0)
    assert v[0, 3] == pytest.approx(math.sqrt(0.5))


@quick
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.floats(-1e200, 1e200).filter(lambda x: x == 0 or abs(x) > 1e-200),
    )
)
def test_cosine_is_a_similarity(features):
    v = graph.cosine_similarity(features)
    np.testing.assert_array_equal(v, v.T)
    assert (np.abs(v[~np.isnan(v)]) <= 1).all()
    np.testing.assert_array_equal(np.isnan(v).all(axis=1), np.zeros(len(v), bool))
    silent = ~features.any(axis=1)
    off_diagonal = ~np.eye(len(v), dtype=bool)
    unknown = (silent[:, None] | silent[None, :]) & off_diagonal
    np.testing.assert_array_equal(np.isnan(v), unknown)


def test_update_similarity_against_pairs_in_every_form(monkeypatch):
    """Matrix, list and NumPy agree with a pair loop, also when d is cut into pieces of 7 / 2."""
    rng = np.random.default_rng(3)
    updates = torch.from_numpy(rng.normal(size=(3, 50)) + 0.2).to(torch.float32)
    rows = updates.double().tolist()
    expected = [[max(naive_cosine(a, b), 0.0) for b in rows] for a in rows]
    assert min(min(row) for row in expected) < 0.2  # not all alike
    for chunk in (products._CHUNK, 7):
        monkeypatch.setattr(products, "_CHUNK", chunk)
        for form in (updates, list(updates), updates.numpy(), updates.double()):
            np.testing.assert_allclose(graph.update_similarity(form), expected, rtol=1e-12)


def test_cosines_and_distances_of_updates_against_pairs(monkeypatch):
    """Over the first entries alone, in one piece and in pieces of 1,024; a zero has cosine 0."""
    rng = np.random.default_rng(3)
    updates = torch.from_numpy(rng.normal(size=(4, 2600))).to(torch.float32)
    updates[2], updates[3] = 0.0, updates[3] * 1e30
    rows = updates[:, :2500].double().tolist()
    known = [0, 1, 3]
    expected = np.zeros((4, 4))
    expected[np.ix_(known, known)] = [
        [naive_cosine(rows[i], rows[j]) for j in known] for i in known
    ]
    apart = [[math.dist(a, b) for b in rows[:3]] for a in rows[:3]]
    for chunk in (products._CHUNK, 7):
        monkeypatch.setattr(products, "_CHUNK", chunk)
        for form in (updates, list(updates)):
            found = similarity.cosines(form, 2500)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
            found = similarity.distances(form[:3], 2500)
            np.testing.assert_allclose(found, apart, rtol=1e-12, atol=1e-6)


def test_update_similarity_sets_negative_cosines_to_zero_and_sums_in_float64():
    """(1, 1) and (-1, -1): -1 becomes 0. Then: 1 + 2^-12 squared needs 25 bits, float32 has 24.

    a = (1 + 2^-12, 1), b = (1 + 2^-12, -1): a.b = 2^-11 + 2^-24, |a||b| = 2 + 2^-11 + 2^-24.
    """
    v = graph.update_similarity(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))
    np.testing.assert_array_equal(v, np.eye(2))
    x = 1 + 2.0**-12
    v = graph.update_similarity(torch.tensor([[x, 1.0], [x, -1.0]], dtype=torch.float32))
    assert v[0, 1] == pytest.approx((2**-11 + 2**-24) / (2 + 2**-11 + 2**-24), rel=1e-12)


def test_update_similarity_of_nobody_and_of_a_client_that_did_not_move():
    assert graph.update_similarity([]).shape == (0, 0)
    v = graph.update_similarity(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(v, [[1.0, np.nan], [np.nan, 1.0]])


class Recording(torch.nn.Module):
    """Linear, batch normalisation (floating and integer buffers), tanh; remembers its inputs."""

    seen: ClassVar[list[torch.Tensor]] = []

    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(6, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.out = torch.nn.Linear(4, 3)

    def forward(self, x):
        Recording.seen.append(x.detach().clone())
        return self.out(torch.tanh(self.norm(self.hidden(x.flatten(1)))))


def flat(module):
    buffers = [b for b in module.buffers() if b.is_floating_point()]
    return torch.cat([x.detach().flatten() for x in (*module.parameters(), *buffers)])


def randomised(module, seed):
    source = torch.Generator().manual_seed(seed)
    other = copy.deepcopy(module)
    with torch.no_grad():
        for x in (*other.parameters(), *(b for b in other.buffers() if b.is_floating_point())):
            x.copy_(torch.rand(x.shape, generator=source, dtype=x.dtype) + 0.1)
    return other


@pytest.mark.parametrize("form", ["list", "matrix", "function"])
def test_functional_similarity_against_a_naive_twin(form):
    """Each client's own module on the recorded noise, mean and cosine in plain Python."""
    Recording.seen.clear()
    module = randomised(Recording().double(), 99)
    clients = [randomised(module, seed) for seed in range(4)]
    vectors = [flat(client) for client in clients]
    given_as = {"list": vectors, "matrix": torch.stack(vectors), "function": lambda k: vectors[k]}
    validation = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 2, 3)))
    before = flat(module)
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    v = graph.functional_similarity(
        module, given_as[form], validation, np.random.default_rng(7), n_clients=4, n_samples=16
    )
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert torch.equal(flat(module), before)
    assert module.training
    noises = Recording.seen[:]
    assert len(noises) == 4
    assert all(torch.equal(noise, noises[0]) for noise in noises)
    assert noises[0].shape == (16, 2, 3)
    with torch.no_grad():
        answers = [client.eval()(noises[0]).tolist() for client in clients]
    means = [[sum(column) / 16 for column in zip(*answer, strict=True)] for answer in answers]
    expected = [[max(naive_cosine(a, b), 0.0) for b in means] for a in means]
    np.testing.assert_allclose(v, expected, rtol=1e-12)
    assert v.min() < 1 - 1e-4  # not all alike


class Moments(torch.nn.Module):
    """w applied to all products x_i x_j: its mean shows the noise's second moments."""

    def __init__(self, width):
        super().__init__()
        self.w = torch.nn.Parameter(torch.eye(width * width, dtype=torch.float64))

    def forward(self, x):
        return (x[:, :, None] * x[:, None, :]).flatten(1) @ self.w.T


def test_noise_has_the_mean_and_covariance_of_the_validation_set(monkeypatch):
    """Off-diagonal entries too: two of three inputs are nearly the same.

    The entries' variances are at most about 30, so with 200,000 samples their standard errors are
    at most .012: the bound is five of them.
    """
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3)) * [1.0, 2.0, 0.5] + [1.0, -1.0, 0.0]
    x[:, 2] = x[:, 0] + 0.1 * x[:, 2]
    expected = np.cov(x, rowvar=False) + np.outer(x.mean(axis=0), x.mean(axis=0))
    module, means = Moments(3), []
    monkeypatch.setattr(
        similarity, "cosine_similarity", lambda rows: means.append(rows) or np.eye(1)
    )
    graph.functional_similarity(
        module, [module.w.detach().flatten()], x, np.random.default_rng(2), n_samples=200_000
    )
    np.testing.assert_allclose(means[0].reshape(3, 3), expected, atol=0.06)


def test_few_validation_examples_get_a_ridge():
    """Two examples (1, 0), (-1, 0): variance 2 in the first input, ridge .5 x mean variance 1.

    Noise N(0, diag(2.5, .5)). Without a ridge the second input would be exactly zero.
    """
    inputs = np.array([[1.0, 0.0], [-1.0, 0.0]])
    noise = similarity._gaussian_like(inputs, np.random.default_rng(0), 100_000, 0.5)
    np.testing.assert_allclose(np.cov(noise, rowvar=False), [[2.5, 0], [0, 0.5]], atol=0.03)
    bare = similarity._gaussian_like(inputs, np.random.default_rng(0), 10, 0.0)
    np.testing.assert_array_equal(bare[:, 1], 0.0)
    enough = similarity._gaussian_like(
        np.vstack([inputs, inputs]), np.random.default_rng(0), 10, 0.5
    )
    np.testing.assert_array_equal(enough[:, 1], 0.0)


def test_functional_similarity_with_an_unknown_client_and_parameters_only():
    module = torch.nn.Linear(2, 2)
    vectors = [flat(randomised(module, 0)), None, flat(randomised(module, 1))]
    v = graph.functional_similarity(module, vectors, np.eye(3, 2), np.random.default_rng(0))
    np.testing.assert_array_equal(np.isnan(v), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_functional_similarity_refuses():
    module = torch.nn.Linear(2, 2)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"client 0's must have length 6 .* got shape \(5,\)"):
        graph.functional_similarity(module, [torch.zeros(5)], np.eye(3, 2), rng)
    with pytest.raises(ValueError, match="n_clients must be given"):
        graph.functional_similarity(module, lambda k: torch.zeros(6), np.eye(3, 2), rng)
    with pytest.raises(ValueError, match="n_clients must be len"):
        graph.functional_similarity(module, [torch.zeros(6)], np.eye(3, 2), rng, n_clients=2)
    with pytest.raises(ValueError, match="at least two finite examples"):
        graph.functional_similarity(module, [torch.zeros(6)], np.ones((1, 2)), rng)
    with pytest.raises(ValueError, match="n_samples must be at least 1, got 0"):
        graph.functional_similarity(module, [torch.zeros(6)], np.eye(3, 2), rng, n_samples=0)
    with pytest.raises(ValueError, match="ridge must be"):
        graph.functional_similarity(module, [torch.zeros(6)], np.eye(3, 2), rng, ridge=-1.0)


# Edges

V = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]])


def test_normalise_counts_the_zero_diagonal():
    """Non-negative: divided by .5. Negative: minimum -.5, maximum .25, so (v + .5) / .75."""
    np.testing.assert_array_equal(graph.normalise(V), [[0, 1, 0], [1, 0, 0.5], [0, 0.5, 0]])
    shifted = graph.normalise([[1, 0.25, -0.5], [0.25, 1, -0.5], [-0.5, -0.5, 1]])
    np.testing.assert_allclose(shifted, [[0, 1, 0], [1, 0, 0], [0, 0, 0]], atol=1e-15)
    # all negative: the maximum is the diagonal's zero, so nobody reaches 1
    below = graph.normalise([[1, -0.5, -1], [-0.5, 1, -1], [-1, -1, 1]])
    np.testing.assert_array_equal(below, [[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]])


def test_normalise_without_spread_and_with_unknown_pairs():
    np.testing.assert_array_equal(graph.normalise(np.eye(3)), np.zeros((3, 3)))
    v = graph.normalise([[1, 0.5, np.nan], [0.5, 1, 0.25], [np.nan, 0.25, 1]])
    np.testing.assert_array_equal(v, [[0, 1, np.nan], [1, 0, 0.5], [np.nan, 0.5, 0]])


def test_edge_lengths_golden():
    """code: V becomes 1, .5, 0: exp(-1/.1), exp(-.25/.1), none. paper: exp(-.5/.01), exp(-25)."""
    inf = math.inf
    a, b = math.exp(-10), math.exp(-2.5)
    np.testing.assert_allclose(
        graph.edge_lengths(V), [[0, a, inf], [a, 0, b], [inf, b, 0]], rtol=1e-14
    )
    a, b = math.exp(-50), math.exp(-25)
    np.testing.assert_allclose(
        graph.edge_lengths(V, "paper"), [[0, a, inf], [a, 0, b], [inf, b, 0]], rtol=1e-14
    )


def test_edge_thresholds_are_strict_in_the_code_and_not_in_the_paper():
    """.5 and .25 are exact; normalised they are 1 and .5."""
    assert np.isinf(graph.edge_lengths(V, "code", threshold=0.5)[1, 2])
    assert graph.edge_lengths(V, "paper", threshold=0.25, sigma2=0.25)[1, 2] == math.exp(-1)
    assert np.isinf(graph.edge_lengths(V, "paper", threshold=0.2500001)[1, 2])


def test_an_edge_never_becomes_zero_and_an_unknown_pair_has_none():
    """exp(-1e6) is zero in float64."""
    lengths = graph.edge_lengths(V, "paper", sigma2=0.5e-6)
    assert lengths[0, 1] == np.finfo(np.float64).tiny
    lengths = graph.edge_lengths([[1, np.nan], [np.nan, 1]])
    np.testing.assert_array_equal(lengths, [[0, np.inf], [np.inf, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": "both"}, "edges must be"),
        ({"sigma2": 0.0}, "sigma2 must be"),
        ({"threshold": math.nan}, "threshold must be"),
        ({"threshold": -0.1}, "threshold must be"),
    ],
)
def test_edge_lengths_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        graph.edge_lengths(V, **arguments)


# Shortest paths


def test_shortest_paths_golden():
    """0-1 is e^-10, 1-2 is e^-2.5, 0-2 only through 1: the sum, which is the longest.

    H_01 = e^-10 / (e^-10 + e^-2.5) = 1 / (1 + e^7.5), H_12 = 1 / (1 + e^-7.5), H_02 = 1.
    """
    a, b = 1 / (1 + math.exp(7.5)), 1 / (1 + math.exp(-7.5))
    expected = [[0, a, 1], [a, 0, b], [1, b, 0]]
    np.testing.assert_allclose(graph.shortest_paths(graph.edge_lengths(V)), expected, rtol=1e-14)
    np.testing.assert_allclose(graph.graph_distances(V), expected, rtol=1e-14)
    assert a == pytest.approx(0.000552778636923600, rel=1e-12)
    paper = graph.graph_distances(V, "paper")  # e^-50, e^-25
    assert paper[0, 1] == pytest.approx(1 / (1 + math.exp(25)), rel=1e-12)


lengths_matrices = st.integers(2, 7).flatmap(
    lambda n: hnp.arrays(
        np.float64,
        (n, n),
        elements=st.one_of(st.just(0.0), st.just(math.inf), st.floats(1e-30, 1.0)),
    )
)


@quick
@given(lengths_matrices)
def test_shortest_paths_against_plain_floyd_warshall(values):
    lengths = symmetric(np.where(np.isinf(values), 0.0, values))
    lengths[symmetric(np.isinf(values).astype(float)) > 0] = np.inf
    h = graph.shortest_paths(lengths)
    np.testing.assert_allclose(h, naive_paths(lengths.tolist()), rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(h, h.T)
    assert h.min() >= 0
    assert h.max() <= 1


def test_two_components_are_one_apart():
    """Edges 0-1 of length 2 and 2-3 of length 1: H .. 1 and 1/2, everything between is 1."""
    inf = math.inf
    lengths = [[0, 2, inf, inf], [2, 0, inf, inf], [inf, inf, 0, 1], [inf, inf, 1, 0]]
    expected = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 0.5], [1, 1, 0.5, 0]]
    np.testing.assert_array_equal(graph.shortest_paths(lengths), expected)


def test_shortest_paths_of_degenerate_graphs():
    """One client; no edge at all; only edges of length zero, which are edges; nobody."""
    inf = math.inf
    np.testing.assert_array_equal(graph.shortest_paths([[0.0]]), [[0.0]])
    np.testing.assert_array_equal(graph.shortest_paths([[0, inf], [inf, 0]]), 1 - np.eye(2))
    np.testing.assert_array_equal(
        graph.shortest_paths([[0, 0, inf], [0, 0, inf], [inf, inf, 0]]),
        [[0, 0, 1], [0, 0, 1], [1, 1, 0]],
    )
    assert graph.shortest_paths(np.zeros((0, 0))).shape == (0, 0)


def test_shortest_paths_ignores_the_diagonal_and_leaves_its_input():
    lengths = np.array([[5.0, 2.0], [2.0, 5.0]])
    np.testing.assert_array_equal(graph.shortest_paths(lengths), 1 - np.eye(2))
    np.testing.assert_array_equal(lengths, [[5.0, 2.0], [2.0, 5.0]])


def test_shortest_paths_refuses():
    for function in (graph.shortest_paths, graph.graph_distances):
        with pytest.raises(ValueError, match=r"at most 3000 clients, got 3001: the time grows"):
            function(np.broadcast_to(0.0, (3001, 3001)))
    with pytest.raises(ValueError, match=r"lengths must be >= 0, got -1"):
        graph.shortest_paths([[0, -1], [-1, 0]])
    with pytest.raises(ValueError, match="lengths must not hold NaN"):
        graph.shortest_paths([[0, np.nan], [np.nan, 0]])
    with pytest.raises(ValueError, match=r"unknown must have shape \(2, 2\)"):
        graph.shortest_paths(np.zeros((2, 2)), np.zeros((3, 3), bool))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([1.0, 2.0], r"similarity must have shape \(N, N\), got \(2,\)"),
        (np.zeros((2, 3)), r"similarity must have shape \(N, N\), got \(2, 3\)"),
        ([[0, np.inf], [np.inf, 0]], "similarity must be finite"),
        ([[0, 1], [2, 0]], r"symmetric, got 1.0 at \(0, 1\) and 2.0 at \(1, 0\)"),
        ([[0, np.nan], [2, 0]], "similarity must be symmetric"),
    ],
)
@pytest.mark.parametrize("function", [graph.normalise, graph.edge_lengths, graph.graph_distances])
def test_a_bad_similarity_is_refused(function, matrix, message):
    with pytest.raises(ValueError, match=message):
        function(matrix)


def test_bad_features_and_updates_are_refused():
    with pytest.raises(ValueError, match=r"features must have shape \(N, f\), got \(3,\)"):
        graph.cosine_similarity([1, 2, 3])
    with pytest.raises(ValueError, match=r"features must be finite.* row 1 is not"):
        graph.cosine_similarity([[1, 2], [3, -np.inf]])
    with pytest.raises(ValueError, match=r"updates must have shape \(k, d\)"):
        graph.update_similarity(torch.zeros(3))
    with pytest.raises(ValueError, match="updates must be vectors of one length"):
        graph.update_similarity([torch.zeros(3), torch.zeros(4)])


# Growing


def test_a_newcomer_is_neither_near_nor_far_and_moves_nobody():
    """H among the known is as above, 1/(1+e^7.5), 1/(1+e^-7.5), 1; their sum is 2, the mean 2/3."""
    v = graph.unknown_similarity(4)
    v[:3, :3] = V
    h = graph.graph_distances(v)
    np.testing.assert_array_equal(h[:3, :3], graph.graph_distances(V))
    np.testing.assert_allclose(h[3], [2 / 3, 2 / 3, 2 / 3, 0], rtol=1e-14)
    np.testing.assert_array_equal(h, h.T)


def test_an_unknown_pair_with_common_acquaintances_gets_their_path():
    """0-1 and 1-2 known, 0-2 not: the path through 1 stands, no mean is needed."""
    v = V.copy()
    v[0, 2] = v[2, 0] = np.nan
    np.testing.assert_array_equal(graph.graph_distances(v), graph.graph_distances(V))


def test_a_known_pair_without_a_path_stays_farthest_and_nobody_known_is_all_alike():
    v = graph.unknown_similarity(3)
    v[0, 1] = v[1, 0] = 0.0
    assert graph.graph_distances(v)[0, 1] == 1.0
    np.testing.assert_array_equal(graph.graph_distances(graph.unknown_similarity(3)), 1 - np.eye(3))


def test_refine_step_by_step_reaches_the_full_graph():
    """Clients 0, 2 come first, then 1, 2, then 0, 1: three rounds tell the three pairs."""
    v = graph.unknown_similarity(3)
    for ids, still_unknown in (([2, 0], 4), ([1, 2], 2), ([0, 1], 0)):
        v = graph.refine(v, ids, V[np.ix_(ids, ids)])
        assert np.isnan(v).sum() == still_unknown
    np.testing.assert_array_equal(v, V)


def test_refine_renews_what_was_measured_and_keeps_the_rest():
    old = V.copy()
    fresh = np.array([[1.0, np.nan, 0.9], [np.nan, 1.0, 0.8], [0.9, 0.8, 1.0]])
    new = graph.refine(old, [0, 1, 2], fresh)
    np.testing.assert_array_equal(new, [[1, 0.5, 0.9], [0.5, 1, 0.8], [0.9, 0.8, 1]])
    np.testing.assert_array_equal(old, V)
    for ids, message in (([0, 0, 1], "3 different"), ([0, 1], "3 different"), ([0, 1, 3], "0..2")):
        with pytest.raises(ValueError, match=message):
            graph.refine(old, ids, fresh)


# Table 3


def test_edge_score_golden():
    """Oracle edges 01, 02, 13; constructed 01, 12: one in common. P 1/2, R 1/3, F1 2/5."""
    oracle, constructed = np.zeros((4, 4)), np.zeros((4, 4))
    for i, j in ((0, 1), (0, 2), (1, 3)):
        oracle[i, j] = oracle[j, i] = 0.3
    for i, j in ((0, 1), (1, 2)):
        constructed[i, j] = constructed[j, i] = 0.2
    score = graph.edge_score(graph.edges_of(constructed, 0.2), graph.edges_of(oracle, 0.1))
    assert (score.precision, score.recall, score.f1) == (0.5, 1 / 3, 0.4)
    assert graph.edge_f1(constructed, oracle) == 0.4
    assert graph.edge_f1(constructed, oracle, threshold=0.5) == 0.0
    assert graph.edge_f1(constructed, oracle, threshold=0.5, oracle_threshold=0.5) == 1.0
    # every pair an edge: P 3/6, R 1, F1 2/3, the best of the sweep
    assert graph.best_edge_score(constructed, oracle) == (0.0, graph.EdgeScore(0.5, 1.0, 2 / 3))


def test_edges_of_leaves_out_the_diagonal_and_the_unknown():
    edges = graph.edges_of([[1, 0.1, np.nan], [0.1, 1, 0.05], [np.nan, 0.05, 1]], 0.1)
    np.testing.assert_array_equal(edges, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert edges.dtype == bool


@quick
@given(st.integers(1, 7).flatmap(lambda n: hnp.arrays(bool, (2, n, n))))
def test_edge_score_properties(pair):
    a, b = (symmetric(edges.astype(int)).astype(bool) for edges in pair)
    forth, back = graph.edge_score(a, b), graph.edge_score(b, a)
    assert forth.f1 == back.f1
    assert (forth.precision, forth.recall) == (back.recall, back.precision)
    assert (forth.f1 == 1.0) == bool((a == b).all())
    if forth.precision + forth.recall > 0:
        harmonic = 2 * forth.precision * forth.recall / (forth.precision + forth.recall)
        assert forth.f1 == pytest.approx(harmonic)


def test_edge_score_refuses():
    with pytest.raises(ValueError, match="constructed and oracle"):
        graph.edge_score(np.zeros((2, 2), bool), np.zeros((3, 3), bool))
    with pytest.raises(ValueError, match="thresholds must name"):
        graph.best_edge_score(V, V, thresholds=())

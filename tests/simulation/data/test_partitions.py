"""Dividing examples among clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.simulation.data.partitions import (
    PARTITIONS,
    SHARD_LEVELS,
    apportion,
    classes_per_client,
    clustered,
    dirichlet,
    hold_out,
    iid,
    shards,
)

LABELS = np.repeat(np.arange(10), 50)
UNEVEN = np.repeat([0, 1, 3], [60, 25, 15])  # class 2 has no example


def test_clusters_hold_the_same_classes_and_others_hold_other_ones():
    clients, groups = clustered(LABELS, 20, 5, 2, 25, np.random.default_rng(4))
    classes = [frozenset(LABELS[client]) for client in clients]
    for group in range(5):
        members = [classes[i] for i in np.flatnonzero(groups == group)]
        assert len(members) == 4
        assert len(set(members)) == 1
        assert len(members[0]) == 2
    assert len(frozenset.union(*classes)) == 10  # so no two clusters share a class
    assert [len(client) for client in clients] == [25] * 20
    # 25 in two classes: 13 and 12
    assert all(sorted(np.unique(LABELS[c], return_counts=True)[1]) == [12, 13] for c in clients)


@given(
    n_clients=st.integers(1, 12),
    n_clusters=st.integers(1, 12),
    classes_per_cluster=st.integers(1, 10),
    per_client=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_no_example_is_given_twice(n_clients, n_clusters, classes_per_cluster, per_client, seed):
    n_clusters = min(n_clusters, n_clients)
    rng = np.random.default_rng(seed)
    # 12 clients with 4 examples of one class need 48 of the 50
    clients, groups = clustered(LABELS, n_clients, n_clusters, classes_per_cluster, per_client, rng)
    held = np.concatenate(clients)
    assert len(np.unique(held)) == len(held) == n_clients * per_client
    assert np.bincount(groups).max() - np.bincount(groups).min() <= 1
    assert len(np.bincount(groups)) == n_clusters


def test_a_class_that_runs_out_is_an_error_with_the_numbers():
    words = "20 clients with 26 examples each need more of class .* than the 50 there are"
    with pytest.raises(ValueError, match=words):
        clustered(LABELS, 20, 5, 2, 26, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_clusters": 21}, "n_clusters: expected a whole number >= 1 and <= 20, got 21"),
        ({"classes_per_cluster": 11}, "classes_per_cluster: .* <= 10, got 11"),
        ({"per_client": 0}, "per_client: expected a whole number >= 1, got 0"),
    ],
)
def test_impossible_divisions_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        clustered(LABELS, rng=np.random.default_rng(0), **arguments)


def test_iid_gives_everything_away_in_equal_parts():
    clients, groups = iid(LABELS, 7, np.random.default_rng(0))
    assert groups is None
    assert sorted(len(client) for client in clients) == [71] * 4 + [72] * 3
    np.testing.assert_array_equal(np.sort(np.concatenate(clients)), np.arange(500))
    assert min(len(np.unique(LABELS[client])) for client in clients) == 10


def test_hold_out_is_disjoint_and_of_the_right_size():
    train, test = hold_out(101, 0.2, np.random.default_rng(0))
    assert len(test) == 20
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(101))
    with pytest.raises(ValueError, match=r"share: expected a number in .0, 1., got 1"):
        hold_out(101, 1, np.random.default_rng(0))


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_same_generator_gives_the_same_division_and_none_gives_a_fixed_one(name):
    small = {"clustered": {"per_client": 20}}.get(name, {})

    def held(rng):
        clients = PARTITIONS[name](LABELS, n_clients=10, rng=rng, **small).clients
        assert all(client.dtype == np.int64 for client in clients)
        assert all((np.diff(client) > 0).all() for client in clients)  # ascending, none twice
        return [client.tolist() for client in clients]

    assert held(np.random.default_rng(1)) == held(np.random.default_rng(1))
    assert held(np.random.default_rng(1)) != held(np.random.default_rng(2))
    assert held(None) == held(None)


def test_shards_are_runs_of_sorted_labels():
    """500 examples, ten classes of 50: 100 shards of 5 have one class each, all five of them."""
    clients, groups = shards(LABELS, 20, 100, 2, rng=np.random.default_rng(0))
    assert groups is None
    assert [len(client) for client in clients] == [10] * 20
    held = np.concatenate(clients)
    assert len(np.unique(held)) == 200
    for client in clients:
        assert set(np.unique(LABELS[client], return_counts=True)[1]) <= {5, 10}


def test_every_shard_dealt_is_everything_dealt():
    clients, _ = shards(LABELS, 50, 100, 2, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate(clients)), np.arange(500))


def test_smaller_shards_are_cut_from_all_classes():
    """Shards of 4 instead of 5: 400 examples are left, a random choice, so of every class some."""
    clients, _ = shards(LABELS, 50, 100, 2, shard_size=4, rng=np.random.default_rng(0))
    held = np.concatenate(clients)
    assert len(np.unique(held)) == 400
    counts = np.bincount(LABELS[held])
    assert len(counts) == 10
    assert counts.min() > 25
    assert counts.max() - counts.min() > 0


def test_the_levels_are_the_papers():
    """Always 500 examples; 1, 2 and 5 shards mean at most so many classes (plus one at a seam)."""
    labels = np.repeat(np.arange(10), 5000)
    for level, n_classes in (("high", 1), ("medium", 2), ("low", 5)):
        settings = SHARD_LEVELS[level]
        assert settings["n_shards"] * settings["shard_size"] == 50_000
        clients, _ = shards(labels, 20, **settings, rng=np.random.default_rng(0))
        assert [len(client) for client in clients] == [500] * 20
        found = [len(np.unique(labels[client])) for client in clients]
        assert max(found) == n_classes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_shards": 39}, "n_shards: expected a whole number >= 40 and <= 500, got 39"),
        ({"n_shards": 100, "shard_size": 6}, "shard_size: .* >= 1 and <= 5, got 6"),
        ({"shards_per_client": 0}, "shards_per_client: expected a whole number >= 1, got 0"),
        ({"labels": LABELS / 2}, "labels: expected one whole number for each example, got float64"),
    ],
)
def test_impossible_shards_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        shards(**{"labels": LABELS, **arguments})


def test_k_classes_in_equal_parts_and_nothing_left():
    """50 clients with 2 of 10 classes: ten clients hold a class, 5 examples of it each."""
    clients, groups = classes_per_client(LABELS, 50, 2, rng=np.random.default_rng(3))
    assert groups is None
    assert all(sorted(np.unique(LABELS[c], return_counts=True)[1]) == [5, 5] for c in clients)
    np.testing.assert_array_equal(np.sort(np.concatenate(clients)), np.arange(500))
    pairs = {tuple(np.unique(LABELS[client])) for client in clients}
    assert len(pairs) > 15  # of the 45 there are: chosen by chance, not dealt in a pattern


def test_the_scarcest_class_decides_the_size():
    """15 of class 3, for which two of three clients call: 7 of each of two classes."""
    clients, _ = classes_per_client(UNEVEN, 3, 2, rng=np.random.default_rng(0))
    assert [len(client) for client in clients] == [14] * 3
    assert all(list(np.unique(UNEVEN[c], return_counts=True)[1]) == [7, 7] for c in clients)


@given(n_clients=st.integers(1, 30), k=st.integers(1, 10), seed=st.integers(0, 99))
def test_every_class_has_equally_many_holders(n_clients, k, seed):
    rng = np.random.default_rng(seed)
    clients, _ = classes_per_client(LABELS, n_clients, k, per_client=k, rng=rng)
    held = [np.unique(LABELS[client]) for client in clients]
    assert all(len(mine) == k for mine in held)
    holders = np.bincount(np.concatenate(held), minlength=10)
    assert holders.max() - holders.min() <= 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 11}, "k: expected a whole number >= 1 and <= 10, got 11"),
        ({"k": 3, "per_client": 2}, "per_client: expected a whole number >= 3, got 2"),
        ({"n_clients": 300}, "n_clients: 300 clients with 2 classes each are more than the 500"),
        ({"per_client": 200}, "need more of class . than the 50 there are"),
    ],
)
def test_too_many_classes_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        classes_per_client(LABELS, **arguments)


@given(
    n_clients=st.integers(1, 20),
    alpha=st.sampled_from([0.01, 0.3, 1.753, 100.0]),
    sizes=st.sampled_from(["lognormal", "equal"]),
    sigma=st.sampled_from([0.0, 1.0, 3.0]),
    seed=st.integers(0, 99),
)
def test_dirichlet_gives_everything_away_and_nobody_is_empty(n_clients, alpha, sizes, sigma, seed):
    rng = np.random.default_rng(seed)
    clients, _ = dirichlet(UNEVEN, n_clients, alpha, sizes, sigma, rng)
    np.testing.assert_array_equal(np.sort(np.concatenate(clients)), np.arange(100))
    assert min(len(client) for client in clients) >= 1
    if sizes == "equal" or not sigma:
        assert max(map(len, clients)) - min(map(len, clients)) <= 1


def test_dirichlet_sizes_can_be_given():
    """Of 100 examples 50 are dealt, in the proportions of the labels: 60, 25, 15 give 30, 12.5,
    7.5, and the earlier of the equal remainders has the example."""
    sizes = [20, 1, 29]
    clients, _ = dirichlet(UNEVEN, 3, 1.0, sizes, rng=np.random.default_rng(0))
    assert [len(client) for client in clients] == sizes
    assert np.bincount(UNEVEN[np.concatenate(clients)]).tolist() == [30, 13, 0, 7]


def test_alpha_is_the_concentration():
    """Large: every client is like the whole, to rounding. Small: one label makes up nearly all.

    In between, for Dir(α·p) of mean p the variance of a proportion is p(1 − p)/(α + 1): with ten
    equal labels and α = 2 it is 0.09/3 = 0.03. Fitting to the margins takes a little of it away.
    """
    labels = np.repeat(np.arange(10), 2000)

    def proportions(alpha):
        clients, _ = dirichlet(labels, 100, alpha, "equal", rng=np.random.default_rng(0))
        counts = np.array([np.bincount(labels[client], minlength=10) for client in clients])
        return counts / counts.sum(axis=1, keepdims=True)

    np.testing.assert_allclose(proportions(1e6), 0.1, atol=0.006)
    assert np.median(proportions(0.01).max(axis=1)) > 0.99
    assert proportions(2.0).var() == pytest.approx(0.03, rel=0.15)


def test_lognormal_sizes_are_as_uneven_as_they_should_be():
    """The logarithms have standard deviation σ = 1; 100 of them give 1 ± 0.15 or so."""
    labels = np.repeat(np.arange(10), 5000)
    clients, _ = dirichlet(labels, 100, 1.753, rng=np.random.default_rng(0))
    sizes = np.array([len(client) for client in clients])
    assert sizes.sum() == 50_000
    assert np.log(sizes).std() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"alpha": 0}, r"alpha: expected a number in \(0, inf\], got 0"),
        ({"sizes": "even"}, "sizes: expected one of 'lognormal', 'equal', got 'even'"),
        ({"n_clients": 2, "sizes": [0, 3]}, "sizes: .* a smallest of 0 and a sum of 3"),
        ({"n_clients": 2, "sizes": [400, 101]}, "sum <= 500, got .* a sum of 501"),
        ({"n_clients": 501}, "n_clients: .* <= 500, got 501"),
    ],
)
def test_impossible_mixtures_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        dirichlet(LABELS, **arguments)


@given(
    total=st.integers(0, 1000),
    weights=st.lists(st.integers(0, 10**12), min_size=1, max_size=8).filter(any),
    as_float=st.booleans(),
)
def test_apportioning_is_within_one_of_the_quota(total, weights, as_float):
    given_weights = np.array(weights, dtype=float if as_float else np.int64)
    parts = apportion(total, given_weights)
    assert parts.sum() == total
    quota = np.array([total * weight / sum(weights) for weight in weights])
    assert (np.abs(parts - quota) < 1 + 1e-9).all()

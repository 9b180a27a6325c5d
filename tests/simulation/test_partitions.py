"""Dividing examples among clients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from understudy.simulation.data import Federation
from understudy.simulation.partitions import clustered, hold_out, iid

LABELS = np.repeat(np.arange(10), 50)


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


X, Y = torch.zeros(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"clients": ([0, 1], [2, 4]), "test": [4, 5]}, "1 that one does, such as 4"),
        ({"clients": ([0, 1], []), "test": [5]}, r"clients\[1\]: expected a list of at least one"),
        ({"clients": ([0, 6],), "test": [5]}, r"clients\[0\]: .* in 0 .. 5, got 0 .. 6"),
        ({"clients": ([0],), "test": [-1]}, "test: expected indices in 0 .. 5"),
        ({"clients": (), "test": [0]}, "clients: expected at least one client"),
        ({"clients": ([0],), "test": [1], "groups": [0, 1]}, r"groups: expected shape \(1,\)"),
        ({"clients": ([0],), "test": [1], "y": Y.float()}, "y: expected int64"),
    ],
)
def test_a_federation_that_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Federation(**{"x": X, "y": Y, **arguments})

"""Groups of rows whose products give the needed pairs."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from understudy.graph.pair_groups import READING, n_pairs, pair_groups
from understudy.graph.similarity import cosines


def among(k, pairs):
    needed = np.zeros((k, k), dtype=bool)
    for i, j in pairs:
        needed[i, j] = needed[j, i] = True
    return needed


def lists(needed):
    return [group.tolist() for group in pair_groups(needed)]


def test_all_pairs_are_one_group():
    assert lists(~np.eye(5, dtype=bool)) == [[0, 1, 2, 3, 4]]
    assert lists(np.zeros((3, 3), dtype=bool)) == []


def test_a_bridge_between_two_clusters_is_a_group_of_its_own():
    """Two clusters of 6 with a bridge 5 – 6. One product: 66 pairs and 12 rows, 66 + 36 = 102.
    Three: 15 + 15 + 1 pairs and 6 + 6 + 2 rows, 31 + 42 = 73."""
    assert READING == 3
    pairs = [(i, j) for c in (0, 6) for i in range(c, c + 6) for j in range(i + 1, c + 6)]
    groups = lists(among(12, [*pairs, (5, 6)]))
    assert groups == [[0, 1, 2, 3, 4, 5], [5, 6], [6, 7, 8, 9, 10, 11]]


def test_a_star_of_few_is_one_product():
    """0 needs 1, 2, 3, who do not need each other. One product: 6 pairs and 4 rows, 6 + 12 = 18.
    Three: 3 pairs and 6 rows, 3 + 18 = 21."""
    assert lists(among(4, [(0, 1), (0, 2), (0, 3)])) == [[0, 1, 2, 3]]


@st.composite
def graphs(draw):
    k = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    upper = np.triu(rng.random((k, k)) < draw(st.sampled_from([0.05, 0.2, 0.5, 0.9])), 1)
    return upper | upper.T


@given(graphs())
def test_every_needed_pair_is_in_a_group_and_work_is_never_more(needed):
    groups = pair_groups(needed)
    covered = np.zeros_like(needed)
    for group in groups:
        assert (np.diff(group) > 0).all()
        assert len(group) >= 2
        covered[np.ix_(group, group)] = True
    assert covered[needed].all()
    members = int(needed.any(axis=1).sum())
    assert needed.sum() / 2 <= n_pairs(groups)
    rows = sum(len(group) for group in groups)
    assert n_pairs(groups) + READING * rows <= members * (members - 1) / 2 + READING * members


@given(graphs(), st.integers(0, 99))
def test_cosines_within_groups_are_those_of_all(needed, seed):
    rng = np.random.default_rng(seed)
    vectors = [torch.from_numpy(row) for row in rng.standard_normal((len(needed), 30))]
    within = cosines(vectors, 30, pair_groups(needed))
    np.testing.assert_allclose(within[needed], cosines(vectors, 30)[needed], rtol=0, atol=1e-14)

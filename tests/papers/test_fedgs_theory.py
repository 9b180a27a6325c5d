"""FedGS's γ_k (eqs. 19 to 23) and theorem 1, by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from understudy.papers.spread import (
    products_of_errors,
    rank_correlation,
    set_correlation,
)
from understudy.papers.weight_bias import gamma


def test_gamma_by_hand():
    """Sizes 1, 2, 3 and M = 2: (N−M)/(M(N−1)) = 1/4; (n_k − n̄)/n̄ = −1/2, 0, 1/2."""
    np.testing.assert_allclose(gamma([1, 2, 3], 2), [8 / 7, 1, 8 / 9])
    assert gamma([1, 2, 3], 3).tolist() == [1, 1, 1]
    assert gamma([5, 5, 5, 5], 1).tolist() == [1, 1, 1, 1]
    assert gamma([5], 1).tolist() == [1]


def test_gamma_is_equation_21_and_below_the_true_factor():
    sizes = np.array([3.0, 10, 1, 6, 20])
    n, m, total = len(sizes), 3, sizes.sum()
    weights = m / n * sizes / (sizes + (m - 1) / (n - 1) * (total - sizes))
    np.testing.assert_allclose(sizes / total * gamma(sizes, m), weights)
    true = np.zeros(n)
    sets = list(combinations(range(n), m))
    for chosen in sets:
        ids = list(chosen)
        true[ids] += sizes[ids] / sizes[ids].sum() / len(sets)
    assert true.sum() == pytest.approx(1)
    assert (true >= weights - 1e-12).all()


@pytest.mark.parametrize(("sizes", "m"), [([], 1), ([1, 0], 1), ([1, 2], 3), ([1, 2], 0)])
def test_gamma_refuses(sizes, m):
    with pytest.raises(ValueError, match=r"n_examples|m"):
        gamma(sizes, m)


def test_errors_are_those_of_the_updates():
    rng = np.random.default_rng(1)
    updates, sizes = rng.normal(size=(5, 7)), np.array([1.0, 2, 3, 4, 5])
    products = products_of_errors(torch.from_numpy(updates), sizes)
    ids = [0, 3]
    weights = sizes[ids] / sizes[ids].sum()
    error = weights @ updates[ids] - sizes / sizes.sum() @ updates
    assert weights @ products[np.ix_(ids, ids)] @ weights == pytest.approx(error @ error)


def test_two_kinds_of_clients():
    """Pairs of both kinds have the full update and are far apart; pairs of one have neither."""
    kinds = np.array([0, 0, 0, 1, 1, 1])
    distance = (kinds[:, None] != kinds).astype(float)
    updates = torch.from_numpy(np.where(kinds == 0, 1.0, -1.0)[:, None])
    products = products_of_errors(updates, np.ones(6))
    rng, there = np.random.default_rng(0), np.ones(6, dtype=bool)
    assert set_correlation(distance, products, np.ones(6), there, 2, rng) == pytest.approx(-1)
    alone = kinds == 0  # those there are all alike: nothing can be told
    assert np.isnan(set_correlation(distance, products, np.ones(6), alone, 2, rng))
    assert np.isnan(set_correlation(distance, products, np.ones(6), kinds > 1, 2, rng))


def test_rank_correlation_with_ties():
    """Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: 4.5/√(4.5·5)."""
    found = rank_correlation(np.array([0.0, 1, 1, 5]), np.array([1.0, 2, 3, 4]))
    assert found == pytest.approx(4.5 / np.sqrt(4.5 * 5))

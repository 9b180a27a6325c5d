"""Products in pieces of columns are those of whole rows, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.graph import products
from understudy.graph.pair_groups import pair_groups
from understudy.graph.products import gram_float32
from understudy.graph.similarity import cosines


@given(
    k=st.integers(1, 30),
    d=st.integers(1, 60),
    width=st.integers(1, 70),
    form=st.sampled_from(["matrix", "list", "array"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=50, deadline=None)
def test_single_precision_in_blocks_is_the_plain_product(
    k: int, d: int, width: int, form: str, seed: int
) -> None:
    rows = torch.randn(k, d, generator=torch.Generator().manual_seed(seed))
    given_as = {"matrix": rows, "list": list(rows), "array": rows.numpy()}[form]
    whole = products._SINGLE
    products._SINGLE = width
    try:
        found = gram_float32(given_as, d)
    finally:
        products._SINGLE = whole
    expected = rows.double().numpy() @ rows.double().numpy().T
    norms = np.sqrt(np.diag(expected))
    assert (np.abs(found - expected) <= 1e-6 * np.outer(norms, norms)).all()


def test_only_pairs_within_groups_are_computed() -> None:
    rng = np.random.default_rng(0)
    rows = torch.randn(12, 50, generator=torch.Generator().manual_seed(0))
    needed = np.triu(rng.random((12, 12)) < 0.15, 1)
    needed |= needed.T
    groups = pair_groups(needed)
    found, double = cosines(rows, 50, groups, single=True), cosines(rows, 50, groups)
    np.testing.assert_allclose(found, double, atol=1e-6)
    assert ((found == 0) == (double == 0)).all()


@pytest.mark.parametrize("entry", [1e-20, 1e20, np.inf, np.nan])
def test_updates_beyond_single_precision_are_multiplied_in_double(entry: float) -> None:
    rows = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    rows[2] = entry if not np.isfinite(entry) else rows[2] * entry
    assert gram_float32(rows, 8) is None
    if np.isfinite(entry):
        np.testing.assert_array_equal(cosines(rows, 8, single=True), cosines(rows, 8))


def test_a_zero_update_is_like_nobody() -> None:
    rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))
    rows[1] = 0
    assert (cosines(rows, 8, single=True)[1] == 0).all()

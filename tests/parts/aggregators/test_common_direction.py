"""The search for Concord's weights: the least of a quadratic within a box, and what follows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import FDMS, Concord, Population, Strategy
from understudy.core.types import Block, Contributions
from understudy.parts.aggregators import common_direction as module
from understudy.parts.aggregators.common_direction import box_least, common_direction
from understudy.parts.aggregators.concord import friends_groups
from understudy.parts.aggregators.stand_ins import stand_ins
from understudy.testing import play


def least_of_all(matrix, side, upper) -> np.ndarray:
    """Every choice of who is at which bound; the best of those inside the box."""
    best, found = np.inf, None
    for states in itertools.product((0, 1, 2), repeat=len(side)):
        at = np.array(states)
        x = np.where(at == 1, upper, 0.0)
        if not np.isfinite(x).all():
            continue
        free = np.flatnonzero(at == 2)
        if len(free):
            x[free] = np.linalg.solve(matrix[np.ix_(free, free)], (side - matrix @ x)[free])
        value = x @ matrix @ x - 2 * side @ x
        if (x >= -1e-12).all() and (x <= upper + 1e-12).all() and value < best:
            best, found = value, x
    assert found is not None
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([1.0, 3.0, np.inf]))
def test_the_least_within_a_box(seed, n, high) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    matrix = rows @ rows.T + 0.1 * np.eye(n)
    side = rng.normal(size=n) + 0.5
    upper = high * rng.uniform(0.1, 1.0, n)
    found = box_least(matrix, side, upper)
    np.testing.assert_allclose(found, least_of_all(matrix, side, upper), atol=1e-9)


@pytest.mark.parametrize("bound", [None, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("n", [40, 300])
def test_large_ones_end_and_are_within_their_bounds(n, bound) -> None:
    """What must hold at the least: nothing can be gained by moving one coefficient."""
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, 8)) * rng.lognormal(size=(n, 1))
    share = rng.dirichlet(np.full(n, 0.5)) + 1e-6
    gram = rows @ rows.T
    c = common_direction(gram, share, 0.1, centred=True, bound=bound)
    assert c is not None
    assert (c >= 0).all()
    high = np.inf if bound is None else bound * share
    assert (c <= high * (1 + 1e-9)).all()
    unit = np.trace(gram) / n
    side = np.maximum(gram / unit, 0) @ share + 0.1 * share
    slope = (gram / unit + 0.1 * np.eye(n)) @ c - side
    inside = (c > 1e-9) & (c < high * (1 - 1e-9))
    assert np.abs(slope[inside]).max(initial=0.0) < 1e-8
    assert (slope[c <= 1e-9] > -1e-8).all()
    assert (slope[c >= high * (1 - 1e-9)] < 1e-8).all()


def test_the_step_goes_along_every_update_as_far_as_those_that_agree_would_take_it() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(6, 20))
    share = np.full(6, 1 / 6)
    gram = rows @ rows.T
    c = common_direction(gram, share, 1e-9, centred=True, bound=None)
    assert (gram @ c >= np.maximum(gram, 0) @ share - 1e-6).all()


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_where_there_is_no_length_the_shares_are_taken(value) -> None:
    share = np.array([0.25, 0.75])
    found = common_direction(np.full((2, 2), value), share, 0.1, centred=True, bound=5.0)
    assert found is not None
    assert found.tolist() == share.tolist()


def test_a_search_that_does_not_end_takes_the_shares_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_SWEEPS", 0)
    strategy = Strategy(aggregator=Concord(), weighting="clients")
    state = strategy.init(Population(4), torch.zeros(6, dtype=torch.float64), seed=0)
    _, applied = play(strategy, state, 0)
    assert applied.notes["no_direction"] == 1
    assert applied.notes["extrapolation"] == 1


def test_a_matrix_that_is_not_positive_is_no_search() -> None:
    assert box_least(-np.eye(2), np.ones(2), np.ones(2)) is None


def test_groups_are_the_absent_with_the_same_nearest_friend() -> None:
    """0 and 1 came; 2 and 3 are mostly like 0, 4 like 1; 5 and 6 are represented by their own
    memories: 5's, (3, 2), is at a cosine of .83 with 0 and .55 with 1, 6's, (-1, 1), of -.7 and .7.
    """
    fresh = Block(np.array([0, 1]), torch.eye(2, dtype=torch.float64))
    own = torch.tensor([[3, 2], [-1, 1]], dtype=torch.float64)
    memory = Block(np.array([5, 6]), own)
    told = Contributions.of(
        ([0, 1], fresh, [0, 1], 0.1),
        ([2, 2, 3, 3, 4], fresh, [0, 1, 1, 0, 1], [0.15, 0.05, 0.1, 0.1001, 0.2]),
        ([5, 6], memory, [0, 1], 0.1),
    )
    groups = dict(zip(told.ids.tolist(), friends_groups(told, np.array([0, 1]), 2), strict=True))
    assert groups == {0: 0, 1: 1, 2: 2, 3: 2, 4: 4, 5: 2, 6: 4}
    together = stand_ins(told, 2, friends_groups(told, np.array([0, 1]), 2))
    assert together.ids.tolist() == [0, 1, 2, 4]
    np.testing.assert_allclose(together.share, [0.1, 0.1, 0.5001, 0.3])
    # of 2, 3 and 5: (.15 + .1001 + .1 · 3, .05 + .1 + .1 · 2) over their shares
    mean = np.array([0.5501, 0.35]) / 0.5001
    np.testing.assert_allclose(together.gram[2, 2], mean @ mean)
    weighed = together.weighted(told, 2 * together.share)
    np.testing.assert_allclose(weighed.coef, 2 * told.coef)


def test_many_clients_are_few_rows() -> None:
    """With groups, no more weights than twice those who came; each member's grow alike."""
    strategy = Strategy(compensator=FDMS(), aggregator=Concord(exact=0), weighting="clients")
    state = strategy.init(Population(30), torch.zeros(6, dtype=torch.float64), seed=0)
    rng = np.random.default_rng(0)
    for t in range(6):
        _, applied = play(strategy, state, t, available=rng.random(30) < 0.4)
        told = applied.contributions
        came = np.unique(told.source[told.source >= 0])
        assert len(np.unique(told.coef.round(12))) <= 2 * len(came) + 1

"""FedGS's pick: maximise coefficient * s'Hs - z's over m of the candidates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.graph.dispersion import pick_dispersed

quick = settings(derandomize=True, deadline=None, max_examples=60)


def value(distance, penalty, coefficient, ids):
    pairs = sum(float(distance[i, j]) for i in ids for j in ids if i != j)
    return coefficient * pairs - sum(float(penalty[i]) for i in ids)


def brute_force(distance, penalty, m, candidates, coefficient):
    return max(
        value(distance, penalty, coefficient, ids) for ids in itertools.combinations(candidates, m)
    )


def instance(seed, n, kind="random"):
    """H in [0, 1] and FedGS's z from counts 0..3; "graph": distances of points in a plane."""
    rng = np.random.default_rng(seed)
    if kind == "random":
        upper = np.triu(rng.random((n, n)), 1)
        distance = upper + upper.T
    else:
        points = rng.random((n, 2))
        distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))
        distance /= distance.max()
    counts = rng.integers(0, 4, n)
    return distance, 2.0 * (counts - counts.mean()) + 1


def is_swap_optimal(distance, penalty, coefficient, picked, candidates):
    """No swap with one of the 4m outsiders of the largest marginal value gains."""
    picked = list(picked)
    here = value(distance, penalty, coefficient, picked)

    def marginal(i):
        return 2 * coefficient * sum(distance[i, j] for j in picked) - penalty[i]

    outside = sorted(set(candidates) - set(picked), key=marginal, reverse=True)[: 4 * len(picked)]
    swaps = ([*(p for p in picked if p != a), b] for a in picked for b in outside)
    return all(value(distance, penalty, coefficient, s) <= here + 1e-9 for s in swaps)


def test_golden_pick():
    """Clients on a line at 0, 1, 2, 3 (H = difference / 3), two of them, coefficient 3.

    3 * 2 * H is twice the difference. z = (0, 0, 0, 5): pairs without 3 give 2, 4, 2; (0, 3) gives
    6 - 5 = 1, so (0, 2) with 4. With z_3 = 1: (0, 3) gives 5.
    """
    distance = np.abs(np.arange(4.0)[:, None] - np.arange(4.0)) / 3
    for last, expected in ((5.0, [0, 2]), (1.0, [0, 3])):
        for enumerate_up_to in (0, 5000):
            picked = pick_dispersed(
                distance,
                [0, 0, 0, last],
                2,
                [0, 1, 2, 3],
                3.0,
                np.random.default_rng(0),
                enumerate_up_to=enumerate_up_to,
            )
            np.testing.assert_array_equal(picked, expected)
            assert picked.dtype == np.int64


@quick
@given(st.integers(0, 10**6), st.integers(2, 8), st.floats(0, 3), st.booleans(), st.data())
def test_enumeration_is_exact(seed, n, coefficient, narrow, data):
    """All sizes m, so that both sides (picked or left out) are enumerated; float32 H too."""
    m = data.draw(st.integers(1, n))
    distance, penalty = instance(seed, n + 3)
    distance = distance.astype(np.float32 if narrow else np.float64)
    candidates = np.random.default_rng(seed).permutation(n + 3)[:n]
    picked = pick_dispersed(
        distance, penalty, m, candidates, coefficient, np.random.default_rng(seed)
    )
    best = brute_force(distance, penalty, m, candidates.tolist(), coefficient)
    assert len(set(picked.tolist())) == m
    assert set(picked) <= set(candidates)
    np.testing.assert_array_equal(picked, np.sort(picked))
    assert value(distance, penalty, coefficient, picked) == pytest.approx(best, abs=1e-9)


def test_the_search_finds_the_optimum_of_nearly_all_enumerable_instances():
    """60 instances, n 9..14, m 2..5, both kinds of H, weak and strong dispersion."""
    optimal = 0
    for seed in range(60):
        n, m = 9 + seed % 6, 2 + seed % 4
        coefficient = (0.2, 1.0, 5.0)[seed % 3]
        distance, penalty = instance(seed, n, ("random", "graph")[seed % 2])
        picked = pick_dispersed(
            distance,
            penalty,
            m,
            np.arange(n),
            coefficient,
            np.random.default_rng(seed),
            enumerate_up_to=0,
        )
        reached = value(distance, penalty, coefficient, picked)
        best = brute_force(distance, penalty, m, range(n), coefficient)
        assert reached <= best + 1e-9
        optimal += reached > best - 1e-9
    assert optimal == 60


def test_restarts_find_what_one_start_misses():
    """40 instances with n=30, m=5 (142,506 subsets): one start solves 34, twenty solve 39."""
    solved = {1: 0, 20: 0}
    for seed in range(40):
        distance, penalty = instance(1000 + seed, 30)
        arguments = (distance, penalty, 5, np.arange(30), 1.0)
        exact = pick_dispersed(*arguments, np.random.default_rng(0), enumerate_up_to=142_506)
        for restarts in solved:
            picked = pick_dispersed(
                *arguments, np.random.default_rng(seed), restarts=restarts, enumerate_up_to=0
            )
            missing = value(distance, penalty, 1.0, exact) - value(distance, penalty, 1.0, picked)
            solved[restarts] += missing < 1e-9
    assert solved == {1: 34, 20: 39}


@quick
@given(st.integers(0, 10**6), st.integers(20, 40), st.integers(2, 6), st.sampled_from([0.1, 1, 9]))
def test_no_improving_swap_remains(seed, n, m, coefficient):
    distance, penalty = instance(seed, n)
    picked = pick_dispersed(
        distance,
        penalty,
        m,
        np.arange(n),
        coefficient,
        np.random.default_rng(seed),
        restarts=1,  # the best of several would hide a search that stops early
        enumerate_up_to=0,
    )
    assert is_swap_optimal(distance, penalty, coefficient, picked.tolist(), range(n))


@pytest.mark.parametrize("enumerate_up_to", [0, 5000])
def test_same_generator_same_pick_whatever_the_order_of_candidates(enumerate_up_to):
    distance, penalty = instance(5, 16)
    penalty = np.round(penalty)
    distance = np.round(distance)  # many ties
    picks = {
        tuple(
            pick_dispersed(
                distance,
                penalty,
                4,
                candidates,
                1.0,
                np.random.default_rng(9),
                enumerate_up_to=enumerate_up_to,
            )
        )
        for candidates in (range(16), range(15, -1, -1), np.random.default_rng(0).permutation(16))
    }
    assert len(picks) == 1


@pytest.mark.parametrize("enumerate_up_to", [0, 5000])
@pytest.mark.parametrize("coefficient", [0.0, 1.0])
def test_ties_are_broken_evenly(coefficient, enumerate_up_to):
    """Ten clients alike, three picked, 600 draws: 180 each, standard deviation 11.2.

    The bound is five of them on either side.
    """
    counts = np.zeros(10)
    for seed in range(600):
        picked = pick_dispersed(
            np.ones((10, 10)),
            np.zeros(10),
            3,
            range(10),
            coefficient,
            np.random.default_rng(seed),
            enumerate_up_to=enumerate_up_to,
        )
        counts[picked] += 1
    assert counts.sum() == 1800
    assert np.abs(counts - 180).max() < 56


def test_coefficient_zero_is_least_picked_first():
    """Counts 2 0 1 0 2 1, four of them: 1 and 3, 2 and 5; three of them: 1, 3 and one of 2, 5."""
    distance, _ = instance(0, 6)
    penalty = np.array([2.0, 0, 1, 0, 2, 1])
    four = pick_dispersed(distance, penalty, 4, range(6), 0.0, np.random.default_rng(0))
    np.testing.assert_array_equal(four, [1, 2, 3, 5])
    threes = {
        tuple(pick_dispersed(distance, penalty, 3, range(6), 0.0, np.random.default_rng(s)))
        for s in range(20)
    }
    assert threes == {(1, 2, 3), (1, 3, 5)}


def test_one_client_all_clients_and_nobody():
    distance, penalty = instance(1, 7)
    rng = np.random.default_rng(0)
    for enumerate_up_to in (0, 5000):
        one = pick_dispersed(
            distance, penalty, 1, [2, 4, 6], 1.0, rng, enumerate_up_to=enumerate_up_to
        )
        assert one.tolist() == [min((2, 4, 6), key=lambda k: penalty[k])]
        for m in (3, 4, 100):
            everyone = pick_dispersed(
                distance, penalty, m, [6, 2, 4], 1.0, rng, enumerate_up_to=enumerate_up_to
            )
            assert everyone.tolist() == [2, 4, 6]
    nobody = pick_dispersed(distance, penalty, 2, [], 1.0, rng)
    assert nobody.shape == (0,)
    assert nobody.dtype == np.int64


def test_leaving_one_of_many_out_is_exact_and_small():
    """C(1000, 999) = 1000 subsets of 999: the one left out is the one whose loss is least."""
    distance, penalty = instance(3, 1000, "graph")
    picked = pick_dispersed(distance, penalty, 999, range(1000), 0.01, np.random.default_rng(0))
    marginal = 0.02 * distance.sum(axis=1) - penalty
    assert sorted(set(range(1000)) - set(picked.tolist())) == [int(marginal.argmin())]


@pytest.mark.parametrize("enumerate_up_to", [0, 5000])
def test_the_diagonal_and_everything_outside_the_candidates_is_not_read(enumerate_up_to):
    distance, penalty = instance(4, 14)
    candidates = np.arange(1, 13)
    arguments = {"enumerate_up_to": enumerate_up_to}
    clean = pick_dispersed(
        distance, penalty, 4, candidates, 1.0, np.random.default_rng(0), **arguments
    )
    np.fill_diagonal(distance, np.nan)
    distance[0, :] = distance[:, 0] = np.inf
    penalty[0] = np.nan
    spoilt = pick_dispersed(
        distance, penalty, 4, candidates, 1.0, np.random.default_rng(0), **arguments
    )
    np.testing.assert_array_equal(spoilt, clean)


def test_layout_and_precision_of_the_distances_do_not_matter():
    distance, penalty = instance(6, 60)
    distance = distance.astype(np.float32)
    picks = [
        pick_dispersed(h, penalty, 6, range(60), 1.0, np.random.default_rng(0)).tolist()
        for h in (distance, np.asfortranarray(distance), distance.astype(np.float64))
    ]
    assert picks[0] == picks[1] == picks[2]


def test_a_common_offset_of_the_penalties_changes_nothing():
    distance, penalty = instance(8, 40)
    picks = [
        pick_dispersed(
            distance, penalty + offset, 5, range(40), 1.0, np.random.default_rng(0)
        ).tolist()
        for offset in (0.0, 2.0**20)
    ]
    assert picks[0] == picks[1]


def test_inputs_are_left_alone():
    distance, penalty = instance(2, 30)
    kept = distance.copy(), penalty.copy()
    distance.setflags(write=False)
    penalty.setflags(write=False)
    pick_dispersed(distance, penalty, 6, range(30), 1.0, np.random.default_rng(0))
    np.testing.assert_array_equal(distance, kept[0])
    np.testing.assert_array_equal(penalty, kept[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distance": np.zeros((3, 4))}, r"distance must have shape \(N, N\), got \(3, 4\)"),
        ({"distance": np.zeros((4, 4), int)}, "distance must be of floats"),
        ({"penalty": np.zeros(3)}, r"penalty must have shape \(4,\), got \(3,\)"),
        ({"penalty": [0, 0, math.nan, 0]}, "penalty must be finite"),
        ({"m": 0}, "m must be at least 1, got 0"),
        ({"candidates": [0, 1, 1]}, "candidates must be different"),
        ({"candidates": [0, 4]}, r"candidates must lie in 0..3, got 0..4"),
        ({"candidates": [-1, 2]}, r"candidates must lie in 0..3, got -1..2"),
        ({"candidates": np.ones(4, bool)}, "candidates must be a vector of ids"),
        ({"coefficient": -1.0}, "coefficient must be .* got -1.0"),
        ({"coefficient": math.nan}, "coefficient must be .* got nan"),
        ({"restarts": 0}, "restarts must be at least 1, got 0"),
        ({"enumerate_up_to": -1}, "enumerate_up_to must be at least 0, got -1"),
        ({"distance": np.full((4, 4), np.nan)}, "distance must be finite"),
        ({"distance": np.full((4, 4), np.nan), "enumerate_up_to": 0}, "distance must be finite"),
        ({"distance": np.full((4, 4), np.inf), "enumerate_up_to": 0}, "distance must be finite"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {
        "distance": np.ones((4, 4)),
        "penalty": np.zeros(4),
        "m": 2,
        "candidates": range(4),
        "coefficient": 1.0,
        "rng": np.random.default_rng(0),
    }
    with pytest.raises(ValueError, match=message):
        pick_dispersed(**{**arguments, **changes})

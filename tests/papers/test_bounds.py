"""FL-FDMS's bounds, worked out by hand.

The round numbers: δ_min = √(2 ln 2) and β = 1 make exp(−βδ_min²t/2) = 2^−t.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.papers import bounds

HALVING = math.sqrt(2 * math.log(2))


def test_factor():
    """η = 1, η_L = 0.1, L = 5, E = 2, c = ¼: (1 + 3 · 0.1 · 5 · 2)/(¼ · 4) = 4/1."""
    assert bounds.factor(1.0, 0.1, 5.0, 2, 0.25) == pytest.approx(4)


def test_psi_is_the_mean_squared_error():
    """Eq. 8: (9 + 0 + 3)/3 = 4, twice with a factor of 2."""
    assert bounds.psi([9, 0, 3]) == 4
    assert bounds.psi([9, 0, 3], 2.0) == 8


def test_ignoring_and_knowing():
    """Eq. 10 and 12: α = ½ makes a quarter of σ²."""
    assert bounds.psi_bar(0.5, 36) == 9
    assert bounds.psi_star(0.5, 4) == 1
    assert bounds.psi_bar(0.5, 36, 4.0) == 36


def test_lemma_2():
    """K = 6: 12 · 2^−3 = 1.5 after three rounds, 12 at first."""
    assert bounds.misidentification(6, 1, HALVING, 3) == pytest.approx(1.5)
    assert bounds.misidentification(6, 1, HALVING, 0) == 12


def test_error_of_a_round():
    """Eq. 16 at t = 2: ¼ (4 + 12 · ¼ · (36 − 4)) = ¼ · 100."""
    assert bounds.substitution_error(0.5, 4, 36, 6, 1, HALVING, 2) == pytest.approx(25)


def test_friends_that_are_learnt():
    """Eq. 17: K = 6, T = 3: 12 (1 − ⅛)/(3 (1 − ½)) = 7, so 1 + 9 · 7."""
    learnt = bounds.learning(6, 1, HALVING, 3)
    assert learnt == pytest.approx(7)
    assert bounds.psi_fdms(1, 9, learnt) == pytest.approx(64)


def test_friends_that_are_missing():
    """Eq. 74, r = ¼: 1 + ¼ · 9 + ¾ · 9 · 7 = 50.5; r = 0 is eq. 17, r = 1 is Ψ* + Ψ̄."""
    assert bounds.psi_relaxed(1, 9, 7, 0.25) == 50.5
    assert bounds.psi_relaxed(1, 9, 7, 0) == bounds.psi_fdms(1, 9, 7)
    assert bounds.psi_relaxed(1, 9, 7, 1) == 10


@given(st.integers(1, 50), st.floats(0, 1), st.floats(0, 1), st.integers(1, 300))
def test_learning_is_the_mean_of_lemma_2(n_clients, beta, delta, rounds):
    """The geometric series of eq. 70 and 71."""
    each = [bounds.misidentification(n_clients, beta, delta, t) for t in range(rounds)]
    found = bounds.learning(n_clients, beta, delta, rounds)
    assert found == pytest.approx(float(np.mean(each)), rel=1e-9)


def test_scores_that_tell_nothing_promise_nothing():
    assert bounds.learning(20, 0.5, -0.3, 100) == 40
    assert bounds.learning(20, 0.5, 0.0, 100) == 40
    assert bounds.misidentification(20, 0.5, -0.3, 100) == 40


def test_in_the_long_run_learnt_friends_are_as_good_as_known_ones():
    star, bar = bounds.psi_star(0.7, 1.0), bounds.psi_bar(0.7, 30.0)
    gaps = [
        bounds.psi_fdms(star, bar, bounds.learning(20, 0.3, 0.2, rounds)) - star
        for rounds in (10**4, 10**5, 10**6)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=1e-6)
    assert gaps[2] < gaps[0] / 99


def test_bad_numbers_are_named():
    with pytest.raises(ValueError, match="alpha"):
        bounds.psi_bar(1.5, 1)
    with pytest.raises(ValueError, match="sigma_p"):
        bounds.psi_bar(0.5, -1)
    with pytest.raises(ValueError, match="beta"):
        bounds.learning(20, 1.5, 0.1, 10)
    with pytest.raises(ValueError, match="rounds"):
        bounds.learning(20, 0.5, 0.1, 0)
    with pytest.raises(ValueError, match="errors"):
        bounds.psi([])
    with pytest.raises(ValueError, match="friend_absence"):
        bounds.psi_relaxed(1, 1, 1, 1.2)

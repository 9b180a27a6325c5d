"""Differences over seeds, worked out by hand, and how numbers are told."""

import math

import pytest

from understudy.tryout.effects import Effect, adjusted, effect, mean, p_number, p_word
from understudy.tryout.numbers_in_words import Scale


def seeds(*values):
    return dict(enumerate(values))


def test_a_gain_is_positive_whichever_way_is_better():
    own, other = seeds(5.0, 6.0, 8.0, 7.0, 9.0), seeds(4.0, 5.0, 6.0, 6.0, 6.0)
    found = effect(own, other, lower=False)
    # differences 1, 1, 2, 1, 3: mean 1.6, deviation sqrt(0.8), t = 1.6 / 0.4 = 4 with 4 degrees
    assert found.mean == pytest.approx(1.6)
    assert found.half == pytest.approx(2.776445105 * 0.4)
    assert found.p == pytest.approx(0.016130089900)
    assert found.verdict == "more than noise, p = 0.016"
    worse = effect(own, other, lower=True)
    assert (worse.mean, worse.p) == (-found.mean, found.p)


def test_seeds_that_one_side_lacks_or_that_diverged_are_left_out():
    found = effect({0: 1.0, 1: 2.0, 2: math.nan, 5: 9.0}, {0: 0.0, 1: 1.0, 2: 3.0}, lower=False)
    assert found == Effect(1.0, None, None, 2)
    assert found.verdict == "not tested (a test takes 5 seeds)"
    assert mean({0: math.nan, 1: 2.0}) == 2.0


def test_equal_runs_are_one_test():
    """Holm: 0.01 · 2 and 0.04 · 1, where three tests would make 0.03 of the first."""
    one, other = Effect(1.0, 0.1, 0.01, 5), Effect(0.5, 0.1, 0.04, 5)
    untested = Effect(0.5, None, None, 2)
    found = adjusted([one, one, other, untested])
    assert [each.p for each in found] == [0.02, 0.02, 0.04, None]


def test_numbers_of_a_sentence():
    assert (p_word(0.00004), p_word(0.0123), p_number(None)) == ("p < 0.001", "p = 0.012", "–")
    percent, plain = Scale("accuracy", 100.0, 1), Scale("r2")
    assert percent.value(0.7654) == "76.5\u00a0%"
    assert percent.size(-0.0123) == "1.2\u00a0points"
    assert plain.value(-0.01649) == "−0.016"
    assert [plain.signed(x) for x in (0.0123, -0.0123, 0.0001, -0.0001)] == [
        "+0.012", "−0.012", "0.000", "0.000",
    ]  # fmt: skip
    assert percent.range(Effect(0.01, 0.015, 0.5, 5), -1) == " (−2.5 to 0.5)"
    assert percent.range(Effect(0.01, None, None, 2)) == ""

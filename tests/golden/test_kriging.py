"""Kriging and Concord by hand: three clients, two entries."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.run import play
from understudy import Concord, Kriging, Median, Strategy

FIRST = {0: (1.0, 0.0), 1: (0.0, 1.0), 2: (1.0, 0.0)}
SECOND = {0: (0.2, 0.0), 1: (0.0, 0.2)}

# Round 1, client 2 is away. Cosines of round 0: (0, 2) 1, the others 0; each pair was together
# once. Of the rows of those who came (0 and 1) the mean is 1/4, so that with a prior of 2 rounds
# (0, 2) has (1 + 2/4)/3 = 1/2 and (1, 2) has (0 + 2/4)/3 = 1/6.
# The cosine of (0, 1) is 0 now: C + .1 I = 1.1 I. With the mean's weights of 1/2:
#   (1/2 + .05)/1.1 = 33/66, (1/6 + .05)/1.1 = 13/66; 20/66 are missing: 43/66 and 23/66.
W = np.array([43, 23]) / 66
# Server step 1: the model went (2/3, 1/3) in round 0, along m_0 and m_2 2/3 of their lengths,
# along m_1 1/3. Nothing is known yet of r, so it is 1, and left are
LEFT = np.array([1, 2, 1]) / 3
# 0 and 1 are back, each predicted by the other: now (.2, -.2), |now|^2 = .08; then m_0/3 - 2 m_1/3,
# |then|^2 = 5/9; their product .2. Lengths are alike, so that both observations count wholly:
#   a = 2 (.2)/(.08 + 5/9) / (2 (5/9)/(.08 + 5/9) + 1/4) = .4/(10/9 + .02 + 5/36) = 40/127
A = 40 / 127
FRIENDS = 0.2 * W
# left_2 m_2 - (43/66 left_0 m_0 + 23/66 left_1 m_1)
DEVIATION = np.array([LEFT[2] - W[0] * LEFT[0], -W[1] * LEFT[1]])
STAND_IN = FRIENDS + A * DEVIATION


def test_kriging() -> None:
    steps, applied = play(Strategy(compensator=Kriging()), 3, [FIRST, SECOND])
    assert steps[0] == pytest.approx([2 / 3, 1 / 3])
    assert A == pytest.approx(0.4 / (10 / 9 + 0.02 + 5 / 36))
    expected = (np.array(SECOND[0]) + np.array(SECOND[1]) + STAND_IN) / 3
    np.testing.assert_allclose(steps[1], expected, rtol=1e-12)
    assert applied[1].notes["trust"] == pytest.approx(A)
    told = applied[1].contributions
    own = (told.ids == 2) & (told.source == 2)
    assert told.coef[own] == pytest.approx([A * LEFT[2] / 3])


def test_what_the_model_has_gone_along_is_learnt() -> None:
    """Round 2: 0 and 1 are away, 2 comes, whose memory is of round 0.

    In round 1, 0 came back after 2/3 of its length, and its update had .2 of it left: w = 9/13; 1
    came back after 1/3, .2 left: w = 9/10. r = (9/13 · 2/3 · .8 + 9/10 · 1/3 · .8 + 1/4) /
    (9/13 · 4/9 + 9/10 · 1/9 + 1/4). All have length 1 at that time; in round 2 the memories of 0
    and 1 are .2 long: their logarithms differ from client 2's by log 5, three widths.
    """
    strategy = Strategy(compensator=Kriging())
    steps, applied = play(strategy, 3, [FIRST, SECOND, {2: (1.0, 1.0)}])
    spent = np.array([9 / 13 * 2 / 3 * 0.8, 9 / 10 * 1 / 3 * 0.8])
    gone = np.array([9 / 13 * 4 / 9, 9 / 10 * 1 / 9])
    rate = (spent.sum() + 0.25) / (gone.sum() + 0.25)  # for the memories of 0 and 1: .2 long
    assert rate > 1  # and is taken as 1
    apart = np.exp(-0.5 * (np.log(5) / 0.5) ** 2)
    rate_2 = (apart * spent.sum() + 0.25) / (apart * gone.sum() + 0.25)
    progress = (np.array(steps[0]) + np.array(steps[1]))[0]
    left_2 = max(1 - min(rate_2, 1) * progress, 0)
    left_0 = max(1 - np.array(steps[1])[0] / 0.2, 0)
    # 2 alone came: it is everybody's friend. Alone it teaches no trust, but what it knows counts
    a = trust_of_round_2()
    told = applied[2].contributions
    own = told.coef[(told.ids == 0) & (told.source == 0)]
    assert own == pytest.approx([a * left_0 / 3])
    of_friend = told.coef[(told.ids == 0) & (told.row == told.row[told.coef < 0][0])]
    assert of_friend == pytest.approx([-a * left_2 / 3])


def trust_of_round_2() -> float:
    """Both observations of round 1, of clients whose memories are as long as client 0's."""
    unit = 0.08 + 5 / 9
    return min((2 * 0.2 / unit) / (2 * 5 / 9 / unit + 0.25), 1.0)


CONFLICT = {0: (1.0, 0.0), 1: (-0.6, 0.8)}  # of length 1; their product is -.6


@pytest.mark.parametrize(
    ("aggregator", "weight"),
    [
        # [[1.1, -.6], [-.6, 1.1]] c = (1/2 + .05, 1/2 + .05): c = .55/.5
        (Concord(), 1.1),
        (Concord(centred=False), 1.0),  # the right side without the .05
        (Concord(ridge=1.0), 1.0 / 1.4),  # [[2, -.6], …] c = 1/2 + 1/2
        (Concord(bound=1.5), 0.75),  # one and a half times the share of 1/2
    ],
    ids=repr,
)
def test_concord_under_conflict(aggregator, weight) -> None:
    """Each has a share of 1/2, and b = 1/2 of itself alone."""
    steps, applied = play(Strategy(aggregator=aggregator), 2, [CONFLICT])
    np.testing.assert_allclose(steps[0], [weight * 0.4, weight * 0.8], rtol=1e-12)
    assert applied[0].contributions.coef == pytest.approx([weight, weight])
    assert applied[0].notes["extrapolation"] == pytest.approx(2 * weight)


def test_concord_without_conflict_is_the_mean() -> None:
    """Shares .1, .3, .6 and products that are not negative: c = s, whatever the ridge."""
    script = [{0: (1.0, 0.0), 1: (2.0, 2.0), 2: (0.0, 3.0)}]
    examples = [10, 30, 60]
    for ridge in (0.01, 0.1, 10.0):
        strategy = Strategy(aggregator=Concord(ridge))
        steps, applied = play(strategy, 3, script, n_examples=examples)
        np.testing.assert_allclose(steps[0], [0.7, 2.4], rtol=1e-9)
        assert applied[0].notes["extrapolation"] == pytest.approx(1.0)


def test_towards_zero_the_ridge_shrinks_it() -> None:
    """Orthogonal rows of one length: 1.1 c = s."""
    strategy = Strategy(aggregator=Concord(centred=False))
    steps, _ = play(strategy, 2, [{0: (1.0, 0.0), 1: (0.0, 1.0)}])
    np.testing.assert_allclose(steps[0], [0.5 / 1.1, 0.5 / 1.1], rtol=1e-12)


def test_nobody_moves() -> None:
    steps, applied = play(Strategy(aggregator=Concord()), 2, [{0: (0.0, 0.0), 1: (0.0, 0.0)}])
    assert steps == [[0.0, 0.0]]
    assert applied[0].notes["extrapolation"] == 1


def test_weights_that_must_not_be_negative_are_refused() -> None:
    with pytest.raises(ValueError, match="Kriging gives signed coefficients"):
        Strategy(compensator=Kriging(), aggregator=Median())

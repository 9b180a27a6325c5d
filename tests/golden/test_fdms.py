"""FL-FDMS by hand: three clients, three rounds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.run import play
from understudy import FDMS, Strategy


def spoke_for(applied) -> dict[int, int]:
    contributions = applied.contributions
    return dict(zip(contributions.ids.tolist(), contributions.source.tolist(), strict=True))


def test_friend_is_the_largest_running_mean() -> None:
    """Three clients of equal weight, server step 1, r = (cos + 1) / 2.

    Round 0, all come: D0 = (1, 0), D1 = (.6, .8), D2 = (0, 1).
        step = ((1.6)/3, (1.8)/3) = (8/15, 3/5).
        cos01 = .6, cos02 = 0, cos12 = .8, so R01 = .8, R02 = .5, R12 = .9.
    Round 1, client 2 is away: D0 = (2, 0), D1 = (-.28, .96), a unit vector.
        R21 = .9 > R20 = .5, so 1 stands in for 2:
        step = (D0 + 2 D1)/3 = ((2 - .56)/3, 1.92/3) = (.48, .64).
        cos01 = -.28, r01 = .36, R01 = (.8 + .36)/2 = .58.
    Round 2, client 0 is away: D1 = (1, 1), D2 = (0, 3).
        R01 = .58 > R02 = .5, so 1 stands in for 0; the last score alone (.36) would say 2.
        step = (2 D1 + D2)/3 = (2/3, 5/3).
    """
    steps, applied = play(
        Strategy(compensator=FDMS()),
        3,
        [
            {0: (1, 0), 1: (0.6, 0.8), 2: (0, 1)},
            {0: (2, 0), 1: (-0.28, 0.96)},
            {1: (1, 1), 2: (0, 3)},
        ],
    )
    np.testing.assert_allclose(steps, [[8 / 15, 3 / 5], [0.48, 0.64], [2 / 3, 5 / 3]], rtol=1e-12)
    assert spoke_for(applied[0]) == {0: 0, 1: 1, 2: 2}
    assert spoke_for(applied[1]) == {0: 0, 1: 1, 2: 1}
    assert spoke_for(applied[2]) == {0: 1, 1: 1, 2: 2}
    for one in applied:
        assert one.contributions.coef.tolist() == pytest.approx([1 / 3] * 3, rel=1e-12)


def test_distance_score_may_choose_another_friend() -> None:
    """The score -|D_i - D_j| looks at lengths, the cosine does not.

    Round 0: D0 = (1, 0), D1 = (5, 0), D2 = (1, 1).
        cosine: r01 = 1, r02 = (1/sqrt(2) + 1)/2 = .854; distance: s01 = -4, s02 = -1.
    Round 1, client 0 is away: D1 = (3, 0), D2 = (0, 3).
        cosine: 1 stands in, step (2 (3, 0) + (0, 3))/3 = (2, 1);
        distance: 2 stands in, step ((3, 0) + 2 (0, 3))/3 = (1, 2).
    """
    script = [{0: (1, 0), 1: (5, 0), 2: (1, 1)}, {1: (3, 0), 2: (0, 3)}]
    by_cosine, _ = play(Strategy(compensator=FDMS()), 3, script)
    by_distance, _ = play(Strategy(compensator=FDMS(similarity="distance")), 3, script)
    np.testing.assert_allclose(by_cosine[1], [2, 1], rtol=1e-12)
    np.testing.assert_allclose(by_distance[1], [1, 2], rtol=1e-12)


def test_nothing_learnt_falls_back_to_the_weighted_mean() -> None:
    """Client 2 was never seen with anyone: the mean of those who came speaks for it.

    Examples 1, 3, 4 and weighting by examples: q = (1, 3, 4).
    Round 0: D0 = (4, 0), D1 = (0, 4). The mean is (1 (4, 0) + 3 (0, 4))/4 = (1, 3), and
        step = 1/8 (4, 0) + 3/8 (0, 4) + 4/8 (1, 3) = (1/2 + 1/2, 3/2 + 3/2) = (1, 3):
        FDMS that has learnt nothing is the mean of those who came.
    """
    steps, applied = play(
        Strategy(compensator=FDMS(), weighting="examples"),
        3,
        [{0: (4, 0), 1: (0, 4)}],
        n_examples=[1.0, 3.0, 4.0],
    )
    np.testing.assert_allclose(steps, [[1, 3]], rtol=1e-12)
    assert spoke_for(applied[0]) == {0: 0, 1: 1, 2: -1}

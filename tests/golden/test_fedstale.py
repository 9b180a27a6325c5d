"""FedStale by hand: with estimated and with known rates, and with a decaying step."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.golden.run import play
from understudy import FedAvgIS, FedStale, FedVARP, Local, Strategy, constant, inverse_time

SCRIPT = [{0: (6, 0), 1: (3, 0)}, {1: (9, 0)}, {0: (12, 0)}, {}, {0: (3, 0), 2: (9, 0)}]


@pytest.mark.parametrize(
    ("compensator", "schedule", "expected"),
    [
        (FedStale(0.5), constant, [3, 4, 5.5, 0, 5]),
        (FedStale(1.0, "known"), constant, [8, 11, 9, 0, 4]),
        (FedStale(0.5), inverse_time, [3, 3.5, 5, 0, 4.5]),
    ],
    ids=["estimated", "known", "decaying"],
)
def test_three_clients(compensator, schedule, expected) -> None:
    """(1/3) [sum_{came} (D_i - beta y_i)/p_i + beta sum_j y_j], then y_i = D_i.

    beta = 1/2, 1/p_i the mean interval of i's participations:
    t=0, 0 and 1 with 6, 3:  (6 + 3)/3 = 3.                                       y = (6, 3, 0)
    t=1, 1 with 9:           (9 - 1.5 + 9/2)/3 = 4.                               y = (6, 9, 0)
    t=2, 0 with 12:          (12 - 3 + 15/2)/3 = 5.5.                             y = (12, 9, 0)
    t=3, nobody:             no step.
    t=4, 0 and 2 with 3, 9:  intervals of 0 are 1 and 2, 1/p_0 = 1.5;
                             (1.5 (3 - 6) + 9 + 21/2)/3 = 5.

    beta = 1, p = (1/2, 1/4, 1):
    t=0: (12 + 12)/3 = 8.   t=1: (4 (9 - 3) + 9)/3 = 11.   t=2: (2 (12 - 6) + 15)/3 = 9.
    t=4: (2 (3 - 12) + 9 + 21)/3 = 4.

    A local step of .1/(u + 1) after u updates, beta = 1/2; y takes eta_t/eta_s:
    t=1, u=1: y = (3, 1.5, 0):   (9 - .75 + 4.5/2)/3 = 3.5.
    t=2, u=2: y = (2, 6, 0):     (12 - 1 + 8/2)/3 = 5.
    t=4, u=3: y = (9, 4.5, 0):   (1.5 (3 - 4.5) + 9 + 13.5/2)/3 = 4.5.
    """
    strategy = Strategy(compensator=compensator, local=Local(lr=0.1, schedule=schedule))
    steps, _ = play(strategy, 3, SCRIPT, p=[0.5, 0.25, 1.0])
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)


def test_its_two_ends() -> None:
    """beta = 0 is importance sampling; beta = 1 with p_i = |A|/N is FedVARP, here |A| = 2 of 4."""
    script = [{0: (3, 1), 1: (5, 2)}, {2: (7, 0), 1: (4, 4)}, {0: (1, 1), 3: (2, 6)}]
    half = [0.5] * 4
    for compensator, same in (
        (FedStale(0.0, "known"), FedAvgIS()),
        (FedStale(1.0, "known"), FedVARP()),
    ):
        ours, theirs = (
            play(Strategy(compensator=one), 4, script, p=half)[0] for one in (compensator, same)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_known_rates_have_to_be_given() -> None:
    with pytest.raises(ValueError, match=re.escape("give Population(p=...), or")):
        play(Strategy(compensator=FedStale(rates="known")), 2, [])


def test_one_that_came_against_all_odds_has_no_fresh_term() -> None:
    """p_0 = 0: its update is remembered; the other has D_1/p_1 = 4/(1/2), halved."""
    strategy = Strategy(compensator=FedStale(1.0, "known"))
    steps, applied = play(strategy, 2, [{0: (9, 0), 1: (4, 0)}, {1: (4, 0)}], p=[0.0, 0.5])
    assert steps[0][0] == pytest.approx(4)
    assert applied[0].notes["fedstale_impossible"] == 1
    assert steps[1][0] == pytest.approx((2 * (4 - 4) + 13) / 2)

"""FedAR by hand: both readings of psi, with and without the cut-off."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from tests.golden.run import play
from understudy import FedAR, Local, Strategy
from understudy.parts.schedules import inverse_time

# four clients; client 3 is never seen, so it never counts in N_t
SCRIPT = [
    {0: (3, 1), 1: (6, 1), 2: (9, 1)},
    {0: (3, 1)},
    {0: (0, 1), 1: (3, 1)},
    {0: (3, 1)},
    {},
    {1: (6, 1)},
]


def two_rounds(t: int) -> float:
    return 2.0


POWER = [
    [6, 1],
    [1 + 5 * sqrt(2), (1 + 2 * sqrt(2)) / 3],
    [1 + 3 * sqrt(3), (2 + sqrt(3)) / 3],
    [7 + sqrt(2), (3 + sqrt(2)) / 3],
    [0, 0],
    [8 + sqrt(3), (3 + sqrt(3)) / 3],
]
POWER_CUT = [
    *POWER[:3],
    [(3 + 3 * sqrt(2)) / 2, (1 + sqrt(2)) / 2],
    [0, 0],
    [3 + 1.5 * sqrt(3), (1 + sqrt(3)) / 2],
]
LINEAR = [[6, 1], [8.5, 4 / 3], [7, 4 / 3], [8.5, 1.5], [0, 0], [10, 5 / 3]]
LINEAR_CUT = [*LINEAR[:3], [3.75, 1.25], [0, 0], [6, 1.5]]


@pytest.mark.parametrize(
    ("psi", "cutoff", "expected"),
    [
        ("power", None, POWER),
        ("power", two_rounds, POWER_CUT),
        ("linear", None, LINEAR),
        ("linear", two_rounds, LINEAR_CUT),
    ],
)
def test_psi_and_cut(psi, cutoff, expected) -> None:
    """rho = .5, constant step. psi(age): power min(sqrt(age + 1), 2), linear min(1 + age/2, 2).

    age:      0   1         2         3                  5
    power     1   sqrt 2    sqrt 3    2                  2 (of 2.45)
    linear    1   1.5       2         2 (of 2.5)         2 (of 3.5)
    cut at 2:                         0                  0

    First entries (the second are those of updates that are always 1, so they add up psi / N_t).
    t=0, 0 1 2 come:  (3 + 6 + 9)/3 = 6: client 3 was never seen and is not in N_t = 3.
    t=1, 0 comes:     ages 0 1 1.    (3 + psi(1) (6 + 9))/3: 1 + 5 sqrt 2; 1 + 7.5 = 8.5.
    t=2, 0 1 come:    ages 0 0 2.    (0 + 3 + psi(2) 9)/3: 1 + 3 sqrt 3; 1 + 6 = 7.
    t=3, 0 comes:     ages 0 1 3.    (3 + psi(1) 3 + psi(3) 9)/3: 7 + sqrt 2; 25.5/3 = 8.5.
                      cut: client 2 is out, N_t = 2: (3 + 3 sqrt 2)/2; (3 + 4.5)/2 = 3.75.
    t=4, nobody:      no step, but ages go on.
    t=5, 1 comes:     ages 2 0 5.    (psi(2) 3 + 6 + psi(5) 9)/3: 8 + sqrt 3; (6 + 6 + 18)/3 = 10.
                      cut: (3 sqrt 3 + 6)/2 = 3 + 1.5 sqrt 3; (6 + 6)/2 = 6.
    """
    strategy = Strategy(compensator=FedAR(rho=0.5, cutoff=cutoff, psi=psi))
    steps, applied = play(strategy, 4, SCRIPT)
    np.testing.assert_allclose(steps, expected, rtol=1e-12, atol=1e-12)
    assert [one.stepped for one in applied] == [True, True, True, True, False, True]


def test_old_updates_are_rescaled_to_the_current_step() -> None:
    """Local step eta_t = .1/(t + 1), rho = 0 (psi = 1 at any age), two clients.

    t=0: D0 = 2, D1 = 6:             (2 + 6)/2 = 4.
    t=1: D0 = 2; eta_1/eta_0 = 1/2:  (2 + 6/2)/2 = 2.5.
    t=2: D1 = 3; client 0 of t=1, eta_2/eta_1 = 2/3:  (2 * 2/3 + 3)/2 = 13/6.
    """
    local = Local(lr=0.1, schedule=inverse_time)
    script = [{0: (2, 0), 1: (6, 0)}, {0: (2, 0)}, {1: (3, 0)}]
    steps, _ = play(Strategy(compensator=FedAR(rho=0.0), local=local), 2, script)
    np.testing.assert_allclose(steps, [[4, 0], [2.5, 0], [13 / 6, 0]], rtol=1e-12, atol=1e-15)

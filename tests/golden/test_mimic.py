"""MimiC by hand: each update is corrected by what it lacked of the common one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.run import play
from understudy import Local, MimiC, Sgd, Strategy, constant, inverse_time

SCRIPT = [{0: (6, 0), 1: (3, 0)}, {1: (9, 0)}, {0: (12, 0), 2: (3, 0)}, {}, {0: (3, 0), 1: (6, 0)}]


@pytest.mark.parametrize(
    ("weighting", "schedule", "expected"),
    [
        ("clients", constant, [4.5, 10.5, 6.75, 0, 2.625]),
        ("examples", constant, [4.5, 10.5, 5.5, 0, 2]),
        ("clients", inverse_time, [4.5, 9.75, 7.25, 0, 2.90625]),
    ],
)
def test_three_clients(weighting, schedule, expected) -> None:
    """The mean of D_i - (D_i^last - U_i^last) over those who came.

    t=0, 0 and 1 with 6, 3:   new to it: U = 4.5.                     6 - U = 1.5, 3 - U = -1.5
    t=1, 1 with 9:            9 + 1.5 = 10.5.                         9 - U = -1.5
    t=2, 0 and 2 with 12, 3:  (12 - 1.5 + 3)/2 = 6.75.                5.25 and -3.75
    t=3, nobody:              no step.
    t=4, 0 and 1 with 3, 6:   (3 - 5.25 + 6 + 1.5)/2 = 2.625.

    Examples (1, 1, 2):  t=2: (10.5 + 2 * 3)/3 = 5.5, 12 - U = 6.5.   t=4: (3 - 6.5 + 7.5)/2 = 2.

    A local step of .1/(u + 1) after u updates; what is remembered takes eta_t/eta_s:
    t=1, u=1: 9 + 1.5/2 = 9.75, 9 - U = -.75.
    t=2, u=2: (12 - 1.5/3 + 3)/2 = 7.25, 12 - U = 4.75.
    t=4, u=3: (3 - 4.75 * 3/4 + 6 + .75 * 2/4)/2 = 2.90625.
    """
    local = Local(lr=0.1, schedule=schedule)
    strategy = Strategy(compensator=MimiC(), weighting=weighting, local=local)
    steps, _ = play(strategy, 3, SCRIPT, n_examples=[1.0, 1.0, 2.0])
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)


def test_a_servers_step_scales_all_rounds_alike() -> None:
    """Its own part is not mimicked: with 2 each step is twice as long, and none grows by it."""
    once, _ = play(Strategy(compensator=MimiC()), 3, SCRIPT)
    twice, _ = play(Strategy(compensator=MimiC(), server=Sgd(2.0)), 3, SCRIPT)
    np.testing.assert_allclose(twice, 2 * np.array(once), rtol=1e-12)


def test_with_everybody_there_it_is_fedavg() -> None:
    """The corrections sum to zero."""
    rng = np.random.default_rng(0)
    script = [dict(enumerate(rng.normal(size=(3, 2)).tolist())) for _ in range(5)]
    steps, _ = play(Strategy(compensator=MimiC()), 3, script)
    plain, _ = play(Strategy(), 3, script)
    np.testing.assert_allclose(steps, plain, rtol=1e-12, atol=1e-14)

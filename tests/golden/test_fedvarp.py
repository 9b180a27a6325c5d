"""FedVARP by hand, for equal clients and for clients weighed by their examples."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.run import play
from understudy import FedVARP, Local, Strategy, inverse_time

SCRIPT = [{0: (3, 0), 1: (6, 0)}, {1: (12, 0), 2: (3, 0)}, {0: (0, 0)}, {}, {2: (6, 0)}]


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("clients", [4.5, 7.5, 3, 0, 8]), ("examples", [4.5, 6.25, 2.25, 0, 7.5])],
)
def test_three_clients(weighting, expected) -> None:
    """Three clients: sum_j w_j y_j + sum_{came} w_i (D_i - y_i) / sum_{came} w, then y_i = D_i.

    Equal weights, w = 1/3:
    t=0, 0 and 1 come with 3, 6:  0 + (3 + 6)/2 = 4.5.                        y = (3, 6, 0)
    t=1, 1 and 2 come with 12, 3: 9/3 + ((12 - 6) + (3 - 0))/2 = 3 + 4.5.     y = (3, 12, 3)
    t=2, 0 comes with 0:          18/3 + (0 - 3) = 3.                         y = (0, 12, 3)
    t=3, nobody:                  no step, y stays.
    t=4, 2 comes with 6:          15/3 + (6 - 3) = 8.

    Examples (1, 1, 2), w = (1/4, 1/4, 1/2):
    t=0: 0 + (3 + 6)/2 = 4.5.
    t=1: (3 + 6 + 0)/4 + (1 * 6 + 2 * 3)/3 = 2.25 + 4 = 6.25.
    t=2: (3 + 12 + 2 * 3)/4 - 3 = 5.25 - 3 = 2.25.
    t=4: (0 + 12 + 2 * 3)/4 + 3 = 4.5 + 3 = 7.5.
    """
    strategy = Strategy(compensator=FedVARP(), weighting=weighting)
    steps, applied = play(strategy, 3, SCRIPT, n_examples=[1.0, 1.0, 2.0])
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)
    assert [one.stepped for one in applied] == [True, True, True, False, True]


def test_a_decaying_step() -> None:
    """The local step is .1/(u + 1) after u updates; y_j counts eta_t/eta_s of its value.

    t=0, u=0, 0 and 1 come with 3, 6:  0 + (3 + 6)/2 = 4.5.
    t=1, u=1, all of y counts 1/2, (1.5, 3, 0). 1 and 2 come with 12, 3:
         4.5/3 + ((12 - 3) + (3 - 0))/2 = 1.5 + 6 = 7.5.              y = (3 of u=0, 12, 3 of u=1)
    t=2, u=2: y counts 1/3 or 2/3, (1, 8, 2). 0 comes with 0: 11/3 + (0 - 1) = 8/3.
         y = (0 of u=2, 12, 3 of u=1)
    t=3, nobody: no step, and no decay.
    t=4, u=3: y counts 3/4 or 2/4, (0, 6, 1.5). 2 comes with 6: 7.5/3 + (6 - 1.5) = 7.
    """
    local = Local(lr=0.1, schedule=inverse_time)
    steps, _ = play(Strategy(compensator=FedVARP(), local=local), 3, SCRIPT)
    expected = [4.5, 7.5, 8 / 3, 0, 7]
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)

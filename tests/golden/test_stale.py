"""Stale by hand: an old update takes the current local step, and an idle round changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.run import play
from understudy import Local, Stale, Strategy
from understudy.parts.schedules import constant, inverse_time

SCRIPT = [{0: (4, 0), 1: (6, 0)}, {1: (2, 0)}, {}, {0: (8, 0)}]


@pytest.mark.parametrize(
    ("kind", "schedule", "expected"),
    [
        ("update", constant, [5, 3, 0, 5]),
        ("update", inverse_time, [5, 2, 0, 14 / 3]),
        ("model", constant, [5, 0.5, 0, 4.75]),
        ("model", inverse_time, [5, 0.5, 0, 4.75]),
    ],
)
def test_two_clients(kind, schedule, expected) -> None:
    """Two clients; w is the model, 0 at first. The decaying step is .1/(u + 1) after u updates.

    t=0, 0 and 1 come with 4, 6: (4 + 6)/2 = 5.                       w = 5
    t=1, u=1, 1 comes with 2, 0 stands with 4: (4 + 2)/2 = 3;
         decaying, 4 counts 1/2: (2 + 2)/2 = 2.
         As models, 0 stands with 4 - w = -1: (-1 + 2)/2 = .5.        w = 5.5
    t=2, nobody comes: no step, no decay.
    t=3, u=2, 0 comes with 8, 1 stands with its 2 of u=1: (8 + 2)/2 = 5;
         decaying, 2 counts 2/3: (8 + 4/3)/2 = 14/3.
         As models, 1 has 5 + 2 = 7 and stands with 7 - 5.5 = 1.5: (8 + 1.5)/2 = 4.75.
    """
    local = Local(lr=0.1, schedule=schedule)
    steps, applied = play(Strategy(compensator=Stale(kind), local=local), 2, SCRIPT)
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)
    assert [one.stepped for one in applied] == [True, True, False, True]

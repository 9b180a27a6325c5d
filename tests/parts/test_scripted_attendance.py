"""One client that leaves and does not come back."""

from __future__ import annotations

import numpy as np
import pytest

from understudy import LastRoundsAway, Population
from understudy.core.rng import generator
from understudy.testing import check_availability, example_population


def attendance(availability, n_clients=5, rounds=9) -> np.ndarray:
    state = availability.init(Population(n_clients))
    return np.array(
        [availability.draw(state, t, generator(0, "availability", t)) for t in range(rounds)]
    )


@pytest.mark.parametrize("rounds_away", range(10))
def test_fedar_s_script(rounds_away):
    """ "Stale i": active in the first 9 − i rounds, inactive in the i rounds after them."""
    came = attendance(LastRoundsAway(0, rounds_away))
    assert came[:, 1:].all()
    np.testing.assert_array_equal(came[:, 0], [t < 9 - rounds_away for t in range(9)])


def test_another_client_of_a_longer_run():
    came = attendance(LastRoundsAway(client=3, rounds_away=2, rounds=4), rounds=6)
    np.testing.assert_array_equal(came[:, 3], [True, True, False, False, False, False])
    assert came[:, :3].all()
    assert attendance(LastRoundsAway(rounds_away=0), rounds=20).all()


def test_rates_are_the_attendance():
    availability = LastRoundsAway(client=1, rounds_away=1, rounds=2)
    state = availability.init(Population(2))
    np.testing.assert_array_equal(availability.rates(state, 0), [1, 1])
    np.testing.assert_array_equal(availability.rates(state, 1), [1, 0])
    check_availability(availability, example_population(2))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"rounds_away: .*<= 9, got 10"):
        LastRoundsAway(rounds_away=10)
    with pytest.raises(ValueError, match=r"client: .*-1"):
        LastRoundsAway(client=-1)
    with pytest.raises(ValueError, match=r"rounds: .*0"):
        LastRoundsAway(rounds=0, rounds_away=0)
    with pytest.raises(ValueError, match=r"client: .*<= 2, got 3"):
        LastRoundsAway(client=3).init(Population(3))

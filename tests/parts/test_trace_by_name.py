"""Clients that follow the recorded device of their own name."""

import numpy as np
import pytest

from understudy import Population, Trace
from understudy.core.describe import describe

LINES = """device,t_s,state
south,0,AVL_TRAIN
north,10,AVL_TRAIN
east,0,UN_AVL
south,10,UN_AVL
north,20,UN_AVL
"""


@pytest.fixture
def trace(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(LINES)
    return Trace(file, seconds_per_round=10, drop_first_seconds=0, by_name=True)


def test_each_client_is_the_device_of_its_name(trace):
    state = trace.init(Population(2, names=("north", "south")))
    rng = np.random.default_rng(0)
    drawn = [trace.draw(state, t, rng).tolist() for t in range(4)]
    assert drawn == [[False, True], [True, False], [False, True], [True, False]]


def test_a_client_without_a_device_is_an_error(trace):
    with pytest.raises(ValueError, match=r"by_name: .*t.csv has no device 'west' and 1 more cli"):
        trace.init(Population(3, names=("north", "west", "x")))
    with pytest.raises(ValueError, match="by_name: expected clients with names, got a federation"):
        trace.init(Population(2))


def test_a_trace_whose_devices_are_dealt_is_described_as_before():
    assert "by_name" not in describe(Trace("t.csv"))
    assert describe(Trace("t.csv", by_name=True))["by_name"] is True

"""A part that refuses to let a client go: the run ends, and nothing of the client has changed."""

import pytest

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import first_arrays, play, toy_app
from tests.server.test_retired_clients import Fixed
from understudy import MIFA, Strategy
from understudy.flower import UnderstudyStrategy


def test_roster_and_state_stay_as_they_were(tmp_path):
    strategy, folder = Strategy(sampler=Fixed(3), compensator=MIFA()), tmp_path / "run"
    grid = LoopbackGrid(nodes_of(toy_app(), 3))
    play(grid, strategy, rounds=1, folder=folder)
    again = LoopbackGrid(nodes_of(toy_app(), 3, first_id=200), grid.time)
    adapter = UnderstudyStrategy(
        strategy, folder=folder, retired=["1"], wait=10.0, clock=grid.time.clock()
    )
    with pytest.raises(ValueError, match="expected 3 clients, got 2"):
        adapter.start(again, first_arrays(), num_rounds=2)
    server = adapter.server
    assert [client.retired for client in server.roster.clients] == [False] * 3
    assert server.state.n_examples.tolist() == [1.0, 2.0, 3.0]
    assert server.state.active.all()
    last = LoopbackGrid(nodes_of(toy_app(), 3, first_id=300), grid.time)
    assert play(last, strategy, rounds=2, folder=folder).history == [dict.fromkeys("012", "came")]

"""A strategy object plays one run: its state is closed when `start` returns."""

import json

import pytest

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import first_arrays, play, toy_app
from understudy.flower import UnderstudyStrategy
from understudy.memory.run_folder import ABOUT


def test_a_second_start_is_refused_and_changes_nothing(tmp_path):
    folder, grid = tmp_path / "run", LoopbackGrid(nodes_of(toy_app(), 2))
    adapter = play(grid, rounds=2, folder=folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    words = (
        r"start: this UnderstudyStrategy has ended its run, after round 2; make a new one\. "
        rf"With folder='{folder}' it resumes after that round"
    )
    with pytest.raises(RuntimeError, match=words):
        adapter.start(grid, first_arrays(), num_rounds=4)
    assert {path: path.read_bytes() for path in before} == before
    assert json.loads((folder / ABOUT).read_text())["status"] == "done"
    again = play(LoopbackGrid(nodes_of(toy_app(), 2), grid.time), rounds=4, folder=folder)
    assert sorted(again.result.train_metrics_clientapp) == [1, 2, 3, 4]


def test_without_a_folder_the_remedy_names_one():
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    adapter = play(grid, rounds=1)
    with pytest.raises(RuntimeError, match=r"make a new one\. With a `folder` it would resume"):
        adapter.start(grid, first_arrays(), num_rounds=2)


def test_another_loop_cannot_go_on_either():
    """As a wrapper would that calls Flower's four methods after `start`."""
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    adapter = play(grid, rounds=1)
    with pytest.raises(RuntimeError, match="has ended its run, after round 1"):
        adapter.configure_train(2, adapter.result.arrays, {}, grid)


def test_a_start_that_failed_before_the_first_round_is_over_too():
    grid = LoopbackGrid([])
    adapter = UnderstudyStrategy(wait=1.0, clock=grid.time.clock())
    with pytest.raises(RuntimeError, match="no client to start with"):
        adapter.start(grid, first_arrays())
    with pytest.raises(RuntimeError, match="has ended its run, after round 0"):
        adapter.start(grid, first_arrays())

"""Newcomers that there is no room for: turned away with a reason, and the run goes on."""

import json

import pytest
import torch

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.test_resume import saved
from tests.flower.toy import play, refusals, toy_app
from understudy import (
    MIFA,
    Arrivals,
    FedGS,
    MoreDataFirst,
    Population,
    Reason,
    Strategy,
    fedavg,
)
from understudy.flower import Limits, introduction
from understudy.flower.clients.newcomers import refused_newcomers
from understudy.parts.samplers import fedgs
from understudy.server import checkpoint, strategy

QUIET = {"fraction_evaluate": 0.0}
GRAPH = Strategy(sampler=FedGS(m=2, graph="updates"), compensator=MIFA(wait=False))


def stored_ids(folder):
    """The roster on disk, which has as many clients as the state."""
    numbers = checkpoint.numbers_of(folder / "server")
    return [client["id"] for client in json.loads(numbers["extra.roster"])]


def joining(grid, nodes, after):
    """Nodes connect after a round."""

    def after_round(t):
        if t == after:
            grid.nodes |= {node.id: node for node in nodes}

    return after_round


def test_no_more_clients_join_than_the_limit_allows(tmp_path, caplog):
    nodes = nodes_of(toy_app(), 5)
    grid = LoopbackGrid(nodes[:4])
    options = {"folder": tmp_path / "run", **QUIET}
    adapter = play(
        grid,
        rounds=4,
        limits=Limits(n_clients=3),
        after_round=joining(grid, nodes[4:], 0),
        **options,
    )
    assert adapter.history == [dict.fromkeys("012", "came")] * 4
    assert adapter.server.state.n_clients == 3
    assert stored_ids(tmp_path / "run") == ["0", "1", "2"]
    assert refusals(tmp_path / "run") == [
        (0, "node 103", Reason.NO_ROOM),
        (2, "node 104", Reason.NO_ROOM),  # after it has introduced itself
    ]
    words = "'3' would be one more than Limits(n_clients=3) allows"
    assert caplog.text.count(words) == 1
    asked = [message.metadata.dst_node_id for message in grid.sent]
    assert (asked.count(103), asked.count(104)) == (1, 1)  # who they are, and no more

    again = play(LoopbackGrid(nodes), rounds=5, limits=Limits(n_clients=4), **options)
    assert again.history == [dict.fromkeys("0123", "came")]
    again = play(LoopbackGrid(nodes), rounds=6, limits=Limits(n_clients=None), **options)
    assert again.history == [dict.fromkeys("01234", "came")]
    # fewer than have joined: they stay
    again = play(LoopbackGrid(nodes), rounds=7, limits=Limits(n_clients=1), **options)
    assert again.history == [dict.fromkeys("01234", "came")]


def test_expected_clients_are_no_newcomers():
    nodes = nodes_of(toy_app(), 3)
    adapter = play(
        LoopbackGrid(nodes), clients=("2", "1"), limits=Limits(n_clients=1), rounds=2, **QUIET
    )
    assert adapter.history == [{"2": "came", "1": "came"}] * 2
    assert Limits().n_clients == 10_000
    with pytest.raises(ValueError, match="n_clients"):
        Limits(n_clients=0)


def test_newcomers_that_a_part_refuses_to_grow_for_are_turned_away(tmp_path, monkeypatch, caplog):
    """FedGS has a largest number of clients. Two come at once, and there is room for one."""
    monkeypatch.setattr(fedgs, "MAX_SPARSE_CLIENTS", 3)
    nodes = nodes_of(toy_app(), 4)
    grid = LoopbackGrid(nodes[:2])
    options = {"folder": tmp_path / "run", **QUIET}
    adapter = play(
        grid, GRAPH, rounds=5, after_round=joining(grid, [nodes[3], nodes[2]], 0), **options
    )
    assert [client.id for client in adapter.server.roster.clients] == ["0", "1", "2"]
    assert adapter.server.state.n_clients == 3
    assert "2" in {one for round_ in adapter.history for one in round_}
    assert refusals(tmp_path / "run") == [(2, "node 103", Reason.NO_ROOM)]
    assert caplog.text.count("'3' cannot join: FedGS: expected at most 3 clients") == 1
    assert [message.metadata.dst_node_id for message in grid.sent].count(103) == 1
    assert stored_ids(tmp_path / "run") == ["0", "1", "2"]

    again = play(LoopbackGrid(nodes), GRAPH, rounds=6, **options)  # turned away once more
    assert again.server.state.n_clients == 3
    assert refusals(tmp_path / "run")[1:] == [(5, "node 103", Reason.NO_ROOM)]
    assert stored_ids(tmp_path / "run") == ["0", "1", "2"]

    monkeypatch.setattr(fedgs, "MAX_SPARSE_CLIENTS", 4)
    later = play(LoopbackGrid(nodes), GRAPH, rounds=9, **options)
    assert stored_ids(tmp_path / "run") == ["0", "1", "2", "3"]
    assert "3" in {one for round_ in later.history for one in round_}


def test_a_federation_begins_with_those_that_a_part_accepts(tmp_path, monkeypatch):
    monkeypatch.setattr(fedgs, "MAX_SPARSE_CLIENTS", 3)
    nodes = nodes_of(toy_app(), 6)
    adapter = play(LoopbackGrid(nodes), GRAPH, rounds=2, folder=tmp_path / "run", **QUIET)
    assert [client.id for client in adapter.server.roster.clients] == ["0", "1", "2"]
    assert refusals(tmp_path / "run") == [
        (0, f"node {number}", Reason.NO_ROOM) for number in (103, 104, 105)
    ]


def test_a_turned_away_newcomer_leaves_no_trace_in_the_state(monkeypatch):
    """The same as a federation that it never connected to."""
    monkeypatch.setattr(fedgs, "MAX_SPARSE_CLIENTS", 3)
    nodes = nodes_of(toy_app(), 5)
    grid = LoopbackGrid(nodes[:3])
    late = joining(grid, nodes[3:], 0)
    crowded = play(grid, GRAPH, rounds=5, after_round=late, **QUIET)
    alone = play(LoopbackGrid(nodes_of(toy_app(), 3)), GRAPH, rounds=5, **QUIET)
    assert saved(crowded.server.state) == saved(alone.server.state)


def test_newcomers_that_the_simulated_absence_cannot_place_are_turned_away(tmp_path):
    """MoreDataFirst needs everyone's size. One of two newcomers tells it."""

    def size(context):
        number = context.node_config["partition-id"]
        return None if number == 2 else 10 * (number + 1)

    app = toy_app(mods=[introduction(n_examples=size)])
    nodes = nodes_of(app, 4)
    grid = LoopbackGrid(nodes[:2])
    options = {
        "clients": ("0", "1"),
        "population": Population(2, n_examples=[10, 20]),
        "availability": MoreDataFirst(beta=0.0),
        "folder": tmp_path / "run",
        **QUIET,
    }
    adapter = play(grid, fedavg(), rounds=5, after_round=joining(grid, nodes[2:], 0), **options)
    assert adapter.history[-1] == dict.fromkeys("013", "came")
    assert stored_ids(tmp_path / "run") == ["0", "1", "3"]
    assert refusals(tmp_path / "run") == [(2, "node 102", Reason.NO_ROOM)]
    sizes = adapter.server.state.population.n_examples
    assert sizes.tolist() == [10.0, 20.0, 40.0]  # each has its own


def test_one_that_is_refused_keeps_nobody_else_out():
    tried = []

    def accept(numbers):
        tried.append(list(numbers))
        if 4 in numbers:
            raise ValueError("not this one")
        if len(numbers) > 6:
            raise MemoryError

    assert refused_newcomers(2, 9, accept) == {
        4: "not this one",
        7: "MemoryError",
        8: "MemoryError",
    }
    assert all(numbers[:2] == [0, 1] for numbers in tried)
    assert refused_newcomers(3, 3, accept) == {}

    def nobody(numbers):
        raise ValueError(f"not {len(numbers)}")

    assert refused_newcomers(1, 3, nobody) == {1: "not 2", 2: "not 2"}
    with pytest.raises(ValueError, match="not 3"):  # a mistake in the strategy, not in a client
        refused_newcomers(0, 3, nobody)


@pytest.mark.parametrize("folder", [False, True])
def test_growing_is_all_or_nothing(folder, tmp_path, monkeypatch):
    place = tmp_path / "run" if folder else None
    state = GRAPH.init(Population(3), torch.zeros(2), folder=place)
    cohort = GRAPH.select(state, [True] * 3)
    sizes = [10] * len(cohort.asked)
    GRAPH.apply(state, cohort, Arrivals(cohort.asked, torch.ones(len(sizes), 2), n_examples=sizes))
    state.n_examples[:] = 10.0
    before = saved(state)
    monkeypatch.setattr(fedgs, "MAX_SPARSE_CLIENTS", 3)
    for check in (GRAPH.grow, GRAPH.check_grow):
        with pytest.raises(ValueError, match="at most 3 clients"):
            check(state, Population(4))
    monkeypatch.undo()
    GRAPH.check_grow(state, Population(4))

    grow_part, calls = strategy.grow_part, []

    def full(old, new):
        calls.append(old)
        if len(calls) == 3:  # sampler and compensator have grown
            raise OSError("no space left on the disk")
        return grow_part(old, new)

    monkeypatch.setattr(strategy, "grow_part", full)
    with pytest.raises(OSError, match="no space"):
        GRAPH.grow(state, Population(4))
    assert saved(state) == before
    assert state.sampler.first.n_rows == 3
    monkeypatch.undo()
    GRAPH.grow(state, Population(4))
    assert state.n_clients == state.sampler.first.n_rows == 4
    state.close()

"""Who is who: ids that outlive nodes, and newcomers."""

import ast
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

import understudy.flower
from tests.flower.loopback import LoopbackGrid, Node, config_of, nodes_of
from tests.flower.toy import first_arrays, moved, play, reply_of, toy_app
from understudy import MIFA, Population, Strategy, fdms, fedavg_is, fedgs
from understudy.flower import UnderstudyStrategy, introduction
from understudy.flower.clients.identity import Node as There
from understudy.flower.clients.identity import order
from understudy.flower.clients.roster import Roster


def test_ids_in_the_order_of_preference():
    def called(node, claim=None, keys=None):
        return Roster(keys=keys).identity(node, claim, {})

    node = There(9, name="hospital", key="ab" * 32)
    assert called(node, "client-7") == ("hospital", True)
    assert called(node, "client-7", keys=False) == ("client-7", False)
    assert called(There(9, key="ab" * 32), "client-7") == ("client-7", False)
    assert called(There(9, key="ab" * 32)) == ("key-" + "ab" * 8, False)
    assert called(There(9)) == ("node-9", False)
    assert sorted(["10", "2", "b", "a", "1"], key=order) == ["1", "2", "10", "a", "b"]


def test_numbers_do_not_depend_on_who_comes_first():
    nodes = nodes_of(toy_app(), 12)
    adapter = play(LoopbackGrid(reversed(nodes)))
    assert [client.id for client in adapter.server.roster.clients] == [str(i) for i in range(12)]


def test_a_client_that_restarts_under_a_new_node_id_keeps_its_number_and_memory():
    nodes = nodes_of(toy_app(), 3)
    grid = LoopbackGrid(nodes)

    def after_round(t):
        if t == 0:  # without keys: a new node id at every start
            del grid.nodes[nodes[1].id]
            grid.nodes[555] = Node(555, nodes[1].app, nodes[1].config)

    adapter = play(
        grid,
        Strategy(compensator=MIFA(wait=False)),
        rounds=3,
        after_round=after_round,
        fraction_evaluate=0.0,
    )
    assert adapter.history == [
        {"0": "came", "1": "came", "2": "came"},
        {"0": "came", "1": "unavailable", "2": "came"},  # while it introduces itself
        {"0": "came", "1": "came", "2": "came"},
    ]
    assert adapter.server.state.n_clients == 3
    assert adapter.server.roster.clients[1].node == 555
    np.testing.assert_allclose(
        adapter.result.arrays["w"].numpy(), np.full(3, 3 * 14 / 6), rtol=1e-6
    )


def test_while_the_dead_node_still_looks_connected_the_newest_one_counts():
    nodes = nodes_of(toy_app(), 3)
    grid = LoopbackGrid(nodes)

    def after_round(t):
        if t == 0:
            nodes[1].silent = lambda message: True  # killed: it looks connected for a minute
            grid.nodes[555] = Node(555, nodes[1].app, nodes[1].config)

    adapter = play(grid, rounds=5, after_round=after_round, fraction_evaluate=0.0)
    assert [one["1"] for one in adapter.history] == ["came", "missing", "came", "came", "came"]
    asked = [m.metadata.dst_node_id for m in grid.sent]
    assert asked.count(nodes[1].id) == 3  # introduction, round 0, round 1; then it is left alone


def test_new_clients_join_at_any_round():
    nodes = nodes_of(toy_app(), 4)
    grid = LoopbackGrid(nodes[:2])

    def after_round(t):
        if t in (0, 2):
            node = nodes[2 if t == 0 else 3]
            grid.nodes[node.id] = node

    adapter = play(grid, fdms(), rounds=6, after_round=after_round, fraction_evaluate=0.0)
    assert [sorted(one) for one in adapter.history] == [
        ["0", "1"],
        ["0", "1"],  # client 2 introduces itself meanwhile
        ["0", "1", "2"],
        ["0", "1", "2"],
        ["0", "1", "2", "3"],
        ["0", "1", "2", "3"],
    ]
    assert set(adapter.history[-1].values()) == {"came"}


def test_expected_clients_have_their_numbers_before_they_come():
    nodes = nodes_of(toy_app(), 3)
    grid = LoopbackGrid(nodes[1:])
    adapter = play(grid, clients=("2", "1", "0"), rounds=1)
    assert adapter.history == [{"2": "came", "1": "came", "0": "unavailable"}]


def test_a_declared_population_that_nobody_can_describe_newcomers_in_is_closed():
    nodes = nodes_of(toy_app(), 3)
    known = Population(2, p=[0.5, 1.0])
    alike = fedavg_is(weighting="clients")
    adapter = play(LoopbackGrid(nodes), alike, clients=("0", "1"), population=known)
    assert adapter.history == [{"0": "came", "1": "came"}]
    np.testing.assert_allclose(adapter.result.arrays["w"].numpy(), np.full(3, (2 * 1 + 2) / 2))
    with pytest.raises(ValueError, match="population: expected one of 1 clients"):
        UnderstudyStrategy(clients=("0",), population=known)


def test_the_mod_tells_the_label_histograms_that_fedgs_needs():
    def counts(context):
        return [10.0, 0.0] if context.node_config["partition-id"] % 2 else [0.0, 10.0]

    app = toy_app(mods=[introduction(counts, lambda context: 10)])
    adapter = play(LoopbackGrid(nodes_of(app, 6)), fedgs(m=2), rounds=3, fraction_evaluate=0.0)
    told = adapter.server.state.label_counts
    assert told.tolist() == [[0, 10], [10, 0]] * 3
    assert [len(one) for one in adapter.history] == [2, 2, 2]
    with pytest.raises(ValueError, match="label_counts"):
        play(LoopbackGrid(nodes_of(toy_app(), 6)), fedgs(m=2, graph="labels"))


def test_an_app_that_knows_no_introductions_trains_and_that_counts_in_round_0():
    trained = []

    def behave(message, context):
        trained.append((context.node_id, config_of(message)["server-round"]))
        return reply_of(message, moved(message.content.array_records["arrays"], 1.0))

    nodes = nodes_of(toy_app(behave, mods=[]), 3)
    for number, node in enumerate(nodes):
        node.name, node.key = f"hospital-{number}", f"key {number}".encode()
    adapter = play(LoopbackGrid(nodes), rounds=2)
    assert list(adapter.history[0]) == ["hospital-0", "hospital-1", "hospital-2"]
    assert adapter.history[0] == adapter.history[1]
    assert sorted(trained) == [(node.id, t) for node in nodes for t in (1, 2)]  # none in vain
    np.testing.assert_allclose(adapter.result.arrays["w"].numpy(), np.full(3, 2.0))


def test_who_cannot_say_who_it_is_is_asked_again():
    calls = []

    def fails_at_first(message, context, call):
        calls.append(context.node_id)
        if calls.count(context.node_id) == 1 and context.node_id == 101:
            raise OSError("the data is not mounted yet")
        return introduction()(message, context, call)

    nodes = nodes_of(toy_app(mods=[fails_at_first]), 2)
    adapter = play(LoopbackGrid(nodes), rounds=3, min_available_nodes=1, fraction_evaluate=0.0)
    assert adapter.history == [{"0": "came"}, {"0": "came"}, {"0": "came", "1": "came"}]


def test_without_introductions_clients_are_their_nodes():
    nodes = nodes_of(toy_app(), 2)
    grid = LoopbackGrid(nodes)
    adapter = play(grid, introduce=False, fraction_evaluate=0.0)
    assert list(adapter.history[0]) == ["node-100", "node-101"]
    assert not any("understudy-introduce" in config_of(m) for m in grid.sent)


def test_the_mod_does_not_disturb_the_app():
    """Evaluation passes untouched; what the app itself reports is kept."""

    def behave(message, context):
        reply = reply_of(message, message.content.array_records["arrays"])
        reply.content["understudy"] = ConfigRecord({"num-steps": 3})
        return reply

    grid = LoopbackGrid([])
    app = toy_app(behave)
    content = RecordDict({"arrays": first_arrays(), "config": ConfigRecord({"server-round": 1})})
    message = Message(content, 5, "train")
    context = Context(1, 5, {"client-id": "clinic", "partition-id": 3}, RecordDict(), {})
    reply = app(message, context)
    assert dict(reply.content["understudy"]) == {"client-id": "clinic", "num-steps": 3}
    evaluated = app(Message(content, 5, "evaluate"), context)
    assert "understudy" not in evaluated.content
    assert grid.sent == []


def test_only_public_modules_of_flower_are_used():
    public = {"flwr.app", "flwr.serverapp", "flwr.serverapp.strategy", "flwr.clientapp"}
    found = set()
    for path in Path(understudy.flower.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flwr"):
                found.add(node.module)
            elif isinstance(node, ast.Import):
                found |= {one.name for one in node.names if one.name.startswith("flwr")}
    assert found <= public
    assert "flwr.app" in found

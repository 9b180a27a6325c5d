"""A restarted client that is known by a throw-away key: a loud line, a match, or forgotten."""

import logging
from hashlib import sha256

import pytest

from tests.cli import Command
from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import play, toy_app
from understudy import MIFA, Strategy
from understudy.flower import introduction, read_outcomes, request_retirement, request_same_as
from understudy.server.state import row_stores

MEMORY = Strategy(compensator=MIFA(wait=False))
OPTIONS = {"fraction_evaluate": 0.0}


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "flwr.understudy")
    return lambda words: [line for line in caplog.messages if words in line]


def plain_nodes(n_nodes=3, mods=()):
    """SuperNodes of an unchanged app, without authentication: their keys are of this start."""
    nodes = nodes_of(toy_app(mods=list(mods)), n_nodes)
    for node in nodes:
        node.key = f"first start of {node.id}".encode()
    return nodes


def id_of(node):
    return f"key-{sha256(node.key).hexdigest()[:16]}"


def restarted(grid, node, new_id):
    """kill -9 and a new start: another node id, another key; the old one is gone."""
    node.online = False
    (again,) = nodes_of(node.app, 1, first_id=new_id)
    again.config, again.key = dict(node.config), f"start of {new_id}".encode()
    grid.nodes[again.id] = again
    return again


def restarting(grid, node, new_id=900, after=0):
    """For `after_round`: the node restarts after this round; and a list of the new one."""
    found = []

    def after_round(t):
        if t == after and not found:
            found.append(restarted(grid, node, new_id))

    return after_round, found


def test_ids_that_rest_on_throw_away_keys_are_named_at_the_start_once_with_what_to_add(said):
    nodes = plain_nodes()
    play(LoopbackGrid(nodes), rounds=3, **OPTIONS)
    (line,) = said("client ids that do not last")
    assert id_of(nodes[0]) in line
    assert "ClientApp(mods=[introduction()])" in line
    assert "--node-config \"client-id='hospital-0'\"" in line
    assert "--name hospital-0" in line


@pytest.mark.parametrize("how", ["names", "mod", "keys"])
def test_ids_that_last_need_no_warning(how, said):
    nodes = plain_nodes(mods=[introduction()] if how == "mod" else [])
    if how == "names":
        for i, node in enumerate(nodes):
            node.name = f"hospital-{i}"
    play(LoopbackGrid(nodes), keys=True if how == "keys" else None, **OPTIONS)
    assert not said("client ids that do not last")


def test_a_restarted_node_is_a_loud_line_and_the_command_continues_the_client(
    tmp_path, said, command
):
    nodes = plain_nodes()
    grid, folder = LoopbackGrid(nodes), tmp_path / "run"
    after_round, again = restarting(grid, nodes[2])
    play(grid, MEMORY, rounds=3, folder=folder, after_round=after_round, **OPTIONS)
    old, new = id_of(nodes[2]), id_of(again[0])
    (line,) = said("has not been connected for")
    assert f"understudy same-as {folder} {new} {old}" in line
    assert "forget_after" in line

    done = command("same-as", str(folder), new, old)
    assert done.code == 0
    assert f"{new}: continues {old}" in " ".join(done.out.split())
    played = play(
        LoopbackGrid(grid.nodes.values(), grid.time), MEMORY, rounds=4, folder=folder, **OPTIONS
    )
    assert len(said(f"{new} is the same client as {old} was")) == 1
    roster, state = played.server.roster, played.server.state
    number = roster.number(new)
    old_columns = {one.client for one in read_outcomes(folder) if one.id == old}
    assert old_columns == {number}  # the column of the old one goes on
    assert state.active.sum() == 3
    assert played.history == [dict.fromkeys([id_of(nodes[0]), id_of(nodes[1]), new], "came")]
    ((_, memory),) = row_stores(state)
    assert memory.known.sum() == 3
    assert memory.get(number)[0].item() == 3.0  # the third client moves by 3
    # done once: the next run does not begin with it again
    again_played = play(
        LoopbackGrid(grid.nodes.values(), grid.time), MEMORY, rounds=5, folder=folder, **OPTIONS
    )
    assert again_played.history == played.history
    assert len(said("is the same client as")) == 1


def test_a_match_that_is_known_beforehand_makes_no_client_more(said):
    nodes = plain_nodes()
    grid = LoopbackGrid(nodes)
    after_round, again = restarting(grid, nodes[1])
    old, new = id_of(nodes[1]), f"key-{sha256(b'start of 900').hexdigest()[:16]}"
    played = play(grid, MEMORY, rounds=4, after_round=after_round, same_as={new: old}, **OPTIONS)
    assert len(played.server.roster) == 3
    number = sorted(map(id_of, nodes)).index(old)
    assert played.server.roster.number(new) == number
    assert played.server.state.n_examples[number] == 2
    assert played.history[-1] == dict.fromkeys([id_of(nodes[0]), id_of(nodes[2]), new], "came")
    assert id_of(again[0]) == new
    assert not said("has not been connected for")


def test_a_client_that_got_a_name_goes_on_from_its_throw_away_id(tmp_path):
    """The way out of the warning: the key is registered with a name, and the history stays."""
    nodes = plain_nodes()
    grid = LoopbackGrid(nodes)
    play(grid, MEMORY, rounds=1, folder=tmp_path, **OPTIONS)
    named = restarted(grid, nodes[0], 900)
    named.name = "hospital-0"
    played = play(
        LoopbackGrid(grid.nodes.values(), grid.time),
        MEMORY,
        rounds=2,
        folder=tmp_path,
        same_as={"hospital-0": id_of(nodes[0])},
        **OPTIONS,
    )
    number = sorted(map(id_of, nodes)).index(id_of(nodes[0]))
    assert played.server.roster.number("hospital-0") == number
    assert played.history[0]["hospital-0"] == "came"


def test_an_id_of_a_registered_key_is_never_continued_by_another_node(tmp_path, said):
    nodes = plain_nodes()
    nodes[0].name = "hospital-0"
    nodes[0].online = True
    grid = LoopbackGrid(nodes)

    def after_round(t):
        nodes[0].online = t < 0

    stranger = id_of(nodes[1])
    played = play(
        grid,
        MEMORY,
        rounds=3,
        folder=tmp_path,
        after_round=after_round,
        same_as={stranger: "hospital-0"},
        **OPTIONS,
    )
    (line,) = said("cannot be the same client")
    assert "'hospital-0' belongs to a registered key" in line
    assert played.server.roster.clients[played.server.roster.number("hospital-0")].key
    assert not said("is the same client as")
    with pytest.raises(ValueError, match="belongs to a registered key"):
        request_same_as(tmp_path, stranger, "hospital-0")
    assert not (tmp_path / "same_as").exists()


def test_a_match_of_two_that_took_part_together_or_of_a_reported_id_is_refused(tmp_path):
    nodes = plain_nodes()
    play(LoopbackGrid(nodes), rounds=2, folder=tmp_path / "one", **OPTIONS)
    first, second, _ = map(id_of, nodes)
    with pytest.raises(ValueError, match="both took part"):
        request_same_as(tmp_path / "one", first, second)
    with pytest.raises(ValueError, match="expected two clients"):
        request_same_as(tmp_path / "one", first, first)
    with pytest.raises(ValueError, match="'nobody': expected the id of a client"):
        request_same_as(tmp_path / "one", first, "nobody")
    play(LoopbackGrid(plain_nodes(mods=[introduction()])), folder=tmp_path / "two", **OPTIONS)
    with pytest.raises(ValueError, match="'1' is an id that SuperNodes report"):
        request_same_as(tmp_path / "two", "0", "1")


def test_ids_that_are_unseen_for_so_many_rounds_leave_and_come_back_as_newcomers(tmp_path, said):
    """A registered one too: its name stays its own, and its number is a new one."""
    nodes = plain_nodes()
    nodes[1].name = "hospital-1"
    grid = LoopbackGrid(nodes)
    thief = restarted(grid, nodes[0], 900)  # an unregistered node that claims the name
    nodes[0].online, thief.online = True, False
    thief.app, thief.config = toy_app(), {"client-id": "hospital-1", "partition-id": 0}

    def after_round(t):
        nodes[1].online = t not in (0, 1, 2, 3)
        thief.online = t >= 2

    played = play(
        grid,
        MEMORY,
        rounds=7,
        folder=tmp_path,
        after_round=after_round,
        forget_after=3,
        **OPTIONS,
    )
    (line,) = said("hospital-1 leaves")
    assert "not connected for 3 rounds (forget_after=3)" in line
    assert said("hospital-1 is back, and was forgotten: it joins as a newcomer")
    assert said("claims the id 'hospital-1', another node's name")
    wanted = ["hospital-1" in one for one in played.history]
    assert wanted == [True, True, True, False, False, False, True]
    roster, state = played.server.roster, played.server.state
    assert roster.number("hospital-1") == len(roster) - 1
    assert state.active.sum() == 3
    assert roster.clients[-1].key
    assert played.history[-1]["hospital-1"] == "came"
    # what a checkpoint holds is read again
    again = play(LoopbackGrid(nodes, grid.time), MEMORY, rounds=8, folder=tmp_path, **OPTIONS)
    assert again.history[0]["hospital-1"] == "came"


def test_an_outage_of_everybody_forgets_nobody():
    nodes = plain_nodes(2)

    def after_round(t):
        for node in nodes:
            node.online = not 0 <= t < 4

    played = play(LoopbackGrid(nodes), rounds=6, after_round=after_round, forget_after=2, **OPTIONS)
    assert set(played.history[-1].values()) == {"came"}
    assert not any(client.retired for client in played.server.roster.clients)


def test_who_is_retired_after_it_was_forgotten_does_not_come_back(tmp_path):
    nodes = plain_nodes()
    nodes[1].name = "hospital-1"

    def after_round(t):
        nodes[1].online = t < 0

    play(
        LoopbackGrid(nodes),
        rounds=4,
        folder=tmp_path,
        after_round=after_round,
        forget_after=2,
        **OPTIONS,
    )
    request_retirement(tmp_path, "hospital-1")
    nodes[1].online = True
    again = play(LoopbackGrid(nodes), rounds=6, folder=tmp_path, **OPTIONS)
    assert all("hospital-1" not in one for one in again.history)


@pytest.mark.parametrize(("name", "value"), [("forget_after", 0), ("same_as", {"a,b": "c"})])
def test_what_cannot_be_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        play(LoopbackGrid(plain_nodes()), **{name: value})

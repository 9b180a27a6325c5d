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


def ids_of(adapter):
    return [client.id for client in adapter.server.roster.clients if not client.retired]


def resumed(grid, folder, rounds, **options):
    """The next run, with the nodes that are there."""
    return play(
        LoopbackGrid(grid.nodes.values(), grid.time),
        MEMORY,
        rounds=rounds,
        folder=folder,
        **OPTIONS,
        **options,
    )


@pytest.fixture
def ghost(tmp_path):
    """A run of three rounds: the third node restarted after the first one."""
    nodes = plain_nodes()
    grid, folder = LoopbackGrid(nodes), tmp_path / "run"
    after_round, again = restarting(grid, nodes[2])
    play(grid, MEMORY, rounds=3, folder=folder, after_round=after_round, **OPTIONS)
    return grid, folder, id_of(again[0]), id_of(nodes[2])


def test_of_several_that_vanish_and_come_one_line_names_all_with_their_nodes(tmp_path, said):
    """Which is which only whoever started them knows: no line may choose for the reader."""
    nodes = plain_nodes(4)
    grid, folder, came = LoopbackGrid(nodes), tmp_path / "run", []

    def after_round(t):
        if t == 0:
            came.extend(restarted(grid, nodes[i], 898 + i) for i in (2, 3))

    play(grid, MEMORY, rounds=4, folder=folder, after_round=after_round, **OPTIONS)
    (line,) = said("not been connected for")
    for node in (*came, *nodes[2:]):
        assert f"{id_of(node)} (node {node.id})" in line
    assert f"understudy same-as {folder} NEW OLD" in line
    assert "have not been connected for 2 rounds, and stay wanted" in line

    for new, old in zip(came, (nodes[3], nodes[2]), strict=True):
        request_same_as(folder, id_of(new), id_of(old))
    played = resumed(grid, folder, 5)
    assert played.server.state.active.sum() == 4
    for new, old in zip(came, (nodes[3], nodes[2]), strict=True):
        number = sorted(map(id_of, nodes)).index(id_of(old))
        assert played.server.roster.number(id_of(new)) == number


def test_the_line_says_what_forget_after_does_where_it_is_set(said):
    nodes = plain_nodes()
    grid = LoopbackGrid(nodes)
    after_round, _ = restarting(grid, nodes[2])
    play(grid, MEMORY, rounds=3, after_round=after_round, forget_after=7, **OPTIONS)
    (line,) = said("has not been connected for 2 rounds")
    assert line.endswith("Else ids leave that were unseen for 7 rounds (forget_after)")


def test_a_throw_away_id_that_joins_later_is_named_then(said):
    nodes = plain_nodes()
    nodes[0].name, nodes[1].name, nodes[2].online = "hospital-0", "hospital-1", False

    def after_round(t):
        nodes[2].online = t >= 0

    play(LoopbackGrid(nodes), rounds=4, after_round=after_round, **OPTIONS)
    (line,) = said("client ids that do not last")
    assert line.startswith(f"client ids that do not last: {id_of(nodes[2])}. ")


def test_keys_that_are_declared_when_the_run_resumes_are_bound(tmp_path, said):
    """What the warning says of registered keys without names: it is not repeated then."""
    nodes = plain_nodes()
    grid = LoopbackGrid(nodes)
    play(grid, MEMORY, rounds=1, folder=tmp_path, **OPTIONS)
    assert len(said("declare it: UnderstudyStrategy(keys=True)")) == 1
    played = resumed(grid, tmp_path, 2, keys=True)
    assert len(said("client ids that do not last")) == 1
    assert all(client.key for client in played.server.roster.clients)


def test_the_log_counts_the_clients_that_are_left(ghost, said):
    grid, folder, new, old = ghost
    request_same_as(folder, new, old)
    resumed(grid, folder, 4)
    assert said("configure_train: ")[-1].startswith("configure_train: 3 of 3 clients wanted")
    assert said("aggregate_train: ")[-1] == "aggregate_train: 3 came"


def test_the_rounds_before_a_match_are_not_those_of_the_vanished_one(ghost, command):
    """The new number has played them: the tables name it so, and count three clients."""
    grid, folder, new, old = ghost
    request_same_as(folder, new, old)
    played = resumed(grid, folder, 4)
    assert played.server.roster.clients[3].id == f"{new} (until its match, number 3)"
    shown = command("show", str(folder))
    assert shown.code == 0
    assert old not in shown.out
    assert "until its match" not in shown.out  # it has left: nobody is left out
    assert command("report", str(folder)).code == 0
    page = (folder / "live" / "report.html").read_text()
    assert "3 clients with 1 to 3 training examples each" in page


def test_one_that_comes_back_after_its_match_is_a_newcomer_and_a_loud_line(ghost, said):
    grid, folder, new, old = ghost
    request_same_as(folder, new, old)
    resumed(grid, folder, 4)
    grid.nodes[102].online = True  # it had not restarted: the network was gone
    played = resumed(grid, folder, 6)
    (line,) = said(f"{old} is connected again")
    assert f"though {new} continues it" in line
    assert played.history[-1][old] == "came"
    assert played.history[-1][new] == "came"
    assert played.server.roster.number(old) == 4
    assert len(said("is the same client as")) == 1
    again = resumed(grid, folder, 7)  # and nothing of it is undone by the request in the folder
    assert sorted(ids_of(again)) == sorted(ids_of(played))


def test_a_match_is_made_once_and_by_one(ghost):
    grid, folder, new, old = ghost
    other = id_of(restarted(grid, grid.nodes[102], 950))  # a second node that may be it
    resumed(grid, folder, 5)
    request_same_as(folder, new, old)
    with pytest.raises(ValueError, match=r"is to continue it, by a line of .*same_as"):
        request_same_as(folder, other, old)
    resumed(grid, folder, 6)
    with pytest.raises(ValueError, match=f"{old!r} is {new!r} by now"):
        request_same_as(folder, other, old)
    with pytest.raises(ValueError, match=r"same_as: expected distinct clients, got 'c' 2 times"):
        play(grid, same_as={"a": "c", "b": "c"})


def test_ids_that_nobody_has_are_told_once(said):
    nodes = plain_nodes()
    first, second, _ = map(id_of, nodes)
    play(LoopbackGrid(nodes), rounds=3, same_as={"nobody": first, second: "none"}, **OPTIONS)
    assert len(said("same_as: there is no client 'nobody' so far; it is waited for")) == 1
    assert len(said("same_as: there is no client 'none' so far; it is waited for")) == 1


@pytest.mark.parametrize("which", ["old", "new"])
@pytest.mark.parametrize("when", ["before", "with", "after"])
def test_whoever_retires_leaves_under_all_its_ids_in_any_order(which, when, ghost):
    """Retired before, with or after its match, by the id of before or of now: nothing stays."""
    grid, folder, new, old = ghost
    asked = {"old": old, "new": new}[which]
    if when == "before":
        request_retirement(folder, asked)
        request_same_as(folder, new, old)
        played = resumed(grid, folder, 5)
    else:
        request_same_as(folder, new, old)
        if when == "after":
            resumed(grid, folder, 4)
        request_retirement(folder, asked)
        played = resumed(grid, folder, 5)
    assert sorted(ids_of(played)) == sorted(id_of(grid.nodes[i]) for i in (100, 101))
    assert played.server.state.active.sum() == 2
    ((_, memory),) = row_stores(played.server.state)
    assert memory.known.sum() == 2
    assert set(played.history[-1]) == set(ids_of(played))


def test_a_running_server_does_both_in_one_round(tmp_path, said):
    nodes = plain_nodes()
    grid, folder, came = LoopbackGrid(nodes), tmp_path / "run", []

    def after_round(t):
        if t == 0:
            came.append(restarted(grid, nodes[2], 900))
        if t == 2:
            request_same_as(folder, id_of(came[0]), id_of(nodes[2]))
            request_retirement(folder, id_of(nodes[2]))

    played = play(grid, MEMORY, rounds=5, folder=folder, after_round=after_round, **OPTIONS)
    assert said(f"{id_of(came[0])}, which continues {id_of(nodes[2])}, is retired")
    assert len(ids_of(played)) == 2


def test_a_refused_match_retires_nobody_else(tmp_path):
    nodes = plain_nodes()
    nodes[0].name = "hospital-0"
    stranger = id_of(nodes[1])
    played = play(
        LoopbackGrid(nodes),
        MEMORY,
        rounds=3,
        folder=tmp_path,
        same_as={stranger: "hospital-0"},
        retired=[stranger],
        **OPTIONS,
    )
    assert played.history[-1]["hospital-0"] == "came"
    assert stranger not in played.history[-1]


def test_rows_of_a_forgotten_client_are_freed_also_when_a_resume_lies_between(ghost):
    grid, folder, new, old = ghost  # unseen in two rounds
    played = resumed(grid, folder, 4, forget_after=4)
    assert old in ids_of(played)
    played = resumed(grid, folder, 5, forget_after=4)
    assert sorted(ids_of(played)) == sorted([id_of(grid.nodes[100]), id_of(grid.nodes[101]), new])
    ((_, memory),) = row_stores(played.server.state)
    assert memory.known.sum() == 3


def test_the_mod_names_clients_whose_supernodes_keep_running(tmp_path, said):
    """The line to add is followed between two runs: nobody restarts, nobody becomes a ghost."""
    folder, nodes = tmp_path / "run", plain_nodes()
    grid = LoopbackGrid(nodes)
    before = [id_of(node) for node in nodes]
    play(grid, MEMORY, rounds=2, folder=folder, **OPTIONS)
    for number, (node, named) in enumerate(
        zip(nodes, plain_nodes(3, [introduction()]), strict=True)
    ):
        node.app, node.config["client-id"] = named.app, f"hospital-{number}"
    nodes[2].config["client-id"] = "hospital-0"  # somebody has it: it stays what it was
    again = LoopbackGrid(nodes, grid.time)
    restarts, _ = restarting(again, nodes[0], after=2)
    adapter = play(again, MEMORY, rounds=5, folder=folder, after_round=restarts, **OPTIONS)
    clients = adapter.server.roster.clients
    numbers = {client.id: number for number, client in enumerate(clients)}
    assert {"hospital-0", "hospital-1"} < numbers.keys()
    assert len(numbers) == 3
    assert clients[numbers["hospital-0"]].former == (before[0],)
    assert adapter.history[-1] == dict.fromkeys(numbers, "came")
    (line, *_) = said("and is called so from now on")
    assert line.startswith("key-")
    request_retirement(folder, before[1])  # ids of before stay known
    last = play(
        LoopbackGrid(again.nodes.values(), grid.time), MEMORY, rounds=6, folder=folder, **OPTIONS
    )
    assert "hospital-1" not in last.history[-1]

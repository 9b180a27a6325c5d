"""Ids belong to keys: nobody takes the place of a client that is away, or it is won back."""

import json

import pytest

from tests.crafted import contents_of, write_crafted
from tests.flower.loopback import LoopbackGrid, Node, nodes_of
from tests.flower.toy import play, refusals, round_of, toy_app
from understudy import MIFA, Population, Reason, Strategy
from understudy.core.shown import shown
from understudy.flower import UnderstudyStrategy, read_outcomes
from understudy.flower.clients.identity import ClaimRefused, registered_names
from understudy.flower.clients.identity import Node as There
from understudy.flower.clients.roster import Roster
from understudy.flower.mod import is_introduction
from understudy.memory.tensor_stream import CheckpointError
from understudy.server import checkpoint

IDS = ("client-0", "client-1", "client-2")
MEMORY = Strategy(compensator=MIFA(wait=False))


def registered(n_nodes=3):
    """Nodes with the names client-0, …, that report their partition."""
    nodes = nodes_of(toy_app(), n_nodes, secure=True)
    for number, node in enumerate(nodes):
        node.name = f"client-{number}"
    return nodes


def says(node, client_id):
    node.config["client-id"] = client_id
    return node


def ids_of(adapter):
    return [client.id for client in adapter.server.roster.clients]


def stored_roster(folder):
    return json.loads(checkpoint.numbers_of(folder / "server")["extra.roster"])


def rewrite_roster(folder, change):
    """Change the stored roster, a list of dicts, in place."""
    path = folder / "server" / "state.safetensors"
    about, tensors = contents_of(path)
    roster = json.loads(about["numbers"]["extra.roster"])
    change(roster)
    about["numbers"]["extra.roster"] = json.dumps(roster)
    write_crafted(path, about, tensors)


@pytest.mark.parametrize("expected", [(), IDS], ids=["nobody expected", "all expected"])
def test_a_member_does_not_take_the_place_of_an_absent_one(expected, tmp_path):
    nodes = registered()
    says(nodes[2], "client-0")
    nodes[0].online = False

    def after_round(t):
        nodes[0].online = t >= 1

    adapter = play(
        LoopbackGrid(nodes),
        MEMORY,
        rounds=4,
        clients=expected,
        folder=tmp_path / "run",
        after_round=after_round,
        fraction_evaluate=0.0,
    )
    present = {"client-1": "came", "client-2": "came"}
    away = {"client-0": "unavailable"} if expected else {}
    assert adapter.history == [
        *[{**away, **present}] * 2,
        {**away, **present},  # it introduces itself
        {"client-0": "came", **present},
    ]
    claims = [(0, "node 102", Reason.CLAIMED_ID)] if expected else []
    assert refusals(tmp_path / "run") == claims
    number = adapter.server.roster.number("client-0")
    assert adapter.server.roster.clients[number].node == nodes[0].id


def test_a_claim_that_is_somebody_elses_costs_a_registered_node_nothing():
    nodes = registered(2)
    thief = Node(50, toy_app(), {"client-id": "client-1", "partition-id": 0}, "clinic", b"key 9")
    adapter = play(LoopbackGrid([thief, *nodes]), fraction_evaluate=0.0)
    assert adapter.history == [dict.fromkeys(("client-0", "client-1", "clinic"), "came")]
    assert [client.node for client in adapter.server.roster.clients] == [100, 101, 50]


def test_a_node_without_a_name_that_claims_a_name_is_turned_away(tmp_path):
    nodes = registered(2)
    thief = Node(50, toy_app(), {"client-id": "client-1", "partition-id": 0}, "", b"key 9")
    grid = LoopbackGrid([thief, *nodes])
    adapter = play(grid, rounds=3, folder=tmp_path / "run", fraction_evaluate=0.0)
    assert adapter.history == [{"client-0": "came", "client-1": "came"}] * 3
    assert refusals(tmp_path / "run") == [(0, "node 50", Reason.CLAIMED_ID)]
    assert [m.metadata.dst_node_id for m in grid.sent].count(50) == 1  # asked who it is, no more


def test_a_member_of_an_earlier_version_keeps_the_id_that_its_key_is_bound_to(tmp_path):
    options = {"folder": tmp_path / "run", "fraction_evaluate": 0.0}
    play(LoopbackGrid(registered()), MEMORY, rounds=1, **options)

    def as_before(roster):
        for number, client in enumerate(roster):
            client["id"] = str(number)  # what it reported: its partition
            del client["name"]

    rewrite_roster(tmp_path / "run", as_before)
    nodes = registered()
    for node in nodes:
        node.id += 700
    adapter = play(LoopbackGrid(nodes), MEMORY, rounds=2, **options)
    assert adapter.history == [dict.fromkeys("012", "came")]
    assert [one["name"] for one in stored_roster(tmp_path / "run")] == list(IDS)
    # it may be declared under its name as well
    known = Population(3, n_examples=[30, 20, 10])
    again = play(
        LoopbackGrid(nodes), MEMORY, rounds=3, clients=IDS[::-1], population=known, **options
    )
    assert again.history == [dict.fromkeys("012", "came")]
    assert again.server.state.population.n_examples.tolist() == [10, 20, 30]
    assert again.server.state.population.confirmed.all()


def test_the_rightful_owner_wins_its_number_back(tmp_path, caplog):
    """From a roster in which an earlier version gave client-0's id to the key of client-2."""
    options = {"folder": tmp_path / "run", "fraction_evaluate": 0.0}
    nodes = registered()
    nodes[2].name = "client-0"
    play(LoopbackGrid(nodes[1:]), MEMORY, rounds=1, **options)
    rewrite_roster(tmp_path / "run", lambda roster: [one.pop("name") for one in roster])
    assert [one["id"] for one in stored_roster(tmp_path / "run")] == ["client-0", "client-1"]

    nodes[2].name = "client-2"
    says(nodes[2], "client-0")
    nodes[0].online = False

    def after_round(t):
        nodes[0].online = True

    grid = LoopbackGrid(nodes)
    adapter = play(grid, MEMORY, rounds=6, after_round=after_round, **options)
    assert adapter.history == [
        {"client-0": "came", "client-1": "came"},  # nobody can know better yet
        {"client-0": "came", "client-1": "came"},  # the true one introduces itself meanwhile
        {"client-0": "came", "client-1": "came"},  # and is there; the other is asked who it is
        {"client-0": "came", "client-1": "came", "client-2": "came"},
        {"client-0": "came", "client-1": "came", "client-2": "came"},
    ]
    assert ids_of(adapter) == ["client-0", "client-1", "client-2"]
    assert [client.node for client in adapter.server.roster.clients] == [100, 101, 102]
    assert "client-0 has its number 0 back, which node 102 used under its id" in caplog.text
    assert refusals(tmp_path / "run") == [
        (3, "node 102", Reason.CLAIMED_ID),  # it is ousted
        (4, "node 102", Reason.CLAIMED_ID),  # it claims the id again
    ]
    again = Roster.from_json(json.dumps(stored_roster(tmp_path / "run")))
    with pytest.raises(ClaimRefused, match="claims the id 'client-0', another node's name"):
        again.place(There(7, "", "another key", "now"), "client-0", t=6)


@pytest.mark.parametrize("arrives", [2, 3], ids=["before its owner is back", "after that"])
def test_what_an_ousted_node_still_sends_is_not_the_owners(arrives):
    """A node without a name is client-0 until its owner comes; then nobody wants its answer."""
    nodes = registered(2)
    nodes[0].silent = lambda m: round_of(m) == arrives and not is_introduction(m)
    other = says(Node(50, toy_app(), {"partition-id": 9}, "", b"key 9"), "client-0")
    other.delay = lambda m: 35.0 if round_of(m) == 1 else 0.0
    grid = LoopbackGrid([other, nodes[1]])

    def after_round(t):
        if t == 0:
            grid.nodes[nodes[0].id] = nodes[0]
        if t == arrives - 1:
            grid.time.sleep(10.0)

    adapter = play(grid, MEMORY, rounds=7, after_round=after_round, fraction_evaluate=0.0)
    # "late" would be the answer of the other one
    expected = ["came", "missing", *["came"] * (arrives - 2), "missing"]
    assert [one["client-0"] for one in adapter.history][: arrives + 1] == expected
    assert ids_of(adapter) == ["client-0", "client-1"]
    # introduction, rounds 0 and 1, then once more who it is: it claims the same, and is refused
    asked = [is_introduction(m) for m in grid.sent if m.metadata.dst_node_id == 50]
    assert asked == [True, False, False, True]
    assert adapter.server.state.pending.tolist() == [[0, arrives]]


def test_names_of_absent_clients_cannot_be_claimed():
    roster = Roster()
    hospital, clinic = There(1, "hospital", "key a", "monday"), There(2, "", "key b", "monday")
    roster.place(hospital, None, t=0)
    stored = json.loads(roster.to_json())
    stored[0]["id"] = "0"  # its id of an earlier version; its name is remembered
    again = Roster.from_json(json.dumps(stored))
    with pytest.raises(ClaimRefused, match="claims the id 'hospital', another node's name"):
        again.place(clinic, "hospital", t=1)
    assert again.place(There(3, "hospital", "key a", "tuesday"), "x", t=2).number == 0


@pytest.mark.parametrize("late", [False, True], ids=["answers at once", "answers late"])
def test_an_expected_id_is_taken_from_a_node_without_a_name_once_there_are_names(late, tmp_path):
    nodes = registered()
    nodes[0].name = ""
    says(nodes[0], "client-2")
    nodes[0].delay = lambda m: 35.0 if late and round_of(m) == 1 else 0.0
    nodes[1].online = nodes[2].online = False

    def after_round(t):
        nodes[1].online = t >= 1

    adapter = play(
        LoopbackGrid(nodes),
        MEMORY,
        rounds=4,
        clients=IDS,
        folder=tmp_path / "run",
        after_round=after_round,
        fraction_evaluate=0.0,
    )
    held = [one["client-2"] for one in adapter.history]
    assert held == ["came", "missing" if late else "came", "unavailable", "unavailable"]
    assert adapter.history[3]["client-1"] == "came"
    assert {who for _, who, _ in refusals(tmp_path / "run")} == {"node 100"}
    assert min(t for t, _, _ in refusals(tmp_path / "run")) == 2
    assert adapter.server.state.pending.tolist() == []
    assert stored_roster(tmp_path / "run")[2]["node"] == 0

    nodes[2].online = True
    again = play(
        LoopbackGrid(nodes), MEMORY, rounds=5, folder=tmp_path / "run", fraction_evaluate=0.0
    )
    assert again.history == [{"client-0": "unavailable", "client-1": "came", "client-2": "came"}]


def test_expected_ids_stay_with_their_nodes_where_nobody_has_a_name():
    adapter = play(LoopbackGrid(nodes_of(toy_app(), 2)), rounds=3, clients=("0", "1"))
    assert adapter.history == [{"0": "came", "1": "came"}] * 3


def test_partition_ids_in_clients_where_nodes_have_names_are_told(caplog):
    options = {"clients": ("0", "1", "2"), "fraction_evaluate": 0.0}
    play(LoopbackGrid(registered()), population=Population(3, n_examples=[1, 2, 3]), **options)
    hint = "`clients` names '0', but a node's registered name is its id: if it is that client, "
    assert caplog.text.count(f"{hint}name 'client-0' there instead") == 1
    # nobody could ever join
    closed = Population(3, p=[0.5] * 3)
    with pytest.raises(ValueError, match="no connected node is one of them: 'client-0' is not in"):
        play(LoopbackGrid(registered()), population=closed, **options)
    # one that is none of them ends nothing where a member is there
    options["clients"] = ("client-0", "client-1", "2")
    adapter = play(LoopbackGrid(registered()), population=closed, **options)
    assert adapter.history == [{"client-0": "came", "client-1": "came", "2": "unavailable"}]


def test_expected_ids_are_for_registered_names_where_there_are_any():
    names = registered_names([There(1, "client-1", "key 1"), There(2, "", "key 2")])
    roster = Roster(IDS)
    with pytest.raises(ClaimRefused, match="'client-0', which is expected under a registered name"):
        roster.place(There(2, "", "key 2", "monday"), "client-0", t=0, names=names)
    assert roster.place(There(1, "client-1", "key 1"), None, t=0, names=names).number == 1
    # without any registered name, whoever comes first
    assert Roster(IDS).place(There(2, "", "key 2"), "client-0", t=0).number == 0


def test_a_name_that_two_keys_are_registered_under_belongs_to_the_first():
    roster = Roster()
    first, second = There(1, "clinic", "key a", "monday"), There(2, "clinic", "key b", "monday")
    names = registered_names([first, second])
    assert roster.place(first, None, t=0, names=names).number == 0
    for connected in (names, registered_names([second])):  # the first being there, and away
        with pytest.raises(ClaimRefused, match="another key was registered under before"):
            roster.place(second, None, t=1, names=connected)
    assert roster.place(There(1, "clinic", "key a", "tuesday"), None, t=2, names=names).number == 0


def test_an_id_is_bound_to_its_key_for_good():
    roster = Roster(keys=True)
    assert roster.place(There(1, "", "key a", "monday"), "0", t=0).number == 0
    with pytest.raises(ClaimRefused, match="belongs to another key"):
        roster.place(There(2, "", "key b", "monday"), "0", t=1)
    again = Roster.from_json(roster.to_json(), keys=True)  # after a crash
    with pytest.raises(ClaimRefused, match="belongs to another key"):
        again.place(There(2, "", "key b", "monday"), "0", t=1)
    assert again.is_known(There(2, "", "key b", "monday"))
    assert not again.is_known(There(2, "", "key b", "tuesday"))  # it may try again
    assert again.place(There(3, "", "key a", "tuesday"), "another", t=2).number == 0
    assert again.of_node(3) == 0
    assert again.of_node(1) is None


def test_a_key_that_somebody_claimed_the_id_of_wins_it_back():
    roster, node = Roster(keys=True), There(1, "", "ab" * 32, "monday")
    assert roster.place(There(2, "", "key b", "monday"), "key-" + "ab" * 8, t=0).number == 0
    assert roster.place(node, None, t=1) == (0, 2, "")
    assert roster.of_node(2) is None
    assert not roster.is_known(There(2, "", "key b", "monday"))


def test_without_registered_names_one_can_say_that_keys_are_on():
    for keys, refused in ((True, True), (None, False), (False, False)):
        roster = Roster(keys=keys)
        roster.place(There(1, "", "key a", "monday"), "0", t=0)
        try:
            roster.place(There(2, "", "key b", "monday"), "0", t=1)
            assert not refused
        except ClaimRefused:
            assert refused


BAD_IDS = {
    "line break": "clinic\nretired",
    "unicode line break": "clinic\u2028retired",
    "escape": "clinic\x1b[2J",
    "turned": "clinic\u202e0",
    "separator": "clinic,hospital",
    "space before": " clinic",
    "space behind": "clinic ",
    "only space": "  ",
    "long": "x" * 4000,
    "a little long": "x" * 201,
}


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS)
def test_an_id_that_is_none_is_refused_by_name_wherever_it_comes_from(bad, tmp_path):
    """Expected, claimed, registered."""
    with pytest.raises(ValueError, match="clients: expected 1 to 200 printable") as error:
        UnderstudyStrategy(clients=("good", bad))
    words = str(error.value)
    assert f"got {shown(bad)} ({len(bad):,} characters)" in words
    assert words.isprintable()
    assert len(words) < 250

    nodes = nodes_of(toy_app(), 2)
    nodes += [Node(300, toy_app(), {"partition-id": 2}, name=bad, key=b"key")]
    says(nodes[0], bad)
    adapter = play(LoopbackGrid(nodes), rounds=2, folder=tmp_path / "run", fraction_evaluate=0.0)
    assert adapter.history == [{"1": "came"}] * 2
    assert sorted(refusals(tmp_path / "run")) == [
        (0, "node 100", Reason.BAD_ID),
        (0, "node 300", Reason.BAD_ID),
    ]
    assert {one.id for one in read_outcomes(tmp_path / "run")} == {"1"}


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS)
def test_a_stored_roster_with_an_id_that_is_no_line_is_refused(bad, tmp_path):
    options = {"folder": tmp_path / "run", "fraction_evaluate": 0.0}
    play(LoopbackGrid(nodes_of(toy_app(), 2)), MEMORY, **options)
    rewrite_roster(tmp_path / "run", lambda roster: roster[1].update(id=bad))
    nodes = nodes_of(toy_app(), 3)
    says(nodes[1], bad)
    if bad.isprintable() and len(bad) <= 200:
        adapter = play(LoopbackGrid(nodes), MEMORY, rounds=2, **options)
        assert adapter.history == [dict.fromkeys(("0", bad, "2"), "came")]
        return
    with pytest.raises(CheckpointError, match=r"Client.id: expected a line of text, got '") as said:
        play(LoopbackGrid(nodes), MEMORY, rounds=2, **options)
    assert str(said.value).isprintable()
    assert len(str(said.value)) < 400


def test_a_stored_node_with_another_key_must_say_who_it_is(tmp_path):
    """Its name and its node id are those of a client, whose key it has not."""
    options = {"folder": tmp_path / "run", "fraction_evaluate": 0.0}
    play(LoopbackGrid(registered()), **options)
    nodes = registered()
    nodes[2].key = b"another key"
    adapter = play(LoopbackGrid(nodes), rounds=2, **options)
    came = {"client-0": "came", "client-1": "came", "client-2": "unavailable"}
    assert adapter.history == [came]
    assert refusals(tmp_path / "run") == [(1, "node 102", Reason.CLAIMED_ID)]


def test_the_longest_id_is_taken():
    nodes = nodes_of(toy_app(), 2)
    says(nodes[0], "ü" * 200)
    adapter = play(LoopbackGrid(nodes), fraction_evaluate=0.0)
    assert sorted(adapter.history[0]) == ["1", "ü" * 200]

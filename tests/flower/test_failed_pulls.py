"""A pull of a reply that fails is tried again: it says nothing of the reply, nor of its client."""

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.test_rounds import introduces
from tests.flower.toy import first_arrays, play, toy_app
from understudy import MIFA, Outcome, Strategy
from understudy.flower import Timing, UnderstudyStrategy
from understudy.flower.messages.requests import MESSAGE_UNAVAILABLE


def fail(grid, when, error):
    """Let pulls of training replies raise at some times, as a Grid in trouble does."""
    pull = grid.pull_messages

    def failing(ids):
        names = list(ids)
        kinds = {m.metadata.message_id: m for m in grid.sent if not introduces(m)}
        if when() and any(name in kinds for name in names):
            raise error
        return pull(names)

    grid.pull_messages = failing


def break_reply(grid, number):
    """Let the reply to one of the first training messages be one that Flower cannot read."""
    push = grid.push_messages

    def push_and_break(messages):
        ids = push(messages)
        train = [name for m, name in zip(messages, ids, strict=True) if not introduces(m)]
        grid.broken |= set(train[number : number + 1])
        return ids

    grid.push_messages = push_and_break


@pytest.mark.parametrize("error", [ValueError("object is cut short"), OSError("HTTP 503")])
def test_a_pull_that_fails_at_the_deadline_costs_no_late_update(error):
    """The client is neither refused nor asked again while it works: its update comes late."""
    nodes = nodes_of(toy_app(), 2)
    nodes[0].delay = lambda message: 0.0 if introduces(message) else 20.0
    nodes[1].delay = lambda message: 0.0 if introduces(message) else 40.0
    grid = LoopbackGrid(nodes)
    fail(grid, lambda: 25 < grid.time.seconds < 31, error)
    adapter = play(grid, Strategy(compensator=MIFA()), rounds=3, fraction_evaluate=0.0)
    assert adapter.history[0] == {"0": "came", "1": "missing"}
    assert adapter.history[1] == {"0": "came", "1": "late"}
    asked = [m for m in grid.sent if m.metadata.dst_node_id == nodes[1].id and not introduces(m)]
    assert len(asked) == 2


def test_why_nothing_came_is_told_where_pulls_fail_to_the_end():
    nodes = nodes_of(toy_app(), 2)
    nodes[1].delay = lambda message: 0.0 if introduces(message) else 40.0
    grid = LoopbackGrid(nodes)
    fail(grid, lambda: 25 < grid.time.seconds < 31, ValueError("object is cut short"))
    adapter = play(grid, rounds=1, fraction_evaluate=0.0)
    detail = {one.id: one.detail for one in adapter.outcomes}["1"]
    assert detail == "no answer in time (the last pull failed: ValueError: object is cut short)"


def test_a_reply_that_cannot_be_read_is_found_out_at_the_next_pull():
    """Flower has handed it over by then: the round does not wait for it until the deadline."""
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    break_reply(grid, 1)
    adapter = play(grid, rounds=1, fraction_evaluate=0.0)
    assert adapter.history == [{"0": "came", "1": "refused"}]
    assert adapter.outcomes[1].detail == "unreadable: ValueError: object is cut short"
    assert grid.time.seconds < 5


def test_a_reply_that_cannot_be_read_costs_no_other_client_its_update():
    """In one call for several messages Flower hands over all their replies, and then raises."""
    grid = LoopbackGrid(nodes_of(toy_app(), 12))
    break_reply(grid, 5)
    adapter = play(grid, rounds=1, fraction_evaluate=0.0)
    refused = [client for client, outcome in adapter.history[0].items() if outcome != "came"]
    assert refused == ["5"]


def test_replies_are_pulled_together_where_that_is_asked_for():
    grid = LoopbackGrid(nodes_of(toy_app(), 12))
    asked_for: list[int] = []
    pull = grid.pull_messages

    def counted(ids):
        asked_for.append(len(list(ids)))
        return pull(ids)

    grid.pull_messages = counted
    timing = Timing(deadline=30.0, replies_at_once=5)
    adapter = UnderstudyStrategy(timing=timing, clock=grid.time.clock(), fraction_evaluate=0.0)
    adapter.start(grid, first_arrays(), num_rounds=1)
    assert {one.outcome for one in adapter.outcomes} == {Outcome.CAME}
    assert asked_for == [5, 5, 2, 5, 5, 2]  # introductions, then updates


def test_of_a_call_for_several_nobody_is_blamed_and_the_others_are_pulled_one_by_one():
    grid = LoopbackGrid(nodes_of(toy_app(), 12))
    break_reply(grid, 5)
    timing = Timing(deadline=30.0, replies_at_once=5)
    adapter = UnderstudyStrategy(timing=timing, clock=grid.time.clock(), fraction_evaluate=0.0)
    adapter.start(grid, first_arrays(), num_rounds=1)
    missing = {one.id: one.detail for one in adapter.outcomes if one.outcome != Outcome.CAME}
    assert list(missing) == ["5", "6", "7", "8", "9"]
    assert {one.outcome for one in adapter.outcomes} == {Outcome.CAME, Outcome.MISSING}
    assert set(missing.values()) == {
        "its reply was lost with others of the same call (ValueError: object is cut short)"
    }
    assert grid.time.seconds < 5


def test_what_a_call_for_several_messages_loses():
    """The loopback does as Flower 1.41: none of the replies can be had again."""
    grid = LoopbackGrid(nodes_of(toy_app(), 3))
    content = RecordDict({"config": ConfigRecord({})})
    messages = [Message(content, dst_node_id=node, message_type="train") for node in grid.nodes]
    names = grid.push_messages(messages)
    grid.broken = {names[1]}
    with pytest.raises(ValueError, match="cut short"):
        grid.pull_messages(names)
    again = [reply for name in names for reply in grid.pull_messages([name])]
    assert [reply.error.code for reply in again] == [MESSAGE_UNAVAILABLE] * 3

"""Who is left out of a live federation is logged when it becomes true, and at the end."""

import json
import logging

import pytest

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import play, round_of, toy_app
from understudy import MIFA, Strategy
from understudy.dashboard.watched import Watch
from understudy.flower import UnderstudyStrategy, read_outcomes
from understudy.journal.follow import follow
from understudy.representation import ClientFacts, Thresholds, warnings_of

SOON = Thresholds(rounds=3, rounds_never=3)
QUICK = {"deadline": 60.0, "fraction_evaluate": 0.0, "grace": 0.0}


def told(caplog):
    """Warnings that were logged, in order."""
    lines = [one.getMessage().strip() for one in caplog.records if one.levelname == "WARNING"]
    return [line.removeprefix("> ") for line in lines if line]


def test_a_node_that_falls_silent_is_named_when_it_was_in_none_of_the_last_rounds(tmp_path, caplog):
    """Node 2 answers in round 1 and never again; it has 3 of 6 examples."""
    nodes = nodes_of(toy_app(), 3)
    nodes[2].silent = lambda message: round_of(message) > 0
    grid = LoopbackGrid(nodes)
    with caplog.at_level(logging.WARNING, "flwr.understudy"):
        played = play(grid, rounds=6, folder=tmp_path, warn=SOON, **QUICK)
    gap = "2, 50 % of the examples, was in none of the last {} rounds' updates: it did not "
    gap += "answer, or could not be reached"
    first = next(place for place, line in enumerate(told(caplog)) if "in none of" in line)
    assert told(caplog)[first] == gap.format(3)
    assert told(caplog)[-2:] == [
        "Who was left out, and other warnings of 6 rounds:", gap.format(5)
    ]  # fmt: skip
    assert [one.since for one in played.server.warnings.current] == [3]
    facts = json.loads((tmp_path / "run.json").read_text())
    known = ClientFacts.told(facts["facts"], facts["resolved"])
    assert known.deadline == 60.0
    found = warnings_of(follow(tmp_path), known, SOON)
    assert [str(one) for one in found] == [gap.format(5)]
    # whoever shows the run warns by its thresholds: by the usual ones nothing is wrong yet
    (watched,) = Watch([tmp_path]).look()
    assert [str(one) for one in watched.warnings] == [gap.format(5)]
    assert not len(warnings_of(follow(tmp_path), known))


def test_a_run_that_resumes_counts_the_rounds_before(tmp_path, caplog):
    nodes = nodes_of(toy_app(), 3)
    nodes[2].silent = lambda message: round_of(message) > 0
    play(LoopbackGrid(nodes), rounds=3, folder=tmp_path, warn=SOON, **QUICK)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "flwr.understudy"):
        play(LoopbackGrid(nodes), rounds=4, folder=tmp_path, warn=SOON, **QUICK)
    assert any("in none of the last 3 rounds' updates" in line for line in told(caplog))


def test_who_is_always_late_is_told_with_the_time_it_takes(tmp_path, caplog):
    """Asked in a round of 60 s, node 2 answers in the next, 74 s later; MIFA takes it in."""
    nodes = nodes_of(toy_app(), 3)
    for node, seconds in zip(nodes, (20.0, 20.0, 74.0), strict=True):
        node.delay = lambda message, seconds=seconds: seconds
    grid = LoopbackGrid(nodes)
    strategy = Strategy(compensator=MIFA(wait=False))
    with caplog.at_level(logging.WARNING, "flwr.understudy"):
        play(grid, strategy, rounds=8, folder=tmp_path, introduce=False, **QUICK)
    late = [line for line in told(caplog) if "always been late" in line]
    assert late[0].startswith("1 of 3 clients has always been late (")
    assert late[0].endswith("the deadline of 60 s is below its median of 74 s")
    seconds = [one.seconds for one in read_outcomes(tmp_path) if one.outcome.name == "LATE"]
    assert seconds == pytest.approx([74.0] * len(seconds), abs=2)


def test_what_are_no_thresholds_is_refused():
    with pytest.raises(TypeError, match="warn: expected Thresholds, got 3"):
        UnderstudyStrategy(warn=3)


def test_a_federation_in_which_all_come_has_nothing_to_tell(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "flwr.understudy"):
        played = play(LoopbackGrid(nodes_of(toy_app(), 3)), rounds=8, folder=tmp_path, **QUICK)
    assert told(caplog) == []
    assert "left out" not in caplog.text
    assert str(played.server.warnings) == "nobody was left out"

"""Clients slower than the deadline, in the first round and in later ones: the run goes on."""

import logging

import numpy as np
import pytest

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import play, toy_app
from understudy import MIFA, FixedDropout, Strategy
from understudy.flower import introduction, read_outcomes
from understudy.journal.file import LogFile
from understudy.server.state import row_stores

REMEMBERING = Strategy(compensator=MIFA(wait=False), weighting="clients")
OPTIONS = {"deadline": 60.0, "fraction_evaluate": 0.0}


def slow_nodes(seconds, mods=(), n_nodes=2):
    """Apps that answer after so many seconds; without the mod they train when first asked."""
    nodes = nodes_of(toy_app(mods=list(mods)), n_nodes)
    for i, node in enumerate(nodes):
        node.key, node.delay = f"key {i}".encode(), lambda message: seconds
    return nodes


def test_a_first_round_without_an_answer_is_an_empty_round_and_what_comes_then_is_late(
    tmp_path, caplog
):
    """Asked at 0 s; the deadline passes at 60 s; the answers of 100 s count in round 2 as late."""
    grid = LoopbackGrid(slow_nodes(100.0))
    with caplog.at_level(logging.WARNING, "flwr.understudy"):
        played = play(grid, REMEMBERING, rounds=4, folder=tmp_path, **OPTIONS)
    first, second = sorted(client.id for client in played.server.roster.clients)
    became = {}
    for one in read_outcomes(tmp_path):
        became.setdefault(one.t, {})[one.id] = one.outcome.name.lower(), one.detail
    late = "late", "asked 1 round before"
    assert became[0] == dict.fromkeys([first, second], ("missing", "no answer in time"))
    assert became[1] == dict.fromkeys([first, second], late)
    assert became[2] == dict.fromkeys([first, second], late)  # asked in round 1, busy till 200 s
    logs = list(LogFile(tmp_path / "rounds.jsonl", 4).stored(4))
    assert [log.t for log in logs] == [0, 1, 2, 3]
    assert logs[0].metrics == pytest.approx({"test_accuracy": 0.1})
    assert logs[0].timings["round"] == pytest.approx(60.0, abs=2)
    assert len(logs[0].ids) == 0
    ((_, memory),) = row_stores(played.server.state)
    assert sorted(memory.get(number)[0].item() for number in range(2)) == [1.0, 2.0]
    said = caplog.text
    assert "round 1 is empty" in said
    assert "deadline of 60 s" in said
    assert "introduce=False" in said
    assert sum("nobody answered within the deadline of 60 s" in line for line in said.splitlines())


def test_nodes_that_are_slow_to_introduce_themselves_join_when_they_have(tmp_path):
    nodes = slow_nodes(100.0, [introduction()])
    grid = LoopbackGrid(nodes)

    def after_round(t):
        for node in nodes:
            node.delay = lambda message: 100.0 if t < 0 else 1.0

    played = play(
        grid,
        rounds=3,
        folder=tmp_path,
        after_round=after_round,
        availability=FixedDropout(0.0),
        **OPTIONS,
    )
    why = {(one.t, one.id): (one.outcome.name, one.detail) for one in read_outcomes(tmp_path)}
    assert why[0, "0"] == ("UNAVAILABLE", "had not said who it is")
    assert played.history[1:] == [{"0": "came", "1": "came"}] * 2
    # by examples: (1·1 + 2·2) / 3 in each of two rounds
    np.testing.assert_allclose(played.result.arrays["w"].numpy(), 10 / 3, rtol=1e-6)


def test_a_federation_in_which_nobody_ever_answers_ends_after_its_rounds():
    nodes = slow_nodes(0.0)
    for node in nodes:
        node.silent = lambda message: True
    grid = LoopbackGrid(nodes)
    with pytest.raises(
        RuntimeError, match=r"no client is known after 3 rounds: 2 nodes were.*60 s"
    ):
        play(grid, rounds=3, **OPTIONS)
    assert 180 <= grid.time.seconds < 200


def test_rounds_in_which_all_are_busy_wait_for_them_and_do_not_pass_at_once():
    nodes = slow_nodes(0.0)
    grid = LoopbackGrid(nodes)

    def after_round(t):
        for node in nodes:
            node.delay = lambda message: 100.0 if t == 0 else 0.0

    played = play(grid, REMEMBERING, rounds=4, after_round=after_round, **OPTIONS)
    assert [set(one.values()) for one in played.history] == [
        {"came"},
        {"missing"},
        {"late"},
        {"came"},
    ]
    assert grid.time.seconds == pytest.approx(100.0, abs=10)

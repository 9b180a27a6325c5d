"""In a live federation a reported number of examples is a claim, unless `population` gives it."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from flwr.app import Context

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import moved, play, reply_of, toy_app
from understudy import (
    FDMS,
    MIFA,
    Capped,
    Median,
    MoreDataFirst,
    Population,
    Strategy,
    TrimmedMean,
    mdsample,
)
from understudy.flower import introduction
from understudy.journal.file import LogFile
from understudy.server import checkpoint
from understudy.server.checkpoint_contents import POPULATION

CLAIM = 1_000_000
IDS = tuple(str(i) for i in range(6))


def size(context: Context) -> int:
    number = int(context.node_config["partition-id"])
    return CLAIM if number == 5 else 10 * (number + 1)


def federation(*, introduced: bool = True, secure: bool = False) -> LoopbackGrid:
    """Clients 0 to 4 move the model by 2 to 6, client 5 by -100 with a claim of a million."""

    def behave(message, context):
        number = int(context.node_config["partition-id"])
        arrays = message.content.array_records["arrays"]
        by = -100.0 if number == 5 else number + 2.0
        return reply_of(message, moved(arrays, by), size(context))

    mods = [introduction(n_examples=size)] if introduced else [introduction()]
    return LoopbackGrid(nodes_of(toy_app(behave, mods), 6, secure=secure))


def w(adapter) -> float:
    values = adapter.result.arrays["w"].numpy()
    assert (values == values[0]).all()
    return float(values[0])


ROBUST = {
    "median": Strategy(aggregator=Median()),
    "trimmed": Strategy(aggregator=TrimmedMean(0.2)),
    "capped and median": Strategy(compensator=Capped(FDMS(), 0.2), aggregator=Median()),
}


@pytest.mark.parametrize("introduced", [True, False], ids=["told before", "told with the update"])
@pytest.mark.parametrize("name", ROBUST)
def test_a_robust_federation_stays_with_the_honest(name, introduced):
    adapter = play(federation(introduced=introduced), ROBUST[name], rounds=2)
    assert adapter.strategy.weighting == "examples"
    assert 2 * 2 <= w(adapter) <= 2 * 6


@pytest.mark.parametrize("introduced", [True, False], ids=["told before", "told with the update"])
def test_fedavg_is_bounded_by_the_cap_and_says_so(introduced, caplog, tmp_path):
    with caplog.at_level(logging.INFO, logger="flwr"):
        adapter = play(federation(introduced=introduced), rounds=1, folder=tmp_path)
    # 30 is the median of the claims: the million counts as 300 of 450
    honest = sum(10 * (i + 1) * (i + 2) for i in range(5))
    assert w(adapter) == pytest.approx((honest - 300 * 100) / 450, rel=1e-5)
    said = "5 reports 1e+06 examples, which no population confirms: they count as 300, 10 times"
    assert said in caplog.text
    assert "Examples that no population confirms: at most 10 times the median" in caplog.text
    (log,) = LogFile(tmp_path / "rounds.jsonl", 1).stored(1)
    assert (log.notes["claims_capped"], log.notes["claims_cap"]) == (1, 300)


def test_what_the_user_declares_is_confirmed(caplog):
    """Client 5 really has a million: whoever runs the federation says so."""
    sizes = np.array([10, 20, 30, 40, 50, CLAIM], dtype=float)
    known = Population(6, n_examples=sizes)
    adapter = play(federation(), rounds=1, clients=IDS, population=known)
    assert w(adapter) == pytest.approx(-100, rel=1e-3)
    assert "confirms: they count" not in caplog.text
    assert adapter.server.state.population.confirmed.all()


def test_a_population_of_some_confirms_these_alone():
    known = Population(6, n_examples=np.array([10, 20, 30, 40, 50, np.nan]))
    adapter = play(federation(), ROBUST["median"], rounds=1, clients=IDS, population=known)
    assert adapter.server.state.population.confirmed.tolist() == [True] * 5 + [False]
    assert 2 <= w(adapter) <= 6


def before(monkeypatch):
    """Stored as by a version that did not tell claims apart."""
    older = tuple(name for name in POPULATION if name != "claimed")
    monkeypatch.setattr(checkpoint, "POPULATION", older)


@pytest.mark.parametrize("stored", ["now", "before"])
@pytest.mark.parametrize("declared", [False, True])
def test_a_claim_is_one_after_a_resumption(stored, declared, tmp_path, monkeypatch):
    strategy = Strategy(compensator=MIFA(wait=False))
    options = {}
    if declared:
        known = Population(6, n_examples=np.array([10, 20, 30, 40, 50, np.nan]))
        options = {"clients": IDS, "population": known}
    whole = play(federation(), strategy, rounds=3, **options)
    with monkeypatch.context() as patch:
        if stored == "before":
            before(patch)
        play(federation(), strategy, rounds=1, folder=tmp_path, **options)
    again = play(federation(), strategy, rounds=3, folder=tmp_path, **options)
    assert len(again.history) == 2
    assert w(again) == w(whole) > 3 * -70  # uncapped it is -300
    confirmed = again.server.state.population.confirmed
    assert confirmed.tolist() == [declared] * 5 + [False]


def test_one_who_joins_with_a_claim_is_not_confirmed(tmp_path):
    """Growing makes a population of what was reported: that is no confirmation."""
    grid = federation()
    hostile = grid.nodes[105]
    hostile.online = False

    def after_round(t):
        hostile.online = True

    adapter = play(grid, ROBUST["median"], rounds=3, after_round=after_round, fraction_evaluate=0.0)
    assert adapter.server.state.n_clients == 6
    assert not adapter.server.state.population.confirmed.any()
    assert 3 * 2 <= w(adapter) <= 3 * 6


def test_a_sampler_by_size_does_not_draw_the_claim_alone():
    """Of two thousand draws a million of a million and 150 would leave none to the others."""
    grid = federation()
    strategy = mdsample(m=2000)
    adapter = play(grid, strategy, rounds=1)
    assert set(adapter.history[0].values()) == {"came"}
    # drawn as 300 of 450: the mean is about (700 - 30000) / 450 = -65
    assert -72 < w(adapter) < -58


def test_simulated_absence_by_size_still_knows_what_was_reported(tmp_path):
    adapter = play(federation(), rounds=2, availability=MoreDataFirst(1.0), folder=tmp_path)
    again = play(federation(), rounds=4, availability=MoreDataFirst(1.0), folder=tmp_path)
    assert len(adapter.history) == len(again.history) == 2


def test_a_round_that_holds_nobody_and_one_with_too_few_rows_are_told(caplog):
    def few(strategy):
        grid = federation()
        for node in list(grid.nodes.values())[2:]:
            node.online = False
        return play(grid, strategy, rounds=1)

    few(Strategy(aggregator=Median()))
    assert "one client alone can move this round's Median anywhere" in caplog.text
    adapter = few(Strategy(aggregator=Median(min_rows=3)))
    assert "no step: 2 rows of clients, Median wants at least 3" in caplog.text
    assert w(adapter) == 0


@pytest.mark.parametrize("last", [60.0, float(CLAIM)])
def test_sizes_that_are_declared_on_resumption_count_by_id(last, tmp_path, caplog):
    """The second run lists the clients in another order: sizes belong to ids."""
    play(federation(), rounds=1, folder=tmp_path, clients=IDS)
    sizes = np.array([10, 20, 30, 40, 50, last])[::-1]
    known = Population(6, n_examples=sizes)
    caplog.clear()
    again = play(federation(), rounds=2, folder=tmp_path, clients=IDS[::-1], population=known)
    assert again.server.state.population.confirmed.all()
    assert again.server.state.n_examples.tolist() == [10, 20, 30, 40, 50, last]
    assert "no population confirms: they count" not in caplog.text
    third = play(federation(), rounds=3, folder=tmp_path)  # what was declared once is kept
    assert third.server.state.population.confirmed.all()


def test_a_declared_size_takes_the_place_of_another_one(tmp_path):
    sizes = np.array([10.0, 20, 30, 40, 50, np.nan])
    options = {"folder": tmp_path, "clients": IDS}
    play(federation(), rounds=1, population=Population(6, n_examples=sizes), **options)
    sizes = np.array([np.nan, 5, 30, 40, 50, 60])
    grid = federation()
    for number in (1, 5):
        grid.nodes[100 + number].online = False
    again = play(grid, rounds=2, population=Population(6, n_examples=sizes), **options)
    assert again.server.state.population.n_examples.tolist() == [10, 5, 30, 40, 50, 60]
    assert again.server.state.n_examples.tolist() == [10, 5, 30, 40, 50, 60]
    assert again.server.state.population.confirmed.all()


def test_clients_that_are_expected_since_the_resumption_have_their_numbers_and_sizes(tmp_path):
    grid = federation()
    grid.nodes[104].online = grid.nodes[105].online = False
    play(grid, rounds=1, folder=tmp_path, clients=IDS[:4])
    grid = federation()
    grid.nodes[104].online = False
    sizes = np.array([CLAIM, 50, 10, 20, 30, 40], dtype=float)
    known = Population(6, n_examples=sizes)
    ids = ("5", "4", *IDS[:4])
    again = play(grid, rounds=2, folder=tmp_path, clients=ids, population=known)
    assert [one.id for one in again.server.roster.clients] == ["0", "1", "2", "3", "5", "4"]
    assert again.history == [{**dict.fromkeys("01235", "came"), "4": "unavailable"}]
    assert again.server.state.n_examples.tolist() == [10, 20, 30, 40, CLAIM, 50]
    assert again.server.state.population.confirmed.all()


def test_declared_facts_that_a_run_cannot_take_over_are_named(tmp_path, caplog):
    options = {"folder": tmp_path, "clients": IDS}
    play(federation(), rounds=1, population=Population(6, groups=[0, 0, 0, 1, 1, 1]), **options)
    other = Population(6, groups=[0, 0, 1, 1, 1, 0], p=[0.5] * 6)
    again = play(federation(), rounds=2, population=other, **options)
    said = "not used: p (the run began without); groups of '2', '5'"
    assert caplog.text.count(said) == 1
    assert again.server.state.population.groups.tolist() == [0, 0, 0, 1, 1, 1]
    caplog.clear()
    more = {**options, "clients": (*IDS, "6")}  # nobody knows its group
    third = play(federation(), rounds=3, **more)
    assert "clients: '6' cannot join the run that resumes: population.groups" in caplog.text
    assert third.server.state.n_clients == 6

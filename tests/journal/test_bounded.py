"""A log is bounded: above a number of contributions it keeps each client's largest, and sums."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.commands.show import _representation
from understudy.core.types import Applied, Block, Contributions, Outcome, RoundLog
from understudy.journal import bounded
from understudy.journal.codec import line_of, log_of_line
from understudy.journal.rounds import log_of
from understudy.representation import ClientFacts, Representation
from understudy.representation.pairs import Pairs, StoodIn
from understudy.studies.report.stand_ins import by_round
from understudy.studies.store.store import Store

KEY = "0123456789abcdef"


def applied(ids, source, coef, n_clients, came=()):
    """A round whose contributions point at one row per owner, -1 included."""
    ids, source = np.asarray(ids, dtype=np.int64), np.asarray(source, dtype=np.int64)
    outcome = np.full(n_clients, Outcome.UNAVAILABLE, dtype=np.int8)
    outcome[list(came)] = Outcome.CAME
    rows = Block(np.arange(-1, n_clients), [])
    filled = Contributions(ids, source + 1, np.asarray(coef, dtype=np.float64), (rows,))
    return Applied(0, filled, outcome, (), {"largest_share": 0.5}, True, {})


@pytest.fixture
def small(monkeypatch):
    """More than six contributions are cut to three of each client."""
    monkeypatch.setattr(bounded, "WHOLE", 6)
    monkeypatch.setattr(bounded, "LARGEST", 3)


#           0 came   1 is absent: by four, itself, a mixture   2 by 0
BY_HAND = (
    [0, 1, 1, 1, 1, 1, 1, 2],
    [0, 0, 2, 3, 4, 1, -1, 0],
    [0.2, 0.1, -0.3, 0.1, 0.4, 0.05, 0.01, 0.2],
)


def test_the_largest_and_the_sums_by_hand(small):
    """Client 1 keeps its own row, the mixture, and 4's, the largest of the others."""
    log = log_of(applied(*BY_HAND, n_clients=5, came=[0]), {}, errors=np.arange(8.0))
    np.testing.assert_array_equal(log.ids, [0, 1, 1, 1, 2])
    np.testing.assert_array_equal(log.source, [0, 4, 1, -1, 0])
    np.testing.assert_array_equal(log.coef, [0.2, 0.4, 0.05, 0.01, 0.2])
    np.testing.assert_array_equal(log.errors, [0, 4, 5, 6, 7])
    source, coef, others = log.by_source
    np.testing.assert_array_equal(source, [-1, 0, 1, 2, 3, 4])
    np.testing.assert_allclose(coef, [0.01, 0.5, 0.05, -0.3, 0.1, 0.4], rtol=1e-15)
    np.testing.assert_array_equal(others, [1, 2, 0, 1, 1, 1])
    assert log.notes == {"largest_share": 0.5, "coef_left_out": pytest.approx(0.5, rel=1e-15)}


def test_ties_go_by_the_order_of_mention(small):
    log = log_of(applied([0] * 7, [1, 2, 3, 4, 5, 6, 7], [0.1] * 7, 8), {})
    np.testing.assert_array_equal(log.source, [1, 2, 3])


def test_what_readers_count_is_that_of_the_whole_log(small, monkeypatch):
    """But for pairs, which are those that are kept, and it is told in how many rounds."""
    cut = log_of(applied(*BY_HAND, n_clients=5, came=[0]), {})
    monkeypatch.setattr(bounded, "WHOLE", 100)
    whole = log_of(applied(*BY_HAND, n_clients=5, came=[0]), {})
    assert whole.totals is None
    assert by_round([cut]).equals(by_round([whole]))
    found = []
    for log in (cut, whole):
        counts = Representation()
        counts.add(log)
        found.append({name: values.tolist() for name, values in counts.counts().items()})
    assert found[0] == found[1]
    assert found[0]["spoke_for_others"] == [2, 0, 1, 1, 1]
    call, call_of_whole = Representation.of([cut]), Representation.of([whole])
    np.testing.assert_array_equal(call.spoken_for, call_of_whole.spoken_for)
    assert (call.n_cut, call_of_whole.n_cut) == (1, 0)
    pairs = Pairs()
    pairs.add(cut)
    assert set(pairs.most()) == {
        StoodIn(1, -1, 1), StoodIn(1, 1, 1), StoodIn(1, 4, 1), StoodIn(2, 0, 1)
    }  # fmt: skip


def test_show_says_that_pairs_are_left_out(small, monkeypatch):
    cut = log_of(applied(*BY_HAND, n_clients=5, came=[0]), {})
    monkeypatch.setattr(bounded, "WHOLE", 100)
    whole = log_of(applied(*BY_HAND, n_clients=5, came=[0]), {})
    said = "of 1 round only the 3 largest stand-ins of each client are kept"
    for log, is_said in ((cut, True), (whole, False)):
        pairs = Pairs()
        pairs.add(log)
        called = list("abcde")
        lines = list(_representation(Representation.of([log]), pairs, called, ClientFacts()))
        assert (lines[-1] == said) is is_said


@settings(deadline=None)
@given(st.data())
def test_sums_are_those_of_the_whole_log(data):
    n = data.draw(st.integers(1, 6))
    size = data.draw(st.integers(0, 60))
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    ids, source = draw.integers(0, n, size), draw.integers(-1, n, size)
    coef = draw.choice([0.0, 0.25, -0.25, 0.5, 1.0], size)
    k = data.draw(st.integers(3, 8))
    came = np.flatnonzero(draw.random(n) < 0.5)
    with pytest.MonkeyPatch.context() as patch:
        whole = log_of(applied(ids, source, coef, n, came), {})
        patch.setattr(bounded, "WHOLE", data.draw(st.integers(0, 20)))
        patch.setattr(bounded, "LARGEST", k)
        cut = log_of(applied(ids, source, coef, n, came), {})
    assert len(cut.ids) <= max(bounded.WHOLE, k * n)
    for ours, theirs in zip(cut.by_source, whole.by_source, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert by_round([cut]).equals(by_round([whole]))
    left_out = cut.notes.get("coef_left_out", 0.0)  # sums of quarters are exact
    assert np.abs(cut.coef).sum() + left_out == np.abs(whole.coef).sum()
    if cut.totals is None:
        assert line_of(cut) == line_of(whole)


def same(log: RoundLog, other: RoundLog) -> None:
    assert line_of(log) == line_of(other)
    assert (log.totals is None) == (other.totals is None)


def test_a_cut_log_is_read_as_it_was_written(small, tmp_path):
    cut = log_of(applied(*BY_HAND, n_clients=5, came=[0]), {})
    whole = log_of(applied([0], [0], [1.0], 5, came=[0]), {})
    lines = [json.loads(line_of(log)) for log in (cut, whole)]
    assert [line["codec"] for line in lines] == [3, 2]  # earlier versions refuse the first
    assert "totals" not in lines[1]
    with Store.open(tmp_path, write=True) as store:
        store.begin(KEY, {}, {}, "0")
        store.add_rounds(KEY, [cut, RoundLog(**{**vars(whole), "t": 1})])
        stored = list(store.logs(KEY))
        counts = store.client_counts(KEY)
        assert store.damage(KEY) == ""
        store.add_rounds(KEY, [whole])  # a round that is played again takes its sums with it
        assert store._query("SELECT count(*) FROM round_totals") == [(0,)]
    same(stored[0], cut)
    assert stored[1].totals is None
    np.testing.assert_array_equal(counts["spoke_for_others"], [2, 0, 1, 1, 1])
    same(log_of_line(line_of(cut)), cut)


def test_a_log_of_two_thousand_absent_and_two_thousand_that_came_is_bounded():
    """As `Capped` makes them: four million contributions, 96 MB, are kept in less than 1 MB."""
    came, absent = np.arange(2000), np.arange(2000, 4000)
    ids = np.concatenate([came, np.repeat(absent, 2000)])
    source = np.concatenate([came, np.tile(came, 2000)])
    log = log_of(applied(ids, source, np.random.default_rng(0).random(len(ids)), 4000, came), {})
    assert len(log.ids) == 2000 + 16 * 2000
    assert log.by_source.others.tolist() == [2000] * 2000
    assert len(line_of(log)) < 1_000_000
    assert log.notes["coef_left_out"] > 1_900_000


def test_one_contribution_of_each_client_is_never_cut(small):
    log = log_of(applied(np.arange(20), np.arange(20), np.full(20, 0.05), 20), {})
    assert log.totals is None
    assert len(log.ids) == 20
    assert "coef_left_out" not in log.notes

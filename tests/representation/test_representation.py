"""By what clients are represented: counts by hand."""

import time

import numpy as np
import pytest

from tests.peak import peak
from tests.representation.rounds import AWAY, CAME, LATE, MISSING, NOT, played
from understudy.representation import Representation, Voice
from understudy.representation.pairs import Pairs, StoodIn


def test_counts_by_hand():
    """Four clients, three rounds.

    Round 0: 0 and 1 come; 2 is represented by 0; 3 is not wanted.
    Round 1: 0 comes; 1 by 0, 2 by its own last update (of which nothing is known).
    Round 2: 1 comes; 0's coefficient is zero, so nothing represents it; 2 by 1.
    """
    logs = [
        played(0, [CAME, CAME, AWAY, NOT], [(0, 0, 0.3), (1, 1, 0.3), (2, 0, 0.3)]),
        played(1, [CAME, AWAY, AWAY, NOT], [(0, 0, 0.3), (1, 0, 0.3), (2, 2, 0.3)]),
        played(2, [AWAY, CAME, AWAY, NOT], [(0, 0, 0.0), (1, 1, 0.5), (2, 1, 0.5)]),
    ]
    found = Representation.of(logs)
    assert (found.n_rounds, found.n_steps) == (3, 3)
    np.testing.assert_array_equal(found.wanted, [3, 3, 3, 0])
    np.testing.assert_array_equal(found.came, [2, 2, 0, 0])
    #                                            fresh, own, others, mixture, nobody
    np.testing.assert_array_equal(found.voiced, [[2, 0, 0, 0, 1], [2, 0, 1, 0, 0],
                                                 [0, 1, 2, 0, 0], [0, 0, 0, 0, 3]])  # fmt: skip
    np.testing.assert_array_equal(found.gap, [1, 0, 0, 3])
    np.testing.assert_array_equal(found.away, [1, 0, 3, 3])
    np.testing.assert_array_equal(found.spoken_for, [0, 1, 2, 0])
    assert [one.client for one in found.least()] == [3, 0]
    assert [one.client for one in found.least(at_most=1)] == [3]
    assert [one.client for one in found.least(gone=[3])] == [0]
    assert found.heard(0) == pytest.approx((0, 2 / 3, 2 / 3, 0, np.nan, 0, 1 / 3), nan_ok=True)
    pairs = Pairs()
    for log in logs:
        pairs.add(log)
    assert pairs.most() == [
        StoodIn(1, 0, 1),
        StoodIn(2, 0, 1),
        StoodIn(2, 1, 1),
        StoodIn(2, 2, 1),
    ]


def test_the_most_frequent_pair_comes_first_and_two_contributions_count_once(monkeypatch):
    monkeypatch.setattr("understudy.representation.pairs.MERGED_AT", 1)
    pairs = Pairs()
    pairs.add(played(0, [CAME, AWAY, AWAY], [(0, 0, 0.3), (1, 0, 0.3), (2, 0, 0.3)]))
    pairs.add(played(1, [CAME, CAME, AWAY], [(0, 0, 0.3), (1, 1, 0.3), (2, 0, 0.2), (2, 0, 0.2)]))
    pairs.add(played(2, [AWAY, AWAY, AWAY], [(2, -1, 0.3)]))
    assert pairs.most() == [StoodIn(2, 0, 2), StoodIn(1, 0, 1), StoodIn(2, -1, 1)]
    assert pairs.most(1) == [StoodIn(2, 0, 2)]


def test_pairs_that_repeat_are_counted_before_they_are_many():
    """10,000 clients, each represented by its own last update in 101 rounds: a million pairs."""
    n = 10_000
    everyone, coef = np.arange(n), np.full(n, 1 / n)
    empty = played(0, np.full(n, AWAY), [])
    log = type(empty)(**{**vars(empty), "ids": everyone, "source": everyone, "coef": coef})
    pairs = Pairs()

    def add():
        for _ in range(101):
            pairs.add(log)

    assert peak(add) < 16e6  # counted all at once: 67 MB
    assert pairs.most(1) == [StoodIn(0, 0, 101)]


def test_remembered_updates_have_an_age():
    """0 comes in rounds 0 and 3; between, its update of round 0 is one and two rounds old."""
    both, one = [(0, 0, 0.5), (1, 1, 0.5)], [CAME, CAME]
    logs = [played(0, one, both), *(played(t, [AWAY, CAME], both) for t in (1, 2))]
    found = Representation.of([*logs, played(3, one, both)])
    np.testing.assert_array_equal(found.voiced[0], [2, 2, 0, 0, 0])
    assert found.heard(0).age == 1.5
    assert Representation.of(logs).age.tolist() == [2, 0]
    assert Representation.of(logs).voice.tolist() == [Voice.REMEMBERED, Voice.FRESH]


def test_a_late_update_is_as_old_as_the_round_it_was_asked_in():
    """Asked in round 1, there in round 2 after the step: in round 3 it is two rounds old."""
    alone, both = [(1, 1, 1.0)], [(0, 0, 0.5), (1, 1, 0.5)]
    logs = [
        played(0, [AWAY, CAME], alone),
        played(1, [MISSING, CAME], alone),
        played(2, [LATE, CAME], alone),
        played(3, [AWAY, CAME], both),
    ]
    found = Representation.of(logs)
    assert found.age[0] == 2
    assert found.heard(0).age == 2.0
    assert found.gap.tolist() == [0, 0]


def test_the_mean_of_those_who_came_represents_nobody_that_never_came():
    """1 came once, so that the mean may hold something of it; 2 never did."""
    logs = [
        played(0, [CAME, CAME, AWAY], [(0, 0, 0.5), (1, 1, 0.5), (2, -1, 0.1)]),
        played(1, [CAME, AWAY, AWAY], [(0, 0, 0.5), (1, -1, 0.5), (2, -1, 0.5)]),
    ]
    found = Representation.of(logs)
    np.testing.assert_array_equal(found.gap, [0, 0, 2])
    np.testing.assert_array_equal(found.voiced[:, Voice.MIXTURE], [0, 1, 0])
    np.testing.assert_array_equal(found.voiced[:, Voice.NOBODY], [0, 0, 2])


@pytest.mark.parametrize("notes", [{"too_few_rows": 1.0}, {"step_not_finite": 1.0}])
def test_a_round_without_a_step_represents_nobody_and_leaves_nobody_out(notes):
    logs = [played(0, [CAME, CAME]), played(1, [AWAY, AWAY], []), played(2, [CAME, AWAY], [])]
    for log in (*logs, played(3, [CAME, AWAY], notes=notes)):
        logs = [*logs[:3], log]
    found = Representation.of(logs)
    assert (found.n_rounds, found.n_steps) == (4, 1)
    assert found.gap.tolist() == [0, 0]
    assert found.away.tolist() == [0, 3]


def test_who_joins_later_is_judged_by_the_rounds_since():
    """Client 2 joins in round 1 and comes in all that are left; 1 is away in one round of three."""
    logs = [played(0, [CAME, CAME]), played(1, [CAME, AWAY, CAME]), played(2, [CAME, CAME, CAME])]
    found = Representation.of(logs)
    np.testing.assert_array_equal(found.there, [3, 3, 2])
    np.testing.assert_array_equal(found.steps, [3, 3, 2])
    assert [one.client for one in found.least()] == [1]
    assert found.least(gone=[1]) == []


def test_no_rounds():
    found = Representation.of([])
    assert (found.n_rounds, found.n_clients, found.least()) == (0, 0, [])
    assert Pairs().most() == []


def test_a_round_of_ten_thousand_clients_takes_no_memory_of_their_pairs():
    """All remembered, and each absent one by a friend too: arrays of N, never of N²."""
    n, found, pairs = 10_000, Representation(), Pairs()
    everyone = np.arange(n)
    came = everyone % 10 == 0
    log = played(0, np.where(came, CAME, AWAY), [])
    ids, source = np.tile(everyone, 2), np.concatenate([everyone, everyone // 10 * 10])
    fields = {**vars(log), "ids": ids, "source": source, "coef": np.full(2 * n, 1 / n)}
    begin = time.process_time()
    for t in range(20):
        found.add(type(log)(**{**fields, "t": t}))
        pairs.add(type(log)(**{**fields, "t": t}))
    assert time.process_time() - begin < 60  # a few ms a round; N² numbers would be 800 MB
    assert len(pairs.most()) == 2 * 9 * n // 10
    assert found.voiced.sum() == 20 * n

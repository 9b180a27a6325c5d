"""Who was heard: counts by hand."""

import numpy as np

from understudy import Outcome, RoundLog
from understudy.studies.statistics.representation import Heard, Representation, StoodIn


def played(t, outcome, contributions):
    """A log of (represented, source, coefficient)."""
    ids, source, coef = zip(*contributions, strict=True) if contributions else ((), (), ())
    return RoundLog(
        t=t,
        outcome=np.array(outcome, dtype=np.int8),
        refusals=(),
        ids=np.array(ids, dtype=np.int64),
        source=np.array(source, dtype=np.int64),
        coef=np.array(coef, dtype=np.float64),
        notes={},
    )


CAME, AWAY, NOT = Outcome.CAME, Outcome.UNAVAILABLE, Outcome.NOT_WANTED


def test_counts_by_hand():
    """Four clients, three rounds.

    Round 0: 0 and 1 come; 2 is spoken for by 0; 3 is not wanted.
    Round 1: 0 comes; 1 by 0, 2 by its own last update.
    Round 2: 1 comes; 0's coefficient is zero, so nobody heard it; 2 by 1.
    """
    logs = [
        played(0, [CAME, CAME, AWAY, NOT], [(0, 0, 0.3), (1, 1, 0.3), (2, 0, 0.3)]),
        played(1, [CAME, AWAY, AWAY, NOT], [(0, 0, 0.3), (1, 0, 0.3), (2, 2, 0.3)]),
        played(2, [AWAY, CAME, AWAY, NOT], [(0, 0, 0.0), (1, 1, 0.5), (2, 1, 0.5)]),
    ]
    call = Representation.of(logs)
    assert call.n_rounds == 3
    np.testing.assert_array_equal(call.wanted, [3, 3, 3, 0])
    np.testing.assert_array_equal(call.came, [2, 2, 0, 0])
    np.testing.assert_array_equal(call.spoken_for, [0, 1, 3, 0])
    assert call.stood_in == (
        StoodIn(1, 0, 1),
        StoodIn(2, 0, 1),
        StoodIn(2, 1, 1),
        StoodIn(2, 2, 1),
    )
    assert call.left_out() == [Heard(3, 0, 0, 0), Heard(0, 3, 2, 0)]
    assert call.left_out(at_most=1) == [Heard(3, 0, 0, 0)]


def test_the_most_frequent_pair_comes_first():
    logs = [
        played(0, [CAME, AWAY, AWAY], [(0, 0, 0.3), (1, 0, 0.3), (2, 0, 0.3)]),
        played(1, [CAME, CAME, AWAY], [(0, 0, 0.3), (1, 1, 0.3), (2, 0, 0.3)]),
    ]
    assert Representation.of(logs).stood_in == (StoodIn(2, 0, 2), StoodIn(1, 0, 1))


def test_two_contributions_of_one_round_count_once():
    logs = [played(0, [CAME, AWAY], [(0, 0, 0.5), (1, 0, 0.25), (1, 0, 0.25)])]
    assert Representation.of(logs).stood_in == (StoodIn(1, 0, 1),)


def test_clients_that_join_later_are_counted_from_then_on():
    logs = [played(0, [CAME], [(0, 0, 1.0)]), played(1, [CAME, CAME], [(0, 0, 0.5), (1, 1, 0.5)])]
    np.testing.assert_array_equal(Representation.of(logs).came, [2, 1])


def test_no_rounds():
    call = Representation.of([])
    assert call.n_rounds == 0
    assert call.left_out() == []


def test_who_joins_later_is_judged_by_the_rounds_since():
    """Client 2 joins in round 1 and comes in all that are left; 1 is away in one round of three."""
    logs = [
        played(0, [CAME, CAME], [(0, 0, 0.5), (1, 1, 0.5)]),
        played(1, [CAME, AWAY, CAME], [(0, 0, 0.5), (2, 2, 0.5)]),
        played(2, [CAME, CAME, CAME], [(0, 0, 0.3), (1, 1, 0.3), (2, 2, 0.3)]),
    ]
    call = Representation.of(logs)
    np.testing.assert_array_equal(call.there, [3, 3, 2])
    assert call.left_out() == [Heard(1, 3, 2, 0)]
    assert call.left_out(gone=[1]) == []

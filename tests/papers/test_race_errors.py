"""Theorem 2's event: a true friend leaves the candidates."""

from __future__ import annotations

import numpy as np

from tests.analysis.played import clusters, played
from understudy import HoeffdingRace, Local, fdms, fdms_dropout, fedavg
from understudy.papers.race_errors import dropped, race_errors
from understudy.studies.definition.cell import Task

GROUPS = np.array([7, 7, 3])


def test_by_hand():
    """Client 0 has dropped 2, client 2 both others: of two (client, friend) none, of four
    (client, stranger) three. Then 1 drops its friend 0: one of two."""
    removed = np.array([[0, 0, 1], [0, 0, 0], [1, 1, 0]], dtype=bool)
    assert dropped(removed, GROUPS) == {
        "a_friend_was_dropped": 0.0,
        "friends_dropped": 0.0,
        "strangers_dropped": 0.75,
    }
    removed[1, 0] = True
    found = dropped(removed, GROUPS)
    assert (found["a_friend_was_dropped"], found["friends_dropped"]) == (1.0, 0.5)


def test_without_friends_or_strangers():
    removed = np.zeros((2, 2), dtype=bool)
    assert dropped(removed, np.array([0, 1])) == {
        "a_friend_was_dropped": 0.0, "strangers_dropped": 0.0,
    }  # fmt: skip
    assert "strangers_dropped" not in dropped(removed, np.array([0, 0]))


def task(strategy):
    return Task(
        data=clusters(), model="softmax", strategy=strategy, rounds=3, seed=2,
        availability=fdms_dropout(0.5),
    )  # fmt: skip


def test_in_a_run():
    """Θ = 0 drops all but the best: with one friend each, that is a friend or all strangers."""
    race = HoeffdingRace(scale=1e-9, delta_f=0.0)
    _, found = played(race_errors, task(fdms(race=race, local=Local(lr=0.1))))
    assert 0 < found.metrics["strangers_dropped"] <= 1
    assert found.metrics["a_friend_was_dropped"] == (found.metrics["friends_dropped"] > 0)


def test_nothing_without_a_race():
    for strategy in (fdms(local=Local(lr=0.1)), fedavg(local=Local(lr=0.1))):
        _, found = played(race_errors, task(strategy))
        assert (found.metrics, found.arrays) == ({}, {})

"""Friend absence and stand-ins from elsewhere, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.played import clusters, played
from understudy import FixedDropout, Local, Outcome, RoundLog, fdms
from understudy.papers.presence import presence
from understudy.papers.sigma import sigma
from understudy.studies.definition.cell import Task

GROUPS = np.array([7, 7, 3, 3, 5])
CAME, OUT, MISSING, NOT = (
    Outcome.CAME, Outcome.UNAVAILABLE, Outcome.MISSING, Outcome.NOT_WANTED,
)  # fmt: skip


def log(outcome, spoken):
    ids, source = np.array(spoken).T
    return RoundLog(
        t=0,
        outcome=np.array(outcome, dtype=np.int8),
        refusals=(),
        ids=ids,
        source=source,
        coef=np.ones(len(ids)),
        notes={},
    )


def test_by_hand():
    """Round 1: 0 and 2 came; 1 has its friend 0, 3 its friend 2, 4 is alone: 1 of 3.
    1 is spoken for by 0 (its own), 3 by 0 (another's), 4 by a mixture, which is nobody's.
    Round 2: 4 came; 0 and 1 are absent without a friend, 2 was not wanted, 3 is absent and alone:
    3 of 3. 0 speaks for itself from memory; 1 is spoken for by 4.
    Together 4 of 6 without a friend, and of 3 stand-ins 2 from elsewhere.
    """
    logs = [
        log([CAME, OUT, CAME, MISSING, OUT], [(0, 0), (2, 2), (1, 0), (3, 0), (4, -1)]),
        log([OUT, OUT, NOT, OUT, CAME], [(4, 4), (0, 0), (1, 4)]),
    ]
    found = presence(logs, GROUPS)
    assert found == {
        "friend_absence": pytest.approx(4 / 6),
        "stand_ins_from_elsewhere": pytest.approx(2 / 3),
    }


def test_nobody_absent_is_nothing_to_count():
    logs = [log([CAME] * 5, [(i, i) for i in range(5)])]
    assert presence(logs, GROUPS) == {}


def test_whole_clusters_missing_are_seen_in_a_run():
    """One of six present: the five others have nobody of their own cluster but its one friend."""
    availability = FixedDropout(5 / 6, first_round_full=True)
    task = Task(
        data=clusters(), model="softmax", strategy=fdms(local=Local(lr=0.1)), rounds=4, seed=2,
        availability=availability, oracle=True,
    )  # fmt: skip
    logs, found = played(sigma, task)
    groups = clusters().groups
    alone = [
        not (groups[log.outcome == Outcome.CAME] == groups[client]).any()
        for log in logs
        for client in np.flatnonzero(log.outcome != Outcome.CAME)
    ]
    assert found.metrics["friend_absence"] == pytest.approx(np.mean(alone))
    assert 0 < np.mean(alone) < 1
    # everybody came in round 0, so somebody was always known: a candidate is never lacking
    assert {log.notes["no_candidate"] for log in logs[1:]} == {0.0}
    assert found.metrics["stand_ins_from_elsewhere"] == pytest.approx(np.mean(alone))


def test_mean_distances_are_over_pairs_and_in_the_papers_units():
    task = Task(
        data=clusters(), model="softmax", strategy=fdms(local=Local(lr=0.1)), rounds=3, seed=2,
        availability=FixedDropout(0.5), oracle=True,
    )  # fmt: skip
    logs, found = played(sigma, task)
    near = np.array([log.notes["friends_apart"] for log in logs]) / 0.01
    far = np.array([log.notes["strangers_apart"] for log in logs]) / 0.01
    assert found.metrics["friends_apart"] == pytest.approx(near.mean())
    assert found.metrics["strangers_apart"] == pytest.approx(far.mean())
    assert found.metrics["apart_ratio"] == pytest.approx((near / far).mean())
    assert found.metrics["apart_ratio_last"] == pytest.approx((near / far)[-1])

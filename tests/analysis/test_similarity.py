"""What FL-FDMS's similarities tell of the clusters."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.played import clusters, played
from understudy import FDMS, Capped, FixedDropout, Local, Strategy, fdms, fedavg
from understudy.analysis.similarity import separation, similarity, smallest_gap
from understudy.studies.definition.cell import Task

LOCAL = Local(lr=0.1, epochs=1, batch_size=10)
NAN = np.nan


def task_of(strategy) -> Task:
    return Task(
        data=clusters(),
        model="softmax",
        strategy=strategy,
        rounds=5,
        availability=FixedDropout(0.5),
        seed=1,
    )


def test_a_planted_matrix_by_hand():
    """Clusters {0, 1}, {2, 3}. Within: 0.9 and 0.6, mean 0.75. Between: 0.5, 0.7, 0.3; (1, 3) is
    unknown, mean 0.5. Best friends: 0 → 1 (own), 1 → 0 (own), 2 → 1 with 0.7 over 0.6 (not), 3 → 2
    (own): ¾. Gaps of 0 to 3: 0.9 − 0.5, 0.9 − 0.7, 0.6 − 0.7, 0.6 − 0.3.
    """
    score = np.array(
        [
            [NAN, 0.9, 0.5, 0.3],
            [0.9, NAN, 0.7, NAN],
            [0.5, 0.7, NAN, 0.6],
            [0.3, NAN, 0.6, NAN],
        ]
    )
    found = separation(score, np.array([0, 0, 1, 1]))
    assert found["similarity_within"] == pytest.approx(0.75)
    assert found["similarity_between"] == pytest.approx(0.5)
    assert found["similarity_separation"] == pytest.approx(0.25)
    assert found["best_friend_in_cluster"] == 0.75
    assert smallest_gap(score, np.array([0, 0, 1, 1])) == pytest.approx(-0.1)


def test_clients_with_nothing_to_choose_are_not_counted():
    """Client 2 is alone in its cluster; 0 and 1 know it only through 0."""
    score = np.array([[NAN, 0.2, 0.9], [0.2, NAN, NAN], [0.9, NAN, NAN]])
    found = separation(score, np.array([0, 0, 1]))
    assert found["best_friend_in_cluster"] == 0
    assert smallest_gap(score, np.array([0, 0, 1])) == pytest.approx(-0.7)
    assert separation(np.full((2, 2), NAN), np.array([0, 1])) == {}
    assert smallest_gap(score, np.array([0, 1, 2])) is None


@pytest.mark.parametrize(
    "strategy",
    [fdms(local=LOCAL), Strategy(compensator=Capped(FDMS()), local=LOCAL)],
    ids=["fdms", "capped"],
)
def test_a_real_run(strategy):
    logs, found = played(similarity, task_of(strategy))
    came = np.array([log.outcome == 0 for log in logs], dtype=int)
    together = came.T @ came
    np.fill_diagonal(together, 0)
    np.testing.assert_array_equal(found.arrays["similarity_counts"], together)
    score = found.arrays["similarity"]
    np.testing.assert_array_equal(np.isnan(score), together == 0)
    np.testing.assert_array_equal(score, score.T)
    np.testing.assert_array_equal(found.arrays["groups"], clusters().groups)
    assert found.metrics == separation(score, clusters().groups)
    assert found.metrics["best_friend_in_cluster"] == 1  # the clusters share no class
    assert found.metrics["similarity_separation"] > 0.1


def test_nothing_is_found_where_no_similarity_is_kept():
    _, found = played(similarity, task_of(fedavg(local=LOCAL)))
    assert not found.metrics
    assert not found.arrays

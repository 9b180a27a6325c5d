"""FedAR's τ̄, τ_max and ν on a written attendance."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.played import clusters, played
from understudy import LastRoundsAway, Local, Outcome, RoundLog, fedar
from understudy.papers.inactive_rounds import ages, inactive_rounds
from understudy.studies.definition.cell import Task


def log(came):
    outcome = np.where(np.array(list(came)) == "x", Outcome.CAME, Outcome.UNAVAILABLE)
    none = np.zeros(0, dtype=np.int64)
    return RoundLog(
        t=0, outcome=outcome.astype(np.int8), refusals=(), ids=none, source=none,
        coef=np.zeros(0), notes={},
    )  # fmt: skip


def test_by_hand():
    """Client 0: x . . x . has τ = 0 1 2 0 1; client 1: . x x x x has none, then 0 0 0 0; client 2
    never came. Σ τ = 4 over 5 + 4 = 9 ages; the largest is 2; ν = (2 + 0)/2."""
    found = ages([log(row) for row in ("x..", ".x.", ".x.", "xx.", ".x.")])
    assert found.metrics == {
        "never_came": pytest.approx(1 / 3),
        "tau_mean": pytest.approx(4 / 9),
        "tau_max": 2.0,
        "nu": 1.0,
    }
    np.testing.assert_array_equal(found.arrays["longest_away"], [2, 0, np.nan])


def test_a_client_that_joins_later():
    """Client 1 joins in the second round and comes in the third: x x x and . x, ages 0 0 0 0."""
    found = ages([log("x"), log("x."), log("xx")])
    assert (found.metrics["tau_mean"], found.metrics["never_came"]) == (0, 0)


def test_nobody_came():
    assert ages([log(".."), log("..")]).metrics == {"never_came": 1.0}
    assert ages([]).metrics == {}


def test_in_a_run():
    """Of six, client 0 is away in the last two of five rounds: τ = 0 0 0 1 2, the others' 0."""
    task = Task(
        data=clusters(), model="softmax", strategy=fedar(local=Local(lr=0.1)), rounds=5, seed=2,
        availability=LastRoundsAway(rounds_away=2, rounds=5),
    )  # fmt: skip
    _, found = played(inactive_rounds, task)
    assert found.metrics["tau_mean"] == pytest.approx(3 / 30)
    assert found.metrics["tau_max"] == 2
    assert found.metrics["nu"] == pytest.approx(2 / 6)

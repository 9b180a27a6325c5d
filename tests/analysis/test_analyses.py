"""Analyses by name, several at once, and other people's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.played import clusters, played
from understudy import FixedDropout, Local, fdms
from understudy.analysis import ANALYSES, Findings, analyse, check
from understudy.journal.protocol import Journal
from understudy.registry import UnknownName
from understudy.studies.definition.cell import Task


def count_rounds(run, task) -> Findings:
    """An analysis of somebody else's."""
    return Findings({"rounds_played": len(run.frame())}, {"came": run.last.outcome == 0})


@pytest.fixture
def task() -> Task:
    return Task(
        data=clusters(),
        model="softmax",
        strategy=fdms(local=Local(lr=0.1, batch_size=10)),
        rounds=3,
        availability=FixedDropout(0.5),
        oracle=True,
        analysis=("sigma", "similarity", f"{__name__}:count_rounds"),
    )


def test_all_names_stand_for_functions():
    papers = ["sigma", "graph_f1", "race_errors", "inactive_rounds", "spread"]
    assert sorted(ANALYSES) == sorted(["shapley", "similarity", *papers])
    assert len(ANALYSES) == 7
    for name in ANALYSES:
        assert ANALYSES[name].__name__ == name
    assert "sigma" in ANALYSES
    assert "sigmas" not in ANALYSES


def test_an_unknown_name_is_an_error_with_a_suggestion(task):
    with pytest.raises(UnknownName, match="did you mean 'shapley'"):
        check(task.changed(analysis=("shaply",)))


def test_several_at_once(task):
    check(task)
    _, found = played(analyse, task)
    assert found.metrics["rounds_played"] == 3
    assert found.arrays["came"].sum() == 3
    assert found.metrics["psi_bar"] > 0
    assert found.metrics["best_friend_in_cluster"] == 1
    _, nothing = played(analyse, task.changed(analysis=()))
    assert not nothing.metrics
    assert not nothing.arrays


def test_the_oracle_is_asked_for_before_anything_runs(task):
    with pytest.raises(ValueError, match="expected oracle = true"):
        check(task.changed(oracle=False))


def test_two_findings_of_one_name_are_an_error():
    with pytest.raises(ValueError, match="'a'"):
        Findings.together([Findings({"a": 1.0}), Findings({"a": 2.0})])
    with pytest.raises(ValueError, match="'b'"):
        Findings.together([Findings({}, {"b": np.zeros(1)}), Findings({}, {"b": np.zeros(1)})])


def test_an_analysis_leaves_the_run_as_it_was(task):
    """Bits of state and later rounds do not depend on who looked in between."""
    plain = task.open(workers=1)
    list(plain)
    watched = task.open(workers=1)
    for _ in watched:
        for name in ANALYSES:
            ANALYSES[name](watched, task)
    np.testing.assert_array_equal(plain.state.params.numpy(), watched.state.params.numpy())
    assert plain.frame().equals(watched.frame())


class Stored(Journal):
    """A journal that holds more rounds than the checkpoint: those after it were not committed."""

    def __init__(self, logs) -> None:
        self.logs = list(logs)

    def append(self, log) -> None:
        self.logs = [*self.logs[: log.t], log]

    def stored(self, at_most):
        yield from list(self.logs[:at_most])


def test_rounds_after_the_checkpoint_are_played_again_and_seen_once(task, tmp_path):
    reference = list(task.open(workers=1))
    run = task.open(workers=1, folder=tmp_path / "run", journal=Stored([]))
    for log in run:
        if log.t == 0:
            break
    run.close()
    logs, _ = played(analyse, task, folder=tmp_path / "run", journal=Stored(reference))
    assert [log.t for log in logs] == [0, 1, 2]

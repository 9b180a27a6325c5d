"""A partition of one's own that returns the wrong thing: told once, by name, before any cell."""

import numpy as np
import pytest

from tests.cli import Command
from understudy.simulation import federate
from understudy.simulation.data.partition_check import BadPartition
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.study import Study
from understudy.studies.store.store import Store

PLUGIN = """
import numpy as np

CALLS = []

def counted(function):
    def called(labels, rng=None):
        CALLS.append(function.__name__)
        return function(len(labels))
    called.__module__, called.__qualname__ = __name__, function.__name__
    return called

@counted
def bare(n):
    return [np.arange(10), np.arange(10, 20)]

@counted
def far(n):
    return (np.arange(10), np.array([n])), None

@counted
def empty(n):
    return (np.arange(10), np.array([], dtype=int)), None

@counted
def real(n):
    return (np.arange(10.0), np.arange(10.0, 20.0)), None

@counted
def nothing(n):
    pass

@counted
def grouped(n):
    return (np.arange(10), np.arange(10, 20)), [0, 1, 2]

@counted
def broken(n):
    raise KeyError("hospital")

@counted
def good(n):
    return [np.arange(10), np.arange(10, 20)], None
"""
WORDS = {
    "bare": r"what it returned: expected Partition\(clients, groups\), got \[array",
    "far": r"clients\[1\]: expected indices in 0 \.\. 1437, got 1438 \.\. 1438",
    "empty": r"clients\[1\]: expected at least one example, got none",
    "real": r"clients\[0\]: expected an array of whole numbers, got array\(\[0\., 1\.",
    "nothing": r"what it returned: expected Partition\(clients, groups\), got None",
    "grouped": r"groups: expected 2 whole numbers, or None, got \[0, 1, 2\]",
    "broken": r"KeyError: 'hospital'",
}


@pytest.fixture
def study(tmp_path, monkeypatch, request):
    """Of four cells: two strategies, two seeds."""
    plugin = f"divisions_{request.node.callspec.params['kind']}"
    (tmp_path / f"{plugin}.py").write_text(PLUGIN)
    kind = request.node.callspec.params["kind"]
    (tmp_path / "study.toml").write_text(f"""
name = "divided"
rounds = 1
seeds = 2
[data]
name = "digits"
partition = "{plugin}:{kind}"
seed = "run"
[model]
name = "softmax"
[strategies]
a = "fedavg"
b = "stale"
""")
    monkeypatch.chdir(tmp_path)
    return Study.read("study.toml")


@pytest.mark.parametrize("kind", list(WORDS))
def test_no_cell_begins(study, kind, tmp_path):
    with pytest.raises(StudyError, match=rf"^data\.partition: 'divisions_{kind}:{kind}': "):
        study.run("runs", progress=False, on="here")
    with pytest.raises(StudyError, match=rf"{WORDS[kind]}.*No cell was run$"):
        study.run("runs", progress=False)
    assert list((tmp_path / "runs" / "cells").iterdir()) == []
    with Store.open("runs") as store:
        assert store.studies() == []


@pytest.mark.parametrize("kind", ["far"])
def test_a_dry_run_says_it_too(study, kind, capsys, monkeypatch):
    command = Command(capsys, monkeypatch)
    for arguments in (("--dry-run",), ()):
        said = command("run", "study.toml", *arguments)
        assert said.code == 2
        assert said.err.count("divisions_far:far") == 1
        assert "Traceback" not in said.err


@pytest.mark.parametrize("kind", ["good"])
def test_a_good_one_is_tried_once_and_cells_that_are_done_are_not(study, kind):
    import divisions_good

    outcome = study.run("runs", progress=False, on="here")
    assert len(outcome.done) == 4
    tried = len(divisions_good.CALLS)
    assert tried == 5  # once before, then by each cell, whose data are not those of the one before
    assert len(Study.read("study.toml").run("runs", progress=False, on="here").skipped) == 4
    assert len(divisions_good.CALLS) == tried


def test_a_function_is_named_as_well():
    def halves(labels, rng):
        return np.arange(5)

    with pytest.raises(BadPartition, match=r"partition .*halves: what it returned: expected Part"):
        federate("digits", halves)

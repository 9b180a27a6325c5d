"""Tables of results, their values worked out by hand from a few rounds of three clients."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy import fedavg
from understudy.analysis.findings import Findings
from understudy.core.types import Outcome, Reason, Refusal, RoundLog
from understudy.representation import Representation
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.studies.statistics.frames import results
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import Store

CAME, LATE, ERROR, AWAY, MISSING, RESTARTED, REFUSED, NOT_WANTED = Outcome
FACTS = {"n_clients": 3, "sizes": [10, 20, 30], "groups": [0, 0, 1], "n_classes": 4}


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def played(t: int, outcome: tuple[Outcome, ...], **fields: Any) -> RoundLog:
    facts: dict[str, Any] = {"refusals": (), "notes": {}, "clock": 2.0 * t, "megabytes_up": 0.5}
    nobody = {"ids": ints(), "source": ints(), "coef": np.zeros(0)}
    return RoundLog(t, np.array(outcome, dtype=np.int8), **{**nobody, **facts, **fields})


# Client 1 stands in for 0 in round 0, a mixture for 0 and for 2 in round 1, where client 2 has a
# friend with coefficient 0 too, who so says nothing; in round 2 client 1's own old row speaks.
ROUNDS = [
    played(
        0,
        (AWAY, CAME, CAME),
        ids=ints(0, 1, 2),
        source=ints(1, 1, 2),
        coef=np.full(3, 1 / 3),
        metrics={"test_accuracy": 0.25, "test_loss": 2.0},
        notes={"step_norm": 4.0},
        timings={"train": 1.5},
        client_metrics={"accuracy": np.array([0.0, 0.5, 1.0])},
    ),
    played(
        1,
        (MISSING, CAME, REFUSED),
        ids=ints(0, 2, 2),
        source=ints(-1, -1, 1),
        coef=np.array([0.5, 0.5, 0.0]),
        refusals=(Refusal(2, Reason.NOT_FINITE, ""), Refusal("x", Reason.UNKNOWN_ID, "")),
        client_metrics={"accuracy": np.array([0.25, 0.5, 0.75])},
        megabytes_down=1.0,
    ),
    played(
        2,
        (LATE, NOT_WANTED, ERROR),
        ids=ints(1),
        source=ints(1),
        coef=np.ones(1),
        metrics={"test_accuracy": 0.75, "test_loss": 1.0},
        notes={"came": 99.0, "graph_edges": 3.0},
    ),
]


def cell(key: str, seed: int, **labels: Any) -> Cell:
    task = Task(DataRecipe("synthetic"), "softmax", fedavg(), rounds=3, seed=seed)
    return Cell({"strategy": key[0], "availability": None, **labels}, task, {}, key)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A study with a done, a broken and a waiting cell; another that shares the first."""
    folder = tmp_path / "runs"
    cells = [cell("a0", 0, K=5, rounds_played=3), cell("b0", 0, K=None), cell("c1", 1, K=7)]
    with Store.open(folder, write=True) as store:
        store.save_study("one", {"target": 0.5, "baseline": "a"}, cells, "0.1.0")
        store.save_study("two", {"target": 0.9, "baseline": "a"}, [cells[0]], "0.1.0")
        for key in ("a0", "b0"):
            store.begin(key, {}, FACTS, "0.1.0")
            store.add_rounds(key, ROUNDS if key == "a0" else ROUNDS[:1])
        store.finish("a0", Findings({"sigma": 0.125}, {}))
        store.fail("b0", "ZeroDivisionError: no")
    return folder


def test_one_row_per_cell(runs: Path) -> None:
    """Accuracy 0.25 and 0.75 over two evaluated rounds: mean 0.5, spread 0.25; the target 0.5 is
    reached in round 2, after 3 rounds, 4 seconds, 3 × 0.5 up and 1 down. Wanted 2, 2 and 3 times:
    variance 2/9. 2, 1 and 0 came."""
    frame = results(runs, study="one")
    labels = ["strategy", "availability", "K", "rounds_played"]
    assert list(frame.columns[:7]) == [*labels, "seed", "key", "status"]
    assert frame["key"].tolist() == ["a0", "b0", "c1"]
    assert frame["status"].tolist() == ["done", "failed", "waiting"]
    assert frame["seed"].tolist() == [0, 0, 1]
    assert frame["K"].tolist() == [5, None, 7]
    assert frame["availability"].tolist() == [None] * 3
    assert frame["error"].tolist() == [None, "ZeroDivisionError: no", None]
    assert frame["version"].tolist() == ["0.1.0", "0.1.0", None]
    assert frame["measured_rounds_played"].tolist() == [3, 1, 0]
    done = frame.iloc[0]
    expected = {
        "accuracy_best": 0.75, "accuracy_last": 0.75, "accuracy_last10": 0.5, "accuracy_tail": 0.75,
        "rounds_evaluated": 2, "fluctuation": 0.25,
        "loss_best": 1.0, "loss_last": 1.0, "rounds_to_target": 3, "clock_to_target": 4.0,
        "megabytes_to_target": 2.5, "megabytes": 2.5, "participants": 1.0, "count_variance": 2 / 9,
        "client_accuracy_mean": 0.5, "client_accuracy_worst10": 0.25, "sigma": 0.125,
    }  # fmt: skip
    assert {name: done[name] for name in expected} == pytest.approx(expected)
    assert frame["accuracy_last"].tolist()[:2] == [0.75, 0.25]
    assert math.isnan(frame["accuracy_last"][2])
    assert math.isnan(frame["rounds_to_target"][1])
    assert frame["accuracy_last"].dtype == np.float64
    assert frame.attrs == {"labels": labels, "baseline": "a", "target": 0.5, "study": "one"}


def test_one_row_per_round(runs: Path) -> None:
    frame = results(runs / "one", level="round")
    assert frame["key"].tolist() == ["a0"] * 3 + ["b0"]  # the waiting cell has none
    assert frame["K"].tolist() == [5, 5, 5, None]
    a = frame[frame["key"] == "a0"]
    expected = {
        "t": [0, 1, 2], "clock": [0, 2, 4], "megabytes_up": [0.5] * 3, "megabytes_down": [0, 1, 0],
        "wanted": [3, 3, 1], "asked": [2, 3, 1], "came": [2, 1, 0], "late": [0, 0, 1],
        "refused": [0, 2, 0],
    }  # fmt: skip
    for name, values in expected.items():
        assert a[name].tolist() == values, name
    nan = math.nan
    for name, numbers in {
        "test_accuracy": [0.25, nan, 0.75], "step_norm": [4.0, nan, nan],
        "graph_edges": [nan, nan, 3.0], "seconds_train": [1.5, nan, nan],
    }.items():  # fmt: skip
        assert np.array_equal(a[name], numbers, equal_nan=True), name
    # a note that is called as a count does not replace it
    assert a["came"].dtype == np.int64


def test_one_row_per_client(runs: Path) -> None:
    frame = results(runs, level="client", study="one")
    a = frame[frame["key"] == "a0"]
    expected = {
        "client": [0, 1, 2],
        "wanted": [2, 2, 3],  # late in round 2: wanted in round 1, and counted there
        "asked": [1, 2, 3],
        "came": [0, 2, 1],
        "late": [1, 0, 0],
        "refused": [0, 0, 1],
        "stood_in_for_it": [2, 0, 1],
        "spoke_for_others": [0, 1, 0],
        "n_examples": [10, 20, 30],
        "group": [0, 0, 1],
        "accuracy": [0.25, 0.5, 0.75],  # of round 1, the last that has it
    }
    for name, values in expected.items():
        assert a[name].tolist() == values, name
    b = frame[frame["key"] == "b0"]  # not done: counted from its rounds
    assert b["came"].tolist() == [0, 1, 1]
    assert b["accuracy"].tolist() == [0.0, 0.5, 1.0]
    assert len(frame) == 6


def test_several_studies_are_told_apart(runs: Path) -> None:
    frame = results(runs)
    assert frame.columns[0] == "study"
    assert frame["study"].tolist() == ["one"] * 3 + ["two"]
    assert frame["key"].tolist() == ["a0", "b0", "c1", "a0"]
    assert frame["rounds_to_target"].tolist()[0] == 3
    assert math.isnan(frame["rounds_to_target"][3])  # the second study's own target, 0.9
    assert frame.attrs["labels"][0] == "study"
    assert frame.attrs["baseline"] == "a"
    assert "target" not in frame.attrs


def test_a_study_without_a_finished_round(tmp_path: Path) -> None:
    with Store.open(tmp_path, write=True) as store:
        store.save_study("one", {}, [cell("a0", 0), cell("b0", 1)], "0.1.0")
        store.save_study("none", {}, [], "0.1.0")
    assert results(tmp_path / "one")["status"].tolist() == ["waiting", "waiting"]
    for level in ("round", "client"):
        frame = results(tmp_path / "one", level=level)
        assert len(frame) == 0
        assert {"strategy", "seed", "key", "status"} <= set(frame.columns)
    assert isinstance(results(tmp_path, study="none"), pd.DataFrame)


def test_bad_questions(runs: Path) -> None:
    with pytest.raises(StoreError, match="no study 'three'; there: one, two"):
        results(runs / "three")
    with pytest.raises(StoreError, match=r"elsewhere: no runs here"):
        results(runs.parent.parent / "elsewhere")
    with pytest.raises(ValueError, match=r"level: expected one of .*got 'cell'"):
        results(runs, level="cell")  # type: ignore[arg-type]


def test_clients_that_join_are_counted_from_then_on() -> None:
    tally = Representation()
    rounds = (
        ([CAME, AWAY], ints(0, 1), ints(0, 0)),
        ([AWAY, CAME, CAME], ints(0, 1, 2), ints(2, 1, 2)),
    )
    for t, (outcome, ids, source) in enumerate(rounds):
        became = np.array(outcome, dtype=np.int8)
        tally.add(RoundLog(t, became, (), ids, source, np.ones(len(ids)), {}))
    counts = {name: values.tolist() for name, values in tally.counts().items()}
    assert counts["came"] == [1, 1, 1]
    assert counts["wanted"] == [2, 2, 1]
    assert counts["stood_in_for_it"] == [1, 1, 0]
    assert counts["spoke_for_others"] == [1, 0, 1]

"""Results as files: what is in them, how they are merged, and that they are always the same."""

import json
import math
import os

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from understudy.analysis.findings import Findings
from understudy.studies import results
from understudy.studies.definition.study import Study
from understudy.studies.statistics.export import (
    Exported,
    Row,
    cells_text,
    curve,
    curves_text,
    export,
    export_level,
    export_model,
    keys_in,
    label_text,
    merged,
    place_of,
    places_of,
    read,
)
from understudy.studies.store.model_files import (
    ABOUT,
    WEIGHTS,
    cells_folder,
    model_files,
    write_files,
)
from understudy.studies.store.store import Store


def small_study(seeds=(0, 1), rounds=3):
    return Study(
        name="small",
        data={"name": "digits", "partition": "clustered", "n_clients": 4, "n_clusters": 2,
              "per_client": 10, "seed": "run"},
        model="softmax",
        strategies={"full": {"method": "fedavg", "availability": "always"}, "dropout": "fedavg"},
        availability={"missing": {"name": "fixed_dropout"}},
        axes={"availability.alpha": [0.25, 0.5]},
        rounds=rounds,
        seeds=list(seeds),
        baseline="dropout",
        target=0.99,
    )  # fmt: skip


def play(study, runs, n_done=None):
    """Play a study's cells in this process, the first `n_done` to their end."""
    cells = study.cells()
    with Store.open(runs, write=True) as store:
        store.save_study(study.name, study.about(), cells, "1.0")
        for position, cell in enumerate(cells):
            federation = cell.task.federation()
            run = cell.task.open(federation, workers=1)
            store.begin(cell.key, cell.resolved, {"n_clients": 4}, "1.0")
            store.add_rounds(cell.key, list(run))
            if n_done is None or position < n_done:
                store.finish(cell.key, Findings({"found": 0.123456789}))
                files = model_files(run.module(), federation, cell.task, cell.key, cell.labels)
                write_files(cells_folder(runs) / cell.key, files)
    return cells


def row(key="k", seed=0, measure=1.0, rounds=2, **labels):
    return Row(key, labels or {"strategy": "a"}, seed, rounds, {"measure": measure})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    play(small_study(), folder)
    return folder


def test_cells_are_the_results_of_the_store(runs, tmp_path):
    export(runs, "small", tmp_path)
    table = pd.read_csv(tmp_path / "small" / "cells.csv", dtype={"key": str})
    frame = results(runs, study="small").set_index("key")
    assert list(table.columns[:6]) == ["key", "strategy", "availability", "alpha", "seed", "rounds"]
    assert len(table) == 2 + 2 * 2  # full once for each seed, dropout at two levels
    assert (table["rounds"] == 3).all()
    for record in table.to_dict("records"):
        theirs = frame.loc[record["key"]]
        assert record["seed"] == theirs["seed"]
        assert record["strategy"] == theirs["strategy"]
        assert math.isnan(record["alpha"]) == (record["strategy"] == "full")
        for name in ("accuracy_last10", "loss_best", "participants", "found"):
            assert record[name] == pytest.approx(theirs[name], rel=1e-5)
    assert table["found"].iloc[0] == 0.123457  # six digits
    assert "rounds_to_target" not in table  # 99 % was never reached: nothing to tell
    assert not {"version", "status", "error"} & set(table.columns)


def test_curves_are_the_rounds(runs, tmp_path):
    export(runs, "small", tmp_path)
    curves = pd.read_csv(tmp_path / "small" / "curves.csv")
    assert list(curves.columns) == ["key", "round", "test_accuracy", "test_loss"]
    rounds = results(runs, level="round", study="small")
    for key, mine in rounds.groupby("key"):
        theirs = curves[curves["key"] == key]
        assert theirs["round"].tolist() == [1, 2, 3]
        assert theirs["test_loss"].tolist() == pytest.approx(mine["test_loss"].tolist(), rel=1e-5)


def test_the_same_bytes_every_time_and_whatever_came_first(runs, tmp_path):
    export(runs, "small", tmp_path / "once")
    for _ in range(2):
        export(runs, "small", tmp_path / "twice")
    part = tmp_path / "part"
    play(small_study(seeds=[1]), part)
    export(part, "small", tmp_path / "parts")
    export(runs, "small", tmp_path / "parts")
    expected = [
        (tmp_path / "once/small" / name).read_bytes() for name in ("cells.csv", "curves.csv")
    ]
    for folder in ("twice", "parts"):
        found = [(tmp_path / folder / "small" / name).read_bytes()
                 for name in ("cells.csv", "curves.csv")]  # fmt: skip
        assert found == expected


def test_what_was_read_is_written_as_it_was(runs, tmp_path):
    folder = export(runs, "small", tmp_path)
    again = read(folder)
    assert cells_text(again) == (folder / "cells.csv").read_text()
    assert curves_text(again) == (folder / "curves.csv").read_text()


def test_only_finished_cells_are_exported(tmp_path):
    cells = play(small_study(seeds=[0], rounds=1), tmp_path / "runs", n_done=2)
    folder = export(tmp_path / "runs", "small", tmp_path)
    assert {row.key for row in read(folder).rows} == {cell.key for cell in cells[:2]}
    assert keys_in(tmp_path) == {cell.key for cell in cells[:2]}
    nothing = tmp_path / "nothing"
    play(small_study(seeds=[0], rounds=1), nothing, n_done=0)
    with pytest.raises(ValueError, match="no cell of 'small' is done"):
        export(nothing, "small", tmp_path)


def test_a_new_cell_takes_the_place_of_the_old_one_with_its_labels():
    kept = Exported((row("old", rounds=1), row("other", seed=1)), {"old": [{"round": 1.0}]})
    fresh = Exported((row("new"),), {"new": [{"round": 2.0}]})
    whole = merged(kept, fresh)
    assert [(one.key, one.seed) for one in whole.rows] == [("new", 0), ("other", 1)]
    assert dict(whole.curves) == {"new": [{"round": 2.0}], "other": ()}


def test_cells_that_are_no_longer_of_the_study_are_dropped_and_counted(runs, tmp_path):
    kept = Exported((row("gone", strategy="b"), row("stays", seed=2)))
    fresh = Exported((row("new"),))
    places = {place_of({"strategy": "a"})}  # of whatever seed
    assert [one.key for one in merged(kept, fresh, places).rows] == ["new", "stays"]
    assert [one.key for one in merged(kept, fresh).rows] == ["new", "stays", "gone"]

    folder = export(runs, "small", tmp_path)
    places = {place_of(one.labels) for one in read(folder).rows}
    path = folder / "cells.csv"
    line = path.read_text().splitlines()[1]
    other, more = line.replace("dropout", "other"), line.replace(",0,3,", ",9,3,")
    assert more != line != other
    keys = [f"{word}{one[16:]}" for word, one in (("0" * 16, other), ("1" * 16, more))]
    path.write_text(path.read_text() + "\n".join([*keys, ""]))
    told = []
    export(runs, "small", tmp_path, places=places, tell=told.append)
    assert told == [f"{path}: 1 row is of no cell of the study any more and dropped"]
    assert {one.seed for one in read(folder).rows} == {0, 1, 9}
    assert len(read(folder).rows) == 6 + 1
    export(runs, "small", tmp_path, places=places, tell=told.append)
    assert len(told) == 1  # nothing more to tell


def test_a_built_in_study_knows_its_places_at_every_scale(monkeypatch):
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    absent = [(label, "missing") for label in ("dropout", "fdms", "stale_model")]
    whole = {(block, *one) for block in ("mnist", "cifar10") for one in [*absent, ("full", None)]}
    whole |= {(block, "fdms", "missing") for block in ("constant_batch", "growing_batch")}
    assert places_of("fdms-sigma") == {
        place_of({"strategy": label, "availability": mode, "block": block})
        for block, label, mode in whole
    }
    assert places_of("small") is None


def test_labels_that_look_like_numbers_keep_their_place(tmp_path):
    """Strategies "1" and "2", levels "0.10" and 0.1 + 0.2: nothing doubles, nothing is rounded."""
    rows = tuple(
        row(f"k{number}{level}", strategy=number, level=level)
        for number in ("1", "2")
        for level in ("0.10", 0.1 + 0.2, "nan", "1e3", 1.0)
    )
    fresh = Exported(rows, {one.key: () for one in rows})
    once = merged(Exported(), fresh)
    (tmp_path / "cells.csv").write_text(cells_text(once))
    (tmp_path / "curves.csv").write_text(curves_text(once))
    again = read(tmp_path)
    assert {one.labels["strategy"] for one in again.rows} == {"1", "2"}
    assert {one.labels["level"] for one in again.rows} == {"0.10", 0.1 + 0.2, "nan", "1e3", 1.0}
    twice = merged(again, fresh)
    assert cells_text(twice) == cells_text(once) == cells_text(again)
    assert len(twice.rows) == 10
    assert "0.30000000000000004" in cells_text(twice)


def test_a_cell_under_new_labels_leaves_its_old_ones():
    kept = Exported((row("same", strategy="before"), row("other", strategy="before", seed=1)))
    fresh = Exported((row("same", strategy="after"),))
    assert [(one.key, one.labels["strategy"]) for one in merged(kept, fresh).rows] == [
        ("same", "after"),
        ("other", "before"),
    ]


def test_a_cell_that_blocks_share_stays_in_the_block_that_is_not_exported():
    kept = Exported((row("same", strategy="a", block="one"),))
    fresh = Exported((row("same", strategy="a", block="two"),))
    assert [one.labels["block"] for one in merged(kept, fresh).rows] == ["one", "two"]


def test_the_curve_of_a_cell_that_blocks_share_is_written_once():
    curve = ({"round": 1.0, "test_accuracy": 0.5}, {"round": 2.0, "test_accuracy": 0.75})
    rows = (row("same", strategy="a", block="one"), row("same", strategy="a", block="two"))
    text = curves_text(Exported(rows, {"same": curve}))
    assert text == "key,round,test_accuracy\nsame,1,0.5\nsame,2,0.75\n"


def test_two_cells_of_one_place_are_refused():
    rows = (row("first", strategy="a", level=1), row("second", strategy="a", level=1.0))
    with pytest.raises(ValueError, match=r"cells first and second .*level 1, strategy a, seed 0"):
        merged(Exported(), Exported(rows))


def test_an_axis_of_rounds_is_no_column_twice(tmp_path):
    study = Study(
        name="lengths",
        data={"name": "digits", "n_clients": 2},
        model="softmax",
        strategies=["fedavg"],
        axes={"rounds": [1, 2]},
        rounds=1,
    )
    play(study, tmp_path / "runs")
    folder = export(tmp_path / "runs", "lengths", tmp_path)
    rows = read(folder).rows
    assert [(one.labels["rounds played"], one.rounds) for one in rows] == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (3, "3"), (2.0, "2"), (1e-7, "1e-07"), ("2.0", "2.0"),
     (1 / 3, "0.3333333333333333"), (np.float64(0.5), "0.5"), (np.int64(7), "7")],
)  # fmt: skip
def test_labels_as_they_are_written(value, text):
    assert label_text(value) == text


def test_labels_of_every_group_and_of_all_kinds_come_back():
    rows = (
        row("a", strategy="full", availability=None, alpha=None),
        row("b", strategy="x", availability="missing", alpha=0.5),
        row("c", strategy="x", availability="missing", alpha=1.0),
    )
    text = cells_text(merged(Exported(), Exported(rows)))
    assert text.splitlines() == [
        "key,strategy,availability,alpha,seed,rounds,measure",
        "a,full,,,0,2,1",
        "b,x,missing,0.5,0,2,1",
        "c,x,missing,1,0,2,1",
    ]


def test_a_curve_has_at_most_a_hundred_points():
    rounds = pd.DataFrame({"t": range(250), "test_accuracy": np.linspace(0, 1, 250)})
    points = curve(rounds)
    assert len(points) == 100
    assert (points[0]["round"], points[-1]["round"]) == (1, 250)
    steps = np.diff([point["round"] for point in points])
    assert set(steps) <= {2, 3}  # 249 / 99 = 2.5 rounds apart
    assert len(curve(rounds.head(100))) == 100


def test_a_curve_leaves_out_rounds_that_were_not_evaluated():
    rounds = pd.DataFrame(
        {"t": range(4), "test_loss": [math.nan, 2.0, math.nan, 1.0], "came": [1, 1, 1, 1]}
    )
    assert curve(rounds) == [{"round": 2, "test_loss": 2.0}, {"round": 4, "test_loss": 1.0}]
    assert curve(rounds[["t", "came"]]) == []


def test_no_evaluated_round_is_lost_where_others_have_something_to_tell():
    """500 rounds with a note in each, every tenth evaluated: all 50 of these, and 50 others."""
    t = np.arange(500)
    accuracy = np.where((t + 1) % 10 == 0, t / 1000, np.nan)
    rounds = pd.DataFrame({"t": t, "pairs_needed": 1.0 * t, "test_accuracy": accuracy})
    points = curve(rounds)
    assert len(points) == 100
    evaluated = [point for point in points if "test_accuracy" in point]
    assert [point["round"] for point in evaluated] == list(range(10, 501, 10))
    assert [point["round"] for point in points] == sorted(point["round"] for point in points)
    assert points[0] == {"round": 1, "pairs_needed": 0.0}


def test_a_file_that_is_something_else_is_refused(tmp_path):
    (tmp_path / "cells.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="expected the columns key"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cells.csv", b"key,seed,rounds\nab,0\n", "line 2: expected 3 fields, .* got 2"),
        ("cells.csv", b"key,seed,rounds\nab,zero,1\n", ".*'zero'"),
        ("cells.csv", b"key,seed,rounds\n\x00,0,1\n", "line 2: .* 0x00"),
        ("cells.csv", b"\xff\xfe", "line 1: expected a CSV file in UTF-8"),
        ("curves.csv", b"key,round,test_loss\nab,1\n", "line 2: expected 3 fields, .* got 2"),
        ("curves.csv", b"key,round,test_loss\nab,1,low\n", ".*'low'"),
        ("curves.csv", b"key,round\n" + b"9" * 200_000 + b",1\n", "line 2: expected a CSV file"),
    ],
)
def test_damaged_tables_are_named(tmp_path, name, content, words):
    (tmp_path / "cells.csv").write_bytes(b"key,seed,rounds\nab,0,1\n")
    (tmp_path / "curves.csv").write_bytes(b"key,round,test_loss\nab,1,0.5\n")
    assert read(tmp_path).curves == {"ab": [{"round": 1.0, "test_loss": 0.5}]}
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}[:,] {words}"):
        read(tmp_path)


@pytest.mark.parametrize("level", ["run", "round", "client"])
def test_levels_for_other_tools(runs, tmp_path, level):
    path = export_level(runs, "small", tmp_path, level)
    assert path.name == f"small-{level}.csv"
    frame = results(runs, level=level, study="small")
    table = pd.read_csv(path)
    assert list(table.columns) == list(frame.columns)
    assert len(table) == len(frame) == {"run": 6, "round": 6 * 3, "client": 6 * 4}[level]
    pyarrow = pytest.importorskip("pyarrow.parquet")
    same = pyarrow.read_table(export_level(runs, "small", tmp_path / "p.parquet", level, "parquet"))
    assert same.column_names == list(frame.columns)
    assert same.column("key").to_pylist() == frame["key"].tolist()
    assert same.column("alpha").to_pylist() == frame["alpha"].tolist()


def test_bad_levels_and_forms_are_told(runs, tmp_path):
    with pytest.raises(ValueError, match="level: expected one of run, round, client"):
        export_level(runs, "small", tmp_path, "cell")
    with pytest.raises(ValueError, match="form: expected csv or parquet"):
        export_level(runs, "small", tmp_path, "run", "xls")


def test_parquet_without_pyarrow_says_what_to_install(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"Parquet needs pyarrow: pip install pyarrow$"):
        export_level(runs, "small", tmp_path, "run", "parquet")
    assert not list(tmp_path.glob("*.parquet"))


def test_a_trained_model_is_copied(runs, tmp_path):
    key = small_study().cells()[0].key
    path = export_model(runs, key[:10], tmp_path)
    assert path == tmp_path / f"{key}.safetensors"
    assert path.read_bytes() == (cells_folder(runs) / key / WEIGHTS).read_bytes()
    assert {name: array.shape for name, array in load_file(path).items()} == {
        "1.weight": (10, 64), "1.bias": (10,),
    }  # fmt: skip
    about = (cells_folder(runs) / key / ABOUT).read_text()
    assert json.loads(path.with_suffix(".json").read_text()) == json.loads(about)
    named = export_model(runs, key, tmp_path / "mine.safetensors")
    assert named.name == "mine.safetensors"
    with pytest.raises(ValueError, match="no trained model of a cell whose key begins with 'zz'"):
        export_model(runs, "zz", tmp_path)


def test_a_write_that_fails_leaves_the_old_file(runs, tmp_path, monkeypatch):
    folder = export(runs, "small", tmp_path)
    before = (folder / "cells.csv").read_bytes()

    def full(*_):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no room"):
        export(runs, "small", tmp_path)
    assert (folder / "cells.csv").read_bytes() == before


def test_the_engine_of_a_cell_is_exported_and_read_again() -> None:
    rows = (
        Row("a", {"strategy": "fdms"}, 0, 3, {"accuracy_best": 0.5}, "kernels 1"),
        Row("b", {"strategy": "fdms"}, 1, 3, {"accuracy_best": 0.25}),
    )
    text = cells_text(Exported(rows))
    assert text.splitlines() == [
        "key,strategy,seed,rounds,engine,accuracy_best",
        "a,fdms,0,3,kernels 1,0.5",
        "b,fdms,1,3,,0.25",
    ]
    assert "engine" not in cells_text(Exported(rows[1:]))

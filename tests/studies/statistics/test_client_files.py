"""What an export tells of clients, and what becomes of it when it is exported again."""

import math

import numpy as np
import pytest

from understudy.analysis.findings import Findings
from understudy.studies import results
from understudy.studies.definition.study import Study
from understudy.studies.statistics.client_files import (
    clients_text,
    read_clients,
    read_scores,
    scores_text,
)
from understudy.studies.statistics.export import Exported, Row, export, keys_in, merged, read
from understudy.studies.store.store import Store

R = np.array([[np.nan, 0.91239, -0.25], [0.91239, np.nan, np.nan], [-0.25, np.nan, np.nan]])


def study(seeds=(0, 1)):
    return Study(
        name="picks",
        data={"name": "digits", "partition": "clustered", "n_clients": 3, "n_clusters": 1,
              "classes_per_cluster": 4, "per_client": 10, "seed": "run"},
        model="softmax",
        strategies={
            "everybody": "fedavg",
            "one": {"method": "fedavg", "sampler": {"name": "uniform", "m": 1}},
        },
        rounds=4,
        per_client_every=4,
        seeds=list(seeds),
    )  # fmt: skip


def played(folder, seeds=(0, 1)):
    mine = study(seeds)
    cells = mine.cells()
    with Store.open(folder, write=True) as store:
        store.save_study(mine.name, mine.about(), cells, "1.0")
        for cell in cells:
            run = cell.task.open(cell.task.federation(), workers=1)
            store.begin(cell.key, cell.resolved, {"n_clients": 3}, "1.0")
            store.add_rounds(cell.key, list(run))
            arrays = {"similarity": R + cell.seed / 100, "groups": np.array([1, 0, 1])}
            has_scores = cell.labels["strategy"] == "everybody"
            store.finish(cell.key, Findings({}, arrays) if has_scores else None)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return played(tmp_path_factory.mktemp("runs"))


def test_clients_are_those_of_the_store(runs, tmp_path):
    exported = read(export(runs, "picks", tmp_path))
    frame = results(runs, level="client", study="picks")
    assert len(exported.clients) == 4
    for row in exported.rows:
        theirs, told = frame[frame["key"] == row.key], exported.clients[row.key]
        assert told["accuracy"] == pytest.approx(theirs["accuracy"].tolist(), abs=5e-5)
        if row.labels["strategy"] == "one":
            assert told["picked"] == theirs["wanted"].tolist()
            assert sum(told["picked"]) == 4
            assert "group" not in told
        else:  # all of them in every round: nothing to tell
            assert "picked" not in told
            assert told["group"] == [1, 0, 1]


def test_scores_are_those_of_the_first_seed_with_four_digits(runs, tmp_path):
    exported = read(export(runs, "picks", tmp_path))
    (key,) = exported.scores
    (row,) = [row for row in exported.rows if row.key == key]
    assert (row.labels["strategy"], row.seed) == ("everybody", 0)
    assert exported.scores[key] == {(0, 1): 0.9124, (0, 2): -0.25}  # 1 and 2 never met


def test_exporting_again_keeps_old_rows_whatever_came_first(runs, tmp_path):
    folder = export(runs, "picks", tmp_path / "once")
    names = ("cells.csv", "curves.csv", "clients.csv", "scores.csv")
    expected = {name: (folder / name).read_bytes() for name in names}
    for seed in (1, 0):
        other = played(tmp_path / f"seed{seed}", [seed])
        parts = export(other, "picks", tmp_path / "parts")
    assert {name: (parts / name).read_bytes() for name in names} == expected
    assert keys_in(tmp_path / "parts") == keys_in(tmp_path / "once")


def test_what_an_older_export_lacks_is_nothing_and_comes_with_a_newer(runs, tmp_path):
    folder = export(runs, "picks", tmp_path)
    whole = read(folder)
    (folder / "clients.csv").unlink()
    (folder / "scores.csv").unlink()
    bare = read(folder)
    assert bare.rows == whole.rows
    assert not bare.clients
    assert not bare.scores
    again = read(export(played(tmp_path / "seed1", [1]), "picks", tmp_path))
    assert set(again.clients) == {row.key for row in whole.rows if row.seed == 1}
    assert set(again.scores) <= set(again.clients)
    assert len(again.scores) == 1


def test_scores_of_another_length_stay_and_those_of_cells_that_are_gone_go():
    def row(key, seed, rounds):
        return Row(key, {"strategy": "a"}, seed, rounds, {})

    pairs = {(0, 1): 0.5}
    kept = Exported(
        (row("small", 0, 40), row("old", 5, 100)),
        clients={"small": {"picked": [1, 2]}, "old": {"picked": [3, 4]}},
        scores={"small": pairs, "old": pairs},
    )
    fresh = Exported(
        (row("new", 5, 100), row("next", 6, 100)), scores={"new": pairs, "next": pairs}
    )
    whole = merged(kept, fresh)
    assert set(whole.scores) == {"small", "new"}
    assert set(whole.clients) == {"small"}


def test_tables_come_back(tmp_path):
    clients = {
        "a": {"picked": [3, 0, 1], "accuracy": [0.5, math.nan, 1.0]},
        "b": {"picked": [2, 1]},
    }
    text = clients_text(clients)
    assert text.splitlines() == [
        "key,kind,0,1,2", "a,picked,3,0,1", "a,accuracy,0.5,,1", "b,picked,2,1,",
    ]  # fmt: skip
    path = tmp_path / "clients.csv"
    path.write_text(text)
    assert clients_text(read_clients(path)) == text
    text = scores_text({"a": {(0, 1): 0.25, (0, 2): -1.0}})
    assert text.splitlines() == ["key,i,j,R", "a,0,1,0.25", "a,0,2,-1"]
    path.write_text(text)
    assert scores_text(read_scores(path)) == text
    assert clients_text({}) == scores_text({}) == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [("clients.csv", "key,0\na,1\n"), ("clients.csv", "key,kind,0\na,picked,many\n"),
     ("scores.csv", "key,i,j\na,0,1\n"), ("scores.csv", "key,i,j,R\na,0,x,1\n")],
)  # fmt: skip
def test_damaged_tables_are_named(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=name):
        (read_clients if name == "clients.csv" else read_scores)(tmp_path / name)

"""`follow`: new rounds of a run, wherever it is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation import small
from understudy import FixedDropout, Study, stale
from understudy.journal.follow import Follower, follow
from understudy.memory.tensor_stream import CheckpointError
from understudy.simulation import clustered_digits, simulate
from understudy.studies.store import checksums
from understudy.studies.store.checksums import checksum as crc
from understudy.studies.store.followed import StoredRounds
from understudy.studies.store.store import DamagedRun, Store


def run_in(folder: Path | None, rounds: int = 6):
    settings = {"model": "softmax", "availability": FixedDropout(0.5), "rounds": rounds}
    return simulate(clustered_digits(), stale(), folder=folder, workers=1, **settings)


def test_rounds_of_a_simulations_folder(tmp_path: Path) -> None:
    whole = list(run_in(tmp_path))
    assert small.all_facts(list(follow(tmp_path))) == small.all_facts(whole)
    assert [log.t for log in follow(tmp_path, since=4)] == [4, 5]
    assert list(follow(tmp_path, since=6)) == []
    assert [log.t for log in follow(str(tmp_path / "rounds.jsonl"), since=5)] == [5]


def test_a_follower_yields_what_is_new_each_time_it_is_asked(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert list(follower) == []  # nothing is there yet
    run = run_in(tmp_path)
    for log in run:
        if log.t == 2:
            break
    run.close()
    assert [log.t for log in follower] == [0, 1, 2]
    assert list(follower) == []
    list(run_in(tmp_path))
    assert [log.t for log in follower] == [3, 4, 5]


def test_following_a_store_verifies_each_round_once(tmp_path: Path, monkeypatch) -> None:
    """As long as a run is, a look at its newest rounds costs what these cost."""
    key, logs = "0123456789abcdef", list(run_in(None))
    verified: list[int] = []
    monkeypatch.setattr(
        checksums, "checksum", lambda *values: verified.append(values[1]) or crc(*values)
    )
    follower = Follower(StoredRounds(tmp_path, key))
    with Store.open(tmp_path, write=True) as store:
        store.begin(key, {}, {}, "0")
        for log in logs:
            store.add_rounds(key, [log])
            verified.clear()
            assert [one.t for one in follower] == [log.t]
            assert set(verified) == {log.t}
        for table in ("rounds", "round_arrays"):
            store._connection.execute(f"UPDATE {table} SET crc32 = 1 WHERE t = 3")
        assert [one.t for one in store.logs(key, 4)] == [4, 5]
        with pytest.raises(DamagedRun, match="do not fit their checksum"):
            list(store.logs(key, 2, 4))


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    list(run_in(tmp_path, rounds=3))
    path = tmp_path / "rounds.jsonl"
    content = path.read_bytes()
    follower = Follower(tmp_path)
    path.write_bytes(content[:-10])
    assert [log.t for log in follower] == [0, 1]
    path.write_bytes(content)
    assert [log.t for log in follower] == [2]


def test_rounds_that_a_killed_run_plays_again_are_not_yielded_twice(tmp_path: Path) -> None:
    """A resumed run cuts off the lines after its last commit, and writes them again."""
    whole = list(run_in(tmp_path))
    path = tmp_path / "rounds.jsonl"
    content = path.read_bytes()
    follower = Follower(tmp_path)
    seen = iter(follower)
    assert [next(seen).t for _ in range(4)] == [0, 1, 2, 3]
    lines = content.splitlines(keepends=True)
    os.truncate(path, len(lines[0]) + len(lines[1]))
    assert list(follower) == []
    path.write_bytes(content)
    assert small.all_facts(list(follower)) == small.all_facts(whole[4:])


def test_damage_is_named(tmp_path: Path) -> None:
    list(run_in(tmp_path, rounds=2))
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"codec": 2', b'"codec": 3'))
    with pytest.raises(CheckpointError, match=r"rounds\.jsonl, line 1: damaged"):
        list(follow(tmp_path))


def test_rounds_of_a_studys_cell(tmp_path: Path) -> None:
    study = Study(
        "kept",
        data=clustered_digits(n_clients=6, n_clusters=3, per_client=16),
        model="softmax",
        strategies={"stale": stale()},
        rounds=4,
    )
    study.run(tmp_path, on="here", progress=False)
    (cell,) = study.cells()
    assert list(follow(StoredRounds(tmp_path / "none", cell.key))) == []
    place = StoredRounds(tmp_path, cell.key)
    assert [log.t for log in follow(place)] == [0, 1, 2, 3]
    assert [log.t for log in follow(place, since=3)] == [3]
    follower = Follower(place)
    assert len(list(follower)) == 4
    assert list(follower) == []

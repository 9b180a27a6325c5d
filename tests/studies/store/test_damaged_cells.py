"""Cells whose files or rounds are damaged are run anew, and end with the bits of a whole run."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.crafted import contents_of, flipped, write_crafted
from tests.studies.running import assert_same, contents, study_in
from understudy.core.rng import generator
from understudy.memory.tensor_stream import CheckpointError
from understudy.studies.definition.study import Study
from understudy.studies.execution.runner import cell_module, run_study
from understudy.studies.statistics.export import export_model
from understudy.studies.statistics.frames import results
from understudy.studies.store import connection, schema
from understudy.studies.store.connection import StoreBusy
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import FILE, Store

STATE = "state.safetensors"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """The study, and a runs folder in which it ran without trouble."""
    folder = tmp_path_factory.mktemp("damaged")
    study = study_in(folder, plugin="pacing_damaged", seeds=1)
    run_study(study, folder / "runs", on="here", progress=False)
    return study, folder / "runs"


def half_played(study: Study, runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stopped in round 5 of the first cell; its server folder."""
    with monkeypatch.context() as patched:
        patched.setenv("NOTES", str(runs) + ".notes")
        patched.setenv("INTERRUPT_AT", "5")
        patched.setenv("COMMIT_EVERY", "0")
        assert run_study(study, runs, on="here", progress=False).interrupted
    return runs / "cells" / study.cells()[0].key / "server"


def number(name: str, value: Any) -> Callable[[Path], None]:
    def damage(server: Path) -> None:
        about, tensors = contents_of(server / STATE)
        about["numbers"][name] = value
        write_crafted(server / STATE, about, tensors)

    return damage


def tensor(name: str, value: torch.Tensor) -> Callable[[Path], None]:
    def damage(server: Path) -> None:
        about, tensors = contents_of(server / STATE)
        write_crafted(server / STATE, about, {**tensors, name: value})

    return damage


def flip(pattern: str, place: float) -> Callable[[Path], None]:
    def damage(server: Path) -> None:
        (path,) = sorted(server.glob(pattern))[:1]
        content = path.read_bytes()
        path.write_bytes(flipped(content, int(len(content) * 8 * place)))

    return damage


def flip_in_every_row(server: Path) -> None:
    (path,) = sorted(server.glob("*.rows"))[:1]
    content = bytearray(path.read_bytes())
    content[::64] = bytes(byte ^ 1 for byte in content[::64])
    path.write_bytes(content)


def lose(pattern: str) -> Callable[[Path], None]:
    def damage(server: Path) -> None:
        (path,) = sorted(server.glob(pattern))[:1]
        path.unlink()

    return damage


def no_header(server: Path) -> None:
    about, tensors = contents_of(server / STATE)
    write_crafted(server / STATE, {"format": about["format"]}, tensors)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "t is a text": number("t", "five"),
    "t is a list": number("t", [5]),
    "t is infinite": number("t", float("inf")),
    "t is nothing": number("t", None),
    "seed is a text": number("seed", "x"),
    "another run": number("extra.about", json.dumps({"rounds": 99})),
    "about is a list": number("extra.about", [1]),
    "about is no JSON": number("extra.about", "{"),
    "no header": no_header,
    "model of another length": tensor("params", torch.zeros(3)),
    "flight of another kind": tensor("extra.flight.ids", torch.zeros((2, 2))),
    "a bit of the state": flip(STATE, 0.9),
    "a bit of a row": flip_in_every_row,
    "a bit of the population": flip("population*", 0.9),
    "no population": lose("population*"),
    "no rows": lose("*.rows"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_dropped_and_the_cell_run_anew(
    kind: str,
    played: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, whole = played
    DAMAGE[kind](half_played(study, tmp_path / "runs", monkeypatch))
    capsys.readouterr()
    outcome = run_study(study, tmp_path / "runs", on="here")
    assert (len(outcome.done), outcome.failed) == (2, {})
    told = [line for line in capsys.readouterr().err.splitlines() if "starts again" in line]
    assert len(told) == 1
    assert told[0].startswith("stale · half · 0: starts again: ")
    assert_same(contents(tmp_path / "runs"), contents(whole))


# -- rounds in the database ------------------------------------------------------------------------


def all_of(runs: Path) -> list[Any]:
    """All that can be read of a runs folder, through the store."""
    found: list[Any] = []
    with Store.open(runs) as store:
        for study in store.studies():
            found.append([study.name, study.about, study.n_cells, study.n_done, study.version])
            for cell in store.cells(study.name):
                found.append(repr(cell))
                found.append([repr(log) for log in store.logs(cell.key)])
                found.append(store.rounds(cell.key).to_csv())
                many = store.arrays, store.client_counts, store.last_client_metrics
                found += [{n: v.tolist() for n, v in read(cell.key).items()} for read in many]
                found.append(store.resolved(cell.key))
                if damage := store.damage(cell.key):
                    raise StoreError(f"{store.path}: {damage}")
        if broken := store.broken_pages():
            raise StoreError(f"{store.path}: {broken}")
    return found


def flip_and_read(runs: Path, folder: Path, flips: int) -> int:
    """Flip single bits of the database: an error that names it, or the same contents as ever."""
    folder.mkdir()
    shutil.copy(runs / FILE, folder / FILE)
    expected, content = all_of(folder), (folder / FILE).read_bytes()
    noticed = 0
    for number in range(flips):
        bit = int(generator(number, "flip").integers(len(content) * 8))
        for leftover in folder.iterdir():
            leftover.unlink()
        (folder / FILE).write_bytes(flipped(content, bit))
        try:
            found = all_of(folder)
        except StoreError as error:
            found, said = expected, str(error)
            noticed += FILE in said
        assert found == expected, f"bit {bit}: not noticed"
    return noticed


def test_a_flipped_bit_of_the_database_is_noticed_or_changes_nothing(
    played: tuple[Study, Path], tmp_path: Path
) -> None:
    assert flip_and_read(played[1], tmp_path / "flipped", 60) >= 5  # much of it is unused


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_a_thousand_flipped_bits_of_the_database(
    played: tuple[Study, Path], tmp_path: Path
) -> None:
    assert flip_and_read(played[1], tmp_path / "flipped", 1000) >= 100


CHANGES = {
    "a number": "UPDATE rounds SET came = came + 1 WHERE key = ? AND t = 7",
    "a metric": "UPDATE rounds SET metrics = replace(metrics, '0.', '1.') WHERE key = ? AND t = 7",
    "text that is no JSON": "UPDATE rounds SET notes = '{' WHERE key = ? AND t = 7",
    "an array": "UPDATE round_arrays SET coef = ids WHERE key = ? AND t = 7",
    "half an array": "UPDATE round_arrays SET ids = substr(ids, 1, 9) WHERE key = ? AND t = 7",
    "a client's metric": "UPDATE client_metrics SET value = zeroblob(9) WHERE key = ?",
    "two rounds exchanged": (
        "UPDATE rounds SET metrics = (SELECT metrics FROM rounds AS other WHERE other.t = 8 "
        "AND other.key = rounds.key) WHERE key = ? AND t = 7"
    ),
    "a round lost": "DELETE FROM rounds WHERE key = ? AND t = 7",
    "arrays lost": "DELETE FROM round_arrays WHERE key = ? AND t = 7",
    "a finding": "UPDATE run_metrics SET value = value + 1 WHERE key = ?",
    "a count": "UPDATE client_counts SET value = zeroblob(20) WHERE key = ?",
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_finished_cell_whose_rounds_are_damaged_is_run_anew(
    kind: str, played: tuple[Study, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, whole = played
    runs, key = tmp_path / "runs", study.cells()[0].key
    shutil.copytree(whole, runs)
    database = sqlite3.connect(runs / FILE, isolation_level=None)
    assert database.execute(CHANGES[kind], (key,)).rowcount >= 1
    database.close()
    if "lost" not in kind:
        with pytest.raises(StoreError, match=FILE):
            all_of(runs)
    outcome = run_study(study, runs, on="here")
    assert outcome.done == (key,)
    assert outcome.skipped == (study.cells()[1].key,)
    told = [line for line in capsys.readouterr().err.splitlines() if "starts again" in line]
    assert len(told) == 1
    assert told[0].startswith("stale · half · 0: starts again: damaged: ")
    assert_same(contents(runs), contents(whole))
    assert run_study(study, runs, on="here", progress=False).done == ()


def test_damaged_rounds_of_a_cell_that_would_be_resumed_begin_anew(
    played: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, whole = played
    half_played(study, tmp_path / "runs", monkeypatch)
    database = sqlite3.connect(tmp_path / "runs" / FILE, isolation_level=None)
    database.execute("UPDATE rounds SET clock = 5.0 WHERE t = 2")
    database.close()
    assert len(run_study(study, tmp_path / "runs", on="here").done) == 2
    assert "starts again: damaged: rounds of run" in capsys.readouterr().err
    assert_same(contents(tmp_path / "runs"), contents(whole))


def test_a_store_from_before_checksums_is_migrated_and_not_verified(
    played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of version 1 with the same rows: read as they were, none of them verified; rounds
    that are added have checksums."""
    study, whole = played
    runs, key = tmp_path / "runs", study.cells()[0].key
    shutil.copytree(whole, runs)
    database = sqlite3.connect(runs / FILE, isolation_level=None)
    database.execute("DROP TABLE round_totals")
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        database.execute(f"ALTER TABLE {table} DROP COLUMN crc32")
    database.execute("PRAGMA user_version = 1")
    columns = [row[1] for row in database.execute("PRAGMA table_info(rounds)")]
    database.close()
    fresh = sqlite3.connect(":memory:")
    schema.STEPS[0](fresh)
    assert columns == [row[1] for row in fresh.execute("PRAGMA table_info(rounds)")]
    fresh.close()
    with Store.open(runs) as store:
        assert store._query("PRAGMA user_version") == [(3,)]
        assert store.unverified(key) == 12
        assert store.damage(key) == ""
        logs = list(store.logs(key))
    with Store.open(whole) as store:
        assert store.unverified(key) == 0
    assert all_of(runs) == all_of(whole)
    with Store.open(runs, write=True) as store:
        store.add_rounds(key, logs[:2])
        assert store.unverified(key) == 10
    database = sqlite3.connect(runs / FILE, isolation_level=None)
    database.execute("UPDATE rounds SET clock = 5.0 WHERE t = 1")
    database.close()
    with Store.open(runs) as store, pytest.raises(StoreError, match="do not fit their checksum"):
        store.rounds(key)


def test_lost_models_are_noticed(
    played: tuple[Study, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, whole = played
    shutil.copytree(whole, tmp_path / "runs")
    key = study.cells()[1].key
    (tmp_path / "runs" / "cells" / key / "model.safetensors").unlink()
    run_study(study, tmp_path / "runs", on="here")
    said = capsys.readouterr().err
    assert f"1 finished cell has no trained model any more ({key}); --again reruns it" in said


def test_a_flipped_bit_in_a_model_is_noticed(
    played: tuple[Study, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, whole = played
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    first, second = study.cells()
    path = runs / "cells" / first.key / "model.safetensors"
    content = path.read_bytes()
    rng = generator(0, "bits")
    for bit in rng.integers(0, 8 * len(content), 20):
        path.write_bytes(flipped(content, int(bit)))
        for cell in (first.key, first):
            with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged: .* checksum"):
                cell_module(runs, cell, trust=True)
    with pytest.raises(CheckpointError, match="damaged"):
        export_model(runs, first.key, tmp_path / "copy.safetensors")
    assert not list(tmp_path.glob("copy.*"))
    code, said = doctor(capsys, runs)
    assert code == 1
    assert "model.safetensors: damaged" in said
    assert f"{second.key} verified" in said


def test_models_from_before_there_were_checksums_are_read_and_not_verified(
    played: tuple[Study, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, whole = played
    runs = tmp_path / "runs"
    shutil.copytree(whole, runs)
    cell = study.cells()[0]
    path = runs / "cells" / cell.key / "model.json"
    about = json.loads(path.read_text())
    expected = cell_module(runs, cell).state_dict()
    del about["crc32"], about["weights_crc32"]
    path.write_text(json.dumps(about))
    found = cell_module(runs, cell).state_dict()
    assert all(torch.equal(found[name], entry) for name, entry in expected.items())
    code, said = doctor(capsys, runs)
    assert code == 0
    assert f"models {cell.key} not verified: written before there were checksums" in said
    path.write_text(json.dumps({**about, "crc32": "no number"}))
    with pytest.raises(CheckpointError, match="damaged"):
        cell_module(runs, cell)


def test_a_database_that_stays_locked_stops_the_study_and_loses_nothing(
    played: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds a transaction open for longer than anybody waits."""
    study, whole = played
    real, calls = Store.add_rounds, [0]
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    monkeypatch.setenv("COMMIT_EVERY", "0")

    def locked(store: Store, key: str, logs: Any) -> None:
        calls[0] += 1
        if calls[0] != 4:
            real(store, key, logs)
            return
        other = sqlite3.connect(tmp_path / "runs" / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            real(store, key, logs)
        finally:
            other.execute("ROLLBACK")
            other.close()

    monkeypatch.setattr(Store, "add_rounds", locked)
    with pytest.raises(StoreBusy, match=r"another process kept it locked for") as busy:
        run_study(study, tmp_path / "runs", on="here", progress=False)
    assert busy.value.rounds == 3
    assert len(run_study(study, tmp_path / "runs", on="here", progress=False).done) == 2
    assert_same(contents(tmp_path / "runs"), contents(whole))
    assert len(results(tmp_path / "runs", level="round")) == 24


def doctor(capsys: pytest.CaptureFixture[str], runs: Path) -> tuple[int, str]:
    from understudy.cli import main

    capsys.readouterr()
    code = 0
    try:
        main(["doctor", str(runs)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, " ".join(capsys.readouterr().out.split())


def test_doctor_verifies_a_runs_folder(
    played: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, whole = played
    first, second = (cell.key for cell in study.cells())
    code, said = doctor(capsys, whole)
    assert code == 0
    assert said == (
        f"database pages whole rounds {first} 12 rounds, verified {second} 12 rounds, verified "
        f"models {first} verified {second} verified"
    )
    runs = tmp_path / "half"
    server = half_played(study, runs, monkeypatch)
    code, said = doctor(capsys, runs)
    assert code == 0
    assert said.endswith(f"checkpoints {first} verified")
    flip_in_every_row(server)
    code, said = doctor(capsys, runs)
    assert code == 1
    assert "the row of client" in said
    assert "does not fit its checksum" in said
    database = sqlite3.connect(runs / FILE, isolation_level=None)
    database.execute("UPDATE rounds SET clock = 5.0 WHERE t = 2")
    database.close()
    code, said = doctor(capsys, runs)
    assert code == 1
    assert f"{first} damaged: rounds of run {first} do not fit their checksum" in said
    (runs / FILE).write_bytes(b"no database")
    code, said = doctor(capsys, runs)
    assert code == 1
    assert "damaged, or no SQLite database" in said

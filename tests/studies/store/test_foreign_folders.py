"""A folder of runs from somebody else: nothing is written outside of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Command
from tests.studies.small_study import store_small_study
from understudy import Local, fdms, fedavg
from understudy.core.files import write_file
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import CheckpointError
from understudy.memory.writer_lock import FolderInUse, WriterLock
from understudy.simulation import clustered_digits, simulate
from understudy.studies import Study
from understudy.studies.execution.runner import run_study
from understudy.studies.report.report import write_report
from understudy.studies.store.live import LiveLog
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import Store

LINK = "is a symbolic link"
DATA = clustered_digits(n_clients=4, n_clusters=2, per_client=8)
FDMS = fdms(local=Local(lr=0.1))
RUN: Any = {"model": "softmax", "rounds": 2}


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A file of the user's, which must stay as it is."""
    path = tmp_path / "precious"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capsys, monkeypatch)


def study() -> Study:
    return Study(
        name="small",
        data=DATA,
        model="softmax",
        strategies={"fdms": FDMS},
        rounds=2,
    )


@pytest.mark.parametrize("name", ["writer", "lock", "rounds.jsonl"])
def test_files_of_a_run_are_not_written_through_links(
    tmp_path: Path, outside: Path, name: str
) -> None:
    place = tmp_path / "run" / ("" if name == "rounds.jsonl" else "server")
    place.mkdir(parents=True)
    (place / name).symlink_to(outside)
    with pytest.raises(OSError, match=LINK):
        list(simulate(DATA, FDMS, folder=tmp_path / "run", **RUN))


def test_rows_are_not_written_through_links(tmp_path: Path, outside: Path) -> None:
    """Where a name is taken by a link the next one is used; a commit's own rows are refused."""
    server = tmp_path / "run" / "server"
    server.mkdir(parents=True)
    (server / "compensator-0.rows").symlink_to(tmp_path / "nowhere")
    (server / f"{STATE}.new").symlink_to(outside)  # like other remains of a run that died: removed
    list(simulate(DATA, FDMS, folder=tmp_path / "run", **RUN))
    assert not (tmp_path / "nowhere").exists()
    rows = next(path for path in server.glob("compensator-*.rows") if not path.is_symlink())
    moved = tmp_path / "moved.rows"
    rows.rename(moved)
    content = moved.read_bytes()
    rows.symlink_to(moved)
    with pytest.raises(OSError, match=LINK):
        list(simulate(DATA, FDMS, folder=tmp_path / "run", **RUN))
    assert moved.read_bytes() == content


@pytest.mark.parametrize("name", ["../other.rows", "/etc/passwd", "x", 3, None])
def test_a_commit_points_only_to_files_of_its_folder(tmp_path: Path, name: object) -> None:
    from understudy.memory import tensor_stream
    from understudy.server import checkpoint

    list(simulate(DATA, FDMS, folder=tmp_path / "run", **RUN))
    state = tmp_path / "run" / "server" / STATE
    reader = tensor_stream.Reader(state)
    entries = {key: tensor_stream.Entry.of(key, reader.tensor(key)) for key in sorted(reader.names)}
    rows = dict.fromkeys(reader.about["rows"], name)
    tensor_stream.write(state, entries, {**reader.about, "rows": rows})
    with pytest.raises(CheckpointError, match=STATE):
        checkpoint.resume(tmp_path / "run" / "server", FDMS)
    tensor_stream.write(state, entries, {**reader.about, "population": name})
    with pytest.raises(CheckpointError, match=STATE):
        checkpoint.resume(tmp_path / "run" / "server", FDMS)


@pytest.mark.parametrize("place", ["small", "cells", "cells/{key}", "cells/{key}/server"])
def test_folders_of_a_study_are_not_links(tmp_path: Path, place: str) -> None:
    made = study()
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = runs / place.format(key=made.cells()[0].key)
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    if place.endswith("server"):  # noticed by the cell itself
        assert LINK in next(iter(run_study(made, runs, on="here").failed.values()))
    else:
        with pytest.raises(OSError, match=LINK):
            run_study(made, runs, on="here")
    assert list(elsewhere.iterdir()) == []


def test_the_database_is_no_link(tmp_path: Path, outside: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "understudy.sqlite").symlink_to(tmp_path / "elsewhere.sqlite")
    with pytest.raises(OSError, match=LINK):
        Store.open(runs, write=True)
    assert not (tmp_path / "elsewhere.sqlite").exists()


def test_a_link_to_the_runs_folder_itself_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    assert len(run_study(study(), tmp_path / "runs", on="here").done) == 1


def test_reports_and_pictures_are_not_written_through_links(
    tmp_path: Path, outside: Path, command: Command
) -> None:
    runs = store_small_study(tmp_path / "runs", seeds=1, alphas=(0.2,))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (runs / "small").symlink_to(elsewhere)
    with pytest.raises(OSError, match=LINK):
        write_report(runs, "small")
    for arguments in (["report"], ["plot"], ["export"], ["export", "--level", "run"]):
        outcome = command(*arguments, "--folder", str(runs))
        assert outcome.code == 2
        assert LINK in outcome.err
    assert list(elsewhere.iterdir()) == []
    (runs / "small").unlink()
    (runs / "small").mkdir()
    (runs / "small" / "report.html").symlink_to(outside)  # is replaced, not followed
    write_report(runs, "small")
    assert not (runs / "small" / "report.html").is_symlink()
    (runs / "small" / "report.html.new").symlink_to(outside)
    with pytest.raises(OSError, match=LINK):
        write_report(runs, "small")


def test_a_file_is_written_in_the_place_of_a_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "file").symlink_to(outside)
    write_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize(
    "name",
    ["../../x", "/abs", "..", ".x", "", "a/b", "a\nb", "cells", "Understudy.SQLite-wal", "x" * 201],
)
def test_names_of_studies_are_checked_when_they_are_read(
    tmp_path: Path, name: str, command: Command
) -> None:
    """A study's name is its folder's, and the database may be anybody's."""
    runs = store_small_study(tmp_path / "runs", seeds=1, alphas=(0.2,))
    before = sorted(path for path in tmp_path.rglob("*"))
    with sqlite3.connect(runs / "understudy.sqlite") as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE studies SET name = ?, crc32 = NULL", (name,))
        connection.execute("UPDATE study_cells SET study = ?, crc32 = NULL", (name,))
    connection.close()
    with Store.open(runs) as store, pytest.raises(StoreError, match="no study's name"):
        store.studies()
    for arguments in (["report"], ["plot"], ["table"], ["show"], ["export"]):
        outcome = command(*arguments, "--folder", str(runs))
        assert outcome.code == 2, arguments
        assert "understudy.sqlite: holds a study" in outcome.err
    assert sorted(path for path in tmp_path.rglob("*") if "sqlite-" not in path.name) == before
    with pytest.raises(ValueError, match="study"):
        LiveLog(tmp_path / "live", study=name)
    with pytest.raises(ValueError, match="name"):
        Study(name=name, data=DATA, model="softmax", strategies={"a": fedavg()}, rounds=1)


def test_who_writes_is_told_in_printable_words_of_bounded_length(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    (tmp_path / "writer").write_text("\x1b[31mred" + "x" * 10**6)
    with pytest.raises(FolderInUse) as refused:
        WriterLock(tmp_path)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 1000
    (tmp_path / "writer").unlink()
    os.mkfifo(tmp_path / "elsewhere")
    (tmp_path / "writer").symlink_to(tmp_path / "elsewhere")  # reading it would never end
    with pytest.raises(FolderInUse, match="another process"):
        WriterLock(tmp_path)
    lock.release()

"""The database is removed or replaced while a study runs: noticed, stopped, and nothing lost."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Command
from tests.studies.running import assert_same, contents, study_in
from understudy.commands import errors
from understudy.server import loop
from understudy.studies.execution.runner import run_study
from understudy.studies.store.connection import StoreFull, StoreMoved
from understudy.studies.store.store import FILE, Store

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _a_commit_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMMIT_EVERY", "0")
    monkeypatch.setattr(loop, "COMMIT_EVERY", 0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The study's folder, and all that is in its runs when nothing happens."""
    folder = tmp_path_factory.mktemp("lost")
    assert len(run_study(study_in(folder), folder / "whole", on="here").done) == 4
    return folder, contents(folder / "whole")


def removed(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def replaced(path: Path) -> None:
    removed(path)
    with Store.open(path.parent, write=True) as store:
        store.save_study("another", {}, [], "0")


def after(n: int, monkeypatch: pytest.MonkeyPatch, do: Callable[[Path], None]) -> None:
    """Something happens to the file after so many times rounds were stored."""
    add, calls = Store.add_rounds, []

    def counted(store: Store, *arguments: Any) -> None:
        add(store, *arguments)
        calls.append(len(arguments[1]))
        if len(calls) == n:
            do(store.path)

    monkeypatch.setattr(Store, "add_rounds", counted)


@pytest.mark.parametrize("place", ["here", pytest.param("local", marks=pytest.mark.slow)])
@pytest.mark.parametrize("happens", [removed, replaced])
def test_a_lost_database_stops_all_cells_and_what_it_held_is_kept(
    whole: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[Path], None],
    place: Any,
) -> None:
    folder, expected = whole
    runs, study = tmp_path / "runs", study_in(folder)
    with monkeypatch.context() as patched:
        after(20, patched, happens)
        with pytest.raises(StoreMoved, match=f"{FILE}: was {happens.__name__}") as lost:
            run_study(study, runs, on=place, jobs=2)
    assert lost.value.rounds >= 20
    saved = runs / f"{FILE}.saved-0"
    assert saved.name in str(lost.value)
    with sqlite3.connect(saved) as connection:
        stored = connection.execute("SELECT count(*) FROM rounds").fetchone()[0]
    connection.close()
    assert stored == lost.value.rounds
    if happens is replaced:
        with Store.open(runs) as store:
            assert [study.name for study in store.studies()] == ["another"]  # left alone
    removed(runs / FILE)
    saved.rename(runs / FILE)
    outcome = run_study(study, runs, on=place, jobs=2)
    assert not outcome.failed
    assert_same(contents(runs), expected)


def test_contents_are_not_kept_through_a_link(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that leads nowhere exists too: SQLite would make the file that it points to."""
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / f"{FILE}.saved-0").symlink_to(tmp_path / "nowhere")
    after(3, monkeypatch, removed)
    with pytest.raises(StoreMoved, match=rf"{FILE}\.saved-1"):
        run_study(study_in(whole[0]), runs, on="here")
    assert (runs / f"{FILE}.saved-1").is_file()
    assert not (tmp_path / "nowhere").exists()


def test_what_cannot_be_kept_is_said(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole folder is gone, with everything in it."""
    runs = tmp_path / "runs"
    after(3, monkeypatch, lambda path: shutil.rmtree(path.parent))
    with pytest.raises(StoreMoved, match=r"was removed .* could not be kept"):
        run_study(study_in(whole[0]), runs, on="here")


@pytest.mark.parametrize(("n", "code"), [(0, 2), (5, 3)])
def test_exit_codes_tell_nothing_ran_from_stopped_later(
    whole: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    n: int,
    code: int,
) -> None:
    if n:
        after(n, monkeypatch, removed)
    else:
        save = Store.save_study

        def and_then(store: Store, *arguments: Any) -> None:
            save(store, *arguments)
            removed(store.path)

        monkeypatch.setattr(Store, "save_study", and_then)
    file = whole[0] / "study.toml"
    said = Command(capsys, monkeypatch)("run", file, "--folder", tmp_path / "runs", "--on", "here")
    assert said.code == code
    assert "was removed while it was being written" in said.err
    assert ("stopped after 5 rounds, which are kept" in said.err) == (n == 5)


@pytest.mark.parametrize(("rounds", "code"), [(0, errors.FAILED), (7, errors.STOPPED)])
def test_a_full_disk_has_the_same_two_codes(
    rounds: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = StoreFull(tmp_path, 0)
    full.rounds = rounds
    assert full.errno == errno.ENOSPC
    assert errors.report_error(full) == code
    assert ("stopped after 7 rounds" in capsys.readouterr().err) == (rounds == 7)

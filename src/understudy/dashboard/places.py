"""Which runs are in the folders that a dashboard was given, and how each of them is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.json_lines import is_damaged, is_sealed
from understudy.core.printable import one_line, printable
from understudy.dashboard.runs import RunInfo, Trouble, opaque, own_name, told_apart
from understudy.journal.follow import RoundsFile
from understudy.memory.run_folder import ABOUT, ROUNDS
from understudy.memory.tensor_stream import CheckpointError
from understudy.memory.writer_lock import is_held
from understudy.studies.store.followed import StoredRounds
from understudy.studies.store.live import called_by
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import FILE, Store, StoredCell, StoredStudy

if TYPE_CHECKING:
    pass

DEEPEST = 2  # folders below a given one that are searched
MOST_SEARCHED = 2000  # folders below a given one that are looked at
GONE = "The process that wrote this run is gone; the run can be resumed."
_OF_CONTENTS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
FAULTS = (StoreError, CheckpointError, OSError, *_OF_CONTENTS)


class Places:
    """The folders that were given; nothing outside of them is ever read.

    Parameters
    ----------
    given : sequence of path
        Runs folders, folders of studies, own folders of runs, or folders that hold such.
    """

    def __init__(self, given: Sequence[Path]) -> None:
        self._given = [Path(os.path.abspath(path)) for path in given]  # `..` has a name then
        self._known: dict[Path, dict[str, RunInfo]] = {}  # by folder, as it was last read
        self._totals: dict[str, int | None] = {}  # a cell's rounds never change: it is their hash

    def stamp(self) -> tuple[object, ...]:
        """What changes when something in the folders may have changed."""
        return tuple(
            (path, _stamp_of(path), *_locks(path))
            for place in self._given
            for path in _homes(place)
        )

    def look(self) -> tuple[list[RunInfo], list[Trouble]]:
        """All runs that are there now; and what is wrong, folder by folder."""
        runs: dict[str, RunInfo] = {}
        troubles: list[Trouble] = []
        for place in self._given:
            homes = list(_homes(place))
            if not homes:
                words = "holds no run yet; it is looked at again and again"
                told = words if place.is_dir() else "is not there"
                troubles.append(Trouble(place.name, told, is_empty=True))
            for home in homes:
                before = self._known.get(home, {})
                try:
                    found = {run.id: run for run in self._runs_in(home, place)}
                except FAULTS as error:
                    troubles.append(Trouble(home.name, without_folder(error, home)))
                    found = before  # it may be in the middle of being written
                else:
                    self._known[home] = found
                runs |= found
        return told_apart(list(runs.values())), troubles

    def _runs_in(self, home: Path, given: Path) -> Iterator[RunInfo]:
        if (home / ABOUT).is_file():
            yield own_run(home)
            return
        with Store.open(home) as store:
            for study in store.studies():
                if given.parent == home and given.name != study.name:
                    continue  # one study's folder was given
                try:
                    yield from self._cells(store, study, home)
                except FAULTS as error:
                    yield _damaged(home, study.name, without_folder(error, home))

    def _cells(self, store: Store, study: StoredStudy, home: Path) -> Iterator[RunInfo]:
        is_live = bool(study.about.get("live"))
        is_written = is_live or is_held(home / study.name / "lock")
        for cell in [*store.cells(study.name), *store.trials(study.name)]:
            is_gone = cell.status == "running" and not is_written
            yield RunInfo(
                id=opaque(home, study.name, cell.key),
                study_id=opaque(home, study.name),
                study=study.name,
                title=one_line(study.about.get("title") or study.name, 200),
                labels=cell.labels,
                seed=cell.seed,
                status="stopped" if is_gone else cell.status,
                error=GONE if is_gone else (cell.error or ""),
                rounds=cell.rounds,
                n_rounds=self._total(store, cell),
                is_live=is_live,
                # whoever adds rounds marks only the file
                changed=_written(home) if cell.status == "running" else _seconds(cell.changed),
                place=StoredRounds(home, cell.key),
                folder=home,
                key=cell.key,
                facts=cell.facts,
            )

    def _total(self, store: Store, cell: StoredCell) -> int | None:
        if cell.status == "waiting":
            return None
        if cell.key not in self._totals:
            self._totals[cell.key] = _whole(store.resolved(cell.key).get("rounds"))
        return self._totals[cell.key]


def own_run(folder: Path) -> RunInfo:
    """The run of a folder that a simulation or a live federation writes."""
    text = (folder / ABOUT).read_bytes()
    if not is_sealed(text) or is_damaged(text):
        return _damaged(folder, "run", f"{ABOUT}: damaged: it does not fit its checksum")
    about = json.loads(text)
    resolved, facts = printable(about["resolved"]), printable(about["facts"])
    is_live = resolved["data"]["class"] == "live"
    is_gone = about["status"] == "running" and not is_held(folder / "server" / "lock")
    rounds = folder / ROUNDS
    return RunInfo(
        id=opaque(folder, "run"),
        study_id=opaque(folder, "study"),
        study=own_name(folder),
        title="Live federation" if is_live else "Simulation",
        labels={"strategy": called_by(resolved)},
        seed=int(resolved["seed"]),
        status="stopped" if is_gone else str(about["status"]),
        error=GONE if is_gone else printable(str(about["error"])),
        rounds=_count_lines(rounds),
        n_rounds=_whole(resolved.get("rounds")),
        is_live=is_live,
        changed=rounds.stat().st_mtime if rounds.is_file() else 0.0,
        place=RoundsFile(rounds),
        folder=folder,
        facts=facts,
        resolved=resolved,
    )


def resolved_of(run: RunInfo) -> Mapping[str, Any]:
    """The configuration of a run; empty where it has not begun."""
    if run.resolved or not run.key or run.status == "waiting":
        return run.resolved
    with Store.open(run.folder) as store:
        found: Mapping[str, Any] = printable(store.resolved(run.key))
        return found


def without_folder(error: BaseException, folder: Path) -> str:
    """An error in words that name no path of the machine."""
    words = str(error) or type(error).__name__
    for path, name in ((folder, folder.name), (folder.parent, "")):
        words = words.replace(f"{path}/", f"{name}/" if name else "").replace(str(path), name)
    return one_line(words, 500)


def _damaged(home: Path, study: str, words: str) -> RunInfo:
    """A run that cannot be read: it is listed, and says why."""
    return RunInfo(
        id=opaque(home, study, "damaged"), study_id=opaque(home, study), study=study, title=study,
        labels={}, seed=0, status="damaged", error=words, rounds=0, n_rounds=None, is_live=False,
        changed=0.0, place=RoundsFile(home / ROUNDS), folder=home,
    )  # fmt: skip


def _homes(given: Path) -> Iterator[Path]:
    """Folders with runs: the given one, the runs folder it is in, or some below it."""
    if _is_home(given):
        yield given
    elif (given.parent / FILE).is_file() and given.is_dir():
        yield given.parent
    else:
        yield from _below(given)


def _below(given: Path) -> Iterator[Path]:
    level, seen = [given], 0
    for _ in range(DEEPEST):
        following = []
        for folder in level:
            for path in _subfolders(folder):
                seen += 1
                if seen > MOST_SEARCHED:
                    return
                if _is_home(path):
                    yield path
                else:
                    following.append(path)
        level = following


def _subfolders(folder: Path) -> list[Path]:
    try:  # a link may lead out of what was given
        return sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink())
    except OSError:
        return []


def _is_home(folder: Path) -> bool:
    return (folder / ABOUT).is_file() or (folder / FILE).is_file()


def _stamp_of(home: Path) -> tuple[object, ...]:
    found: list[tuple[int, ...] | None] = []
    for name in (ABOUT, ROUNDS, FILE, f"{FILE}-wal"):
        try:
            about = (home / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((about.st_mtime_ns, about.st_size, about.st_ino))
    return tuple(found)


def _written(home: Path) -> float:
    """When the store was written last."""
    found = [home / name for name in (FILE, f"{FILE}-wal")]
    return max((path.stat().st_mtime for path in found if path.is_file()), default=0.0)


def _seconds(changed: str) -> float:
    """A time in a store, since 1970; 0 where there is none that can be read."""
    try:
        return datetime.fromisoformat(changed).timestamp()
    except ValueError:
        return 0.0


def _locks(home: Path) -> tuple[bool, ...]:
    """Who writes: a process that is killed changes no file."""
    if (home / ABOUT).is_file():
        return (is_held(home / "server" / "lock"),)
    return tuple(is_held(folder / "lock") for folder in _subfolders(home))


def _count_lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(2**20), b""))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

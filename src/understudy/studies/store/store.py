"""Studies, runs and rounds in one SQLite file per runs folder.

One process at a time writes a run; any number read meanwhile, and none waits for another (WAL).
Several studies may share a folder: their writers take turns, a transaction each.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from understudy.core.printable import printable
from understudy.core.types import RoundLog
from understudy.journal.arrays import Array, pack, unpack
from understudy.representation import Representation
from understudy.studies.definition.names import why_no_study_name
from understudy.studies.store import checksums, log_codec, schema
from understudy.studies.store.connection import (
    StoreMoved,
    file_of,
    for_reading,
    for_writing,
    make_folder,
    migrated_for_reading,
    named_errors,
    rescued,
)
from understudy.studies.store.log_codec import Row
from understudy.studies.store.schema import StoreError

if TYPE_CHECKING:
    import pandas

    from understudy.analysis.findings import Findings
    from understudy.studies.definition.cell import Cell, Label
    from understudy.studies.definition.tune_table import Edges, Picks

FILE = "understudy.sqlite"
BATCH = 64  # rounds that are read at once


@dataclass(frozen=True)
class StoredStudy:
    """A study that was saved."""

    name: str
    about: Mapping[str, Any]
    n_cells: int
    n_done: int
    version: str  # of the package that saved it
    changed: datetime  # UTC; the study itself or one of its runs

    @property
    def tuned(self) -> tuple[str, ...]:
        """The keys that are tuned."""
        table = self.about.get("tune") or {}
        return (str(table["key"]),) if "key" in table else tuple(table.get("values", ()))

    @property
    def picks(self) -> Picks:
        """What tuning picked, as `Study.picks` told the runner; empty where nothing is tuned."""
        found = self.about.get("picks") or {}
        if "key" in (self.about.get("tune") or {}):  # as stored when there was one key only
            return {name: {self.tuned[0]: label} for name, label in found.items()}
        return found

    @property
    def edges(self) -> Edges:
        """Picks at the end of the range that was tried, each with its value and which end it is."""
        return self.about.get("edges") or {}


@dataclass(frozen=True)
class StoredCell:
    """A cell of a study, and how far its run is."""

    key: str
    labels: Mapping[str, Label]
    seed: int
    status: str  # waiting, running, stopped, done, failed
    error: str | None
    version: str | None  # of the package that ran it
    facts: Mapping[str, Any]
    rounds: int  # played and stored
    findings_metrics: Mapping[str, float]
    changed: str = ""  # ISO 8601, UTC: when its status did; empty where it has not begun


class DamagedRun(StoreError):
    """What is stored of a run does not fit its checksums, or cannot be read; `key` names it."""

    def __init__(self, text: str, key: str) -> None:
        super().__init__(text)
        self.key = key


class Store:
    """The database of a runs folder; `Store.open` gives one. A context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, write: bool) -> None:
        self.path, self._connection, self._writes = path, connection, write
        self._file = file_of(path)
        self._moved: StoreMoved | None = None
        self._verified: dict[tuple[str, ...], int] = {}  # table and run → last row verified

    @classmethod
    def open(cls, folder: str | Path, *, write: bool = False) -> Store:
        """The store of a runs folder; to `write`, folder and file are made where there are none."""
        path = Path(folder) / FILE
        if not write and not path.is_file():
            raise StoreError(f"{folder}: no runs here (no file {FILE})")
        with named_errors(path):
            if write:
                make_folder(path.parent)
                return cls(path, for_writing(path), write=True)
            connection = for_reading(path)
            try:
                current = schema.is_current(connection, str(path), schema.STEPS)
            except BaseException:
                connection.close()
                raise
            if not current:
                connection = migrated_for_reading(path, connection)
            return cls(path, connection, write=False)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- writing -------------------------------------------------------------------------------

    def save_study(
        self, name: str, about: Mapping[str, Any], cells: Sequence[Cell | StoredCell], version: str
    ) -> None:
        """Write down a study and its cells, in place of those it had; runs stay as they are."""
        rows = [
            (name, position, cell.key, json.dumps(dict(cell.labels)), cell.seed)
            for position, cell in enumerate(cells)
        ]
        with self._transaction() as connection:
            connection.execute("DELETE FROM studies WHERE name = ?", (name,))
            connection.execute(
                checksums.insert("studies"),
                (name, json.dumps(dict(about)), version, _now()),
            )
            connection.executemany(checksums.insert("study_cells"), rows)

    def begin(
        self, key: str, resolved: Mapping[str, Any], facts: Mapping[str, Any], version: str
    ) -> None:
        """A run begins, or goes on: rounds that are there are kept."""
        with self._transaction() as connection:
            _begin(connection, key, resolved, facts, version)

    def begin_anew(
        self,
        key: str,
        resolved: Mapping[str, Any],
        facts: Mapping[str, Any],
        version: str,
        logs: Iterable[RoundLog],
    ) -> None:
        """A run begins anew with these rounds, which take the place of all that it had.

        In one transaction: whoever reads sees the earlier run, or this one, never a mixture.
        """
        rounds = [log_codec.round_rows(key, log) for log in logs]
        with self._transaction() as connection:
            for table in checksums.OF_A_RUN:  # one by one: in a damaged file some may be orphans
                connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
            _begin(connection, key, resolved, facts, version)
            _insert(connection, rounds)

    def add_rounds(self, key: str, logs: Sequence[RoundLog]) -> None:
        """Keep rounds of a run that began; those that are there already are overwritten.

        All in one transaction, on the disk when this returns: a checkpoint may follow.
        """
        rounds = [log_codec.round_rows(key, log) for log in logs]
        with self._transaction() as connection:
            self._require(key)
            _forget_findings(connection, key)
            _insert(connection, rounds)

    def finish(self, key: str, findings: Findings | None = None) -> None:
        """The run is done; what its analyses found is kept with it."""
        counts = {name: pack(value) for name, value in self._counted(key).items()}
        found = {} if findings is None else findings.metrics
        arrays = {} if findings is None else findings.arrays
        blobs = [(key, name, pack(np.asarray(array))) for name, array in arrays.items()]
        with self._transaction() as connection:
            self._mark(key, "done")
            _forget_findings(connection, key)
            connection.executemany(
                checksums.insert("run_metrics"),
                [(key, name, float(value)) for name, value in found.items()],
            )
            connection.executemany(checksums.insert("run_arrays"), blobs)
            connection.executemany(
                checksums.insert("client_counts"),
                [(key, name, blob) for name, blob in counts.items()],
            )

    def fail(self, key: str, error: str) -> None:
        """The run broke off by an error."""
        with self._transaction():
            self._mark(key, "failed", error.encode(errors="backslashreplace").decode())

    def stop(self, key: str) -> None:
        """The run was stopped, and can go on."""
        with self._transaction():
            self._mark(key, "stopped")

    def forget(self, key: str) -> None:
        """Drop a run with all its rounds; studies keep the cell, which waits again."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM runs WHERE key = ?", (key,))

    def _mark(self, key: str, status: str, error: str | None = None) -> None:
        self._require(key)
        self._connection.execute(
            "UPDATE runs SET status = ?, error = ?, changed = ? WHERE key = ?",
            (status, error, _now(), key),
        )
        self._connection.execute(checksums.renew("runs", "key = ?"), (key,))

    def _require(self, key: str) -> None:
        if not self._connection.execute("SELECT 1 FROM runs WHERE key = ?", (key,)).fetchone():
            raise KeyError(f"{key}: no such run in {self.path}; begin() it first")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. Others' transactions are waited for at the begin, where it is safe."""
        connection = self._connection
        if not self._writes:
            raise StoreError(f"{self.path}: opened for reading; Store.open(…, write=True) writes")
        self._refuse_moved()
        with named_errors(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # some errors have ended it already
                    connection.execute("ROLLBACK")
                raise

    def _refuse_moved(self) -> None:
        """Raise where the file was removed or replaced: what is written would be lost with it."""
        if self._moved is None and file_of(self.path) != self._file:
            copy = rescued(self._connection, self.path)
            how = "replaced" if self.path.exists() else "removed"
            words = (
                "what it held could not be kept"
                if copy is None
                else f"what it held is in {copy.name}: rename that file to {FILE} to resume"
            )
            self._moved = StoreMoved(f"{self.path}: was {how} while it was being written; {words}")
        if self._moved is not None:
            raise self._moved

    # -- reading -------------------------------------------------------------------------------

    def studies(self) -> list[StoredStudy]:
        """All studies of the folder, by name."""
        self._verify("studies")
        rows = self._query(
            """SELECT name, about, count(study_cells.key),
            count(CASE status WHEN 'done' THEN 1 END), studies.version,
            max(studies.changed, coalesce(max(runs.changed), ''))
            FROM studies LEFT JOIN study_cells ON study = name
            LEFT JOIN runs ON runs.key = study_cells.key
            GROUP BY name ORDER BY name"""
        )
        for name, *_ in rows:
            # it becomes the name of a folder, and the file may be anybody's
            why_not = why_no_study_name(name) if isinstance(name, str) else f"got {name!r}"
            if why_not is not None:
                raise StoreError(f"{self.path}: holds a study under no study's name: {why_not}")
        return [
            StoredStudy(name, printable(self._json(about)), cells, done, version, self._time(when))
            for name, about, cells, done, version, when in rows
        ]

    def study(self, name: str) -> StoredStudy:
        """One study by its name."""
        known = self.studies()
        for study in known:
            if study.name == name:
                return study
        names = ", ".join(study.name for study in known) or "none"
        raise StoreError(f"{self.path}: no study {name!r}; there: {names}")

    def cells(self, study: str) -> list[StoredCell]:
        """The cells of a study, in its order."""
        self.study(study)
        self._verify("study_cells", "study = ?", study)
        for table in ("runs", "run_metrics"):
            self._verify(table, "key IN (SELECT key FROM study_cells WHERE study = ?)", study)
        rows = self._query(
            """SELECT cell.key, labels, seed, coalesce(status, 'waiting'), error, version,
            coalesce(facts, '{}'), (SELECT count(*) FROM rounds WHERE rounds.key = cell.key),
            coalesce(changed, '')
            FROM study_cells AS cell LEFT JOIN runs ON runs.key = cell.key
            WHERE study = ? ORDER BY position""",
            study,
        )
        found: dict[str, dict[str, float]] = {}
        for key, name, value in self._query(
            """SELECT key, name, value FROM run_metrics
            WHERE key IN (SELECT key FROM study_cells WHERE study = ?) ORDER BY rowid""",
            study,
        ):
            found.setdefault(key, {})[name] = log_codec.number(value)
        return [
            StoredCell(
                key, printable(self._json(labels)), seed, status, printable(error), version,
                self._json(facts), rounds, found.get(key, {}), str(changed),
            )
            for key, labels, seed, status, error, version, facts, rounds, changed in rows
        ]  # fmt: skip

    def trials(self, study: str) -> list[StoredCell]:
        """The cells that a study tunes with, in its order."""
        found = []
        for key, labels, seed in self.study(study).about.get("trials") or ():
            rows = self._query("SELECT status, error, version, facts FROM runs WHERE key = ?", key)
            status, error, version, facts = rows[0] if rows else ("waiting", None, None, "{}")
            n_rounds = self.n_rounds(key)
            found.append(
                StoredCell(
                    key, labels, seed, status, error, version, json.loads(facts), n_rounds, {}
                )
            )
        return found

    def resolved(self, key: str) -> dict[str, Any]:
        """The configuration of a run."""
        self._verify("runs", "key = ?", key)
        rows = self._query("SELECT resolved FROM runs WHERE key = ?", key)
        if not rows:
            raise KeyError(f"{key}: no such run in {self.path}")
        return self._json(rows[0][0])

    def status(self, key: str) -> str:
        """How far a run is; "waiting" where it has not begun."""
        rows = self._query("SELECT status FROM runs WHERE key = ?", key)
        return str(rows[0][0]) if rows else "waiting"

    def version(self, key: str) -> str | None:
        """Of the package that played the rounds of a run; None where it has not begun."""
        rows = self._query("SELECT version FROM runs WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def n_rounds(self, key: str) -> int:
        """How many rounds of a run are stored."""
        return int(self._query("SELECT count(*) FROM rounds WHERE key = ?", key)[0][0])

    def rounds(self, key: str) -> pandas.DataFrame:
        """One row per round: counts, clock, megabytes, metrics, notes, ``seconds_…``."""
        self._verify_run(key, "rounds")
        with named_faults(self.path, key):
            return log_codec.frame(self._query(log_codec.SELECT_SCALARS, key))

    def last_metrics(self, key: str) -> dict[str, float]:
        """Those of the last round in which something was measured."""
        self._verify_run(key, "rounds")
        rows = self._query(log_codec.SELECT_LAST_METRICS, key)
        with named_faults(self.path, key):
            return dict(json.loads(rows[0][0])) if rows else {}

    def logs(self, key: str, first: int = 0, last: int | None = None) -> Iterator[RoundLog]:
        """The rounds from `first` up to and without `last`, as they were."""
        tables = ("rounds", "round_arrays", "round_totals", "client_metrics")
        if first == 0 and last is None:
            self._verify_run(key, *tables)
        else:  # these alone, each time: whoever follows a run asks for the newest again and again
            span = (first, 2**62 if last is None else last)
            for table in tables:
                self._refuse_damaged(table, "key = ? AND t >= ? AND t < ?", key, *span)
        # read in batches: an open query would keep the writer's log from being folded in
        while batch := self._batch(key, first, last):
            for row, metrics in batch:  # compressed until its turn comes
                with named_faults(self.path, key):
                    log = log_codec.log_of(row, metrics)
                yield log
                first = log.t + 1

    def _batch(
        self, key: str, first: int, last: int | None
    ) -> list[tuple[Row, list[tuple[str, bytes]]]]:
        """Rounds as they are stored, each with its metrics of clients."""
        span = (key, first, 2**62 if last is None else last, BATCH)
        rows = self._query(log_codec.SELECT_LOGS, *span)
        if not rows:
            return []
        metrics: dict[int, list[tuple[str, bytes]]] = {}
        for t, name, value in self._query(
            "SELECT t, name, value FROM client_metrics WHERE key = ? AND t BETWEEN ? AND ? "
            "ORDER BY t, position",
            key, rows[0][0], rows[-1][0],
        ):  # fmt: skip
            metrics.setdefault(t, []).append((name, value))
        return [(row, metrics.get(row[0], [])) for row in rows]

    def arrays(self, key: str) -> dict[str, Array]:
        """What the analyses of a run found, as arrays."""
        self._verify_run(key, "run_arrays")
        rows = self._query("SELECT name, value FROM run_arrays WHERE key = ? ORDER BY rowid", key)
        with named_faults(self.path, key):
            return {name: unpack(value) for name, value in rows}

    def client_counts(self, key: str) -> dict[str, Array]:
        """Sums over the rounds of a run, one number per client: `Representation.counts`."""
        self._verify_run(key, "client_counts")
        rows = self._query("SELECT name, value FROM client_counts WHERE key = ?", key)
        with named_faults(self.path, key):
            return {name: unpack(value) for name, value in rows} or self._counted(key)

    def _counted(self, key: str) -> dict[str, Array]:
        return dict(Representation.of(self.logs(key)).counts())

    def last_client_metrics(self, key: str) -> dict[str, Array]:
        """Each metric per client, of the last round that has it."""
        self._verify_run(key, "client_metrics")
        rows = self._query(
            # with max() alone, SQLite takes the other columns from the row of the maximum
            """SELECT name, value, max(t) FROM client_metrics WHERE key = ? GROUP BY name
            ORDER BY position, name""",
            key,
        )
        with named_faults(self.path, key):
            return {name: unpack(value) for name, value, _ in rows}

    # -- checksums -----------------------------------------------------------------------------

    def damage(self, key: str) -> str:
        """Why the stored rounds of a run cannot be trusted; empty where they can."""
        try:
            self._verify_run(key, *checksums.OF_A_RUN)
        except DamagedRun as error:
            return str(error).removeprefix(f"{self.path}: ")
        n, span = self._query("SELECT count(*), 1 + max(t) FROM rounds WHERE key = ?", key)[0]
        ((n_arrays,),) = self._query("SELECT count(*) FROM round_arrays WHERE key = ?", key)
        return "damaged: some of its rounds are missing" if {n, n_arrays} != {span or 0} else ""

    def unverified(self, key: str) -> int:
        """How many rounds of a run were stored before there were checksums."""
        rows = self._query("SELECT count(*) FROM rounds WHERE key = ? AND crc32 IS NULL", key)
        return int(rows[0][0])

    def broken_pages(self) -> list[str]:
        """What SQLite itself finds wrong with the file; empty where it finds nothing."""
        found = [str(row[0]) for row in self._query("PRAGMA integrity_check(10)")]
        return [] if found == ["ok"] else found

    def _verify_run(self, key: str, *tables: str) -> None:
        """Refuse a run whose rows do not fit their checksums."""
        for table in tables:
            self._verify(table, "key = ?", key)

    def _verify(self, table: str, where: str = "TRUE", *values: str) -> None:
        """Verify rows that this object has not verified before."""
        before = self._verified.get((table, *values), 0)
        ((last,),) = self._query(f"SELECT max(rowid) FROM {table} WHERE {where}", *values)
        if last is None or (last <= before and table not in ("runs", "studies")):
            return
        start = before if table not in ("runs", "studies") else 0
        self._refuse_damaged(table, f"{where} AND rowid > ? AND rowid <= ?", *values, start, last)
        self._verified[table, *values] = last

    def _refuse_damaged(self, table: str, where: str, *values: str | int) -> None:
        rows = self._query(
            f"SELECT {checksums.COLUMNS[table][0]} FROM {table} WHERE {where} "
            f"AND {checksums.damaged(table)} LIMIT 1",
            *values,
        )
        if rows:
            ofs = "study" if table in ("studies", "study_cells") else "run"
            raise DamagedRun(
                f"{self.path}: damaged: {table.replace('_', ' ')} of {ofs} {rows[0][0]} do not fit "
                "their checksum; run the study again, which reruns damaged cells",
                str(rows[0][0]),
            )

    def _json(self, text: str) -> dict[str, Any]:
        with named_faults(self.path):
            plain: dict[str, Any] = json.loads(text)
            return plain

    def _time(self, text: str) -> datetime:
        with named_faults(self.path):
            return datetime.fromisoformat(text)

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows at once, so that no query stays open."""
        with named_errors(self.path):
            return self._connection.execute(statement, values).fetchall()


@contextmanager
def named_faults(path: Path, key: str = "") -> Iterator[None]:
    """What is in the tables and cannot be read is a fault of the file, by name."""
    try:
        yield
    except (StoreError, OSError):
        raise
    except Exception as error:
        run = f" of run {key}" if key else ""
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DamagedRun(f"{path}: damaged: contents{run} cannot be read ({words})", key) from error


# -- statements --------------------------------------------------------------------------------


def _begin(
    connection: sqlite3.Connection,
    key: str,
    resolved: Mapping[str, Any],
    facts: Mapping[str, Any],
    version: str,
) -> None:
    texts = json.dumps(dict(resolved)), json.dumps(dict(facts))
    connection.execute(
        """INSERT INTO runs VALUES (?, 'running', NULL, ?, ?, ?, ?, NULL)
        ON CONFLICT (key) DO UPDATE SET status = 'running', error = NULL,
        version = excluded.version, resolved = excluded.resolved,
        facts = excluded.facts, changed = excluded.changed""",
        (key, version, *texts, _now()),
    )
    connection.execute(checksums.renew("runs", "key = ?"), (key,))
    _forget_findings(connection, key)


def _insert(connection: sqlite3.Connection, rounds: Sequence[Mapping[str, list[Row]]]) -> None:
    for rows in rounds:
        for statement, values in rows.items():
            connection.executemany(statement, values)


def _forget_findings(connection: sqlite3.Connection, key: str) -> None:
    """What was said of a run as a whole; it does not hold once rounds are added."""
    for table in ("run_metrics", "run_arrays", "client_counts"):
        connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

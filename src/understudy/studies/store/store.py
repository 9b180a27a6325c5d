"""Studies, runs and rounds in one SQLite file per runs folder.

One process at a time writes a run; any number read meanwhile, and none waits for another (WAL).
Several studies may share a folder: their writers take turns, a transaction each.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from understudy.core.types import RoundLog
from understudy.studies.store import client_counts, log_codec, schema
from understudy.studies.store.connection import (
    for_reading,
    for_writing,
    make_folder,
    named_errors,
)
from understudy.studies.store.log_codec import Array, pack, unpack
from understudy.studies.store.schema import StoreError

if TYPE_CHECKING:
    import pandas

    from understudy.analysis.findings import Findings
    from understudy.studies.definition.cell import Cell, Label

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
    def tuned(self) -> str | None:
        """The key that was tuned."""
        table = self.about.get("tune")
        return None if table is None else str(table["key"])

    @property
    def picks(self) -> Mapping[str, Label]:
        """What tuning picked, as `Study.picks` told the runner; empty where nothing is tuned."""
        return self.about.get("picks") or {}


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


class Store:
    """The database of a runs folder; `Store.open` gives one. A context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, write: bool) -> None:
        self.path, self._connection, self._writes = path, connection, write

    @classmethod
    def open(cls, folder: str | Path, *, write: bool = False) -> Store:
        """The store of a folder.

        Parameters
        ----------
        folder : path
            The runs folder.
        write : bool
            Also to write; the folder and the file are made where there are none.
        """
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
                connection.close()
                for_writing(path).close()
                connection = for_reading(path)
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
        self, name: str, about: Mapping[str, Any], cells: Sequence[Cell], version: str
    ) -> None:
        """Write down a study and its cells, in place of those it had; runs stay as they are."""
        rows = [
            (name, position, cell.key, json.dumps(dict(cell.labels)), cell.seed)
            for position, cell in enumerate(cells)
        ]
        with self._transaction() as connection:
            connection.execute("DELETE FROM studies WHERE name = ?", (name,))
            connection.execute(
                "INSERT INTO studies VALUES (?, ?, ?, ?)",
                (name, json.dumps(dict(about)), version, _now()),
            )
            connection.executemany("INSERT INTO study_cells VALUES (?, ?, ?, ?, ?)", rows)

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
        logs: Sequence[RoundLog],
    ) -> None:
        """A run begins anew with these rounds, which take the place of all that it had.

        In one transaction: whoever reads sees the earlier run, or this one, never a mixture.
        """
        rows = _rows_of(key, logs)
        with self._transaction() as connection:
            connection.execute("DELETE FROM runs WHERE key = ?", (key,))
            _begin(connection, key, resolved, facts, version)
            _insert(connection, rows)

    def add_rounds(self, key: str, logs: Sequence[RoundLog]) -> None:
        """Keep rounds of a run that began; those that are there already are overwritten.

        All in one transaction, on the disk when this returns: a checkpoint may follow.
        """
        rows = _rows_of(key, logs)
        with self._transaction() as connection:
            self._require(key)
            _forget_findings(connection, key)
            _insert(connection, rows)

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
                "INSERT INTO run_metrics VALUES (?, ?, ?)",
                [(key, name, float(value)) for name, value in found.items()],
            )
            connection.executemany("INSERT INTO run_arrays VALUES (?, ?, ?)", blobs)
            connection.executemany(
                "INSERT INTO client_counts VALUES (?, ?, ?)",
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

    def _require(self, key: str) -> None:
        if not self._connection.execute("SELECT 1 FROM runs WHERE key = ?", (key,)).fetchone():
            raise KeyError(f"{key}: no such run in {self.path}; begin() it first")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. Others' transactions are waited for at the begin, where it is safe."""
        connection = self._connection
        if not self._writes:
            raise StoreError(f"{self.path}: opened for reading; Store.open(…, write=True) writes")
        with named_errors(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # some errors have ended it already
                    connection.execute("ROLLBACK")
                raise

    # -- reading -------------------------------------------------------------------------------

    def studies(self) -> list[StoredStudy]:
        """All studies of the folder, by name."""
        rows = self._query(
            """SELECT name, about, count(study_cells.key),
            count(CASE status WHEN 'done' THEN 1 END), studies.version,
            max(studies.changed, coalesce(max(runs.changed), ''))
            FROM studies LEFT JOIN study_cells ON study = name
            LEFT JOIN runs ON runs.key = study_cells.key
            GROUP BY name ORDER BY name"""
        )
        return [
            StoredStudy(name, json.loads(about), cells, done, version, datetime.fromisoformat(when))
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
        rows = self._query(
            """SELECT cell.key, labels, seed, coalesce(status, 'waiting'), error, version,
            coalesce(facts, '{}'), (SELECT count(*) FROM rounds WHERE rounds.key = cell.key)
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
                key, json.loads(labels), seed, status, error, version, json.loads(facts), rounds,
                found.get(key, {}),
            )
            for key, labels, seed, status, error, version, facts, rounds in rows
        ]  # fmt: skip

    def resolved(self, key: str) -> dict[str, Any]:
        """The configuration of a run."""
        rows = self._query("SELECT resolved FROM runs WHERE key = ?", key)
        if not rows:
            raise KeyError(f"{key}: no such run in {self.path}")
        plain: dict[str, Any] = json.loads(rows[0][0])
        return plain

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
        return log_codec.frame(self._query(log_codec.SELECT_SCALARS, key))

    def logs(self, key: str, first: int = 0, last: int | None = None) -> Iterator[RoundLog]:
        """The rounds from `first` up to and without `last`, as they were."""
        # read in batches: an open query would keep the writer's log from being folded in
        while batch := self._batch(key, first, last):
            yield from batch
            first = batch[-1].t + 1

    def _batch(self, key: str, first: int, last: int | None) -> list[RoundLog]:
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
        return [log_codec.log_of(row, metrics.get(row[0], [])) for row in rows]

    def arrays(self, key: str) -> dict[str, Array]:
        """What the analyses of a run found, as arrays."""
        rows = self._query("SELECT name, value FROM run_arrays WHERE key = ? ORDER BY rowid", key)
        return {name: unpack(value) for name, value in rows}

    def client_counts(self, key: str) -> dict[str, Array]:
        """Sums over the rounds of a run, one number per client: see `client_counts`."""
        rows = self._query("SELECT name, value FROM client_counts WHERE key = ?", key)
        return {name: unpack(value) for name, value in rows} or self._counted(key)

    def _counted(self, key: str) -> dict[str, Array]:
        tally = client_counts.ClientCounts()
        first = 0
        while rows := self._query(client_counts.SELECT, key, first, BATCH):
            for t, *arrays in rows:
                tally.add(*(unpack(array) for array in arrays))
                first = t + 1
        return tally.counts()

    def last_client_metrics(self, key: str) -> dict[str, Array]:
        """Each metric per client, of the last round that has it."""
        rows = self._query(
            # with max() alone, SQLite takes the other columns from the row of the maximum
            """SELECT name, value, max(t) FROM client_metrics WHERE key = ? GROUP BY name
            ORDER BY position, name""",
            key,
        )
        return {name: unpack(value) for name, value, _ in rows}

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows at once, so that no query stays open."""
        with named_errors(self.path):
            return self._connection.execute(statement, values).fetchall()


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
        """INSERT INTO runs VALUES (?, 'running', NULL, ?, ?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET status = 'running', error = NULL,
        version = excluded.version, resolved = excluded.resolved,
        facts = excluded.facts, changed = excluded.changed""",
        (key, version, *texts, _now()),
    )
    _forget_findings(connection, key)


Rows = list[tuple[Any, ...]]


def _rows_of(key: str, logs: Sequence[RoundLog]) -> dict[str, Rows]:
    """What is written of some rounds: statement → its rows, in order."""
    return {
        # REPLACE deletes a round first, and by that its arrays
        log_codec.REPLACE_ROUND: [log_codec.round_row(key, log) for log in logs],
        log_codec.INSERT_ARRAYS: [log_codec.array_row(key, log) for log in logs],
        log_codec.INSERT_CLIENT_METRIC: [
            row for log in logs for row in log_codec.client_rows(key, log)
        ],
    }


def _insert(connection: sqlite3.Connection, rows: Mapping[str, Rows]) -> None:
    for statement, values in rows.items():
        connection.executemany(statement, values)


def _forget_findings(connection: sqlite3.Connection, key: str) -> None:
    """What was said of a run as a whole; it does not hold once rounds are added."""
    for table in ("run_metrics", "run_arrays", "client_counts"):
        connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

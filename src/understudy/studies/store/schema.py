"""The tables of a runs folder's database, and how older ones become today's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from understudy.studies.store.checksums import COLUMNS

APPLICATION_ID = 0x55535459  # written into the file's head, so that a stranger's is recognised

Step = Callable[[sqlite3.Connection], None]


class StoreError(Exception):
    """A store that is missing, not whole, or not ours to read; says which and why."""


def _first_tables(connection: sqlite3.Connection) -> None:
    """Version 1. Real numbers have no declared type: a REAL column would turn -0.0 into 0.0."""
    for statement in (
        """CREATE TABLE studies (
            name TEXT PRIMARY KEY,
            about TEXT NOT NULL,      -- JSON
            version TEXT NOT NULL,    -- of the package that saved it
            changed TEXT NOT NULL     -- ISO 8601, UTC
        )""",
        """CREATE TABLE study_cells (
            study TEXT NOT NULL REFERENCES studies (name) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            key TEXT NOT NULL,        -- a run of that key need not be there
            labels TEXT NOT NULL,     -- JSON, ordered
            seed INTEGER NOT NULL,
            PRIMARY KEY (study, position)
        )""",
        """CREATE TABLE runs (
            key TEXT PRIMARY KEY,
            status TEXT NOT NULL,     -- running, stopped, done, failed
            error TEXT,
            version TEXT NOT NULL,
            resolved TEXT NOT NULL,   -- JSON: the configuration that `key` is the hash of
            facts TEXT NOT NULL,      -- JSON
            changed TEXT NOT NULL
        )""",
        """CREATE TABLE rounds (
            key TEXT NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
            t INTEGER NOT NULL,
            clock, megabytes_up, megabytes_down,   -- NULL: NaN
            wanted INTEGER NOT NULL,
            asked INTEGER NOT NULL,
            came INTEGER NOT NULL,
            late INTEGER NOT NULL,
            refused INTEGER NOT NULL,
            metrics TEXT NOT NULL,    -- JSON; so are the next three
            notes TEXT NOT NULL,
            timings TEXT NOT NULL,
            refusals TEXT NOT NULL,
            PRIMARY KEY (key, t)
        )""",
        # beside `rounds`, so that a table of rounds is read without passing over them
        """CREATE TABLE round_arrays (
            key TEXT NOT NULL,
            t INTEGER NOT NULL,
            outcome BLOB NOT NULL,
            ids BLOB NOT NULL,
            source BLOB NOT NULL,
            coef BLOB NOT NULL,
            errors BLOB,
            PRIMARY KEY (key, t),
            FOREIGN KEY (key, t) REFERENCES rounds (key, t) ON DELETE CASCADE
        )""",
        """CREATE TABLE client_metrics (
            key TEXT NOT NULL,
            t INTEGER NOT NULL,
            position INTEGER NOT NULL,
            name TEXT NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (key, t, position),
            FOREIGN KEY (key, t) REFERENCES rounds (key, t) ON DELETE CASCADE
        )""",
        """CREATE TABLE client_counts (
            key TEXT NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
            name TEXT NOT NULL,       -- of a done run: sums over its rounds, each of N clients
            value BLOB NOT NULL,
            PRIMARY KEY (key, name)
        )""",
        """CREATE TABLE run_metrics (
            key TEXT NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
            name TEXT NOT NULL,
            value,                    -- NULL: NaN
            PRIMARY KEY (key, name)
        )""",
        """CREATE TABLE run_arrays (
            key TEXT NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
            name TEXT NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (key, name)
        )""",
    ):
        connection.execute(statement)


def _checksums(connection: sqlite3.Connection) -> None:
    """Version 2: a checksum for each row; NULL for those that were there: they have none."""
    for table in [name for name in COLUMNS if name != "round_totals"]:  # which is of version 3
        connection.execute(f"ALTER TABLE {table} ADD COLUMN crc32 INTEGER")


def _totals(connection: sqlite3.Connection) -> None:
    """Version 3: sums over the contributions of a round, where not all of them are kept."""
    connection.execute(
        """CREATE TABLE round_totals (
            key TEXT NOT NULL,
            t INTEGER NOT NULL,
            source BLOB NOT NULL,
            coef BLOB NOT NULL,
            others BLOB NOT NULL,
            crc32 INTEGER,
            PRIMARY KEY (key, t),
            FOREIGN KEY (key, t) REFERENCES rounds (key, t) ON DELETE CASCADE
        )"""
    )


# Step i makes version i + 1 of version i; a file without tables is version 0. A step that has been
# released is never edited: the next change is a new step.
STEPS: tuple[Step, ...] = (_first_tables, _checksums, _totals)


def version_of(connection: sqlite3.Connection) -> int:
    """Of the tables that are there."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_current(connection: sqlite3.Connection, name: str, steps: Sequence[Step]) -> bool:
    """Whether nothing is to be done; a stranger's or a newer file is refused, by its `name`.

    `steps` make each version of the one before.
    """
    version = version_of(connection)
    if version > len(steps):
        raise StoreError(
            f"{name}: has schema {version}, written by a newer understudy; this one knows schemas "
            f"up to {len(steps)}. Update understudy, or name another runs folder"
        )
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (tables or version or owner):
        raise StoreError(f"{name}: a database, but not one of understudy's; name another folder")
    return version == len(steps)


def migrate(connection: sqlite3.Connection, name: str, steps: Sequence[Step]) -> None:
    """Make the tables today's, in one transaction: killed in the middle, the old ones are there."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not is_current(connection, name, steps):  # or another process was first
            for step in steps[version_of(connection) :]:
                step(connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

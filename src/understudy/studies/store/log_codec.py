"""Rounds as rows of the store's tables, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.types import Outcome, RoundLog
from understudy.journal.codec import ARRAYS, NUMBERS, TABLES, Record, log_of_record, record_of
from understudy.representation.representation import ASKED, WANTED
from understudy.studies.store import checksums

if TYPE_CHECKING:
    import pandas

Row = tuple[Any, ...]

COUNTS = ("wanted", "asked", "came", "late", "refused")
SECONDS = "seconds_"  # before the name of what was timed

SCALARS = f"t, clock, megabytes_up, megabytes_down, {', '.join(COUNTS)}, metrics, notes, timings"
REPLACE_ROUND = checksums.insert("rounds", "INSERT OR REPLACE")
INSERT_ARRAYS = checksums.insert("round_arrays")
INSERT_TOTALS = checksums.insert("round_totals")
INSERT_CLIENT_METRIC = checksums.insert("client_metrics")
SELECT_SCALARS = f"SELECT {SCALARS} FROM rounds WHERE key = ? ORDER BY t"
SELECT_LAST_METRICS = (
    "SELECT metrics FROM rounds WHERE key = ? AND metrics <> '{}' ORDER BY t DESC LIMIT 1"
)
SELECT_LOGS = """
SELECT t, clock, megabytes_up, megabytes_down, metrics, notes, timings, refusals,
outcome, ids, of_all.source, of_all.coef, errors, round_totals.source, round_totals.coef, others
FROM rounds JOIN round_arrays AS of_all USING (key, t) LEFT JOIN round_totals USING (key, t)
WHERE key = ? AND t >= ? AND t < ? ORDER BY t LIMIT ?
"""


def round_rows(key: str, log: RoundLog) -> dict[str, list[Row]]:
    """What is written of a round: statement → its rows, in order."""
    record, became = record_of(log), np.bincount(log.outcome, minlength=len(Outcome))
    tables = (json.dumps(record.tables[name]) for name in TABLES)
    scalars = (
        key,
        record.t,
        *(record.numbers[name] for name in NUMBERS),
        int(became[WANTED].sum()),
        int(became[ASKED].sum()),
        int(became[Outcome.CAME]),
        int(became[Outcome.LATE]),
        len(log.refusals),
        *tables,
        json.dumps(record.refusals),
    )
    arrays = (key, record.t, *(record.arrays[name] for name in ARRAYS))
    clients = [
        (key, record.t, position, name, values)
        for position, (name, values) in enumerate(record.client_metrics.items())
    ]
    return {
        # REPLACE deletes a round first, and by that its arrays
        REPLACE_ROUND: [scalars],
        INSERT_ARRAYS: [arrays],
        INSERT_TOTALS: [] if record.totals is None else [(key, record.t, *record.totals)],
        INSERT_CLIENT_METRIC: clients,
    }


def log_of(row: Row, client_metrics: Sequence[tuple[str, bytes]]) -> RoundLog:
    """The log that a row of `SELECT_LOGS` was made of."""
    t, clock, up, down, metrics, notes, timings, refusals, *arrays = row
    numbers = zip(NUMBERS, (number(clock), number(up), number(down)), strict=True)
    tables = zip(TABLES, (json.loads(one) for one in (metrics, notes, timings)), strict=True)
    *totals, named = *arrays[-3:], dict(zip(ARRAYS, arrays[:-3], strict=True))
    return log_of_record(
        Record(
            t, dict(numbers), dict(tables), json.loads(refusals), named, dict(client_metrics),
            None if totals[0] is None else totals,
        )
    )  # fmt: skip


def frame(rows: Sequence[Row]) -> pandas.DataFrame:
    """The table of rows of `SELECT_SCALARS`; a metric is NaN in rounds that lack it."""
    import pandas

    fixed = ("t", "clock", "megabytes_up", "megabytes_down", *COUNTS)
    columns: dict[str, Any] = {
        name: [row[place] for row in rows] for place, name in enumerate(fixed)
    }
    for name in fixed[1:4]:
        columns[name] = [number(value) for value in columns[name]]
    empty = [math.nan] * len(rows)
    for place, prefix in ((-3, ""), (-2, ""), (-1, SECONDS)):
        for at, row in enumerate(rows):
            for name, value in json.loads(row[place]).items():
                column = columns.setdefault(prefix + name, empty.copy())
                if prefix + name not in fixed:
                    column[at] = value
    types = {name: np.int64 if name == "t" or name in COUNTS else np.float64 for name in columns}
    arrays = {name: np.array(values, dtype=types[name]) for name, values in columns.items()}
    return pandas.DataFrame(arrays)


def number(value: float | None) -> float:
    """SQLite keeps NaN as NULL."""
    return math.nan if value is None else float(value)

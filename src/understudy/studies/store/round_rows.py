"""A round's log as rows of the store's tables, and back."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.types import Outcome, Reason, Refusal, RoundLog
from understudy.studies.store.blobs import pack, unpack

if TYPE_CHECKING:
    import pandas

Row = tuple[Any, ...]

# Late: asked in an earlier round, and counted there.
WANTED = [outcome for outcome in Outcome if outcome not in (Outcome.LATE, Outcome.NOT_WANTED)]
ASKED = [outcome for outcome in WANTED if outcome is not Outcome.UNAVAILABLE]
COUNTS = ("wanted", "asked", "came", "late", "refused")
SECONDS = "seconds_"  # before the name of what was timed

SCALARS = f"t, clock, megabytes_up, megabytes_down, {', '.join(COUNTS)}, metrics, notes, timings"
REPLACE_ROUND = f"INSERT OR REPLACE INTO rounds (key, {SCALARS}, refusals) VALUES ({'?, ' * 13}?)"
INSERT_ARRAYS = "INSERT INTO round_arrays VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_CLIENT_METRIC = "INSERT INTO client_metrics VALUES (?, ?, ?, ?, ?)"
SELECT_SCALARS = f"SELECT {SCALARS} FROM rounds WHERE key = ? ORDER BY t"
SELECT_LOGS = """
SELECT t, clock, megabytes_up, megabytes_down, metrics, notes, timings, refusals,
outcome, ids, source, coef, errors
FROM rounds JOIN round_arrays USING (key, t) WHERE key = ? AND t >= ? AND t < ? ORDER BY t LIMIT ?
"""


def round_row(key: str, log: RoundLog) -> Row:
    """What the table `rounds` keeps: all that is not the size of the clients."""
    became = np.bincount(log.outcome, minlength=len(Outcome))
    return (
        key,
        int(log.t),
        float(log.clock),
        float(log.megabytes_up),
        float(log.megabytes_down),
        int(became[WANTED].sum()),
        int(became[ASKED].sum()),
        int(became[Outcome.CAME]),
        int(became[Outcome.LATE]),
        len(log.refusals),
        _numbers(log.metrics),
        _numbers(log.notes),
        _numbers(log.timings),
        json.dumps([(_plain(one.id), one.reason.value, one.detail) for one in log.refusals]),
    )


def array_row(key: str, log: RoundLog) -> Row:
    """What the table `round_arrays` keeps."""
    errors = None if log.errors is None else pack(log.errors)
    arrays = (log.outcome, log.ids, log.source, log.coef)
    return (key, int(log.t), *(pack(array) for array in arrays), errors)


def client_rows(key: str, log: RoundLog) -> Iterator[Row]:
    """What the table `client_metrics` keeps."""
    for position, (name, values) in enumerate(log.client_metrics.items()):
        yield key, int(log.t), position, name, pack(values)


def log_of(row: Row, client_metrics: Sequence[tuple[str, bytes]]) -> RoundLog:
    """The log that a row of `SELECT_LOGS` was made of."""
    t, clock, up, down, metrics, notes, timings, refusals, *arrays, errors = row
    outcome, ids, source, coef = (unpack(array) for array in arrays)
    return RoundLog(
        t=t,
        outcome=outcome,
        refusals=tuple(
            Refusal(_id(who), Reason(reason), detail)
            for who, reason, detail in json.loads(refusals)
        ),
        ids=ids,
        source=source,
        coef=coef,
        notes=json.loads(notes),
        metrics=json.loads(metrics),
        megabytes_up=number(up),
        megabytes_down=number(down),
        timings=json.loads(timings),
        clock=number(clock),
        client_metrics={name: unpack(values) for name, values in client_metrics},
        errors=None if errors is None else unpack(errors),
    )


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


def _numbers(values: Mapping[str, float]) -> str:
    return json.dumps({name: float(value) for name, value in values.items()})


def _plain(client: object) -> Any:
    """An id as JSON: what is no number or text, as Python would write it."""
    if isinstance(client, np.generic):
        client = client.item()
    if client is None or isinstance(client, bool | int | float | str):
        return client
    return {"repr": repr(client)}


def _id(written: Any) -> object:
    if not isinstance(written, dict):
        return written
    try:
        return ast.literal_eval(written["repr"])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return written["repr"]

"""`RoundLog` as plain data, and back: the one codec, for lines of a file and rows of a database.

A `Record` has a head that JSON can hold, and the arrays as bytes (`understudy.journal.arrays`).
"""

from __future__ import annotations

import ast
import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.inflate import inflated, n_elements
from understudy.core.types import Reason, Refusal, RoundLog, SourceTotals
from understudy.journal.arrays import Array, pack, unpack

CODEC = 2  # of a line; lines of the first have no number
WITH_TOTALS = 3  # of a line whose log leaves contributions out: earlier versions must refuse it
NUMBERS = ("clock", "megabytes_up", "megabytes_down")
TABLES = ("metrics", "notes", "timings")  # name → number
ARRAYS = ("outcome", "ids", "source", "coef", "errors")  # the last may be None
_ENTRIES = {"t", "codec", *NUMBERS, *TABLES, "refusals", "arrays", "client_metrics"}


@dataclass(frozen=True)
class Record:
    """A round's log as plain data."""

    t: int
    numbers: Mapping[str, float]
    tables: Mapping[str, Mapping[str, float]]
    refusals: list[list[Any]]  # who, reason, detail
    arrays: Mapping[str, bytes | None]
    client_metrics: Mapping[str, bytes]
    totals: Sequence[bytes] | None = None  # source, coef, others


def record_of(log: RoundLog) -> Record:
    """A log as plain data."""
    arrays = {name: getattr(log, name) for name in ARRAYS}
    return Record(
        t=int(log.t),
        numbers={name: float(getattr(log, name)) for name in NUMBERS},
        tables={name: _floats(getattr(log, name)) for name in TABLES},
        refusals=[[_plain(one.id), one.reason.value, one.detail] for one in log.refusals],
        arrays={name: None if array is None else pack(array) for name, array in arrays.items()},
        client_metrics={name: pack(values) for name, values in log.client_metrics.items()},
        totals=None if log.totals is None else [pack(array) for array in log.totals],
    )


def log_of_record(record: Record) -> RoundLog:
    """The log that a record was made of."""
    arrays = {name: None if one is None else unpack(one) for name, one in record.arrays.items()}
    fields: dict[str, Any] = {**record.numbers, **record.tables, **arrays}
    return RoundLog(
        t=record.t,
        refusals=tuple(
            Refusal(_id(who), Reason(reason), detail) for who, reason, detail in record.refusals
        ),
        client_metrics={name: unpack(one) for name, one in record.client_metrics.items()},
        totals=None if record.totals is None else SourceTotals(*map(unpack, record.totals)),
        **fields,
    )


# -- as a line of JSON ---------------------------------------------------------------------------


def line_of(log: RoundLog) -> bytes:
    """A log as one line of JSON, without its end; ``{"t": 3,`` is how round 3 begins."""
    record = record_of(log)
    plain = {
        "t": record.t,
        "codec": CODEC,
        **record.numbers,
        **record.tables,
        "refusals": record.refusals,
        "arrays": {name: _text(one) for name, one in record.arrays.items()},
        "client_metrics": {name: _text(one) for name, one in record.client_metrics.items()},
    }
    if record.totals is not None:
        plain |= {"codec": WITH_TOTALS, "totals": [_text(one) for one in record.totals]}
    return json.dumps(plain).encode()


def log_of_line(line: bytes | str) -> RoundLog:
    """The log that a line was made of, also by earlier versions."""
    plain = json.loads(line)
    if "codec" not in plain:
        return _first_codec(plain)
    if plain["codec"] not in (CODEC, WITH_TOTALS):
        raise ValueError(
            f"codec: expected {CODEC} or {WITH_TOTALS}, got {plain['codec']!r}: of a later version"
        )
    entries = _ENTRIES | ({"totals"} if plain["codec"] == WITH_TOTALS else set())
    if plain.keys() - {"crc32"} != entries:  # also a checksum that is no longer called so
        raise ValueError(f"expected the entries {sorted(entries)}, got {sorted(plain)}")
    return log_of_record(
        Record(
            t=plain["t"],
            numbers={name: plain[name] for name in NUMBERS},
            tables={name: plain[name] for name in TABLES},
            refusals=plain["refusals"],
            arrays={name: _bytes(plain["arrays"][name]) for name in ARRAYS},
            client_metrics={
                name: base64.b64decode(one) for name, one in plain["client_metrics"].items()
            },
            totals=[base64.b64decode(one) for one in plain["totals"]]
            if "totals" in plain
            else None,
        )
    )


def _text(blob: bytes | None) -> str | None:
    return None if blob is None else base64.b64encode(blob).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _first_codec(plain: dict[str, Any]) -> RoundLog:
    """Lines from before there was one codec: arrays whole, ids as Python writes them."""
    nested = ("refusals", "client_metrics", "crc32")
    fields = {name: _array(value) for name, value in plain.items() if name not in nested}
    fields["refusals"] = tuple(
        Refusal(_literal(who), Reason(reason), detail) for who, reason, detail in plain["refusals"]
    )
    clients = plain["client_metrics"]
    fields["client_metrics"] = {name: _array(values) for name, values in clients.items()}
    return RoundLog(**fields)


def _array(value: Any) -> Any:
    if not (isinstance(value, dict) and "array" in value):
        return value
    dtype, shape = np.dtype(value["dtype"]), value["shape"]
    size = n_elements(shape, dtype.itemsize) * dtype.itemsize
    raw = inflated(base64.b64decode(value["array"]), size)
    array: Array = np.frombuffer(raw, dtype=dtype).reshape(shape).copy()
    return array


# -- ids -------------------------------------------------------------------------------------------


def _floats(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _plain(client: object) -> Any:
    """An id as JSON: what is no number or text, as Python would write it."""
    if isinstance(client, np.generic):
        client = client.item()
    if client is None or isinstance(client, bool | int | float | str):
        return client
    return {"repr": repr(client)}


def _id(written: Any) -> object:
    return _literal(written["repr"]) if isinstance(written, dict) else written


def _literal(written: str) -> object:
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return written  # an object of somebody's: its words remain

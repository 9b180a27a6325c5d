"""A round's log as rows of the store's tables, and back; its arrays as compact bytes.

A blob is a line of text, ``dtype shape stored steps``, and then the zlib-compressed elements:
integers in the smallest type that holds them (as steps from one to the next where these are
smaller still), float64 as float32 where not a bit is lost.
"""

from __future__ import annotations

import ast
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.core.brief import shown
from understudy.core.inflate import inflated, n_elements
from understudy.core.types import Outcome, Reason, Refusal, RoundLog
from understudy.studies.store import checksums

if TYPE_CHECKING:
    import pandas

Array = npt.NDArray[Any]
Row = tuple[Any, ...]

LEVEL = 1  # of zlib: the higher ones take several times as long for a few per cent
KINDS = "biufcSUmM"  # of arrays that are kept
INTEGERS = [np.dtype(f"<{kind}{size}") for size in (1, 2, 4, 8) for kind in "ui"]


# Late: asked in an earlier round, and counted there.
WANTED = [outcome for outcome in Outcome if outcome not in (Outcome.LATE, Outcome.NOT_WANTED)]
ASKED = [outcome for outcome in WANTED if outcome is not Outcome.UNAVAILABLE]
COUNTS = ("wanted", "asked", "came", "late", "refused")
SECONDS = "seconds_"  # before the name of what was timed

SCALARS = f"t, clock, megabytes_up, megabytes_down, {', '.join(COUNTS)}, metrics, notes, timings"
REPLACE_ROUND = checksums.insert("rounds", "INSERT OR REPLACE")
INSERT_ARRAYS = checksums.insert("round_arrays")
INSERT_CLIENT_METRIC = checksums.insert("client_metrics")
SELECT_SCALARS = f"SELECT {SCALARS} FROM rounds WHERE key = ? ORDER BY t"
SELECT_LAST_METRICS = (
    "SELECT metrics FROM rounds WHERE key = ? AND metrics <> '{}' ORDER BY t DESC LIMIT 1"
)
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


# -- arrays -------------------------------------------------------------------------------------


def pack(array: Array) -> bytes:
    """The blob of an array."""
    if array.dtype.kind not in KINDS:
        raise TypeError(f"expected an array of numbers or text, got one of {array.dtype}")
    n_elements(array.shape, max(array.dtype.itemsize, 8))  # else it could not be read again
    flat = np.ascontiguousarray(array).reshape(-1)
    stored, steps = flat, False
    if flat.dtype.kind in "iu":
        stored, steps = _smallest(flat)
    elif flat.dtype == np.float64:
        stored = _halved(flat)
    shape = ",".join(str(length) for length in array.shape)
    head = f"{array.dtype.str} ({shape}) {stored.dtype.str} {int(steps)}\n"
    return head.encode() + zlib.compress(_planes(stored), LEVEL)


def unpack(blob: bytes) -> Array:
    """The array that `pack` was given.

    The blob may be somebody else's: it is not believed that it is small when it is inflated.
    """
    head, _, body = blob.partition(b"\n")
    dtype_name, shape, stored_name, steps = head.decode().split(" ")
    lengths = [int(length) for length in shape[1:-1].split(",") if length]
    dtype, stored = np.dtype(dtype_name), np.dtype(stored_name)
    if dtype.kind not in KINDS or stored.kind not in KINDS:
        raise ValueError(f"expected an array of numbers or text, got {shown(head)}")
    # 8 bytes each: steps are summed as int64
    n = n_elements(lengths, max(dtype.itemsize, stored.itemsize, 8))
    flat = _joined(inflated(body, n * stored.itemsize), stored)
    if steps == "1":
        flat = np.cumsum(flat, dtype=np.int64)
    return flat.astype(dtype, copy=False).reshape(lengths)


def _smallest(flat: Array) -> tuple[Array, bool]:
    """Integers in the smallest type; as steps, if that is smaller."""
    if not flat.size:
        return flat.astype(np.uint8), False
    low, high = int(flat.min()), int(flat.max())
    plain = _holding(low, high)
    # half the range of int64, so that no step overflows
    if plain.itemsize > 1 and -(2**62) < low and high < 2**62:
        jumps = np.diff(flat.astype(np.int64), prepend=0)
        small = _holding(int(jumps.min()), int(jumps.max()))
        # as wide, but sorted in one run or a few: almost all steps are alike
        if small.itemsize < plain.itemsize or (jumps < 0).sum() * 16 < len(flat):
            return jumps.astype(small), True
    return flat.astype(plain), False


def _holding(low: int, high: int) -> np.dtype[Any]:
    """The smallest integer type of a range."""
    for dtype in INTEGERS:
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return dtype
    raise OverflowError(f"no integer type holds both {low} and {high}")


def _halved(flat: Array) -> Array:
    """As float32 where that is lossless to the bit (-0.0 and NaN included), else as it is."""
    with np.errstate(all="ignore"):
        single = flat.astype(np.float32)
        same = np.array_equal(single.astype(np.float64).view(np.uint64), flat.view(np.uint64))
    return single if same else flat


def _planes(stored: Array) -> bytes:
    """First bytes of all elements, then all second ones: alike bytes lie together."""
    size = stored.dtype.itemsize
    if size <= 1 or stored.dtype.kind not in "iuf":
        return stored.tobytes()
    return np.ascontiguousarray(stored.view(np.uint8).reshape(-1, size).T).tobytes()


def _joined(raw: bytes, dtype: np.dtype[Any]) -> Array:
    """What `_planes` took apart; its own memory, so that it can be written to."""
    size = dtype.itemsize
    if size <= 1 or dtype.kind not in "iuf":
        return np.frombuffer(raw, dtype=dtype).copy()
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(size, -1)
    return planes.T.copy(order="C").reshape(-1).view(dtype)

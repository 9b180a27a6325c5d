"""Columns on their way to the page: a head in JSON, and behind it the arrays as bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.core.printable import printable

KINDS = {"u1": "Uint8Array", "i4": "Int32Array", "f4": "Float32Array"}  # what JavaScript has
EVEN = 8  # bytes: where arrays begin
LONGEST = 4000  # characters of a text


def packed(head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Length of the head in 4 bytes, the head, the arrays at multiples of 8."""
    fields, parts, offset = [], [], 0
    for name, array in arrays.items():
        stored = np.ascontiguousarray(_narrow(array))
        kind = f"{stored.dtype.kind}{stored.dtype.itemsize}"
        fields.append({"name": name, "kind": KINDS[kind], "shape": stored.shape, "offset": offset})
        parts.append(_evened(stored.tobytes()))
        offset += len(parts[-1])
    text = json.dumps({**plain(head), "fields": plain(fields)}).encode()
    first = len(text).to_bytes(4, "little") + text
    return b"".join([_evened(first), *parts])


def _narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return array.astype("<f4", copy=False)
    return array if array.dtype == np.uint8 else array.astype("<i4", copy=False)


def _evened(text: bytes) -> bytes:
    return text + b" " * (-len(text) % EVEN)


def plain(value: Any) -> Any:
    """Anything as JSON that browsers read: no NaN, no character that steers, no endless text."""
    if isinstance(value, str):
        return printable(value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…")
    if isinstance(value, Mapping):
        return {str(plain(str(name))): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else plain(str(value))

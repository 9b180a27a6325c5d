"""Arrays as compact bytes.

A blob is a line of text, ``dtype shape stored steps``, and then the zlib-compressed elements:
integers in the smallest type that holds them (as steps from one to the next where these are
smaller still), float64 as float32 where not a bit is lost.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.core.inflate import inflated, n_elements
from understudy.core.shown import shown

Array = npt.NDArray[Any]

LEVEL = 1  # of zlib: the higher ones take several times as long for a few per cent
KINDS = "biufcSUmM"  # of arrays that are kept
INTEGERS = [np.dtype(f"<{kind}{size}") for size in (1, 2, 4, 8) for kind in "ui"]


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

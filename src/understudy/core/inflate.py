"""Decompressing what may come from somebody else: to the announced size, and no further."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

from understudy.core.shown import shown

MOST_INFLATED = 2**30  # bytes of one array: the similarities of 10,000 clients are 800 MB
MOST_COMPRESSED = 1032  # bytes that one byte of deflated data can stand for, at the most


def n_elements(shape: Sequence[object], itemsize: int) -> int:
    """How many elements an array has that a file announces; more than can be are refused."""
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"expected the shape of an array, got {shown(shape)}")
    n = math.prod(side for side in shape if isinstance(side, int))
    if n * itemsize > MOST_INFLATED:
        raise ValueError(
            f"expected an array of at most {MOST_INFLATED:,} bytes, got {shown(shape)} of "
            f"{itemsize:,} bytes each"
        )
    return n


def inflated(data: bytes, size: int) -> bytes:
    """The `size` bytes that zlib has compressed; an error where they are not so many.

    A few kilobytes can stand for gigabytes. A size that cannot be is refused before memory is
    spent on it, and no more than one byte beyond it is ever made.
    """
    if size > MOST_COMPRESSED * len(data):
        raise ValueError(f"{len(data):,} compressed bytes cannot hold the announced {size:,}")
    stream = zlib.decompressobj()
    found = stream.decompress(data, size + 1)  # 0 would be "without a bound"
    if len(found) != size or not stream.eof:
        got = "more" if len(found) > size else f"{len(found):,}, or a stream cut short"
        raise ValueError(f"expected {size:,} bytes of compressed data, got {got}")
    return found

"""What all measurements of `benchmarks.scale` share: entries, the machine's limits, the clock."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch

from understudy.core.threads import one_thread

Entry = dict[str, Any]
Result = TypeVar("Result")


def entry(
    what: str,
    *,
    n_clients: int,
    seconds: float,
    rate: float | None = None,
    unit: str = "",
    limit: float | None = None,
    **more: Any,
) -> Entry:
    """One measurement; `limit` is the machine's own rate, measured in the same process."""
    share = None if rate is None or limit is None else round(rate / limit, 3)
    return {
        "what": what,
        "n_clients": n_clients,
        "seconds": round(seconds, 5),
        "peak_megabytes": peak_megabytes(),
        "rate": None if rate is None else round(rate, 3),
        "unit": unit,
        "limit": None if limit is None else round(limit, 3),
        "share_of_limit": share,
        **more,
    }


def peak_megabytes() -> int:
    """Of this process, since it began."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def timed(call: Callable[..., Result], *given: Any, **named: Any) -> tuple[float, Result]:
    """Seconds of a call, and what it returned."""
    begin = perf_counter()
    result = call(*given, **named)
    return perf_counter() - begin, result


def seconds_of(call: Callable[[], object]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


def median_of(times: list[float]) -> float:
    return statistics.median(times)


def product_limit(n_rows: int, n_columns: int = 16_384) -> float:
    """GFLOP/s of the machine's own product of a matrix with itself, one core.

    Such a product is symmetric, and BLAS computes half of it (syrk): k² d operations, not 2 k² d.
    """
    rows = np.random.default_rng(0).random((n_rows, n_columns), dtype=np.float32)
    with one_thread():
        rows @ rows.T
        spent = median_of([seconds_of(lambda: rows @ rows.T) for _ in range(3)])
    return n_rows**2 * n_columns / spent / 1e9


def plain_read(path: Path, size: int) -> float:
    """GB/s of reading a file from its beginning, in pieces of 8 MB."""
    buffer = bytearray(8 << 20)
    with path.open("rb", buffering=0) as file:
        begin, done = perf_counter(), 0
        while done < size:
            read = file.readinto(buffer)
            if not read:
                break
            done += read
        return done / (perf_counter() - begin) / 1e9


def forget(path: Path, mapped: torch.Tensor) -> None:
    """Ask the system to drop a file from its cache, where it can be asked.

    Pages that a process has mapped are not dropped: `mapped` is what it sees of the file.
    """
    if hasattr(os, "posix_fadvise"):
        whole = mapped.untyped_storage()
        address, size = ctypes.c_void_p(whole.data_ptr()), ctypes.c_size_t(whole.nbytes())
        if ctypes.CDLL(None, use_errno=True).madvise(address, size, mmap.MADV_DONTNEED):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

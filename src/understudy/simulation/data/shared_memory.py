"""Tensors that several processes see: no copy travels, and nothing is left behind by a kill.

On Linux the memory belongs to an anonymous file that is reached through its owner's open
descriptor and is gone with the last process that holds it. Elsewhere it is a temporary file,
removed when its owner lets go. What is larger than `IN_MEMORY` is a temporary file everywhere: its
pages can leave memory.
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
import weakref
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np
import torch

ALIGNMENT = 64  # bytes
IN_MEMORY = 4 * 2**30  # bytes of one tensor that are held in memory at most


@dataclass(frozen=True)
class Handle:
    """Where another process finds a shared tensor."""

    path: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    number: int  # of its maker's tensors: a path may come again when a tensor is gone


_numbers = itertools.count()


class Shared:
    """A tensor in shared memory, made by its owner. A matrix has rows at multiples of 64 bytes."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        size = max(ALIGNMENT, _bytes(shape, dtype))
        self._fd, path = _new_file(on_disk=size > IN_MEMORY)
        try:
            # reserve now: without it, too little memory would be a signal in the middle of a round
            os.posix_fallocate(self._fd, 0, size) if hasattr(os, "posix_fallocate") else None
            os.ftruncate(self._fd, size)
            self.tensor = _view(mmap.mmap(self._fd, size), shape, dtype)
        except BaseException:
            _remove(self._fd, path)
            raise
        self.handle = Handle(path, tuple(shape), dtype, next(_numbers))
        self._finalizer = weakref.finalize(self, _remove, self._fd, path)

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Shared:
        """A shared copy."""
        shared = cls(tuple(tensor.shape), tensor.dtype)
        shared.tensor.copy_(tensor)
        return shared


@lru_cache(maxsize=8)  # a worker maps each tensor once; an old matrix drops out
def attach(handle: Handle) -> torch.Tensor:
    """The tensor behind a handle, in another process."""
    with open(handle.path, "r+b") as file:
        size = max(ALIGNMENT, _bytes(handle.shape, handle.dtype))
        return _view(mmap.mmap(file.fileno(), size), handle.shape, handle.dtype)


def row_stride(width: int, dtype: torch.dtype) -> int:
    """Numbers between the beginnings of two rows, so that each is aligned."""
    per_line = ALIGNMENT // dtype.itemsize
    return -(-width // per_line) * per_line


def aligned_matrix(n_rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """(n_rows, width) in this process's own memory, rows aligned as in a shared one."""
    return torch.empty((n_rows, row_stride(width, dtype)), dtype=dtype)[:, :width]


def _bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    if len(shape) == 2:
        return shape[0] * row_stride(shape[1], dtype) * dtype.itemsize
    return prod(shape) * dtype.itemsize


def _view(memory: mmap.mmap, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    flat = torch.from_numpy(np.frombuffer(memory, dtype=np.uint8)).view(dtype)
    if len(shape) == 2:
        stride = row_stride(shape[1], dtype)
        return flat[: shape[0] * stride].view(shape[0], stride)[:, : shape[1]]
    return flat[: prod(shape)].view(shape)


def _new_file(on_disk: bool) -> tuple[int, str]:
    if not hasattr(os, "memfd_create"):
        return tempfile.mkstemp(prefix="understudy-")
    if on_disk:
        descriptor, path = tempfile.mkstemp(prefix="understudy-")
        Path(path).unlink()  # reached through the descriptor: a kill leaves nothing behind
    else:
        descriptor = os.memfd_create("understudy")
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"


def _remove(descriptor: int, path: str) -> None:
    os.close(descriptor)
    if not path.startswith("/proc/"):
        Path(path).unlink(missing_ok=True)

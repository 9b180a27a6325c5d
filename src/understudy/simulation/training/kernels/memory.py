"""From tensors and arrays to addresses: the one way from Python into compiled code.

The kernels believe an address and the numbers that go with it. So nothing else in this package
takes the address of a tensor or an array, and what is not as the kernels expect it is an error
here, or copied where it is only read and lies otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

TYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int64: np.dtype(np.int64),
    torch.uint8: np.dtype(np.uint8),
}


@dataclass(frozen=True, eq=False)
class Located:
    """Numbers that lie one after the other from an address on, alive as long as this is held."""

    address: int
    owner: object


def memory(
    name: str, values: Any, dtype: np.dtype[Any], shape: tuple[int, ...], *, writes: bool = False
) -> Located:
    """Where the kernels find some numbers, of exactly this type and shape: else an error says so.

    They are never converted. What the kernels write must lie densely and aligned; what is only read
    is copied where it does not.
    """
    if isinstance(values, np.ndarray):
        return _of_array(name, values, dtype, shape, writes)
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"{name}: expected a torch tensor, got {type(values).__name__}")
    check_tensor(name, values, dtype, writes)
    if values.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {tuple(values.shape)}")
    if not values.is_contiguous() or values.data_ptr() % dtype.itemsize:
        if writes:
            raise ValueError(f"{name}: expected numbers that lie densely in memory, got a view")
        values = values.detach().clone(memory_format=torch.contiguous_format)
    return Located(values.data_ptr(), values)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a matrix: looked at once, then an address each."""

    address: int
    stride: int  # bytes
    n_rows: int
    owner: object

    def row(self, number: int) -> int:
        """Where a row begins."""
        if not 0 <= number < self.n_rows:
            raise IndexError(f"rows: expected 0 .. {self.n_rows - 1}, got {number}")
        return self.address + number * self.stride


def rows(
    name: str, matrix: torch.Tensor, dtype: np.dtype[Any], d: int, *, writes: bool = False
) -> Rows:
    """Where the kernels find the rows of a matrix, each of d numbers; as in `memory`."""
    check_tensor(name, matrix, dtype, writes)
    if matrix.ndim != 2 or matrix.shape[1] != d:
        raise ValueError(f"{name}: expected rows of {d} numbers, got {tuple(matrix.shape)}")
    step, within = matrix.stride()
    apart = step >= d or len(matrix) == 1  # else one row's numbers are another's, too
    if not (within == 1 or d == 1) or not apart or matrix.data_ptr() % dtype.itemsize:
        if writes:
            raise ValueError(f"{name}: expected numbers that lie densely in memory, got a view")
        matrix = matrix.detach().clone(memory_format=torch.contiguous_format)
        step = d
    return Rows(matrix.data_ptr(), step * dtype.itemsize, len(matrix), matrix)


def check_tensor(
    name: str, values: torch.Tensor, dtype: np.dtype[Any], writes: bool = False
) -> None:
    """Refuse a tensor of another type, on another device, or whose memory is gone."""
    found = TYPES.get(values.dtype)
    if found is None or found != dtype:  # NumPy takes None for float64
        raise TypeError(f"{name}: expected {dtype.name}, got {values.dtype}")
    if values.device.type != "cpu" or values.layout != torch.strided or values.is_neg():
        kind = f"a {values.layout} one on {values.device}"
        raise ValueError(f"{name}: expected a plain tensor in the CPU's memory, got {kind}")
    held = values.untyped_storage().nbytes()
    if _end(values) > held:
        raise ValueError(f"{name}: expected memory of {_end(values)} bytes, got {held}")
    if writes and values.requires_grad:
        raise ValueError(f"{name}: expected numbers to be written, got a tensor with a gradient")


def _of_array(
    name: str, array: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...], writes: bool
) -> Located:
    if array.dtype != dtype:  # the order of bytes is part of a type
        raise TypeError(f"{name}: expected {dtype.name}, got {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    flags = array.flags
    if writes and not (flags.c_contiguous and flags.aligned and flags.writeable):
        raise ValueError(
            f"{name}: expected numbers that lie densely and can be written, got a view"
        )
    if not (flags.c_contiguous and flags.aligned):
        array = array.copy()
    return Located(array.__array_interface__["data"][0], array)


def _end(tensor: torch.Tensor) -> int:
    """Bytes from the beginning of a tensor's storage to the end of its last number."""
    if not tensor.numel():
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in steps)
    return int(last + 1) * tensor.element_size()

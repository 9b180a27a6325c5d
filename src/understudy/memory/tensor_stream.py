"""Writing and reading safetensors files.

The library's own writer wants all tensors in memory at once; a memory of rows may not fit. The
format is a length, a JSON header and the bytes, so it is written here as a stream. Reading is the
library's. No file is ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open

from understudy.core.files import replaced

NAMES = {  # all that every safetensors from 0.4.3 on reads
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class CheckpointError(Exception):
    """A file or folder that does not hold what it should; says what and why."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A tensor to be written: its header, and its bytes in pieces."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    pieces: Iterable[torch.Tensor]

    @classmethod
    def of(cls, name: str, value: torch.Tensor | npt.NDArray[np.generic]) -> Entry:
        """A whole array; `name` is what an error calls it."""
        tensor = value if isinstance(value, torch.Tensor) else as_tensor(value)
        refuse_unstorable(name, value.dtype if tensor is None else tensor.dtype)
        assert tensor is not None
        return cls(tensor.dtype, tuple(value.shape), [tensor])

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def refuse_unstorable(name: str, dtype: object) -> None:
    """Raise where numbers of a type have no place in a file; `name` is what holds them."""
    if dtype not in NAMES:
        known = ", ".join(_short(one) for one in NAMES)
        raise TypeError(f"{name}: cannot be stored: expected {known}, got {_short(dtype)}")


def _short(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def as_tensor(array: npt.NDArray[np.generic]) -> torch.Tensor | None:
    """The same numbers; None where torch has none of this type."""
    try:
        # read-only, backwards, of another byte order: torch takes none of these as they are
        return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except TypeError:
        return None


def write(path: Path, entries: Mapping[str, Entry], about: Mapping[str, object]) -> None:
    """Write a safetensors file, whole or not at all."""
    header: dict[str, object] = {"__metadata__": {"understudy": json.dumps(about)}}
    offset = 0
    for name, entry in entries.items():
        header[name] = {
            "dtype": NAMES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [offset, offset + entry.size],
        }
        offset += entry.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replaced(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for entry in entries.values():
            for piece in entry.pieces:
                file.write(raw_bytes(piece))


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """A tensor's bytes, without a copy where it lies in one piece on the CPU."""
    if tensor.numel() == 0:
        return memoryview(b"")
    flat: Any = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return memoryview(flat)


class Reader:
    """A file's tensors, one by one, each as a fresh copy: results may depend on alignment."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise CheckpointError(f"{path}: no such file")
        try:
            file: Any = safe_open(path, framework="pt")
            about = (file.metadata() or {}).get("understudy")
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: cut short, or not a checkpoint ({error})") from error
        self.path = path
        try:
            self.about: dict[str, Any] = json.loads(about or "")
            if not isinstance(self.about, dict):
                raise ValueError
        except ValueError:
            raise CheckpointError(
                f"{path}: a safetensors file, but not a checkpoint of understudy"
            ) from None
        self.names = set(file.keys())
        self._file = file

    def tensor(self, name: str) -> torch.Tensor:
        if name not in self.names:
            raise CheckpointError(f"{self.path}: {name} is missing")
        result: torch.Tensor = self._file.get_tensor(name).clone()
        return result

    def array(self, name: str) -> npt.NDArray[np.generic]:
        array: npt.NDArray[np.generic] = self.tensor(name).numpy()
        return array

    def row(self, name: str, index: int) -> torch.Tensor:
        row: torch.Tensor = self._file.get_slice(name)[index].clone()
        return row

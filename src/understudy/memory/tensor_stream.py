"""Writing and reading safetensors files.

The library's own writer wants all tensors in memory at once; a memory of rows may not fit. The
format is a length, a JSON header and the bytes, so it is written here as a stream. Reading is the
library's. No file is ever unpickled.

The header begins with a checksum: the CRC-32 of the whole file, in which the checksum's own eight
digits count as zeros. Files written before there were checksums are read, and are "not verified".
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open

from understudy.core.files import replaced
from understudy.core.shown import shown

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


LENGTH = 8  # bytes of the header's length, in front of it
PREFIX = b'{"__metadata__": {"crc32": "'  # what the header begins with where there is a checksum
UNSEALED = b"00000000"
PIECE = 2**20  # bytes read at once to verify a file


class CheckpointError(Exception):
    """A file or folder that does not hold what it should; says what and why."""


@contextmanager
def named_faults(path: Path) -> Iterator[None]:
    """Whatever goes wrong while a file's contents are taken up is a fault of the file, by name.

    Errors of the operating system (no such file, no room) stay what they are.
    """
    try:
        yield
    except (CheckpointError, OSError):
        raise
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise CheckpointError(f"{path}: cannot be used ({words})") from error


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
    """Write a safetensors file with its checksum, whole or not at all."""
    told = json.dumps({**about, "checksum": "crc32"})
    metadata = {"crc32": UNSEALED.decode(), "understudy": told}
    header: dict[str, object] = {"__metadata__": metadata}
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
        length = len(text).to_bytes(LENGTH, "little")
        file.write(length)
        file.write(text)
        checksum = zlib.crc32(text, zlib.crc32(length))
        for entry in entries.values():
            for piece in entry.pieces:
                data = raw_bytes(piece)
                file.write(data)
                checksum = zlib.crc32(data, checksum)
        file.seek(LENGTH + len(PREFIX))
        file.write(f"{checksum:08x}".encode())


def verified(path: Path) -> bool:
    """Whether a file has a checksum, which is the right one; one that is wrong is an error."""
    with open(path, "rb") as file:
        head = file.read(LENGTH + len(PREFIX) + len(UNSEALED))
        if head[LENGTH : LENGTH + len(PREFIX)] != PREFIX:
            return False
        stored, checksum = head[-len(UNSEALED) :], zlib.crc32(head[: -len(UNSEALED)] + UNSEALED)
        while piece := file.read(PIECE):
            checksum = zlib.crc32(piece, checksum)
    if stored != f"{checksum:08x}".encode():
        raise CheckpointError(f"{path}: damaged: its contents do not fit its checksum")
    return True


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
        self.path = path
        try:
            file: Any = safe_open(path, framework="pt")
            about = (file.metadata() or {}).get("understudy")
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: cut short, or not a checkpoint ({error})") from error
        self.verified = verified(path)  # False: written before there were checksums
        try:
            self.about: dict[str, Any] = json.loads(about or "")
            if not isinstance(self.about, dict):
                raise ValueError
        except (ValueError, RecursionError):
            raise CheckpointError(
                f"{path}: a safetensors file, but not a checkpoint of understudy"
            ) from None
        if "checksum" in self.about and not self.verified:
            raise CheckpointError(f"{path}: damaged: its checksum is not where it should be")
        self.names = set(file.keys())
        self._file = file

    def table(self, name: str) -> dict[str, Any]:
        """A table of what the file says of itself, such as its numbers."""
        table = self.about.get(name)
        if not isinstance(table, dict):
            raise CheckpointError(f"{self.path}: {name}: expected a table, got {shown(table)}")
        return table

    def number(self, name: str, low: int, high: float = float("inf")) -> int:
        """One of its numbers: whole, at least `low` and at most `high`."""
        value = self.table("numbers").get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise CheckpointError(
                f"{self.path}: {name}: expected a whole number >= {low}, got {shown(value)}"
            )
        return value

    def tensor(self, name: str) -> torch.Tensor:
        if name not in self.names:
            raise CheckpointError(f"{self.path}: {name} is missing")
        with named_faults(self.path):
            result: torch.Tensor = self._file.get_tensor(name).clone()
        return result

    def array(self, name: str) -> npt.NDArray[np.generic]:
        with named_faults(self.path):
            array: npt.NDArray[np.generic] = self.tensor(name).numpy()
        return array

    def shaped(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
        """An array that must be of this type and shape (None: any length)."""
        array = self.array(name)
        fits = len(array.shape) == len(shape) and all(
            size is None or size == length for size, length in zip(shape, array.shape, strict=True)
        )
        if array.dtype != np.dtype(dtype) or not fits:
            wanted = "×".join("any" if size is None else str(size) for size in shape)
            found = "×".join(str(size) for size in array.shape) or "one number"
            raise CheckpointError(
                f"{self.path}: {name}: expected {wanted} of {dtype}, got {found} of {array.dtype}"
            )
        return array

    def row(self, name: str, index: int) -> torch.Tensor:
        with named_faults(self.path):
            row: torch.Tensor = self._file.get_slice(name)[index].clone()
        return row

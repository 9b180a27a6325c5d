"""Whatever arrays the app sends are the model: an ArrayRecord as one flat vector, and back.

Floating arrays form the vector, parameters first, then buffers. Other arrays (such as BatchNorm's
count of batches) keep the server's value. Bytes from outside are read by their header alone:
nothing is unpickled, and nothing is allocated that was not expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import Array, ArrayRecord
from safetensors.numpy import load_file, save_file

from understudy.core.printable import one_line
from understudy.core.shown import shown
from understudy.core.types import Reason
from understudy.memory.tensor_stream import CheckpointError

BUFFERS = ("*running_mean", "*running_var")  # names of torch's floating buffers
SERIALISED = "numpy.ndarray"  # the one way in which Flower writes arrays
FLOATS = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
KEPT = "biu"  # NumPy's kinds of arrays that are not averaged


class Unreadable(Exception):
    """Arrays that are not those of the model: the reason, and the details for a person."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class ModelArrays:
    """What the arrays of a model look like, and where each lies in the flat vector.

    Names, shapes and types are of all arrays, in the order in which the app sends them.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    in_vector: tuple[int, ...]  # which form the vector: parameters, then floating buffers
    n_parameters: int  # entries of the vector
    dtype: torch.dtype  # the widest floating type among them, float32 at least

    @classmethod
    def of(cls, record: ArrayRecord, buffers: Sequence[str] = BUFFERS) -> ModelArrays:
        """The format of a record.

        `buffers` are patterns of the names that are buffers, not parameters: averaged like them,
        and left out of norms, similarities and server optimizers.
        """
        names = tuple(record)
        shapes = tuple(tuple(record[name].shape) for name in names)
        dtypes = tuple(record[name].dtype for name in names)
        for name, dtype in zip(names, dtypes, strict=True):
            kind = np.dtype(dtype).kind if dtype in np.sctypeDict else "?"
            if dtype not in FLOATS and kind not in KEPT:
                raise ValueError(
                    f"initial_arrays[{name!r}]: expected numbers of {', '.join(FLOATS)}, or whole "
                    f"ones, got {dtype}"
                )
        floating = [place for place, dtype in enumerate(dtypes) if dtype in FLOATS]
        if not floating:
            raise ValueError("initial_arrays: expected at least one floating array, got none")
        is_buffer = {
            place: any(fnmatch(names[place], pattern) for pattern in buffers) for place in floating
        }
        parameters = [place for place in floating if not is_buffer[place]]
        if not parameters:
            raise ValueError(f"buffers: expected to leave a parameter, got {tuple(buffers)!r}")
        widest = torch.float32
        for place in floating:
            widest = torch.promote_types(widest, FLOATS[dtypes[place]])
        return cls(
            names=names,
            shapes=shapes,
            dtypes=dtypes,
            in_vector=(*parameters, *(place for place in floating if is_buffer[place])),
            n_parameters=sum(prod(shapes[place]) for place in parameters),
            dtype=widest,
        )

    def about(self) -> dict[str, Any]:
        """As plain data, to be compared with what a checkpoint holds."""
        return {
            "names": list(self.names),
            "shapes": [list(shape) for shape in self.shapes],
            "dtypes": list(self.dtypes),
            "in_vector": list(self.in_vector),
        }

    def ordered_as(self, stored: Mapping[str, Any], folder: Path) -> ModelArrays:
        """This format in the order of what `about` gave before; another model is refused."""
        there = dict(
            zip(
                stored["names"],
                zip(stored["shapes"], stored["dtypes"], strict=True),
                strict=True,
            )
        )
        here = {
            name: ([*shape], dtype)
            for name, shape, dtype in zip(self.names, self.shapes, self.dtypes, strict=True)
        }
        odd = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
        if odd:
            raise CheckpointError(
                f"{folder}: holds another model: {odd[0]!r} is {there.get(odd[0])} there, "
                f"{here.get(odd[0])} here"
            )
        floating = [stored["names"][place] for place in stored["in_vector"]]
        if sorted(floating) != sorted(self.names[place] for place in self.in_vector):
            raise CheckpointError(
                f"{folder}: holds another model: {shown(floating)} are in its vector"
            )
        return replace(
            self,
            names=tuple(stored["names"]),
            shapes=tuple(tuple(shape) for shape in stored["shapes"]),
            dtypes=tuple(stored["dtypes"]),
            in_vector=tuple(stored["in_vector"]),
        )

    @property
    def megabytes(self) -> float:
        """What the arrays take, without their headers."""
        sizes = (prod(shape) for shape in self.shapes)
        widths = (np.dtype(dtype).itemsize for dtype in self.dtypes)
        return sum(size * width for size, width in zip(sizes, widths, strict=True)) / 1e6

    def vector(self, record: Mapping[str, Array]) -> torch.Tensor:
        """(d,) the flat model; `Unreadable` where the record is not of this format."""
        missing = [name for name in self.names if name not in record]
        unexpected = [str(name) for name in record if name not in self.names]
        if missing or unexpected:
            words = [f"missing {_some(missing)}"] * bool(missing)
            words += [f"unexpected {_some(unexpected)}"] * bool(unexpected)
            raise Unreadable(Reason.WRONG_LENGTH, f"names of arrays: {', '.join(words)}")
        entries = {
            place: _entries(record[name], name, self.shapes[place], self.dtypes[place])
            for place, name in enumerate(self.names)
        }
        pieces = [torch.from_numpy(entries[place]).to(self.dtype) for place in self.in_vector]
        return torch.cat([piece.reshape(-1) for piece in pieces])

    def record(self, vector: torch.Tensor, kept: Mapping[str, Array]) -> ArrayRecord:
        """The arrays of a flat model; those that are not in it are taken from `kept`."""
        lengths = [prod(self.shapes[place]) for place in self.in_vector]
        pieces = dict(zip(self.in_vector, torch.split(vector.cpu(), lengths), strict=True))
        arrays = {}
        for place, name in enumerate(self.names):
            if place not in pieces:
                arrays[name] = kept[name]
                continue
            values = pieces[place].reshape(self.shapes[place]).numpy()
            arrays[name] = Array(values.astype(self.dtypes[place]))
        return ArrayRecord(arrays)


def _entries(array: Array, name: str, shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """An array from outside, if it is what was expected; its own copy of the numbers."""
    if array.stype != SERIALISED:
        came_as = shown(array.stype)
        raise Unreadable(Reason.WRONG_TYPE, f"{name}: expected {SERIALISED}, got {came_as}")
    stream = BytesIO(array.data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        found_shape, fortran, found = read_header(stream)
    except Exception as error:  # whatever bytes from outside make NumPy raise
        raise Unreadable(Reason.UNREADABLE, f"{name}: no array ({one_line(error, 200)})") from None
    if found != np.dtype(dtype):
        raise Unreadable(Reason.WRONG_TYPE, f"{name}: expected {dtype}, got {one_line(found, 60)}")
    if found_shape != shape:
        raise Unreadable(Reason.WRONG_LENGTH, f"{name}: expected {shape}, got {shown(found_shape)}")
    expected, came = prod(shape) * found.itemsize, len(array.data) - stream.tell()
    if came != expected:
        raise Unreadable(Reason.UNREADABLE, f"{name}: expected {expected} bytes, got {came}")
    flat = np.frombuffer(array.data, dtype=found, offset=stream.tell()).copy()
    return flat.reshape(shape, order="F" if fortran else "C")


def _some(names: Sequence[str], most: int = 3) -> str:
    """A few of many names; a client may send any number of any length."""
    shown = [name[:60] for name in names[:most]]
    return str(shown) if len(names) <= most else f"{shown} and {len(names) - most} more"


def load_arrays(path: str | Path) -> ArrayRecord:
    """The arrays of a safetensors file, to begin with; no file is ever unpickled."""
    return ArrayRecord({name: Array(values) for name, values in load_file(path).items()})


def save_arrays(record: ArrayRecord, path: str | Path) -> None:
    """Write arrays, such as ``Result.arrays``, into a safetensors file."""
    save_file({name: array.numpy() for name, array in record.items()}, path)

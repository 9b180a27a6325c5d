"""Three file formats of image sets. What is read is not trusted: a wrong file is an error.

Each function takes a path and gives bytes as arrays of NumPy.
"""

from __future__ import annotations

import gzip
import pickle
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from understudy.core.inflate import MOST_COMPRESSED

Bytes = npt.NDArray[np.uint8]


def read_idx(path: Path) -> Bytes:
    """An array of bytes in the IDX format of MNIST, compressed with gzip or not.

    Two zeros, 8 for "unsigned byte", the number of dimensions; the dimensions as big-endian 32-bit
    numbers; the values.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not is_compressed:
            return _idx(file, path, most=size)
        try:
            with gzip.GzipFile(fileobj=file) as content:
                return _idx(content, path, most=MOST_COMPRESSED * size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: expected a whole gzip file; {error}") from error


def _idx(content: BinaryIO | gzip.GzipFile, path: Path, most: int) -> Bytes:
    """The array; `most` values are what a file of its size can hold."""
    start = content.read(4)
    n_dimensions = start[3] if len(start) > 3 else 0
    sides = content.read(4 * n_dimensions)
    if start[:3] != b"\0\0\x08" or len(sides) < 4 * n_dimensions:
        raise ValueError(f"{path}: expected an IDX file of bytes, found {start!r}")
    shape = [int(side) for side in np.frombuffer(sides, dtype=">u4")]
    n = prod(shape)
    expected = f"{path}: expected {n} values of shape {tuple(shape)}"
    if n > most:
        raise ValueError(f"{expected}, found a file that is too small for them")
    values = content.read(n)  # of compressed bytes no more than this is made
    if len(values) != n or content.read(1):
        found = "more" if len(values) == n else len(values)
        raise ValueError(f"{expected}, found {found}")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def read_cifar_batch(
    path: Path, labels_key: str = "labels", n_classes: int = 10
) -> tuple[Bytes, Bytes]:
    """Images (n, 3, 32, 32) and labels (n,) of a CIFAR-10 batch, or of a file of CIFAR-100.

    A batch is a pickle, and a pickle may run anything. Here it cannot: it may name three things of
    NumPy, for which there are stand-ins that only remember what they were given, and it may name
    nothing else.
    """
    with path.open("rb") as file:
        try:
            batch = _ArraysOnly(file, encoding="bytes").load()
        except pickle.UnpicklingError as error:
            raise ValueError(f"{path}: refused; {error}") from error
        except Exception as error:  # a damaged pickle may raise nearly anything
            raise ValueError(f"{path}: expected a CIFAR batch; {error!r}") from error
    entries = {_text(key): value for key, value in batch.items()} if type(batch) is dict else {}
    images, labels = entries.get("data"), entries.get(labels_key)
    if not isinstance(images, _Array) or not isinstance(labels, list):
        raise ValueError(
            f"{path}: expected a CIFAR batch with data and {labels_key}, found neither"
        )
    pixels = images.value(path)
    if pixels.shape != (len(labels), 3072):
        raise ValueError(
            f"{path}: expected data of shape ({len(labels)}, 3072), found {pixels.shape}"
        )
    if not all(type(label) is int and 0 <= label < n_classes for label in labels):
        raise ValueError(f"{path}: expected {labels_key} in 0 .. {n_classes - 1}")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.uint8)


def read_svhn(path: Path) -> tuple[Bytes, Bytes]:
    """Images (n, 3, 32, 32) and labels (n,) of SVHN's cropped digits; the file's 10 is digit 0.

    SciPy reads it. Sizes are checked before anything is allocated by them, and all that a damaged
    file makes the reader raise is one error.
    """
    from scipy.io import loadmat, whosmat

    try:
        _check_mat_sizes(whosmat(path), path.stat().st_size)
        content = loadmat(path, variable_names=["X", "y"])
        images, labels = np.asarray(content["X"]), np.asarray(content["y"]).ravel()
    except Exception as error:  # zlib's, the system's, the reader's own: nearly anything
        raise ValueError(f"{path}: expected a MATLAB file with X and y; {error!r}") from error
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, len(labels)):
        raise ValueError(
            f"{path}: expected X of bytes and shape (32, 32, 3, {len(labels)}), found "
            f"{images.dtype} of shape {images.shape}"
        )
    if labels.dtype.kind not in "uif" or not np.isin(labels, np.arange(1, 11)).all():
        raise ValueError(f"{path}: expected labels in 1 .. 10")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), (labels % 10).astype(np.uint8)


def n_svhn_images(path: Path) -> int:
    """How many images a file of SVHN's has, by its head alone; 0 where it cannot be read."""
    from scipy.io import whosmat

    try:
        return next(int(shape[-1]) for name, shape, _ in whosmat(path) if name == "X")
    except Exception:  # reading the images will say what is wrong with it
        return 0


def _check_mat_sizes(variables: Sequence[tuple[str, tuple[int, ...], str]], size: int) -> None:
    """Raise where X or y claim more values than a compressed file of `size` bytes can hold."""
    shapes = {name: shape for name, shape, _ in variables}
    for name in ("X", "y"):
        if name not in shapes:
            raise ValueError(f"it has no {name}")
        if prod(int(side) for side in shapes[name]) > MOST_COMPRESSED * size:
            raise ValueError(
                f"{name} of shape {tuple(shapes[name])} does not fit into {size:,} bytes"
            )


class _Type:
    """Stands for `numpy.dtype`."""

    def __init__(self, code: object, *_: object) -> None:
        self.code = _text(code)

    def __setstate__(self, state: object) -> None:
        """Byte order and such: of no matter for bytes."""


class _Array:
    """Stands for `numpy.ndarray`."""

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def value(self, path: Path) -> Bytes:
        """The array that was meant."""
        try:
            _, shape, kind, fortran_order, content = self.state
            if kind.code != "u1" or not isinstance(content, bytes):
                raise TypeError(f"type {kind.code!r}")
            flat = np.frombuffer(content, dtype=np.uint8)
            return flat.reshape(shape, order="F" if fortran_order else "C")
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path}: expected an array of bytes; {error!r}") from error


class _ArraysOnly(pickle.Unpickler):
    """Knows three names, none of which is the real thing."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name, or a refusal."""
        if module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            if name == "_reconstruct":
                return _Array
        elif module == "numpy" and name in ("ndarray", "dtype"):
            return _Array if name == "ndarray" else _Type
        raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which no image set needs")


def _text(value: object) -> object:
    """Names as text: an old pickle has them as bytes."""
    return value.decode("latin-1") if isinstance(value, bytes) else value

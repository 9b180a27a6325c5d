"""The compiled kernels: which build of them this machine can run, loaded when first needed.

They are compiled when the package is installed, where a C compiler is; without them the general
loop trains everything. All builds give the same bits. Two environment variables decide by hand:
``UNDERSTUDY_ENGINE=loop`` does without the kernels, ``UNDERSTUDY_KERNELS=avx2`` (or ``avx512``)
takes that build.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from understudy.simulation.training.kernels.compile import file_name

VERSION = 1  # of kernels.c: raised whenever a bit of a result changes
INTERFACE = 3  # raised whenever an argument of its functions or a field of a struct changes
FOLDER = Path(__file__).parent
# what a processor must have for a build, by the names that Linux gives; the best comes first
NEEDS = {
    "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma"},
    "avx2": {"avx2", "fma"},
}
SAYS = ("version", "interface", "fields")
BITS = {np.dtype(np.float32): 32, np.dtype(np.float64): 64}

_pointer, _integer = ctypes.c_void_p, ctypes.c_int64


class Unavailable(RuntimeError):
    """There are no compiled kernels for this process; says why, and what helps."""


@dataclass(frozen=True, eq=False)
class Library:
    """One build for one type of numbers. Its functions let go of Python's lock while they run."""

    path: Path
    isa: str
    train: Any
    outputs: Any
    unpack: Any


@lru_cache(maxsize=1)
def processor_flags() -> frozenset[str]:
    """What this processor can do, as Linux lists it; nothing elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def chosen_isa(folder: Path = FOLDER) -> str:
    """The build that is used in this process: "avx512" or "avx2".

    `Unavailable` where there is none, or none is wanted.
    """
    engine = os.environ.get("UNDERSTUDY_ENGINE", "")
    if engine not in ("", "loop", "kernels"):
        raise ValueError(f"UNDERSTUDY_ENGINE: expected loop or kernels, got {engine!r}")
    if engine == "loop":
        raise Unavailable("UNDERSTUDY_ENGINE=loop")
    built = [isa for isa in NEEDS if (folder / file_name(isa, 32)).is_file()]
    if not built:
        raise Unavailable(
            "the kernels are not compiled; with a C compiler (cc, gcc or clang) on an x86-64 "
            "Linux, install the package again"
        )
    forced = os.environ.get("UNDERSTUDY_KERNELS", "")
    if forced and forced not in NEEDS:
        raise ValueError(f"UNDERSTUDY_KERNELS: expected one of {list(NEEDS)}, got {forced!r}")
    for isa in built:
        if forced in ("", isa) and NEEDS[isa] <= processor_flags():
            return isa
    raise Unavailable(f"this processor runs none of the compiled builds ({', '.join(built)})")


def loaded(dtype: np.dtype[np.floating]) -> Library:
    """The kernels for numbers of a type; `Unavailable` where there are none."""
    isa = chosen_isa()
    return opened(FOLDER / file_name(isa, BITS[np.dtype(dtype)]), isa)


@lru_cache(maxsize=32)
def opened(path: Path, isa: str) -> Library:
    """A library by its file."""
    from understudy.simulation.training.kernels.plan import HEAD, OP

    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(f"{path.name} cannot be loaded: {error}") from error
    expected = (VERSION, INTERFACE, len(OP) + len(HEAD))
    if _numbers(library) != expected:
        raise Unavailable(
            f"{path.name} was compiled from another version of the source; install the package "
            "again"
        )
    train, outputs = library.understudy_train, library.understudy_outputs
    unpack = library.understudy_unpack
    tables = [_pointer] * 7  # the plan's, the arena, the data, and how its bytes become numbers
    lists, rest = [_pointer] * 3, (ctypes.c_uint64, _pointer, _pointer)
    train.argtypes = [*tables, _integer, *lists, _integer, _integer, *lists, *rest]
    train.restype = ctypes.c_double
    outputs.argtypes = [*tables, _integer, _pointer, _integer, _pointer, _pointer]
    outputs.restype = _integer
    unpack.argtypes, unpack.restype = [_pointer] * 3, None
    return Library(path, isa, train, outputs, unpack)


def _numbers(library: ctypes.CDLL) -> tuple[int, ...]:
    """What a build says of itself: version, interface, fields; nothing where one is missing."""
    try:
        functions = [getattr(library, f"understudy_{what}") for what in SAYS]
    except AttributeError:
        return ()
    for function in functions:
        function.restype = _integer
    return tuple(function() for function in functions)

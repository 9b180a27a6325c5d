"""The kernels under ASan and UBSan, in a Python that has the sanitizers loaded first."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from understudy.simulation.training.kernels import compile as compilation

FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
LIBRARIES = ("libasan.so", "libstdc++.so.6")  # the second: torch throws through the first


def active() -> bool:
    """Whether this process has the sanitizers loaded."""
    return "libasan" in os.environ.get("LD_PRELOAD", "")


def again(arguments: list[str]) -> int:
    """The same command in a process that has them."""
    found = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        )
        for name in LIBRARIES
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(done.stdout.strip() for done in found),
        # Python and torch leak on purpose; they also map and free in ways of their own
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [sys.executable, "-m", "tests.simulation.training.kernels.fuzz", *arguments]
    return subprocess.run(command, env=environment).returncode


def compiled(path: Path, isa: str, bits: int) -> Path:
    """A build with the sanitizers in it."""
    without = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    flags = [flag for flag in compilation.FLAGS if flag != "-O2"]
    command = ["gcc", *flags, *FLAGS, *compilation.INSTRUCTIONS[isa], f"-DBITS={bits}"]
    command += [str(compilation.SOURCE), "-o", str(path), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, env=without)
    if done.returncode:
        raise compilation.CannotCompile(done.stderr)
    return path


class Poison:
    """Whoever touches what lies between the arrays of an arena is stopped."""

    def __init__(self) -> None:
        self._process = ctypes.CDLL(None)

    def mark(self, gap: npt.NDArray[np.uint8]) -> None:
        self._process["__asan_poison_memory_region"](*self._region(gap))

    def is_intact(self, _: npt.NDArray[np.uint8]) -> bool:
        return True  # else the process is gone

    def release(self, gap: npt.NDArray[np.uint8]) -> None:
        self._process["__asan_unpoison_memory_region"](*self._region(gap))

    def _region(self, gap: npt.NDArray[np.uint8]) -> tuple[ctypes.c_void_p, ctypes.c_size_t]:
        return ctypes.c_void_p(gap.ctypes.data), ctypes.c_size_t(gap.nbytes)

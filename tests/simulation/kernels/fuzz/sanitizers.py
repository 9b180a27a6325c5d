"""The kernels under ASan and UBSan, in a Python that has the sanitizers loaded first."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.simulation.kernels.fuzz import boundary
from understudy.simulation.training.kernels import compile as compilation
from understudy.simulation.training.kernels.plan import Plan

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
    command = [sys.executable, "-m", "tests.simulation.kernels.fuzz", *arguments]
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


def poison_gaps() -> None:
    """Whoever touches what lies between the arrays of an arena is stopped."""
    process = ctypes.CDLL(None)
    own = Plan.arena
    kept: list[Any] = []  # an arena that is freed would be given out with its poison

    def arena(plan: Plan) -> Any:
        array = own(plan)
        kept.append(array)
        size = array.itemsize
        for first, last in boundary.gaps(plan):
            process.__asan_poison_memory_region(
                ctypes.c_void_p(array.ctypes.data + first * size),
                ctypes.c_size_t((last - first) * size),
            )
        return array

    Plan.arena = arena  # type: ignore[method-assign]

"""How ``kernels.c`` is compiled: when the package is installed, and by tests.

Only the standard library is used, and nothing of this package: the installation runs this file
before anything is there. Compile by hand: ``python compile.py [folder]``.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).with_name("kernels.c")
# a product and a sum are never contracted by the compiler's choice: builds have the same bits
FLAGS = (
    *("-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared", "-fvisibility=hidden"),
)
GCC_FLAGS = ("-ftree-vectorize", "-fvect-cost-model=dynamic")  # else at -O3 only
INSTRUCTIONS = {
    "avx512": ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mavx2", "-mfma"),
    "avx2": ("-mavx2", "-mfma"),
    "plain": (),  # slow: for the sanitizers, and to compare bits with; never installed
}
INSTALLED = ("avx512", "avx2")
SIZES = (32, 64)  # bits of a number


class CannotCompile(RuntimeError):
    """There is no compiler, or it failed."""


def supported() -> bool:
    """Whether the kernels are compiled on such a machine at all."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


def file_name(isa: str, bits: int) -> str:
    """How a build is called."""
    return f"kernels_{isa}_{bits}.so"


def compiler() -> list[str]:
    """The C compiler that is there: CC, cc, gcc or clang."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        words = shlex.split(name)
        if words and shutil.which(words[0]):
            return words
    raise CannotCompile("no C compiler was found (CC, cc, gcc, clang)")


def compile_one(path: Path, isa: str, bits: int, cc: Iterable[str] | None = None) -> Path:
    """Compile one build into a file; `CannotCompile` has what the compiler said."""
    cc = list(compiler() if cc is None else cc)
    command = [*cc, *FLAGS, *INSTRUCTIONS[isa], f"-DBITS={bits}"]
    command += [] if _is_clang(cc) else GCC_FLAGS
    path.parent.mkdir(parents=True, exist_ok=True)
    # into another file first: a process may have the old one loaded
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    command += [str(SOURCE), "-o", str(unfinished), "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise CannotCompile(f"{shlex.join(command)} failed:\n{done.stderr}")
        unfinished.replace(path)
    except OSError as error:
        raise CannotCompile(f"{shlex.join(command)} failed: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _is_clang(cc: list[str]) -> bool:
    try:
        return "clang" in subprocess.run([*cc, "--version"], capture_output=True, text=True).stdout
    except OSError:
        return False


def compile_all(folder: Path) -> list[Path]:
    """Compile all builds that are installed, side by side."""
    builds = [(folder / file_name(isa, bits), isa, bits) for isa in INSTALLED for bits in SIZES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda build: compile_one(*build), builds))


if __name__ == "__main__":
    for path in compile_all(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE.parent):
        print(path)

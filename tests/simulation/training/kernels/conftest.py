"""Compiled builds of the kernels, made from the source as it is, in a temporary folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from understudy.simulation.training.kernels import compile as compilation
from understudy.simulation.training.kernels.library import (
    BITS,
    NEEDS,
    Library,
    opened,
    processor_flags,
)

Build = Callable[..., Library]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """``build(dtype, isa, cc)``: a library, compiled once. Skips by name where it cannot be."""
    if not compilation.supported():
        pytest.skip("the kernels are compiled on x86-64 Linux only")
    folder = tmp_path_factory.mktemp("kernels")

    @cache
    def made(dtype: str, isa: str, cc: str | None) -> Library:
        for needed in [cc] if cc else []:
            if shutil.which(needed) is None:
                pytest.skip(f"{needed} is not installed")
        if not NEEDS.get(isa, set()) <= processor_flags():
            pytest.skip(f"this processor has no {isa}")
        bits = BITS[np.dtype(dtype)]
        path = folder / f"{cc or 'default'}-{isa}-{bits}.so"
        try:
            compilation.compile_one(path, isa, bits, [cc] if cc else None)
        except compilation.CannotCompile as error:
            if "no C compiler" in str(error):
                pytest.skip(str(error))
            raise
        return opened(Path(path), isa)

    best = best_isa()
    return lambda dtype, isa=best, cc=None: made(np.dtype(dtype).name, isa, cc)


def best_isa() -> str:
    """The build that this machine would choose."""
    return next((isa for isa, needs in NEEDS.items() if needs <= processor_flags()), "plain")

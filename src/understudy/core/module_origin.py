"""Whose a module is, by where its file lies: a plug-in may be called like a library."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = ("understudy", "torch", "numpy")  # which every study uses
_PACKAGES = ("site-packages", "dist-packages")


def is_known(module: str) -> bool:
    """Whether a module is ours, the standard library's, PyTorch's or NumPy's."""
    top = module.partition(".")[0]
    if top not in LIBRARIES and top not in sys.stdlib_module_names:
        return False  # wherever it lies
    file = _file(module, top)
    return file is None or _is_known_file(top, file)


def is_standard(module: str) -> bool:
    """Whether a module is the standard library's."""
    return module.partition(".")[0] not in LIBRARIES and is_known(module)


def is_installed(module: str) -> bool:
    """Whether a module is known, or lies where packages are installed."""
    if is_known(module):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and any(name in Path(file).parts for name in _PACKAGES)


def _file(module: str, top: str) -> str | None:
    """None for what is built into Python, or cannot be found."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    if top in sys.modules:
        return getattr(sys.modules[top], "__file__", None)
    found = PathFinder.find_spec(top) or find_spec(top)
    return None if found is None or not found.has_location else found.origin


@cache
def _is_known_file(top: str, file: str) -> bool:
    path = Path(file).resolve()
    if top in LIBRARIES:
        # the library itself, not a file of that name: a folder with its name and its files
        home = getattr(sys.modules.get(top), "__file__", None)
        inside = home is not None and path.is_relative_to(Path(home).resolve().parent)
        return inside and Path(str(home)).parent.name == top
    if any(name in path.parts for name in _PACKAGES):
        return False
    homes = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return any(path.is_relative_to(Path(home).resolve()) for home in homes if home)

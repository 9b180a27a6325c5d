"""Other people's parts: ``module:Name``, found in the study's folder first."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from understudy import registry

_seen: dict[str, str] = {}  # module → sha256 of its file when it was imported here


def first_on_path(folders: Iterable[str]) -> None:
    """Look for modules in these folders first, from now on and in this process."""
    for folder in reversed(list(folders)):
        if sys.path[:1] != [folder]:
            sys.path.insert(0, folder)


def imported(place: str) -> Any:
    """What ``module:Name`` stands for, as its file is now."""
    module = place.partition(":")[0]
    if _is_stale(module):
        del sys.modules[module]
        importlib.invalidate_caches()
    with _no_bytecode():
        thing = registry.imported(place)
    digest = _digest(module)
    if digest is not None:
        _seen[module] = digest
    return thing


def _is_stale(module: str) -> bool:
    """Whether the module in memory is another file's, or was edited since."""
    if module not in sys.modules or module == "__main__":
        return False
    if module in _seen and _seen[module] != _digest(module):
        return True
    found = None if "." in module else PathFinder.find_spec(module)
    if found is None or found.origin is None:
        return False
    return found.origin != getattr(sys.modules[module], "__file__", found.origin)


def _digest(module: str) -> str | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or not Path(file).is_file():
        return None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Python tells stale bytecode by whole seconds: two edits within one would go unnoticed."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before

"""Other people's parts: ``module:Name``, found in the study's folder first."""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from understudy import registry
from understudy.core.module_origin import is_known

_NAMED = re.compile(r"(?!understudy\.)[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_seen: dict[str, str] = {}  # module → sha256 of its file when it was imported here
_brought: dict[str, set[str]] = {}  # module → modules that its things come from


def is_named_in(value: Any) -> bool:
    """Whether a document names somebody's part, wherever in it."""
    if isinstance(value, Mapping):
        return any(is_named_in(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(is_named_in(item) for item in value)
    return isinstance(value, str) and _NAMED.fullmatch(value) is not None


def first_on_path(folders: Iterable[str]) -> None:
    """Look for modules in these folders first, from now on and in this process."""
    for folder in reversed(list(folders)):
        if sys.path[:1] != [folder]:
            if folder in sys.path:
                sys.path.remove(folder)
            sys.path.insert(0, folder)


def imported(place: str) -> Any:
    """What ``module:Name`` stands for, as its file is now."""
    module = place.partition(":")[0]
    _drop_stale(module)
    with _no_bytecode():
        thing = registry.imported(place)
    origins = origins_of(thing, module)
    _brought.setdefault(module, set()).update(origins)
    for name in (module, *origins):
        digest = _digest(name)
        if digest is not None:
            _seen[name] = digest
    return thing


def digest_when_imported(module: str) -> str | None:
    """The sha256 of a plug-in's file as it was when it was imported here; None if it was not."""
    return _seen.get(module)


def digests() -> Mapping[str, str]:
    """Of all plug-ins that were imported here so far, each as it was last."""
    return dict(_seen)


def origins_of(thing: Any, module: str) -> set[str]:
    """Other people's modules that a thing found in a module comes from.

    A package may show what one of its modules defines, and a class builds on others.
    """
    if isinstance(thing, type):
        found = {cls.__module__ for cls in thing.__mro__}
    elif isinstance(thing, types.FunctionType):
        found = {thing.__module__}
    else:  # an object does not know where it was made: whoever in the package has it
        top = module.partition(".")[0]
        found = {cls.__module__ for cls in type(thing).__mro__}
        for name, other in list(sys.modules.items()):
            held = getattr(other, "__dict__", {}) if name.partition(".")[0] == top else {}
            if any(value is thing for value in list(held.values())):
                found.add(name)
    return {name for name in found if name != "__main__" and not is_known(name)}


def _drop_stale(module: str) -> None:
    """Forget the module, and those it shows things of, if one of them is not as its file is."""
    top = module.partition(".")[0]
    family = {module, top, *_brought.get(module, ())}
    family |= {name for name in _seen if name.partition(".")[0] == top}
    stale = {name for name in family if _is_stale(name)}
    if not stale:
        return
    tops = {top, *(name.partition(".")[0] for name in stale)}
    for name in list(sys.modules):
        if name.partition(".")[0] in tops and name != "__main__":
            del sys.modules[name]
    importlib.invalidate_caches()


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

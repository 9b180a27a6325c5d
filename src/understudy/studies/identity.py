"""What a cell is known by: its parts as plain data, defaults filled in, sources hashed."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from torch import nn

from understudy.describe import describe
from understudy.registry import imported

if TYPE_CHECKING:
    from understudy.simulation.data import Federation
    from understudy.simulation.models import Model
    from understudy.studies.cell import DataRecipe


def canonical_data(recipe: DataRecipe) -> dict[str, Any]:
    """A data recipe with the defaults of its functions filled in; `root` is where, not what."""
    from understudy.simulation.dataset import federate
    from understudy.simulation.partitions import PARTITIONS
    from understudy.simulation.sources import DATASETS

    settings = {name: value for name, value in recipe.settings.items() if name != "root"}
    functions: list[Any] = [federate] if recipe.partition is not None else []
    if recipe.partition is None:
        functions.append(
            DATASETS[recipe.name] if recipe.name in DATASETS else imported(recipe.name)
        )
    elif recipe.partition in PARTITIONS or ":" in recipe.partition:
        functions.append(PARTITIONS.get(recipe.partition) or imported(recipe.partition))
    defaults = {
        name: parameter.default
        for function in functions
        if callable(function)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty and name not in ("rng", "root")
    }
    known = {**defaults, **settings, "partition": recipe.partition, "seed": recipe.seed}
    return {"class": "DataRecipe", "name": recipe.name, **describe(known)}


def canonical_model(model: Model) -> Any:
    """A model with the defaults of its function filled in."""
    from understudy.simulation.models import MODELS

    if isinstance(model, str):
        model = {"name": model}
    if not isinstance(model, Mapping):
        return described_function(model)
    name = str(model["name"])
    make = imported(name) if ":" in name else MODELS[name]
    defaults = {}
    if not isinstance(make, nn.Module):
        parameters = inspect.signature(make).parameters.items()
        defaults = {
            setting: parameter.default
            for setting, parameter in parameters
            if parameter.default is not parameter.empty
        }
    return {**describe({**defaults, **model}), "name": name}


def described_function(thing: Any) -> Any:
    """A function as plain data, with what it holds on to from where it was made."""
    if not isinstance(thing, types.FunctionType):
        return describe(thing)
    held = [cell.cell_contents for cell in thing.__closure__ or ()]
    if not held and not thing.__defaults__:
        return describe(thing)
    return {"function": describe(thing), "holds": describe([*held, *(thing.__defaults__ or ())])}


def settled(part: Any) -> Any:
    """A part, whole numbers turned into floats where its fields are of that type; nested."""
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changes = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if type(value) is int and _wants_float(_hints(type(part)).get(item.name)):
            changes[item.name] = float(value)
        elif (inner := settled(value)) is not value:
            changes[item.name] = inner
    return replace(part, **changes) if changes else part


@cache
def _hints(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except Exception:  # a name that exists for type checkers only, in somebody's module
        return {}


def _wants_float(hint: Any) -> bool:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return float in choices and int not in choices


_digests: WeakKeyDictionary[Federation, str] = WeakKeyDictionary()


def digest_of(federation: Federation) -> str:
    """Computed once: many cells share their data."""
    from understudy.simulation.fingerprint import federation_digest

    if federation not in _digests:
        _digests[federation] = federation_digest(federation)
    return _digests[federation]


def foreign_sources(described: Any) -> set[str]:
    """Modules of ``module:Name`` in a description, other than ours and the usual libraries'.

    What was defined in the program itself is named whole: the rest of that file may well change.
    """
    if isinstance(described, Mapping):
        return set().union(*(foreign_sources(value) for value in described.values()), set())
    if isinstance(described, list):
        return set().union(*(foreign_sources(value) for value in described), set())
    if not isinstance(described, str) or ":" not in described:
        return set()
    module, _, name = described.partition(":")
    if not _is_foreign(module):
        return set()
    return {f"{module}:{name.partition('.')[0]}"} if module == "__main__" else {module}


def _is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    if not module or top in ("understudy", "torch", "numpy", "builtins") or not _is_name(module):
        return False
    return top not in sys.stdlib_module_names


def _is_name(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def source_digest(name: str) -> str | None:
    """The sha256 of a module's file, or of one definition of the program itself."""
    module, _, definition = name.partition(":")
    if definition:
        return _definition_digest(getattr(sys.modules[module], definition, None))
    try:
        file = getattr(sys.modules.get(module) or import_module(module), "__file__", None)
    except ImportError:
        return None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None


def _definition_digest(thing: Any) -> str | None:
    """Of its text, or of its code where the text is not kept (an interactive session)."""
    try:
        return hashlib.sha256(inspect.getsource(thing).encode()).hexdigest()
    except (OSError, TypeError):
        parts = vars(thing).values() if isinstance(thing, type) else [thing]
    codes = [part.__code__ for part in parts if isinstance(part, types.FunctionType)]
    words = [(code.co_code, code.co_consts, code.co_names) for code in codes]
    # the constants of nested functions are told with their place in memory
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(words))
    return hashlib.sha256(text.encode()).hexdigest() if codes else None

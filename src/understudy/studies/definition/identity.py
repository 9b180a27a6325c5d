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

from understudy.core.describe import describe, described_function
from understudy.core.module_origin import is_known
from understudy.registry import named
from understudy.simulation.data.federate import federate
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.fingerprint import federation_digest
from understudy.simulation.data.models import MODELS, Model
from understudy.simulation.data.partitions import PARTITIONS
from understudy.simulation.data.sources import source_of
from understudy.simulation.data.table_file import digest_of_file
from understudy.studies.definition import plugins
from understudy.studies.definition.plugins import imported

if TYPE_CHECKING:
    from understudy.studies.definition.cell import DataRecipe

# modules that were moved, and what a key still calls them
_FIRST = {
    "understudy.papers.fedgs_synthetic": "understudy.simulation.data.fedgs_synthetic",
    "understudy.papers.readings": "understudy.studies.builtin.readings",
}


def first_name(place: str) -> str:
    """``module:name`` as it was when the module was new: what a key of a cell is made of."""
    module, colon, name = place.partition(":")
    return f"{_FIRST.get(module, module)}{colon}{name}"


def canonical_data(recipe: DataRecipe) -> dict[str, Any]:
    """A data recipe with the defaults of its functions filled in; `root` is where, not what.

    `normalise` counts where it is not the default: older keys do not have it. Of a user's own file
    its content counts, and not its name.
    """
    settings = {name: value for name, value in recipe.settings.items() if name != "root"}
    if settings.get("normalise") is True:
        del settings["normalise"]
    if recipe.partition is None:
        defaults = defaults_of(source_of(recipe.name, imported).loader)
    else:
        defaults = defaults_of(federate, named("partition", recipe.partition, PARTITIONS, imported))
    for name in ("rng", "root", "normalise"):
        defaults.pop(name, None)
    own_file = None if ":" in recipe.name else source_of(recipe.name).contents
    if own_file in settings:
        settings["contents"] = digest_of_file(settings.pop(own_file))
    known = {**defaults, **settings, "partition": recipe.partition, "seed": recipe.seed}
    return {"class": "DataRecipe", "name": first_name(recipe.name), **describe(known)}


def canonical_model(model: Model) -> Any:
    """A model with the defaults of its function filled in."""
    if isinstance(model, str):
        model = {"name": model}
    if not isinstance(model, Mapping):
        return described_function(model)
    name = str(model["name"])
    make = named("model", name, MODELS, imported)
    defaults = {} if isinstance(make, nn.Module) else defaults_of(make)
    return {**describe({**defaults, **model}), "name": first_name(name)}


def defaults_of(*functions: Any) -> dict[str, Any]:
    """Parameters that some functions can do without → what they then take."""
    return {
        name: parameter.default
        for function in functions
        if callable(function)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }


def with_float_fields(part: Any) -> Any:
    """A part, whole numbers turned into floats where its fields are of that type; nested."""
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changes = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if type(value) is int and _wants_float(_hints(type(part)).get(item.name)):
            changes[item.name] = float(value)
        elif (inner := with_float_fields(value)) is not value:
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
    if federation not in _digests:
        _digests[federation] = federation_digest(federation)
    return _digests[federation]


def plain_document(value: Any) -> Any:
    """A study's document as plain data; a federation by its hash, since it may be large."""
    if isinstance(value, Mapping):
        return {str(name): plain_document(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_document(item) for item in value]
    if isinstance(value, Federation):
        return {"class": "Federation", "digest": digest_of(value)}
    return describe(value)


def foreign_sources(described: Any) -> set[str]:
    """Modules of ``module:Name`` in a description, other than ours and the usual libraries'.

    With those that the named thing comes from, where a module shows another one's. What was
    defined in the program itself is named whole: the rest of that file may well change.
    """
    if isinstance(described, Mapping):
        return set().union(*(foreign_sources(value) for value in described.values()), set())
    if isinstance(described, list):
        return set().union(*(foreign_sources(value) for value in described), set())
    if not isinstance(described, str) or ":" not in described:
        return set()
    module, _, name = described.partition(":")
    if not module or not _is_name(module) or module == "builtins" or is_known(module):
        return set()
    if module == "__main__":
        return {f"{module}:{name.partition('.')[0]}"}
    return {module, *_origins(module, name)}


def _is_name(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def _origins(module: str, name: str) -> set[str]:
    """Modules that a thing comes from; none where the text only looks like a place."""
    top = name.partition(" ")[0].partition(".")[0]
    if not top.isidentifier():
        return set()
    try:
        if module in sys.modules and plugins.digest_when_imported(module) is None:
            thing = getattr(sys.modules[module], top)  # the program's own: not ours to import again
        else:
            thing = imported(f"{module}:{top}")
    except (ImportError, AttributeError):
        return set()
    return plugins.origins_of(thing, module)


def source_digest(name: str, when_imported: Mapping[str, str] | None = None) -> str | None:
    """The sha256 of a module's file, or of one definition of the program (``__main__:definition``).

    `when_imported` has the files' as they were when they were imported; else they count as now.
    """
    module, _, definition = name.partition(":")
    if definition:
        return _definition_digest(getattr(sys.modules[module], definition, None))
    if when_imported is not None and module in when_imported:
        return when_imported[module]
    try:
        file = getattr(sys.modules.get(module) or import_module(module), "__file__", None)
    except Exception:  # a text that only looks like a place, or a plug-in that is broken
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

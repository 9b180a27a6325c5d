"""Parts as plain data: to tell whose checkpoint it is, and to name what differs."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any
from zlib import crc32

import numpy as np
import torch

from understudy.core.module_origin import LIBRARIES, is_installed

DEEPEST = 60  # levels that are told one by one
LONGEST = 1000  # numbers in a list that a function holds on to, told one by one
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_BOTH_HASHES = re.compile(r"( [0-9a-f]{8}) [0-9a-f]{64}")  # see _hashed
_ONCE_ONLY = (GeneratorType, CoroutineType, AsyncGeneratorType)  # told by nothing but their names
_NOT_IN_NUMPY = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
_FRAMEWORK = frozenset(vars(torch.nn.Module()))  # what every module has


def describe(part: Any) -> Any:
    """A part as plain data: its class and its hyper-parameters, nested.

    What can be told by its class alone (a lock, an open connection) is told so; where that will not
    do, `refuse_unknown` says what and where it is.
    """
    return _described(part, ())


def added(
    version: str,
    default: Any = dataclasses.MISSING,
    *,
    factory: Any = None,
    hash: bool | None = None,
    before: Any = dataclasses.MISSING,
) -> Any:
    """A dataclass field that came with a later version of its class.

    While it has its default it is not told: what was described before, a cell or a checkpoint,
    keeps its description. ``warm_up: int = added("0.2", 0)``

    Where the default is not what the class did before the field was there, `before` is: then that
    value is not told, and the default is. ``counts: str = added("0.2", "new way", before="old")``
    """
    metadata = {"added": version}
    if before is not dataclasses.MISSING:
        metadata |= {"before": before}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata, hash=hash)
    return dataclasses.field(default=default, metadata=metadata, hash=hash)


def renamed(before: str, default: Any) -> Any:
    """A dataclass field that had another name before: descriptions keep that one.

    ``max_friends: int = renamed("batches", 3)``
    """
    return dataclasses.field(default=default, metadata={"described_as": before})


def told_fields(part: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass that its description tells: all but `added` ones at a default."""
    return [item for item in dataclasses.fields(part) if not _unchanged(item, part)]


def _unchanged(item: dataclasses.Field[Any], part: Any) -> bool:
    if "added" not in item.metadata:
        return False
    factory = item.default_factory
    default = item.default if factory is dataclasses.MISSING else factory()
    default = item.metadata.get("before", default)
    return not differences(describe(getattr(part, item.name)), describe(default))


def described_function(thing: Any) -> Any:
    """A loss, a metric or a model as plain data: a function with its defaults, ours too."""
    return _function(thing, (thing,)) if isinstance(thing, FunctionType) else describe(thing)


def _described(part: Any, above: tuple[Any, ...]) -> Any:
    """`above` are the things that this one is in: it may well hold on to one of them."""
    if isinstance(part, np.generic):
        part = part.item()
    if part is None or isinstance(part, bool | int | float | str):
        return part
    if isinstance(part, type):
        return _name(part)
    for distance, other in enumerate(reversed(above), 1):
        if other is part:
            return f"{_name(_named(part))}, {distance} above"
    if len(above) > DEEPEST:
        return _opaque(part)
    return _compound(part, (*above, part))


def _compound(part: Any, above: tuple[Any, ...]) -> Any:
    def table(values: Mapping[Any, Any]) -> dict[str, Any]:
        return {str(name): _described(value, above) for name, value in values.items()}

    if isinstance(part, torch.nn.Module):
        return _module(part, above)
    if dataclasses.is_dataclass(part):
        values = {
            item.metadata.get("described_as", item.name): getattr(part, item.name)
            for item in told_fields(part)
        }
        return {"class": _name(type(part)), **table(values)}
    if isinstance(part, list | tuple):
        return [_described(item, above) for item in part]
    if isinstance(part, set | frozenset):  # in an order that is the same in every process
        items = sorted((_described(item, above) for item in part), key=repr)
        return {"class": _name(type(part)), "items": items}
    if isinstance(part, partial):
        given = table(part.keywords)
        if given.keys() & {"class", "function", "arguments"}:
            given = {"keywords": given}
        settings = {"arguments": [_described(item, above) for item in part.args], **given}
        return {"class": "partial", "function": _described(part.func, above), **settings}
    if isinstance(part, torch.Tensor | np.ndarray):
        return _array(part, above)
    if isinstance(part, Mapping):
        return table(part)
    if isinstance(part, ModuleType):
        return f"{part.__name__}:"
    if isinstance(part, FunctionType):
        known = _is_library(part.__module__) and part.__closure__ is None
        return _name(part) if known else _function(part, above)
    if isinstance(part, MethodType):
        method = _described(part.__func__, above)
        return {"function": method, "of": _described(part.__self__, above)}
    if isinstance(part, BuiltinFunctionType | MethodWrapperType):
        owner = part.__self__
        if owner is None or isinstance(owner, ModuleType | type):
            return _name(part)
        return {"function": _name(part), "of": _described(owner, above)}
    if isinstance(part, _ONCE_ONLY):
        return UnknownText(part, _name(part))
    if hasattr(part, "__qualname__"):
        inner = getattr(part, "__wrapped__", None)  # of a cached function, for instance
        if inner is None:
            return _name(part)
        return {"function": _name(part), "holds": [_described(inner, above)]}
    return _object(part, above)


def _object(part: Any, above: tuple[Any, ...]) -> Any:
    """By its own words, or by its class and what it holds; an extract is not enough."""
    words, values = repr(part), _values(part)
    has_words = _ADDRESS.search(words) is None  # else its next life is elsewhere
    if has_words and (values is None or is_installed(type(part).__module__)):
        if len(words) <= LONGEST and "..." not in words:
            return words
        state = _pickled(part)
        told = f"{words[:LONGEST]} {state}"
        return UnknownText(part, told) if state is None else told
    if values is None:
        return _opaque(part)
    told_values = {key: _described(value, above) for key, value in values.items()}
    return {"class": _name(type(part)), **told_values}


def _opaque(part: Any) -> dict[str, Any]:
    """By its class and a hash of what it holds; the class alone where it cannot be pickled."""
    state = _pickled(part)
    told = {"class": _name(type(part)), "state": state}
    return UnknownObject(part, told) if state is None else told


def _values(part: Any) -> dict[str, Any] | None:
    """What an object of a Python class holds; None where only its maker knows."""
    slots = [name for cls in type(part).__mro__ for name in _slots(cls)]
    held = {name: getattr(part, name) for name in slots if hasattr(part, name)}
    if not hasattr(part, "__dict__"):
        return held or None
    return {**held, **vars(part)}


def _slots(cls: type) -> tuple[str, ...]:
    names = vars(cls).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _module(part: torch.nn.Module, above: tuple[Any, ...]) -> dict[str, Any]:
    """Its words, its weights, and of every module in it the class and the settings."""
    arrays = {**dict(part.named_buffers()), **part.state_dict()}  # not all buffers are in the state
    return {
        **_settings(part, above),
        **{name: _described(value, above) for name, value in arrays.items()},
        "repr": _ADDRESS.sub("", repr(part)),
        # which are trained; one that stands at two places is here once
        "parameters": {name: value.requires_grad for name, value in part.named_parameters()},
        "modules": {name: _settings(inner, above) for name, inner in part.named_modules() if name},
    }


def _settings(part: torch.nn.Module, above: tuple[Any, ...]) -> dict[str, Any]:
    library = _is_library(type(part).__module__)  # whose private names are for its own use
    own = {
        name: value
        for name, value in vars(part).items()
        if name not in _FRAMEWORK and not (library and name.startswith("_"))
    }
    hooks = {
        name: list(vars(part)[name].values())
        for name in sorted(_FRAMEWORK)
        if name.endswith("_hooks") and vars(part).get(name)
    }
    values = {"training": part.training, **own, **hooks}
    told = {name: _described(value, above) for name, value in values.items()}
    return {"class": _name(type(part)), **told}


def _function(function: FunctionType, above: tuple[Any, ...]) -> Any:
    """Its name, and what it holds on to from where it was made."""
    held = [_content(cell) for cell in function.__closure__ or ()]
    held += function.__defaults__ or ()
    named = {"keywords": function.__kwdefaults__}
    if not _is_library(function.__module__):
        named["attributes"] = {n: v for n, v in vars(function).items() if n != "__wrapped__"}
    rest = {key: _described(values, above) for key, values in named.items() if values}
    if not held and not rest:
        return _name(function)
    holds = [_shortened(_described(value, above)) for value in held]
    return {"function": _name(function), "holds": holds, **_shortened(rest)}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # what it is to hold is not there yet
        return "<empty>"


def _shortened(described: Any) -> Any:
    """Long lists of numbers by their hash: somebody's data, not settings."""
    if isinstance(described, UnknownObject):
        return described
    if isinstance(described, dict):
        return {name: _shortened(value) for name, value in described.items()}
    if not isinstance(described, list):
        return described
    if len(described) > LONGEST and all(isinstance(item, int | float) for item in described):
        return f"{len(described)} numbers {sha256(repr(described).encode()).hexdigest()}"
    return [_shortened(item) for item in described]


def _array(part: torch.Tensor | np.ndarray[Any, Any], above: tuple[Any, ...]) -> Any:
    if isinstance(part, torch.Tensor):
        part = part.detach().cpu()
        if part.dtype in _NOT_IN_NUMPY:
            name = str(part.dtype).removeprefix("torch.")
            return f"{name}{tuple(part.shape)} {_hashed(part.float().numpy().tobytes())}"
    array = np.asarray(part)
    if array.dtype.hasobject:  # its bytes are places in memory
        return {"class": "ndarray", "items": _described(array.tolist(), above)}
    return f"{array.dtype}{array.shape} {_hashed(array.tobytes())}"


def _hashed(content: bytes) -> str:
    """Its sha256, behind the crc32 that stood alone in what was written before."""
    return f"{crc32(content):08x} {sha256(content).hexdigest()}"


def _pickled(part: Any) -> str | None:
    """A hash of what its maker thinks is needed to make it again."""
    try:
        return sha256(pickle.dumps(part, protocol=4)).hexdigest()
    except Exception:  # whatever its maker raises
        return None


class UnknownObject(dict[str, Any]):
    """The description of an object that shares it with all others of its class."""

    def __init__(self, part: Any, described: Mapping[str, Any]) -> None:
        super().__init__(described)
        self.words = _in_a_line(part)


class UnknownText(str):
    """The same, of an object that is told by a text."""

    words: str

    def __new__(cls, part: Any, described: str) -> UnknownText:
        text = super().__new__(cls, described)
        text.words = _in_a_line(part)
        return text


def _in_a_line(part: Any) -> str:
    words = " ".join(repr(part).split())
    return words if len(words) <= 80 else f"{words[:79]}…"


def refuse_unknown(described: Any, place: str = "") -> None:
    """Raise where a description holds an object that shares it with all others of its class."""
    if isinstance(described, UnknownObject | UnknownText):
        raise TypeError(
            f"{place}: expected settings that can be distinguished, got {described.words}, "
            "which cannot be pickled and does not show what it holds. Give its class a __repr__ "
            "that tells its settings, without a place in memory; or let a dataclass hold the "
            "settings, and make the object where it is used"
        )
    if isinstance(described, Mapping):
        for name, value in described.items():
            refuse_unknown(value, f"{place}.{name}" if place else str(name))
    elif isinstance(described, list):
        for index, value in enumerate(described):
            refuse_unknown(value, f"{place}[{index}]")


def with_short_hashes(described: Any) -> Any:
    """A description with crc32 in place of sha256: as all were before, and fit for a label."""
    if isinstance(described, Mapping):
        return {name: with_short_hashes(value) for name, value in described.items()}
    if isinstance(described, list):
        return [with_short_hashes(value) for value in described]
    return _BOTH_HASHES.sub(r"\1", described) if isinstance(described, str) else described


def differences(ours: Any, theirs: Any) -> list[str]:
    """Where two descriptions differ, each as a sentence; as `differing`."""
    return [f"{place} is {its} there, {our} here" for place, its, our in differing(ours, theirs)]


def differing(ours: Any, theirs: Any, place: str = "") -> list[tuple[str, str, str]]:
    """Where two descriptions differ: the place, what is there and what is here, in words.

    `theirs` may be stored, and of the time when arrays and code were told by their crc32 alone.
    """
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        if ours.get("class") != theirs.get("class"):
            return [(place or "strategy", str(theirs.get("class")), str(ours.get("class")))]
        return [
            found
            for name in dict.fromkeys([*ours, *theirs])
            for found in differing(
                ours.get(name), theirs.get(name), f"{place}.{name}" if place else name
            )
        ]
    # 1 and 1.0 mean different things as m
    same_type = type(ours) is type(theirs) or (isinstance(ours, str) and isinstance(theirs, str))
    same = same_type and (ours == theirs or with_short_hashes(ours) == theirs)
    return [] if same else [(place, repr(theirs), repr(ours))]


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def _named(part: Any) -> Any:
    return part if hasattr(part, "__qualname__") else type(part)


def _name(thing: Any) -> str:
    """Short for our own, with its module for other people's.

    A function that has no name of its own in its module is told by its code.
    """
    module = getattr(thing, "__module__", "") or ""
    name = getattr(thing, "__qualname__", repr(thing))
    if hasattr(thing, "__code__") and ("<lambda>" in name or "<locals>" in name):
        name += f" {_hashed(_code(thing.__code__))}"
    return name if module.partition(".")[0] == "understudy" else f"{module}:{name}"


def _code(code: CodeType) -> bytes:
    """What a function does, without where it stands or lies in memory."""
    constants = [_constant(value) for value in code.co_consts]
    return code.co_code + b" ".join(constants) + " ".join(code.co_names).encode()


def _constant(value: Any) -> bytes:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, frozenset):  # in an order that is the same in every process
        return repr(sorted(value, key=repr)).encode()
    return repr(value).encode()

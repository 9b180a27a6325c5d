"""From the words of a study to the parts they stand for.

A part stays a plain frozen dataclass that knows nothing of files: it is built from a table by the
types of its fields, and what is wrong is told with the key's place.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from understudy import registry
from understudy.core.roles import (
    Aggregator,
    Availability,
    Chances,
    Compensator,
    Guard,
    LocalRule,
    Sampler,
    Server,
)
from understudy.core.shown import shown
from understudy.parts.delay import Delay
from understudy.studies.definition.errors import (
    StudyError,
    of_part,
    told_of,
    unknown_key,
    within,
)
from understudy.studies.definition.plugins import imported

NOTHING = "none"  # TOML has no word for None
ROLES: dict[Any, str] = {
    Sampler: "sampler",
    Compensator: "compensator",
    Aggregator: "aggregator",
    Server: "server",
    Guard: "guard",
    LocalRule: "rule",
    Availability: "availability",
    Chances: "chances",
    Delay: "delay",
}
FUNCTIONS = ("schedule", "cutoff")  # roles whose parts are functions of the round
_REGISTRIES = {
    value.role: value for value in vars(registry).values() if isinstance(value, registry.Registry)
}
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


# -- parts -----------------------------------------------------------------------------------------


def part(role: str, value: Any) -> Any:
    """A part from its name, a table with its name, or itself."""
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        return _object(role, value)
    settings = dict(value)
    name = settings.pop("name", None)
    thing = looked_up(role, name, _REGISTRIES[role])
    return _object(role, _made(role, thing, settings, name))


def kind_of(role: str, value: Any) -> Any:
    """The class that `part` would make something of, where it can be told without its settings.

    An axis may bring a setting that the part cannot do without.
    """
    name = value.get("name") if isinstance(value, Mapping) else value
    if isinstance(name, str):
        found = looked_up(role, name, _REGISTRIES[role])
        if isinstance(found, type) and is_dataclass(found):
            return found
    return type(part(role, value))


def looked_up(kind: str, name: Any, known: Mapping[str, Any], *place: str) -> Any:
    """What a name in a study stands for; `place` is the key that it is written at."""
    if not isinstance(name, str):
        expected = f"expected the name of {_a(kind)}, one of {', '.join(known)}"
        given = "none" if name is None else shown(name)
        raise StudyError(f"{expected}, got {given}", *(place or ("name",)))
    with told_of(*place, known=()):
        return registry.named(kind, name, known, imported)


def _made(role: str, thing: Any, settings: dict[str, Any], name: str) -> Any:
    if is_dataclass(thing) and isinstance(thing, type):
        return dataclass_of(thing, settings)
    if callable(thing) and (isinstance(thing, type) or role not in FUNCTIONS):
        if not isinstance(thing, type) and not inspect.isfunction(thing):
            return thing  # an instance that can be called
        given = arguments(thing, settings)
        with told_of(known=given):
            return thing(**given)
    if not settings:
        return thing
    if not inspect.isfunction(thing):
        raise StudyError(f"{name!r} is made already and takes no settings", next(iter(settings)))
    return partial(thing, **arguments(thing, settings, besides=first_parameter(thing)))


def first_parameter(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[:1]


def _object(role: str, value: Any) -> Any:
    if role in FUNCTIONS and callable(value):
        return value
    protocol = next((key for key, name in ROLES.items() if name == role), object)
    if isinstance(value, bool | int | float | list | tuple | type(None)) or (
        role not in FUNCTIONS and not isinstance(value, type) and not isinstance(value, protocol)
    ):
        known = ", ".join(_REGISTRIES[role])
        raise StudyError(
            f"expected {_a(role)} ({known}) or a table with its name, got {shown(value)}"
        )
    return value


def _a(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"


def dataclass_of(cls: type, settings: Mapping[str, Any]) -> Any:
    """A dataclass from a table of its fields: no other key, each value by the field's own type."""
    known = given_fields(cls, settings)
    for item in fields(cls):
        required = item.init and item.default is MISSING and item.default_factory is MISSING
        if required and item.name not in known:
            raise StudyError("expected a value, got none", item.name)
    try:
        return cls(**known)
    except StudyError:
        raise
    except Exception as error:  # somebody's own class may refuse its fields in any way
        raise of_part(error, field_names(cls)) from error


def field_names(cls: type) -> list[str]:
    return [item.name for item in fields(cls) if item.init]


def given_fields(cls: type, table: Mapping[str, Any]) -> dict[str, Any]:
    """Some fields of a dataclass, each as its type wants it."""
    known, hints = field_names(cls), hints_of(cls)
    for name in table:
        if name not in known:
            raise unknown_key(name, known)
    return {name: valued(name, value, hints.get(name, Any)) for name, value in table.items()}


def arguments(
    function: Callable[..., Any],
    settings: Mapping[str, Any],
    *,
    besides: Sequence[str] = (),
    also: Sequence[str] = (),
) -> dict[str, Any]:
    """Arguments of a function from a table; not `besides`, and error messages name `also`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C, which does not say
        return dict(settings)
    known = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in besides
    ]
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    hints, taken = hints_of(function), {}
    for name, value in settings.items():
        if name not in known and not any_name:
            raise unknown_key(name, [*known, *also])
        hint = hints.get(name, Any) if name in known else Any
        if name in known and value == NOTHING and parameters[name].default is None:
            value = None
        taken[name] = None if value is None else valued(name, value, hint)
    return taken


def valued(name: str, value: Any, hint: Any) -> Any:
    """A value as a field of this name and type wants it."""
    with within(name):
        return _valued(name, value, hint)


@cache
def hints_of(thing: Any) -> dict[str, Any]:
    """Types by name; none where they cannot be known."""
    try:
        hints = get_type_hints(thing.__init__ if _plain_class(thing) else thing)
    except Exception:  # a name that exists for type checkers only, in somebody's module
        return {}
    return {name: hint for name, hint in hints.items() if name != "return"}


def _plain_class(thing: Any) -> bool:
    return isinstance(thing, type) and not is_dataclass(thing)


# -- values by type --------------------------------------------------------------------------------


def _valued(name: str, value: Any, hint: Any) -> Any:
    """A value of this type; a function's role is told by the name of its field."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(name, value, get_args(hint))
    if hint in _WORDS:
        return primitive(value, hint)
    if hint in ROLES:
        return part(ROLES[hint], value)
    if hint is Callable or origin is Callable:
        return _function(name, value)
    if origin is Literal:
        if value not in get_args(hint):
            words = ", ".join(repr(item) for item in get_args(hint))
            raise StudyError(f"expected one of {words}, got {shown(value)}")
        return value
    if hint is Path:
        return Path(primitive(value, str))
    if hint is type(None):
        if value is not None:
            raise StudyError(f"expected nothing, got {shown(value)}")
        return None
    if is_dataclass(hint) and isinstance(hint, type):
        return _of_class(value, hint)
    if origin is tuple and get_args(hint)[1:] == (Ellipsis,):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise StudyError(f"expected a list, got {shown(value)}")
        return tuple(_valued(name, item, get_args(hint)[0]) for item in value)
    return value


def primitive(value: Any, kind: Any) -> Any:
    accepted: tuple[Any, ...] = (int, float) if kind is float else (kind,)
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise StudyError(f"expected {_WORDS[kind]}, got {shown(value)}")
    return value if isinstance(value, kind) else kind(value)


def _one_of(name: str, value: Any, hints: tuple[Any, ...]) -> Any:
    if type(None) in hints and (value is None or (value == NOTHING and str not in hints)):
        return None
    wanted = [hint for hint in hints if hint is not type(None)]
    errors: list[tuple[Any, StudyError]] = []
    for hint in wanted:
        try:
            return _valued(name, value, hint)
        except StudyError as error:
            errors.append((hint, error))
    parts = [error for hint, error in errors if hint not in _WORDS]
    if parts and (len(errors) == 1 or isinstance(value, str | Mapping)):
        raise parts[0]
    if any(hint not in _WORDS for hint in wanted):
        raise errors[-1][1]
    words = " or ".join(_WORDS[hint] for hint in wanted)
    raise StudyError(f"expected {words}, got {shown(value)}")


def _function(name: str, value: Any) -> Any:
    if name in FUNCTIONS:
        return part(name, value)
    if isinstance(value, str) and ":" in value:
        with told_of(known=()):
            return imported(value)
    if not callable(value):
        raise StudyError(f"expected a function, as 'module:name', got {shown(value)}")
    return value


def _of_class(value: Any, cls: type) -> Any:
    """A field that takes one class only: its name may be left out."""
    if isinstance(value, cls):
        return value
    role = _role_of(cls)
    if role is not None:
        if isinstance(value, Mapping) and "name" not in value:
            return dataclass_of(cls, value)
        return part(role, value)
    if not isinstance(value, Mapping):
        raise StudyError(f"expected a table of {cls.__name__}, got {shown(value)}")
    return dataclass_of(cls, value)


def _role_of(cls: type) -> str | None:
    for role, known in _REGISTRIES.items():
        if any(known[name] is cls for name in known):
            return role
    return None

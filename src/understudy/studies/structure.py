"""From the words of a study to the parts they stand for.

A part stays a plain frozen dataclass that knows nothing of files: cattrs builds it from a table,
by the types of its fields, and what cattrs finds wrong is told with the key's place.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import cattrs
import numpy as np
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from understudy import registry
from understudy.delay import Delay
from understudy.local import Local, Plain
from understudy.roles import (
    Aggregator,
    Availability,
    Compensator,
    Guard,
    LocalRule,
    Sampler,
    Server,
)
from understudy.strategy import Strategy
from understudy.studies.cell import DataRecipe
from understudy.studies.errors import StudyError, of_part, suggestion, told_of, unknown_key, within
from understudy.studies.plugins import imported

NOTHING = "none"  # TOML has no word for None
LOSSES = {"cross_entropy": cross_entropy, "mse_loss": mse_loss}
ROLES: dict[Any, str] = {
    Sampler: "sampler",
    Compensator: "compensator",
    Aggregator: "aggregator",
    Server: "server",
    Guard: "guard",
    LocalRule: "rule",
    Availability: "availability",
    Delay: "delay",
}
FUNCTIONS = ("schedule", "cutoff")  # roles whose parts are functions of the round
STRATEGY_KEYS = tuple(item.name for item in fields(Strategy))
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
    if not isinstance(name, str):
        known = ", ".join(_REGISTRIES[role])
        given = "none" if name is None else repr(name)
        raise StudyError(f"expected the name of {_a(role)}, one of {known}, got {given}", "name")
    return _object(role, _made(role, looked_up(_REGISTRIES[role], name), settings, name))


def looked_up(known: registry.Registry, name: str) -> Any:
    """What a name stands for."""
    with told_of(known=()):
        return imported(name) if ":" in name else known[name]


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
    return partial(thing, **arguments(thing, settings, besides=_round_number(thing)))


def _round_number(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[:1]


def _object(role: str, value: Any) -> Any:
    if role in FUNCTIONS and callable(value):
        return value
    protocol = next((key for key, name in ROLES.items() if name == role), object)
    if isinstance(value, bool | int | float | list | tuple | type(None)) or (
        role not in FUNCTIONS and not isinstance(value, type) and not isinstance(value, protocol)
    ):
        known = ", ".join(_REGISTRIES[role])
        raise StudyError(f"expected {_a(role)} ({known}) or a table with its name, got {value!r}")
    return value


def _a(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"


def dataclass_of(cls: type, settings: Mapping[str, Any]) -> Any:
    """A dataclass from a table of its fields."""
    try:
        return _CONVERTER.get_structure_hook(cls)(dict(settings), cls)
    except ClassValidationError as group:
        raise _first(group) from None


def _first(error: BaseException, cls: type | None = None) -> StudyError:
    """The first of what cattrs found, with its place."""
    if isinstance(error, ClassValidationError):
        placed, bare = error.group_exceptions()
        # a key that means nothing first: what else is wrong may only follow from it
        bare.sort(key=lambda one: not isinstance(one, ForbiddenExtraKeysError))
        if bare:
            return _first(bare[0], error.cl)
        inner, note = placed[0]
        told = _first(inner, error.cl)
        told.place = (note.name, *told.place)
        return told
    if isinstance(error, StudyError):
        return error
    known = field_names(cls) if cls is not None else []
    if isinstance(error, ForbiddenExtraKeysError):
        return unknown_key(sorted(error.extra_fields)[0], known)
    if isinstance(error, KeyError) and error.args[:1] and error.args[0] in known:
        return StudyError("expected a value, got none")
    return of_part(error, known)


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
        return _hook_of(name, hint)(value)


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


def _hook_of(name: str, hint: Any) -> Callable[[Any], Any]:
    """What makes a value of this type; a function's role is told by the name of its field."""
    return lambda value: _valued(name, value, hint)


def _valued(name: str, value: Any, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(name, value, get_args(hint))
    if hint in _WORDS:
        return _primitive(value, hint)
    if hint in ROLES:
        return part(ROLES[hint], value)
    if hint is Callable or origin is Callable:
        return _function(name, value)
    if origin is Literal:
        if value not in get_args(hint):
            words = ", ".join(repr(item) for item in get_args(hint))
            raise StudyError(f"expected one of {words}, got {value!r}")
        return value
    if hint is Path:
        return Path(_primitive(value, str))
    if hint is type(None):
        if value is not None:
            raise StudyError(f"expected nothing, got {value!r}")
        return None
    if is_dataclass(hint) and isinstance(hint, type):
        return _of_class(value, hint)
    if origin is tuple and get_args(hint)[1:] == (Ellipsis,):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise StudyError(f"expected a list, got {value!r}")
        return tuple(_valued(name, item, get_args(hint)[0]) for item in value)
    return value


def _primitive(value: Any, kind: Any) -> Any:
    accepted: tuple[Any, ...] = (int, float) if kind is float else (kind,)
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise StudyError(f"expected {_WORDS[kind]}, got {value!r}")
    return kind(value)


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
    raise StudyError(f"expected {words}, got {value!r}")


def _function(name: str, value: Any) -> Any:
    if name in FUNCTIONS:
        return part(name, value)
    if isinstance(value, str) and ":" in value:
        with told_of(known=()):
            return imported(value)
    if not callable(value):
        raise StudyError(f"expected a function, as 'module:name', got {value!r}")
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
        raise StudyError(f"expected a table of {cls.__name__}, got {value!r}")
    return dataclass_of(cls, value)


def _role_of(cls: type) -> str | None:
    for role, known in _REGISTRIES.items():
        if any(known[name] is cls for name in known):
            return role
    return None


def _structured(cls: type, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    """cattrs' function for a dataclass: no other key than its fields, each by its own type."""
    hints = hints_of(cls)

    def hook(name: str) -> Callable[[Any, Any], Any]:
        return lambda value, _: _hook_of(name, hints.get(name, Any))(value)

    if fields(cls) and not hints:  # types that cannot be known: names are all that is checked
        return lambda value, _: _unchecked(cls, value)
    overrides: dict[str, Any] = {
        name: override(struct_hook=hook(name)) for name in field_names(cls)
    }
    made: Callable[[Any, Any], Any] = make_dict_structure_fn(
        cls, converter, _cattrs_forbid_extra_keys=True, **overrides
    )
    return made


def _unchecked(cls: type, value: Mapping[str, Any]) -> Any:
    for name in value:
        if name not in field_names(cls):
            raise unknown_key(name, field_names(cls))
    with told_of(known=field_names(cls)):
        return cls(**value)


_CONVERTER = cattrs.Converter(detailed_validation=True)
_CONVERTER.register_structure_hook_factory(
    lambda cls: is_dataclass(cls) and isinstance(cls, type),
    lambda cls, converter: _structured(cls, converter),
)


# -- whole strategies ------------------------------------------------------------------------------


def strategy(value: Any, local: Mapping[str, Any] | Local | None = None) -> Strategy:
    """A strategy from a method's name, a table or itself; `local` is the study's, for all.

    How clients train: the method's own, then the study's, then the strategy's own table.
    """
    own: Any = {}
    if isinstance(value, Strategy):
        made = value
    else:
        table = {"method": value} if isinstance(value, str) else dict(_table(value))
        table.pop("availability", None)
        own = table.pop("local", {})
        made = _method(table.pop("method", None), table)
    if isinstance(own, Local):
        trained = own if isinstance(made.local.rule, Plain) else replace(own, rule=made.local.rule)
    else:
        trained = _layered(made.local, local, own)
    with told_of(known=STRATEGY_KEYS):
        return replace(made, local=trained)


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StudyError(f"expected the name of a method, or a table of parts, got {value!r}")
    return value


def _method(method: Any, table: Mapping[str, Any]) -> Strategy:
    thing: Any = Strategy() if method is None else method
    if isinstance(thing, str):
        with within("method"):
            thing = looked_up(registry.STRATEGIES, thing)
    if not isinstance(thing, Strategy) and not callable(thing):
        raise StudyError(f"expected the name of a method, got {method!r}", "method")
    hints = hints_of(Strategy)
    own = {name: value for name, value in table.items() if name in _own_keys(thing)}
    extra = {name: value for name, value in table.items() if name not in own}
    known = [*_own_keys(thing), *STRATEGY_KEYS, "method", "availability"]
    for name in extra:
        if name == "name":
            raise StudyError("no such key; did you mean 'method'?", name)
        if name not in STRATEGY_KEYS:
            raise unknown_key(name, known)
    parts = {name: valued(name, value, hints[name]) for name, value in extra.items()}
    with told_of(known=known):
        if isinstance(thing, Strategy):
            return replace(thing, **parts)
        made: Any = thing(**arguments(thing, own), **(parts if _takes_all(thing) else {}))
        if not isinstance(made, Strategy):
            raise StudyError(f"expected a function that returns a Strategy, got {made!r}", "method")
        return made if _takes_all(thing) else replace(made, **parts)


def _own_keys(method: Any) -> list[str]:
    if isinstance(method, Strategy):
        return []
    parameters = inspect.signature(method).parameters.items()
    return [name for name, parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]


def _takes_all(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _layered(base: Local, study: Any, own: Any) -> Local:
    changes: dict[str, Any] = {}
    for layer, is_own in ((local_table(study), False), (local_table(own), True)):
        with within("local"):
            values = given_fields(Local, layer)
        if "epochs" in values and "steps" not in values:
            values["steps"] = None  # steps would win
        if not is_own and not isinstance(base.rule, Plain):
            values.pop("rule", None)  # FedProx without its term would not be FedProx
        changes |= values
    with told_of("local", known=field_names(Local)):
        return replace(base, **changes)


def local_table(value: Any) -> Mapping[str, Any]:
    """How clients train, as a table of what is given."""
    if value is None:
        return {}
    if isinstance(value, Local):
        return {item.name: getattr(value, item.name) for item in fields(Local)}
    if not isinstance(value, Mapping):
        raise StudyError(f"expected a table of {', '.join(field_names(Local))}, got {value!r}")
    return value


# -- data, models, functions -----------------------------------------------------------------------


def data(value: Any, seed: int) -> Any:
    """A `DataRecipe` of a table, or data that are there already; `seed` is the run's."""
    from understudy.simulation.data import Federation
    from understudy.simulation.dataset import federate

    if isinstance(value, Federation):
        return value
    if isinstance(value, DataRecipe):
        own = {"name": value.name, "partition": value.partition or NOTHING, "seed": value.seed}
        value = {**value.settings, **own}
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise StudyError(f"expected a table with the name of a data set, got {value!r}")
    table = dict(value)
    source = _source(table.pop("name", None), table.get("partition"))
    divided = table.pop("partition", source.default)
    divided = None if divided == NOTHING else divided
    chosen = table.pop("seed", 0)
    if chosen != "run":
        with told_of("seed"):
            chosen = _primitive(chosen, int)
    known = ("name", "partition", "seed")
    if divided is None:
        settings = arguments(source.function, table, besides=("seed",), also=known)
    else:
        function = _partition(divided)
        shared = {name: table.pop(name) for name in ("test", "validation", "root") if name in table}
        settings = arguments(federate, shared)
        also = (*known, "test", "validation", "root")
        hidden = (*_round_number(function), "rng")
        settings |= arguments(function, table, besides=hidden, also=also)
    return DataRecipe(source.name, divided, seed if chosen == "run" else chosen, settings)


class _Source:
    """A data set by name, and how it is divided where the study does not say."""

    def __init__(self, name: str, function: Any, default: str | None) -> None:
        self.name, self.function, self.default = name, function, default


def _source(name: Any, partition: Any) -> _Source:
    from understudy.simulation.sources import DATASETS

    if not isinstance(name, str):
        given = "none" if name is None else repr(name)
        words = ", ".join(DATASETS)
        raise StudyError(f"expected the name of a data set, one of {words}, got {given}", "name")
    if ":" not in name and name not in DATASETS:
        raise StudyError(f"no data set named {name!r}; {suggestion(name, DATASETS)}", "name")
    with told_of("name", known=()):
        function = imported(name) if ":" in name else DATASETS[name]
    returned = str(inspect.signature(function).return_annotation) if callable(function) else ""
    comes_divided = "Dataset" not in returned
    if ":" not in name and comes_divided and partition not in (None, NOTHING):
        raise StudyError(f"{name!r} comes divided; leave it out", "partition")
    if ":" not in name and not comes_divided and partition == NOTHING:
        from understudy.simulation.partitions import PARTITIONS

        words = ", ".join(PARTITIONS)
        raise StudyError(f"{name!r} does not come divided; expected one of {words}", "partition")
    return _Source(name, function, None if comes_divided else "iid")


def _partition(name: Any) -> Callable[..., Any]:
    from understudy.simulation.partitions import PARTITIONS

    if not isinstance(name, str):
        raise StudyError(
            f"expected a name, one of {', '.join(PARTITIONS)}, got {name!r}", "partition"
        )
    if ":" not in name and name not in PARTITIONS:
        raise StudyError(
            f"no partition named {name!r}; {suggestion(name, PARTITIONS)}", "partition"
        )
    with told_of("partition", known=()):
        function: Callable[..., Any] = imported(name) if ":" in name else PARTITIONS[name]
        return function


def model(value: Any) -> Any:
    """What `simulate` takes as a model."""
    from understudy.simulation.models import MODELS

    if isinstance(value, nn.Module) or (callable(value) and not isinstance(value, str)):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise StudyError(f"expected a table with the name of a model, got {value!r}")
    settings = dict(value)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        given = "none" if name is None else repr(name)
        words = ", ".join(MODELS)
        raise StudyError(f"expected the name of a model, one of {words}, got {given}", "name")
    if ":" not in name and name not in MODELS:
        raise StudyError(f"no model named {name!r}; {suggestion(name, MODELS)}", "name")
    with told_of("name", known=()):
        thing = imported(name) if ":" in name else MODELS[name]
    if isinstance(thing, nn.Module):
        if settings:
            raise StudyError(f"{name!r} is made already", next(iter(settings)))
        return name
    besides = () if ":" in name else ("shape", "n_classes")
    taken = arguments(thing, settings, besides=besides, also=("name",))
    return {"name": name, **taken} if taken else name


def function(value: Any, named: Mapping[str, Any] | None = None) -> Any:
    """A loss or a metric: a name, ``module:name``, or itself."""
    named = named or {}
    if callable(value):
        return value
    if isinstance(value, str) and ":" in value:
        with told_of(known=()):
            found = imported(value)
        if not callable(found):
            raise StudyError(f"expected a function, got {found!r}")
        return found
    if isinstance(value, str) and value in named:
        return named[value]
    words = f"one of {', '.join(named)}, or " if named else ""
    raise StudyError(f"expected {words}a function as 'module:name', got {value!r}")

"""Axes: keys of a study, the values they take, and whom they touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.describe import describe, with_short_hashes
from understudy.core.shown import shown
from understudy.parts.local import Local, Plain
from understudy.studies.definition.build import methods
from understudy.studies.definition.build.parts import NOTHING
from understudy.studies.definition.errors import StudyError, within
from understudy.studies.definition.overrides import Document, path_of, put, with_field

# names of labels, or of columns of results
RESERVED = (
    "strategy",
    "availability",
    "block",
    "tuned",
    "seed",
    "key",
    "status",
    "t",
    "study",
    "round",
    "rounds",
    "rounds_played",
    "client",
    "version",
    "error",
)
PLAYED = " played"  # after a key that has one part only and is taken: rounds


@dataclass(frozen=True)
class Level:
    """A value of an axis, and what it is called."""

    label: str | float | int | bool
    value: Any


@dataclass(frozen=True)
class Axis:
    """A key, and the values it takes."""

    path: tuple[str, ...]
    levels: tuple[Level, ...]
    name: str  # of its label


def own_availability(strategy: Any) -> Any:
    """The availability that a strategy brings along, or None."""
    own = strategy.get("availability") if isinstance(strategy, Mapping) else None
    return None if isinstance(own, Mapping) and "name" not in own else own


def changed_availability(strategy: Any, mode: Any) -> Any:
    """An availability mode as a strategy has it: a table without a name lies over the mode's."""
    own = strategy.get("availability") if isinstance(strategy, Mapping) else None
    if not isinstance(own, Mapping) or "name" in own:
        return mode
    if not isinstance(mode, Mapping | str):
        words = "a mode that is a name or a table, since the strategy's own settings lie over it"
        raise StudyError(f"expected {words}; got {shown(mode)}")
    return {**({"name": mode} if isinstance(mode, str) else mode), **own}


def axis_names(keys: Iterable[str]) -> dict[str, str]:
    """Dotted key → name of its label: the last part, unless that is taken."""
    keys = list(keys)
    last = {key: path_of(key)[-1] for key in keys}
    return {
        key: _whole(key) if name in RESERVED or list(last.values()).count(name) > 1 else name
        for key, name in last.items()
    }


def _whole(key: str) -> str:
    return key + PLAYED if key in RESERVED else key


def touches(path: tuple[str, ...], document: Document, strategy: str, mode: str | None) -> bool:
    """Whether a key means anything to a strategy in an availability mode (None: its own)."""
    first = path[0]
    if first == "strategies":
        return path[1] == strategy
    if first == "availability":
        if mode is None:
            return False
        if path[1] in document["availability"]:
            return path[1] == mode
        return mode in with_field({mode: document["availability"][mode]}, path[1])
    if first == "local" and len(path) > 1:
        return not settles(document["strategies"][strategy], path[1])
    if first == "weighting":
        own = document["strategies"][strategy]
        return not isinstance(own, Mapping) or "weighting" not in own
    return True


def settles(strategy: Any, name: str) -> bool:
    """Whether a strategy decides on its own about a key of `Local`."""
    own = strategy.get("local", {}) if isinstance(strategy, Mapping) else {}
    if isinstance(own, Local) or own == methods.PAPER:
        return True
    if name in own or (name == "epochs" and "steps" in own):
        return True
    if name == "steps" and "epochs" in own:
        return True  # which unset them
    if name == "optimizer_options" and "optimizer" in own:
        return True
    return name == "rule" and not isinstance(methods.strategy(strategy).local.rule, Plain)


def refuse_epochs_and_steps(keys: Iterable[str], *place: str) -> None:
    """Refuse both to be varied in one grid: each unsets the other."""
    paths = {path_of(key) for key in keys}
    for path in paths:
        if path[-2:] == ("local", "epochs") and (*path[:-1], "steps") in paths:
            above = ".".join(path[:-1])
            raise StudyError(f"expected {above}.epochs or {above}.steps, got both", *place)


def moved(document: Document, axis: Axis, level: Level, mode: str) -> Document:
    path = axis.path
    if path[0] == "availability" and path[1] not in document["availability"]:
        path = ("availability", mode, *path[1:])
    return put_for_all(document, path, level.value)


def put_for_all(document: Document, path: tuple[str, ...], value: Any) -> Document:
    """A value at a key; `local` and `weighting` reach strategies made in Python too."""
    changed = put(document, path, value)
    if path[0] == "weighting":
        methods.check_weighting(value)
        if value == methods.PAPER:
            return changed  # its own
        value = methods.study_weighting(value)
    if path[0] in ("local", "weighting"):
        for label, strategy in document["strategies"].items():
            if methods.given_as_object(strategy):
                changed = put(changed, ("strategies", label, *path), value)
    return changed


def levels_of(value: Any, place: tuple[str, ...]) -> tuple[Level, ...]:
    """Levels of a list of values, or of a table of labels and values."""
    with within(*place):
        if isinstance(value, Mapping):
            levels = [Level(str(label), item) for label, item in value.items()]
        elif isinstance(value, str) or not isinstance(value, list | tuple):
            raise StudyError(f"expected a list of values or a table of labels, got {shown(value)}")
        else:
            levels = [_level(item) for item in value]
        if not levels:
            raise StudyError("expected at least one value, got none")
        labels = [(type(level.label), level.label) for level in levels]
        for label in labels:
            if labels.count(label) > 1:
                raise StudyError(f"two levels are called {label[1]!r}; give them labels")
        return tuple(levels)


def _level(value: Any) -> Level:
    if isinstance(value, bool | int | float | str):
        return Level(value, value)
    if value is None:
        return Level(NOTHING, None)
    if isinstance(value, np.generic):
        return _level(value.item())
    if isinstance(value, Mapping) and "label" in value:
        rest = {name: item for name, item in value.items() if name != "label"}
        return Level(str(value["label"]), rest["value"] if list(rest) == ["value"] else rest)
    return Level(_words(value), value)


def _words(value: Any) -> str:
    """A short name of a table, a list or a part."""
    if isinstance(value, Mapping):
        settings = [f"{name}={_words(item)}" for name, item in value.items() if name != "name"]
        if "name" not in value:
            return ", ".join(settings)
        return str(value["name"]) + (f"({', '.join(settings)})" if settings else "")
    if isinstance(value, list | tuple):
        return ", ".join(_words(item) for item in value)
    described = with_short_hashes(describe(value))
    if isinstance(described, Mapping) and "class" in described:
        settings = [f"{name}={item}" for name, item in described.items() if name != "class"]
        return f"{described['class']}({', '.join(settings)})"
    return str(described)

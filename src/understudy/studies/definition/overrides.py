"""Values put at dotted keys: of scales, of blocks, of axes and of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from understudy.core.shown import shown
from understudy.core.suggestions import suggestion
from understudy.parts.local import Local
from understudy.studies.definition.build.methods import PART_KEYS
from understudy.studies.definition.build.parts import given_fields, kind_of, valued
from understudy.studies.definition.errors import (
    StudyError,
    told_of,
    unknown_key,
    within,
)
from understudy.studies.definition.toml_text import parsed_toml

Path = tuple[str, ...]
Document = dict[str, Any]

LISTED = ("strategies", "availability")  # labels → things that are compared
TABLES = ("data", "model", "local", "delay", "metrics", "tune")
NAMING = ("name", "method", "label")
TUNE_OPTIONS = (
    "seeds",
    "metric",
    "goal",
    "rounds",
    "availability",
    "blocks",
)  # other keys are tuned
TRAINING = "local"  # key of a table of how clients train: the study's, or a strategy's own
UNSETS = {"epochs": "steps", "optimizer": "optimizer_options"}  # among its keys


def parsed(overrides: Iterable[str] | Mapping[str, Any]) -> list[tuple[Path, Any]]:
    """``key=value`` as on the command line: the value as TOML has it, or a bare word."""
    if isinstance(overrides, Mapping):
        return [(path_of(key), value) for key, value in overrides.items()]
    return [_parsed(text) for text in overrides]


def written(changes: Iterable[tuple[Path, Any]]) -> list[str]:
    """What `parsed` would read as these changes; left out is what the command line cannot say."""
    texts = []
    for path, value in changes:
        if isinstance(value, str) and not any(letter in value for letter in "[{\"'\\\n"):
            word = value if _parsed(f"x={value}")[1] == value else f'"{value}"'
        else:
            try:
                word = json.dumps(value, ensure_ascii=False)
            except TypeError:
                continue
        text = f"{'.'.join(_part(part) for part in path)}={word}"
        try:
            same = _parsed(text) == (path, value)
        except StudyError:
            same = False
        if same:
            texts.append(text)
    return texts


def _part(part: str) -> str:
    return f'"{part}"' if "." in part else part


def _parsed(text: str) -> tuple[Path, Any]:
    key, found, word = _halves(text)
    if not found or not key.strip():
        raise StudyError(f"expected key=value, got {text!r}")
    path, word = path_of(key.strip()), word.strip()
    try:
        table = parsed_toml(f"value = {word}")
    except ValueError as error:
        if not word or word[0] in "[{\"'":
            raise StudyError(
                f"expected a value of TOML, got {shown(word)} ({error})", *path
            ) from None
        return path, word
    if list(table) != ["value"]:
        raise StudyError(f"expected one value of TOML, got {word!r}", *path)
    return path, table["value"]


def _halves(text: str) -> tuple[str, bool, str]:
    """What is before and after the first = that is not in quotes."""
    quote = ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "=":
            return text[:position], True, text[position + 1 :]
    return text, False, ""


def path_of(key: str) -> Path:
    """A dotted key in its parts; a part with a dot in it is quoted, as in TOML."""
    if not any(letter in key for letter in "\"'"):
        parts = tuple(part.strip() for part in key.split("."))
        if not all(parts):
            raise StudyError(f"expected a dotted key, got {key!r}")
        return parts
    try:
        found: Any = parsed_toml(f"{key} = 0")
    except ValueError:
        raise StudyError(f"expected a dotted key, got {key!r}") from None
    path: list[str] = []
    while isinstance(found, dict):
        name, found = next(iter(found.items()))
        path.append(name)
    return tuple(path)


def put(document: Document, path: Path, value: Any, *, whole: bool = False) -> Document:
    """The document, as `document.normal` makes it, with a value at a key; the given one stays.

    Tables are amended unless they name something, or, of ``strategies`` and ``availability``, take
    the place of all that were there (`whole`); a list of these keeps only these labels.
    """
    first, rest = path[0], path[1:]
    if first == "axes":
        return {**document, "axes": _axes(document.get("axes", {}), rest, value)}
    if first in LISTED:
        return {**document, first: _listed(first, document.get(first, {}), rest, value, whole)}
    if first == "block":
        return {**document, first: _of_blocks(document.get(first, {}), rest, value)}
    if rest and first not in TABLES:
        raise StudyError(f"has no keys below it, got {'.'.join(rest)!r}", first)
    if first == "data" and not rest and isinstance(value, str):
        value = {"name": value}
    with within(first):
        if first == TRAINING:
            return {**document, first: _trained(document.get(first), rest, value)}
        merge = first == "data"
        return {**document, first: put_in(document.get(first), rest, value, merge=merge)}


def put_in(thing: Any, path: Path, value: Any, *, merge: bool = False) -> Any:
    """A table or a part with a value at a key below it."""
    if not path:
        amends = merge or not any(name in value for name in NAMING if isinstance(value, Mapping))
        if isinstance(value, Mapping) and isinstance(thing, Mapping) and amends:
            for name, inner in value.items():
                thing = put_in(thing, (name,), inner)
            return thing
        return dict(value) if isinstance(value, Mapping) else value
    name, rest = path[0], path[1:]
    if isinstance(thing, str):
        thing = {"name": thing}
    if is_dataclass(thing) and not isinstance(thing, type):
        return _replaced(thing, name, rest, value)
    with within(name):
        if thing is not None and not isinstance(thing, Mapping):
            raise StudyError(f"nothing can be set below {shown(thing)}")
        into = _trained if name == TRAINING else put_in
        return {**(thing or {}), name: into((thing or {}).get(name), rest, value)}


def _trained(table: Any, path: Path, value: Any) -> Any:
    """A table of how clients train, with a value.

    Steps would win over epochs, and options are one optimizer's: both are unset by the other.
    """
    if not path:
        refuse_both(value)
    elif isinstance(table, str):
        raise StudyError(f"is {table!r}, each method's own: nothing can be set below it")
    changed = put_in(table, path, value)
    given = value if not path and isinstance(value, Mapping) else path[:1]
    for name, unset in UNSETS.items():
        if name in given and unset not in given and isinstance(changed, Mapping):
            changed = {key: item for key, item in changed.items() if key != unset}
    return changed


def refuse_both(table: Any) -> None:
    """Refuse epochs and steps in one written table: one of them would mean nothing."""
    if isinstance(table, Mapping) and {"epochs", "steps"} <= set(table):
        raise StudyError("expected epochs or steps, got both")


def _replaced(part: Any, name: str, rest: Path, value: Any) -> Any:
    known = [item.name for item in fields(part)]
    if name not in known:
        raise unknown_key(name, known)
    with within(name):
        inner = value if not rest else put_in(getattr(part, name), rest, value)
    made = given_fields(type(part), {name: inner})
    if isinstance(part, Local) and name == "epochs":
        made["steps"] = None  # steps would win
    if isinstance(part, Local) and name == "optimizer":
        made["optimizer_options"] = {}
    with told_of(known=known):
        return replace(part, **made)


def _listed(first: str, known: Mapping[str, Any], rest: Path, value: Any, whole: bool) -> Any:
    if not rest:
        if isinstance(value, Mapping):
            with within(first):
                result = {} if whole else dict(known)
                for label, item in value.items():
                    result[label] = _labelled(first, result.get(label), (), item)
                return result
        if isinstance(value, str) or not isinstance(value, list | tuple):
            raise StudyError(f"expected a table or a list of labels, got {shown(value)}", first)
        for label in value:
            if label not in known:
                raise StudyError(f"no label {label!r}; {suggestion(str(label), known)}", first)
        return {label: known[label] for label in value}
    label, below = rest[0], rest[1:]
    if label not in known:
        if first == "availability":
            having = with_field(known, label)
            if having:
                return {
                    name: _labelled(first, part, rest, value) if name in having else part
                    for name, part in known.items()
                }
        if below or isinstance(value, bool | int | float):
            raise StudyError(f"no such label; {suggestion(label, known)}", first, label)
    with within(first, label):
        return {**known, label: _labelled(first, known.get(label), below, value)}


def _labelled(first: str, thing: Any, path: Path, value: Any) -> Any:
    """One of the things compared, with a value at a key below it."""
    if not path and isinstance(value, str):
        return {"method" if first == "strategies" else "name": value}
    return put_in(thing, path, value)


def with_field(modes: Mapping[str, Any], name: str) -> list[str]:
    """Labels of the availability modes that have a field of this name."""
    having = []
    for label, value in modes.items():
        with within("availability", label):
            kind = kind_of("availability", value)
        if is_dataclass(kind) and name in [item.name for item in fields(kind)]:
            having.append(label)
    return having


def _axes(axes: Mapping[str, Any], rest: Path, value: Any) -> dict[str, Any]:
    given = flat_axes(value) if not rest else {".".join(rest): value}
    return {key: levels for key, levels in {**axes, **given}.items() if levels != []}


def flat_axes(
    value: Any, above: str = "", tables: tuple[str, ...] = (*LISTED, *TABLES)
) -> dict[str, Any]:
    """Axes by dotted key: ``local.lr = […]`` without quotes is a table in a table."""
    if not isinstance(value, Mapping):
        raise StudyError(f"expected a table of lists, got {shown(value)}", "axes")
    flat: dict[str, Any] = {}
    for key, levels in value.items():
        nested = isinstance(levels, Mapping) and "." not in key and _all_lists(levels)
        if nested and (above or key in tables):
            flat |= flat_axes(levels, f"{above}{key}.")
        else:
            flat[f"{above}{key}"] = levels
    return flat


def flat_tune(table: Mapping[str, Any]) -> dict[str, Any]:
    """What a table ``[tune]`` tries, by dotted key; ``key`` and ``values`` are the form for one."""
    short = {name: table[name] for name in ("key", "values") if name in table}
    long = {name: table[name] for name in table if name not in (*TUNE_OPTIONS, *short)}
    flat = flat_axes(long, tables=(*LISTED, *TABLES, *PART_KEYS))
    if not short:
        return flat
    for name in ("key", "values"):
        if name not in short:
            raise StudyError("expected a value, got none", name)
    key = valued("key", short["key"], str)
    return {key: short["values"], **flat}


def _all_lists(table: Mapping[str, Any]) -> bool:
    return bool(table) and all(
        _all_lists(value) if isinstance(value, Mapping) else isinstance(value, list)
        for value in table.values()
    )


def _of_blocks(blocks: Mapping[str, Any], rest: Path, value: Any) -> dict[str, Any]:
    if not rest:
        if not isinstance(value, Mapping):
            raise StudyError(f"expected a table of blocks by name, got {shown(value)}", "block")
        for name, changes in value.items():
            blocks = _of_blocks(blocks, (name,), changes)
        return dict(blocks)
    if rest[0] not in blocks:
        raise StudyError(f"no such block; {suggestion(rest[0], blocks)}", "block", rest[0])
    with within("block"):
        return {**blocks, rest[0]: put_in(blocks[rest[0]], rest[1:], value)}

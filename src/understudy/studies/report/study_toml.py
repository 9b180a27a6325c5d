"""A study's document as TOML: what `Study.read` reads back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

LABELLED = {"strategies": "method", "availability": "name"}  # what a plain text stands for
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def study_toml(document: Mapping[str, Any]) -> str:
    """The text of a study.

    Parameters
    ----------
    document : mapping
        Plain data, as ``about["document"]`` of a stored study. None and empty tables are left out.
    """
    given = {key: value for key, value in document.items() if value not in (None, {}, [])}
    blocks = given.pop("block", {})
    plain = {key: value for key, value in given.items() if not isinstance(value, Mapping)}
    parts = [_lines(plain)]
    for key, table in given.items():
        if isinstance(table, Mapping):
            parts.append(f"[{_key(key)}]\n{_lines(_short(key, table))}")
    for name, table in blocks.items():
        body = {key: _short(key, value) for key, value in table.items() if key != "name"}
        parts.append(f"[[block]]\n{_lines({'name': name, **body})}")
    return "\n".join(part for part in parts if part)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(
        f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None
    )


def _short(key: str, table: Any) -> Any:
    """Strategies and availability modes that are only a name, as the name."""
    naming = LABELLED.get(key)
    if naming is None or not isinstance(table, Mapping):
        return table
    return {
        label: value[naming] if isinstance(value, Mapping) and set(value) == {naming} else value
        for label, value in table.items()
    }


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        items = [f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None]
        return f"{{ {', '.join(items)} }}" if items else "{}"
    if value is None:
        return '"none"'  # in a list, where it cannot be left out
    return f"[{', '.join(_value(item) for item in value)}]"


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for one character that only TOML wants escaped
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

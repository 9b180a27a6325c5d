"""TOML as it may come from anybody: whatever is wrong with a text is one kind of error."""

from __future__ import annotations

import tomllib
from typing import Any

DEEPEST = 32  # tables and lists in each other; studies have six


def parsed_toml(text: str) -> dict[str, Any]:
    """The table that a text stands for.

    A ValueError where it is no TOML, has numbers of thousands of digits, or is nested too deeply.
    """
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        # tables and lists of the next level; dotted keys nest them without the parser's recursion
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return table
    raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"tables and lists are nested more than {DEEPEST} deep")

"""All registered parts and their parameters, as lines of text."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from understudy import registry


def parts(width: int = 80) -> Iterator[str]:
    """Lines: each role, and under it the names with their parameters and defaults."""
    roles = [value for value in vars(registry).values() if isinstance(value, registry.Registry)]
    for position, role in enumerate(roles):
        if position:
            yield ""
        yield role.role
        column = max(len(name) for name in role) + 4
        for name, part in role.items():
            lead = f"  {name}".ljust(column)
            yield from textwrap.wrap(
                ", ".join(_parameters(role.role, part)) or "–",
                width,
                initial_indent=lead,
                subsequent_indent=" " * column,
            )


def _parameters(role: str, part: Any) -> Iterator[str]:
    if is_dataclass(part):
        for item in fields(part):
            factory = item.default_factory
            yield _shown(item.name, item.default if factory is MISSING else factory())
    elif role == "strategy":
        for name, argument in inspect.signature(part).parameters.items():
            rest = argument.kind is argument.VAR_KEYWORD
            yield "any field of Strategy" if rest else _shown(name, argument.default)


def _shown(name: str, default: object) -> str:
    if default in (MISSING, inspect.Parameter.empty):
        return name
    # a function's repr has an address in it
    value = default.__name__ if inspect.isfunction(default) else repr(default)
    return f"{name}={value}"

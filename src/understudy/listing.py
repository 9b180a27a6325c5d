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
                ", ".join(_parameters(part)) or "–",
                width,
                initial_indent=lead,
                subsequent_indent=" " * column,
            )


def _parameters(part: Any) -> Iterator[str]:
    if not is_dataclass(part):
        if inspect.isfunction(part):
            yield from _arguments(part)
        return
    for item in fields(part):
        if not item.init:
            continue
        default: object = item.default
        if item.default_factory is not MISSING:
            default = item.default_factory()
        yield item.name if default is MISSING else f"{item.name}={default!r}"


def _arguments(function: Any) -> Iterator[str]:
    for name, argument in inspect.signature(function).parameters.items():
        if argument.kind is argument.VAR_KEYWORD:
            yield "any field of Strategy"
        else:
            empty = argument.default is argument.empty
            yield name if empty else f"{name}={argument.default!r}"

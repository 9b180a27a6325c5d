"""Parts as one would write them, without what has its default; and any value in one line."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

WIDTH = 88  # of a line; what is longer has a line for each setting
ALWAYS_TOLD = {"always_told": True}  # metadata of a field that is told at its default too
LONGEST_INTEGER = 200  # bits that are written as digits; Python refuses to write very long ones


def part_text(part: Any) -> str:
    """A dataclass in one line, with the settings that differ from its defaults.

    Functions and classes are told by their names.

    >>> from understudy import Capped, Local, inverse_time
    >>> part_text(Capped(share=0.5))
    'Capped(share=0.5)'
    >>> part_text(Local(lr=0.1, schedule=inverse_time))  # 0.1 is the default
    'Local(schedule=inverse_time)'
    """
    if not is_dataclass(part) or isinstance(part, type):
        return str(part.__qualname__) if hasattr(part, "__qualname__") else repr(part)
    return f"{type(part).__name__}({', '.join(_settings(part))})"


def part_lines(part: Any) -> str:
    """The same, with a line for each setting where one line would be too long."""
    line = part_text(part)
    if len(line) <= WIDTH:
        return line
    inside = "".join(f"    {setting},\n" for setting in _settings(part))
    return f"{type(part).__name__}(\n{inside})"


def _settings(part: Any) -> list[str]:
    told = [item for item in fields(part) if item.init and item.repr]
    values = {item.name: getattr(part, item.name) for item in told if _differs(part, item)}
    return [f"{name}={part_text(value)}" for name, value in values.items()]


def _differs(part: Any, item: Field[Any]) -> bool:
    if item.default is MISSING and item.default_factory is MISSING:
        return True
    if item.metadata.get("always_told"):
        return True
    default = item.default if item.default_factory is MISSING else item.default_factory()
    value = getattr(part, item.name)
    if value is default:
        return False
    try:
        return bool(value != default) or type(value) is not type(default)
    except (TypeError, ValueError):  # an array, which is not simply equal or not
        return True


def shown(value: object, width: int = 60) -> str:
    """Anything as Python writes it, in one line of at most `width` characters.

    For what others sent: it may be of any size, and its own ``__repr__`` may fail.
    """
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        return f"a whole number of some {int(value.bit_length() * 0.30103) + 1:,} digits"
    if isinstance(value, str | bytes):
        value = value[: width + 1]
    try:
        text = " ".join(repr(value).split())
    except Exception:  # whatever somebody's object raises
        return f"a {type(value).__name__}"
    return text if len(text) <= width else f"{text[: width - 1]}…"

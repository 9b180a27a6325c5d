"""Dataclasses that a checkpoint of a live federation holds as JSON, read with their types."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TypeVar

from understudy.core import checks
from understudy.core.shown import shown

Record = TypeVar("Record")


def records(kind: type[Record], text: str) -> list[Record]:
    """Objects of a flat dataclass from JSON, each field of the type that it was written with."""
    plain = json.loads(text)
    if not isinstance(plain, list):
        raise ValueError(f"{kind.__name__}: expected a list, got {shown(plain)}")
    found = [kind(**one) for one in plain]
    for one in found:
        for item in fields(one):  # type: ignore[arg-type]
            name, value = f"{kind.__name__}.{item.name}", getattr(one, item.name)
            if item.type == "float":
                checks.number(name, value)
            elif type(value).__name__ != item.type:
                raise ValueError(f"{name}: expected {item.type}, got {shown(value)}")
    return found

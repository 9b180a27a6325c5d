"""Finds a part's state inside the state that holds it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def state_of(state: Any, kind: type[Kind]) -> Kind | None:
    """The state itself, or the first of its fields, that is of this kind; None where none is."""
    if isinstance(state, kind):
        return state
    if is_dataclass(state):
        for item in fields(state):
            found = state_of(getattr(state, item.name), kind)
            if found is not None:
                return found
    return None

"""Labels as exported tables write them, and the place of a cell in its study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Value = str | float | None
Place = frozenset[tuple[str, str]]  # labels as they are written; what is of every group has none


def label_text(value: Any) -> str:
    """A label as it is written: all its digits, since it names something."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, int | float | np.number):
        number = float(value)
        is_whole = number.is_integer() and abs(number) < 1e15
        return str(int(number)) if is_whole else repr(number)
    return str(value)


def place_of(labels: Mapping[str, Any]) -> Place:
    """Labels as they are written; a label None, which is of every group, is not there."""
    return frozenset(
        (name, label_text(value)) for name, value in labels.items() if value is not None
    )

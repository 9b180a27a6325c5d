"""Errors at the boundary: each names the thing, what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt


def number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> None:
    """Refuse `value` unless it is a finite real number in the stated range."""
    opening, closing = "(" if low_open else "[", ")" if high_open else "]"
    expected = f"a number in {opening}{low:g}, {high:g}{closing}"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(float(value)):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    real = float(value)
    too_low = real <= low if low_open else real < low
    too_high = real >= high if high_open else real > high
    if too_low or too_high:
        raise ValueError(f"{name}: expected {expected}, got {value!r}")


def integer(name: str, value: object, *, low: int, high: int | None = None) -> None:
    """Refuse `value` unless it is a whole number, at least `low` and at most `high`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral)
        or int(value) < low
        or (high is not None and int(value) > high)
    ):
        expected = f"a whole number >= {low}" + ("" if high is None else f" and <= {high}")
        raise ValueError(f"{name}: expected {expected}, got {value!r}")


def choice(name: str, value: object, allowed: Collection[object]) -> None:
    """Refuse `value` unless it is one of `allowed`."""
    if value not in allowed:
        words = ", ".join(repr(item) for item in allowed)
        raise ValueError(f"{name}: expected one of {words}, got {value!r}")


def part(name: str, value: object, *verbs: str) -> None:
    """Refuse `value` unless it is an instance with the methods of its role."""
    missing = [verb for verb in verbs if not callable(getattr(value, verb, None))]
    if isinstance(value, type) or missing:
        hint = f"; write {value.__name__}(), with parentheses" if isinstance(value, type) else ""
        lacks = f" (it has no {', '.join(missing)})" if missing else ""
        raise TypeError(
            f"{name}: expected a part with {', '.join(verbs)}, got {value!r}{lacks}{hint}"
        )


def function(name: str, value: object) -> None:
    """Refuse `value` unless it can be called."""
    if not callable(value):
        raise TypeError(f"{name}: expected a function of the round number, got {value!r}")


def array(name: str, value: Any, shape: tuple[int | None, ...], kind: type) -> npt.NDArray[Any]:
    """`value` as an array of this kind and shape (None: any length), or an error saying why not."""
    sizes = ["any" if size is None else str(size) for size in shape]
    wanted = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    try:
        result: npt.NDArray[Any] = np.array(value, dtype=kind)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: expected an array of {kind.__name__} of shape {wanted}, got {value!r}"
        ) from error
    fits = result.ndim == len(shape) and all(
        size is None or size == length for size, length in zip(shape, result.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name}: expected shape {wanted}, got {result.shape}")
    return result

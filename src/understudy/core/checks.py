"""Errors at the boundary: each names the thing, what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

    from understudy.core.roles import Sampler
    from understudy.core.types import Bools, Floats, Ints


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


# -- what users and plug-ins hand to a strategy ------------------------------------------------


def flat_params(params: Any) -> torch.Tensor:
    import torch

    if not isinstance(params, torch.Tensor):
        raise TypeError(f"params: expected a flat torch tensor (d,), got {type(params).__name__}")
    if params.ndim != 1 or not params.is_floating_point():
        raise ValueError(
            "params: expected a flat floating torch tensor (d,), "
            f"got shape {tuple(params.shape)} of {params.dtype}"
        )
    if len(params) == 0:
        raise ValueError("params: expected at least one entry, got none")
    return params


def mask(name: str, value: npt.ArrayLike, n: int) -> Bools:
    raw = np.asarray(value)
    if raw.shape != (n,) or not (raw.dtype == np.bool_ or np.isin(raw, (0, 1)).all()):
        raise ValueError(
            f"{name}: expected ({n},) true or false, one for each client, "
            f"got shape {raw.shape} of {raw.dtype}"
        )
    return raw.astype(np.bool_)


def probabilities(name: str, value: npt.ArrayLike, n: int) -> Floats:
    rates = array(name, value, (n,), float)
    if not ((rates >= 0) & (rates <= 1)).all():
        client = int(np.argmax(~((rates >= 0) & (rates <= 1))))
        raise ValueError(f"{name}[{client}]: expected a probability, got {rates[client]}")
    return rates


def pick(
    sampler: Sampler, picked: npt.ArrayLike, weights: npt.ArrayLike, active: Bools
) -> tuple[Ints, Floats]:
    """A sampler's answer, by ascending id; a plug-in's mistake is named here, not later."""
    wanted = np.array(picked, dtype=np.int64).reshape(-1)
    weight = np.array(weights, dtype=np.float64).reshape(-1)
    who = type(sampler).__name__
    if len(weight) != len(wanted):
        raise ValueError(f"{who}.pick: {len(wanted)} ids but {len(weight)} weights")
    if len(np.unique(wanted)) != len(wanted):
        raise ValueError(f"{who}.pick: expected distinct ids, got {wanted.tolist()}")
    if len(wanted) and not (0 <= wanted.min() and wanted.max() < len(active)):
        raise ValueError(f"{who}.pick: expected ids 0 to {len(active) - 1}, got {wanted.tolist()}")
    if not active[wanted].all():
        raise ValueError(f"{who}.pick: picked retired clients {wanted[~active[wanted]].tolist()}")
    if not (np.isfinite(weight) & (weight > 0)).all():
        raise ValueError(f"{who}.pick: expected weights > 0, got {weight.tolist()}")
    order = np.argsort(wanted)
    return wanted[order], weight[order]

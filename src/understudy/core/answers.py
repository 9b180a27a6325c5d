"""What parts answer, checked where they answer: a plug-in's mistake is named there, not later."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import torch

from understudy.core.shown import shown
from understudy.core.types import Contributions


def contributions(part: object, answer: Any) -> Contributions:
    """What `fill` returned."""
    if isinstance(answer, Contributions):
        return answer
    raise TypeError(
        f"{_name(part)}.fill: expected Contributions, which point to rows instead of summing them: "
        f"Contributions.of((ids, block, row, coef), …); got {_shown(answer)}"
    )


def notes(part: object, verb: str, answer: Any) -> Mapping[str, float]:
    """What `learn` and the like have to tell: numbers by name; None is nothing to tell."""
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise TypeError(
            f"{_name(part)}.{verb}: expected notes, a dict of numbers by name, or None, "
            f"got {_shown(answer)}"
        )
    return {str(name): _number(part, verb, name, value) for name, value in answer.items()}


def vector(part: object, verb: str, answer: Any, params: torch.Tensor) -> torch.Tensor:
    """What `aggregate` and `step` return: as long as the model."""
    if isinstance(answer, torch.Tensor) and answer.shape == params.shape:
        return answer
    raise TypeError(
        f"{_name(part)}.{verb}: expected a tensor of shape {tuple(params.shape)}, as long as the "
        f"model, got {_shown(answer)}"
    )


def _number(part: object, verb: str, name: object, value: Any) -> float:
    if isinstance(value, Real):
        return value  # type: ignore[return-value]
    try:
        return float(value)  # a tensor or an array of one number
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{_name(part)}.{verb}: expected a number as note {name!r}, got {_shown(value)}"
        ) from None


def _name(part: object) -> str:
    return type(part).__name__


def _shown(value: Any) -> str:
    """A value in a message: tensors by their shape."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return shown(value)

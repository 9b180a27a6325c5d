"""What parts answer, checked where they answer: a plug-in's mistake is named there, not later."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import torch

from understudy.core.shown import shown
from understudy.core.types import Contributions


def contributions(part: object, answer: Any, verb: str = "fill") -> Contributions:
    """What `fill` returned."""
    if isinstance(answer, Contributions):
        return answer
    raise TypeError(
        f"{_name(part)}.{verb}: expected Contributions, which point to rows instead of summing "
        f"them: Contributions.of((ids, block, row, coef), …); got {_shown(answer)}"
    )


def reweighed(part: object, answer: Any, before: Contributions) -> Contributions:
    """What `reweigh` returned: the entries it was given, with finite coefficients."""
    if not isinstance(answer, Contributions):
        raise TypeError(f"{_name(part)}.reweigh: expected Contributions, got {_shown(answer)}")
    same = answer.rows is before.rows and all(
        np.array_equal(getattr(answer, name), getattr(before, name)) for name in ("ids", "row")
    )
    if not same:
        raise ValueError(
            f"{_name(part)}.reweigh: expected the entries it was given, with other coefficients: "
            "dataclasses.replace(contributions, coef=…); got other ids or rows"
        )
    for name in ("coef", "buffer_coef"):
        values = getattr(answer, name)
        if values is not None and (
            values.shape != answer.ids.shape or not np.isfinite(values).all()
        ):
            raise ValueError(
                f"{_name(part)}.reweigh: expected {name} of shape {answer.ids.shape}, all finite, "
                f"got {_shown(values)}"
            )
    return answer


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

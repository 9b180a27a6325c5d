"""The states of the parts of a strategy: made, and checked to be what a state may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.memory.rows import RowStore
from understudy.server.state import saved_fields

if TYPE_CHECKING:
    from understudy.core.types import Setup
    from understudy.server.strategy import Strategy

MAY_BE = (
    "a state is None or a dataclass of NumPy arrays, torch tensors, numbers, texts, RowStores and "
    "more such dataclasses; a field _x, which is neither saved nor grown, may be anything"
)


def part_states(strategy: Strategy, setup: Callable[[str], Setup]) -> dict[str, Any]:
    """The state of each part by its role; `setup` gives what a role's part gets at `init`."""
    parts: dict[str, Any] = {
        "sampler": strategy.sampler,
        "compensator": strategy.compensator,
        "server": strategy.server,
        "local": strategy.local.rule,
        "guard": strategy.guard,
    }
    return {
        role: None if part is None else checked_state(part, part.init(setup(role)))
        for role, part in parts.items()
    }


def checked_state(part: object, state: Any) -> Any:
    """A part's state, which can be saved, loaded and grown; else an error that says why not."""
    if state is not None:
        _check(f"{type(part).__name__}.init", "", state)
    return state


def _check(who: str, place: str, state: Any) -> None:
    what = f"expected {place} to be" if place else "expected"
    if not is_dataclass(state) or isinstance(state, type):
        is_class = isinstance(state, type)
        came = f"the class {state.__name__}" if is_class else _a(type(state).__name__)
        raise TypeError(f"{who}: {what} a dataclass object, got {came}; {MAY_BE}")
    if type(state).__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TypeError(
            f"{who}: {what} a dataclass that can be written to, got {type(state).__name__}, which "
            "is frozen: a part is, its state is not"
        )
    for item in saved_fields(state):
        value, inner = getattr(state, item.name), f"{place or 'state'}.{item.name}"
        if is_dataclass(value):
            _check(who, inner, value)
        elif not _is_leaf(value):
            kind = type(value).__name__
            if isinstance(value, np.ndarray):
                kind = "array of objects"
            raise TypeError(f"{who}: {inner} is {_a(kind)}; {MAY_BE}")


def _is_leaf(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    numbers = bool | int | float | str | np.generic
    return value is None or isinstance(value, numbers | torch.Tensor | RowStore)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"

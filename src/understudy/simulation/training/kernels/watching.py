"""What a forward does with real examples: its calls, its gradients, and what it leaves changed."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from understudy.simulation.training.generators import forked
from understudy.simulation.training.kernels.layers import Refused

# name and arguments: a tensor is a number among the calls that gave one (−1: the inputs), a
# parameter its name
Called = tuple[str, tuple[object, ...], tuple[tuple[str, object], ...]]

# the steps of a chain's gradient, as torch names them: one of somebody's own has another name
GRADIENTS = frozenset(
    f"{name}Backward0"
    for name in (
        *("Addmm", "Mm", "T", "Transpose", "Linear", "Convolution", "MkldnnConvolution"),
        *("MaxPool2D", "MaxPool2DWithIndices", "MkldnnMaxPool2D", "AvgPool2D"),
        *("Relu", "Tanh", "Sigmoid", "Mul", "NativeDropout"),
        *("View", "UnsafeView", "ReshapeAlias", "Alias", "Squeeze", "Unsqueeze"),
    )
) | {"AccumulateGrad"}


def watched_calls(module: nn.Module, examples: torch.Tensor, is_torchs: bool) -> list[Called]:
    """The calls that a forward makes with real examples, in the module's present mode.

    `is_torchs`: all its parts are torch's own, whose gradients need no look. `Refused` where it
    fails, computes in another type, or has gradients that are not torch's own.
    """
    inputs = examples.detach().clone()
    watch = _Watch(module, inputs)
    with torch.enable_grad(), forked("cpu"), watch:
        try:
            outputs = module(inputs)
        except Refused:
            raise
        except Exception as error:  # the loop says so, too
            raise Refused(f"its forward fails: {error}") from error
    if isinstance(outputs, torch.Tensor) and not is_torchs:
        _check_gradients(outputs)
    return watch.calls


def _check_gradients(outputs: torch.Tensor) -> None:
    seen: set[Any] = set()
    steps: list[Any] = [outputs.grad_fn]
    while steps:
        step = steps.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        if type(step).__name__ not in GRADIENTS:
            raise Refused(f"its gradients have a step {type(step).__name__!r}")
        steps.extend(before for before, _ in step.next_functions)


class _Watch(TorchFunctionMode):
    """Notes the calls of torch's functions on tensors."""

    def __init__(self, module: nn.Module, inputs: torch.Tensor) -> None:
        super().__init__()
        self.calls: list[Called] = []
        self._dtype = inputs.dtype
        self._words: dict[int, object] = {id(inputs): -1}
        self._words |= {id(parameter): name for name, parameter in module.named_parameters()}
        self._results: list[Any] = []  # kept: what is gone gives its id to another

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in ("size", "__get__"):  # of a shape
            self._check(result)
            self.calls.append(called(func, args, kwargs or {}, self._word))
            self._results.append(result)
            self._words[id(result)] = len(self.calls) - 1
        return result

    def _check(self, result: Any) -> None:
        if torch.is_autocast_enabled("cpu"):
            raise Refused("its forward computes in mixed precision")
        if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
            raise Refused("its forward says what is kept for gradients")
        if isinstance(result, torch.Tensor) and (
            result.is_inference() or result.dtype != self._dtype
        ):
            raise Refused(f"its forward has a result of {result.dtype}, or without gradients")

    def _word(self, value: Any) -> object:
        if isinstance(value, torch.Tensor):
            return self._words.get(id(value), "another tensor")
        return plain(value, self._word)


def called(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], word: Callable[[Any], object]
) -> Called:
    """A call in words."""
    name = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
    given = tuple(sorted((key, word(value)) for key, value in kwargs.items()))
    return name, tuple(word(value) for value in args), given


def plain(value: Any, word: Callable[[Any], object]) -> object:
    """An argument that is no tensor."""
    if isinstance(value, tuple | list):
        return tuple(word(entry) for entry in value)
    return value if isinstance(value, int | float | str) else repr(value)


# -- what a forward with a memory or with dice changes: the next one may take another way ----------

CHILDREN = ("_modules", "_parameters", "_buffers")


def state_of(module: nn.Module) -> object:
    """The attributes of all parts of a module, and Python's and NumPy's generators."""
    attributes = [
        {name: _told(name, value) for name, value in vars(part).items() if name != "training"}
        for part in module.modules()
    ]
    dice = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    return attributes, dice


def _told(name: str, value: Any) -> object:
    if name in CHILDREN:
        return [(child, id(part)) for child, part in value.items()]
    if isinstance(value, FunctionType | BuiltinFunctionType) and not getattr(
        value, "__closure__", None
    ):
        return id(value)
    try:
        return pickle.dumps(value)
    except Exception as error:  # anybody's
        raise Refused(f"whether its attribute {name!r} changes cannot be told: {error}") from error

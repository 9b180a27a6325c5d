"""Forwards, classes, hooks and parametrizations that are not torch's own."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from tests.simulation.training.kernels.fuzz.draw import Draw
from tests.simulation.training.kernels.fuzz.parts import WEIGHTED, some


def forward_patched(draw: Draw, module: nn.Module) -> str:
    """An instance's own forward."""
    part = draw.of(list(module.modules()))
    way = draw.of(["doubled", "with a low rank", "replaced", "the same", "of a closure"])
    own = type(part).forward
    patched: Any
    if way == "doubled":
        patched = types.MethodType(lambda self, x: 2 * own(self, x), part)
    elif way == "the same":
        patched = types.MethodType(own, part)
    elif way == "of a closure":
        before = part.forward

        def patched(x: torch.Tensor) -> torch.Tensor:
            return before(x) * 0.5

    elif way == "replaced":
        patched = torch.tanh
    else:
        part = some(draw, module, nn.Linear)
        outputs, inputs = part.weight.shape
        up, down = (
            torch.randn(*shape).to(part.weight.dtype) for shape in ((outputs, 2), (2, inputs))
        )
        linear = nn.Linear.forward
        patched = types.MethodType(lambda self, x: linear(self, x) + x @ down.T @ up.T, part)
    part.forward = patched
    return f"forward of a {type(part).__name__} {way}"


class _Squared(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) ** 2


class _OtherCall(nn.Linear):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return 2 * super().__call__(x)


class _SameLinear(nn.Linear):
    pass


class _OwnSequence(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(-x)


class _BackwardSequence(nn.Sequential):
    def __iter__(self) -> Any:
        return iter(reversed(list(super().__iter__())))


def class_changed(draw: Draw, module: nn.Module) -> str:
    """A subclass in place of torch's own."""
    kinds: list[tuple[type[nn.Module], type[nn.Module]]] = [
        (nn.Linear, _Squared), (nn.Linear, _OtherCall), (nn.Linear, _SameLinear),
        (nn.Sequential, _OwnSequence), (nn.Sequential, _BackwardSequence),
        (nn.Conv2d, types.new_class("Own", (nn.Conv2d,))),
    ]  # fmt: skip
    kind, other = draw.of(kinds)
    part = some(draw, module, kind)
    part.__class__ = other
    return f"a {kind.__name__} is of class {other.__name__}"


def hooked(draw: Draw, module: nn.Module) -> str:
    part = draw.of(list(module.modules()))
    way = draw.of(["forward", "forward pre", "backward", "backward pre", "forward always"])
    if way == "forward":
        part.register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)
    elif way == "forward always":
        part.register_forward_hook(lambda _module, _inputs, outputs: -outputs, always_call=True)
    elif way == "forward pre":
        part.register_forward_pre_hook(lambda _module, inputs: (2 * inputs[0],))
    elif way == "backward":
        part.register_full_backward_hook(
            lambda _module, found, _: tuple(g and 2 * g for g in found)
        )
    else:
        part.register_full_backward_pre_hook(lambda _module, found: (2 * found[0],))
    return f"a {way} hook"


def gradient_hooked(draw: Draw, module: nn.Module) -> None:
    some(draw, module, WEIGHTED).weight.register_hook(lambda gradient: 2 * gradient)


class _Halved(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


def parametrized(draw: Draw, module: nn.Module) -> str:
    layer = some(draw, module, WEIGHTED)
    ways: dict[str, Callable[[nn.Module], object]] = {
        "weight_norm": parametrizations.weight_norm,
        "spectral_norm": parametrizations.spectral_norm,
        "old weight_norm": torch.nn.utils.weight_norm,
        "pruned": lambda part: prune.l1_unstructured(part, "weight", amount=0.5),
        "halved": lambda part: parametrize.register_parametrization(part, "weight", _Halved()),
    }
    way = draw.of(list(ways))
    ways[way](layer)
    return f"weights {way}"

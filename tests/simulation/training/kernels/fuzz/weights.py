"""Weights and biases of other shapes, types and kinds than the layer was made with."""

from __future__ import annotations

import torch
from torch import nn

from tests.simulation.training.kernels.fuzz.draw import Draw
from tests.simulation.training.kernels.fuzz.parts import WEIGHTED, Impossible, like, some


def head_cut(draw: Draw, module: nn.Module) -> None:
    """Fewer or more outputs than the layer says."""
    layer = some(draw, module, nn.Linear)
    outputs = draw.of([1, 3, layer.out_features + 1, 2 * layer.out_features])
    layer.weight = like(layer.weight, outputs, layer.weight.shape[1])
    if layer.bias is not None and draw.chance(0.9):
        layer.bias = like(layer.weight, outputs)


def channels_cut(draw: Draw, module: nn.Module) -> None:
    """Other numbers of channels than the layer says; behind it things may not fit any more."""
    layer = some(draw, module, nn.Conv2d)
    outputs = draw.of([1, layer.out_channels + 1])
    layer.weight = like(layer.weight, outputs, *layer.weight.shape[1:])
    if layer.bias is not None:
        layer.bias = like(layer.weight, outputs)


def kernel_replaced(draw: Draw, module: nn.Module) -> None:
    """A window of another size than the layer says."""
    layer = some(draw, module, nn.Conv2d)
    height, width = layer.weight.shape[2:]
    sides = draw.of([(width, height), (1, width), (height, width + 1), (height, 2 * width)])
    layer.weight = like(layer.weight, *layer.weight.shape[:2], *sides)


def inputs_replaced(draw: Draw, module: nn.Module) -> None:
    """Weights for other inputs than come: torch raises."""
    layer = some(draw, module, WEIGHTED)
    outputs, inputs, *window = layer.weight.shape
    layer.weight = like(layer.weight, outputs, draw.of([1, inputs + 1, 2 * inputs]), *window)


def weight_of_other_rank(draw: Draw, module: nn.Module) -> None:
    layer = some(draw, module, WEIGHTED)
    shape = layer.weight.shape
    layer.weight = like(layer.weight, *draw.of([shape[:1], (shape.numel(),), (1, *shape)]))


def bias_of_other_length(draw: Draw, module: nn.Module) -> None:
    layer = some(draw, module, WEIGHTED)
    n = len(layer.weight)
    shape = draw.of([(1,), (1,), (n + 1,), (max(1, n - 1),), (1, n), (n, 1), (), (0,)])
    layer.bias = like(layer.weight, *shape)


def bias_none(draw: Draw, module: nn.Module) -> None:
    some(draw, module, WEIGHTED).bias = None


def plain_tensor(draw: Draw, module: nn.Module) -> None:
    """A weight or bias that is no parameter."""
    layer, name = some(draw, module, WEIGHTED), draw.of(["weight", "bias"])
    value = getattr(layer, name)
    if value is None:
        raise Impossible
    delattr(layer, name)
    setattr(layer, name, value.detach().clone())


def deleted(draw: Draw, module: nn.Module) -> None:
    delattr(some(draw, module, WEIGHTED), draw.of(["weight", "bias"]))


def frozen(draw: Draw, module: nn.Module) -> None:
    layer = some(draw, module, WEIGHTED)
    draw.of([layer.weight, *([] if layer.bias is None else [layer.bias])]).requires_grad_(False)


def not_contiguous(draw: Draw, module: nn.Module) -> None:
    layer = some(draw, module, WEIGHTED)
    layer.weight = nn.Parameter(layer.weight.detach().transpose(0, 1).contiguous().transpose(0, 1))


def channels_last(draw: Draw, module: nn.Module) -> None:
    module.to(memory_format=torch.channels_last)


def expanded(draw: Draw, module: nn.Module) -> None:
    """One row of weights in place of all."""
    layer = some(draw, module, WEIGHTED)
    layer.weight = nn.Parameter(layer.weight.detach()[:1].expand_as(layer.weight))


def shared(draw: Draw, module: nn.Module) -> None:
    layers = [part for part in module.modules() if isinstance(part, WEIGHTED)]
    for one in layers:
        for other in layers:
            if one is not other and one.weight.shape == other.weight.shape:
                other.weight = one.weight
                return
    one, other = draw.of(layers), draw.of(layers)
    if one is other or one.bias is None or other.bias is None:
        raise Impossible
    other.bias = one.bias  # of another length, perhaps


def same_storage(draw: Draw, module: nn.Module) -> None:
    """Two parameters in the same memory: after the first step they are two."""
    layer = some(draw, module, WEIGHTED)
    if layer.bias is None:
        raise Impossible
    layer.bias = nn.Parameter(layer.weight.detach().reshape(-1)[: len(layer.bias)])


class OwnTensor(torch.Tensor):
    """Another type of tensor."""


def tensor_subclass(draw: Draw, module: nn.Module) -> None:
    layer = some(draw, module, WEIGHTED)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(OwnTensor))


def one_of_another_type(draw: Draw, module: nn.Module) -> None:
    layer = some(draw, module, WEIGHTED)
    layer.to(draw.of([torch.float16, torch.bfloat16, torch.float64, torch.float32]))


def all_of_another_type(draw: Draw, module: nn.Module) -> None:
    module.to(draw.of([torch.float16, torch.bfloat16, torch.float64, torch.float32]))


def meta(draw: Draw, module: nn.Module) -> None:
    draw.of([module, some(draw, module, WEIGHTED)]).to("meta")


def no_number(draw: Draw, module: nn.Module) -> None:
    """Not in a convolution: torch itself is of two minds what NaN times its padding is."""
    layer = some(draw, module, nn.Linear)
    with torch.no_grad():
        layer.weight.view(-1)[0] = draw.of([torch.nan, torch.inf])

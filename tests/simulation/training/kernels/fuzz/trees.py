"""Random module trees: a chain of layers that fit each other, and how it is held together."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import prod

import torch
from torch import nn

from tests.simulation.training.kernels.fuzz.draw import Draw
from tests.simulation.training.kernels.fuzz.forwards import Calls, Listed, Named, as_call, odd_call

Shape = tuple[int, ...]
MOST_NUMBERS = 3000  # of one example between two layers: cases are to be quick


@dataclass
class Tree:
    """A module, and what it takes and gives."""

    module: nn.Module
    shape: Shape  # of one example
    n_classes: int
    words: list[str]  # what is odd about it


def tree(draw: Draw, odd: bool) -> Tree:
    """A module; an odd one has a layer or a call that the kernels do not know."""
    shape = _shape(draw)
    words: list[str] = []
    layers = _layers(draw, shape, words)
    n_classes = _passed(layers, shape)[0]
    if odd and draw.chance(0.4):
        _unknown_layer(draw, layers, shape, words)
        odd = False
    return Tree(_held(draw, layers, shape, odd, words), shape, n_classes, words)


def _shape(draw: Draw) -> Shape:
    if draw.chance(0.3):
        return (draw.integer(1, 40),)
    if draw.chance(0.08):
        return (draw.integer(1, 5), draw.integer(1, 8))
    return (draw.integer(1, 4), draw.integer(1, 9), draw.of([1, 3, 7, 8, 16, 17, 24, 33, 44]))


def _passed(layers: list[nn.Module], shape: Shape) -> Shape:
    """The shape of what layers give to one example."""
    x = torch.zeros(2, *shape)
    with torch.no_grad():
        for layer in layers:
            x = layer(x)
    return tuple(x.shape[1:])


def _layers(draw: Draw, shape: Shape, words: list[str]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    if draw.chance(0.1):
        layers.append(_activation(draw))
    if len(shape) == 3:
        for _ in range(draw.integer(0, 3)):
            channels, rows, columns = shape
            convolution = _convolution(draw, channels, rows, columns, words)
            if convolution is None:
                break
            layers.append(convolution)
            shape = _passed([convolution], shape)
            if draw.chance(0.5):
                layers.append(_activation(draw))
            if draw.chance(0.5) and (pool := _pool(draw, shape)) is not None:
                layers.append(pool)
                shape = _passed([pool], shape)
                if draw.chance(0.3):
                    layers.append(_activation(draw))
            if draw.chance(0.15):
                layers.append(nn.Dropout(draw.of([0.0, 0.1, 0.5, 0.75])))
    if len(shape) > 1 or draw.chance(0.1):
        layers.append(nn.Flatten())
    units = prod(shape)
    learns = any(list(layer.parameters()) for layer in layers)
    n_linear = draw.integer(0 if learns and units <= 20 else 1, 3)
    for _ in range(n_linear):
        outputs = draw.integer(1, 20)
        layers.append(nn.Linear(units, outputs, bias=draw.chance(0.8)))
        units = outputs
        if draw.chance(0.5):
            layers.append(_activation(draw))
        if draw.chance(0.1):
            layers.append(nn.Dropout(draw.of([0.1, 0.5])))
        if draw.chance(0.1):
            layers.append(nn.Identity())
    return layers


def _activation(draw: Draw) -> nn.Module:
    return draw.of([nn.ReLU, nn.Tanh, nn.Sigmoid, lambda: nn.ReLU(inplace=True)])()


def _convolution(
    draw: Draw, channels: int, rows: int, columns: int, words: list[str]
) -> nn.Module | None:
    outputs = draw.integer(1, 4)
    padding = draw.of([0, 0, 1, 2, 5]), draw.of([0, 0, 1, 3, 20])
    height = draw.integer(1, min(5, rows + 2 * padding[0]))
    width = draw.integer(1, min(40, columns + 2 * padding[1]))
    sides = rows + 2 * padding[0] - height + 1, columns + 2 * padding[1] - width + 1
    if outputs * prod(sides) > MOST_NUMBERS:
        return None
    more: dict[str, object] = {}
    if draw.chance(0.08):
        more = draw.of(
            [
                {"stride": 2}, {"dilation": (1, 2)}, {"groups": channels}, {"stride": (1, 3)},
                {"padding_mode": "circular"}, {"padding_mode": "replicate"},
            ]
        )  # fmt: skip
        if more.get("groups"):
            outputs = channels * draw.integer(1, 2)
    elif draw.chance(0.1):
        more = {"padding": draw.of(["same", "valid"])}
    settings = {"padding": padding, "bias": draw.chance(0.7)} | more
    try:
        convolution = nn.Conv2d(channels, outputs, (height, width), **settings)
        _passed([convolution], (channels, rows, columns))
    except (RuntimeError, ValueError):
        return None  # it does not fit: a dilated window, a circle longer than the image
    if width > 16:
        words.append("wide convolution")
    return convolution


def _pool(draw: Draw, shape: Shape) -> nn.Module | None:
    _, rows, columns = shape
    window = draw.integer(1, min(4, rows)), draw.integer(1, min(4, columns))
    stride = draw.of([None, 1, 2, 3, (1, 2), (5, 1)])
    if draw.chance(0.4) and min(rows, columns) >= 2:
        window, stride = draw.of([2, (2, 2)]), None
    more = draw.of([{"ceil_mode": True}, {"padding": 1}]) if draw.chance(0.06) else {}
    kind = draw.of([nn.MaxPool2d, nn.MaxPool2d, nn.AvgPool2d])
    try:
        pool = kind(window, stride, **more)
        _passed([pool], shape)
    except RuntimeError:
        return None
    return pool


def _unknown_layer(draw: Draw, layers: list[nn.Module], shape: Shape, words: list[str]) -> None:
    """Put a layer in that keeps the shape."""
    at = draw.integer(0, len(layers))
    before = _passed(layers[:at], shape)
    made = draw.of(
        [
            nn.GELU, nn.ELU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, lambda: nn.Softmax(dim=1),
            lambda: nn.LayerNorm(before[-1]), lambda: nn.AlphaDropout(0.5), lambda: nn.PReLU(),
            lambda: nn.BatchNorm2d(before[0]) if len(before) == 3 else nn.Softsign(),
            lambda: nn.Dropout2d(0.5) if len(before) == 3 else nn.Softplus(),
            lambda: nn.Flatten(1, 1), lambda: nn.Unflatten(1, (before[0], 1)),
        ]
    )()  # fmt: skip
    if isinstance(made, nn.Unflatten):
        layers[at:at] = [made, nn.Flatten(1, 2)]
    else:
        layers.insert(at, made)
    words.append(f"a layer {type(made).__name__}")


def _held(
    draw: Draw, layers: list[nn.Module], shape: Shape, odd: bool, words: list[str]
) -> nn.Module:
    """Layers as one module; an odd one calls something else between them."""
    way = draw.of(["sequence", "sequence", "nested", "named", "list", "calls", "calls"])
    if odd:
        way = "calls"
    if len(layers) == 1 and draw.chance(0.3) and not odd:
        return layers[0]
    match way:
        case "sequence":
            return nn.Sequential(*layers)
        case "nested":
            cut = draw.integer(0, len(layers))
            inner = nn.Sequential(OrderedDict(inner=nn.Sequential(*layers[:cut])))
            return nn.Sequential(inner, *layers[cut:])
        case "named":
            return Named(layers)
        case "list":
            return Listed(layers)
    steps = []
    for at, layer in enumerate(layers):
        before = _passed(layers[: at + 1], shape)
        steps.append(as_call(draw, layer, before) if draw.chance(0.6) else layer)
    if odd:
        at = draw.integer(0, len(steps))
        call = odd_call(draw)
        steps.insert(at, call)
        words.append(f"a forward that calls {call!r}")
    return Calls(steps)

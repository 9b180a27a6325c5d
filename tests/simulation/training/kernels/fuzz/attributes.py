"""Settings of layers that were changed after construction."""

from __future__ import annotations

import types
from typing import Any

from torch import nn

from tests.simulation.training.kernels.fuzz.draw import Draw
from tests.simulation.training.kernels.fuzz.parts import POOLS, WEIGHTED, some


def attribute_changed(draw: Draw, module: nn.Module) -> str:
    """A setting other than the layer was made with; some matter to torch and some do not."""
    kinds = (*WEIGHTED, *POOLS, nn.Dropout, nn.Flatten)
    layer = some(draw, module, kinds)
    name, values = draw.of(ATTRIBUTES[next(kind for kind in kinds if isinstance(layer, kind))])
    value = draw.of(values)
    setattr(layer, name, value)
    return f"{type(layer).__name__}.{name} = {value!r}"


ATTRIBUTES: dict[type[nn.Module], list[tuple[str, list[Any]]]] = {
    nn.Linear: [("in_features", [1, 10**6, None]), ("out_features", [1, 3, 10**6, 0])],
    nn.Conv2d: [
        ("in_channels", [1, 7]),
        ("out_channels", [1, 2, 9, 10**6]),
        ("kernel_size", [(1, 1), (2, 2), (3, 5), 3, (40, 40), (1, 17)]),
        ("padding", [0, 1, 2, (0, 2), (1,), [1, 0], "same", "valid", -1, (3, 30), True]),
        ("stride", [1, 2, (2, 1), (1,), [1, 1], 0]),
        ("dilation", [1, 2, (1, 2), [1, 1]]),
        ("groups", [1, 2, 3]),
        ("padding_mode", ["circular", "reflect", "replicate", "nothing"]),
        ("transposed", [True]),
    ],
    nn.MaxPool2d: [
        ("kernel_size", [1, 2, (2, 1), [2, 2], (2,), 0, -1, 2.0, True, (1, 2, 3), None]),
        ("stride", [0, (0, 1), (), None, 1, [2, 1], (1,), -1, 2.5, 100, (1, 0)]),
        ("padding", [1, (0, 1), [0], 5]),
        ("dilation", [2, (1, 2), 0, [1]]),
        ("ceil_mode", [True, 1]),
        ("return_indices", [True]),
    ],
    nn.AvgPool2d: [
        ("kernel_size", [1, 2, (2, 1), [2, 2], 0, 2.0]),
        ("stride", [0, (0, 1), (), None, 1, [2, 1], (1, 0), 100]),
        ("padding", [1, (0, 1)]),
        ("ceil_mode", [True]),
        ("count_include_pad", [False]),
        ("divisor_override", [2, 1, 0, None]),
    ],
    nn.Dropout: [
        ("p", [1.0, 1, 0, 0.0, -0.5, 2.0, 0.3, True, None, "0.5", float("nan"), 1 - 1e-12]),
        ("inplace", [True]),
        ("training", [False]),
    ],
    nn.Flatten: [("start_dim", [0, 2, -1, 1.0, True]), ("end_dim", [1, 2, 3, -2])],
}


def never_in_training(draw: Draw, module: nn.Module) -> None:
    """A layer that stays in evaluation, as frozen parts of a net do."""
    part = some(draw, module, (nn.Dropout, *WEIGHTED))
    part.eval()
    part.train = types.MethodType(lambda self, mode=True: self, part)

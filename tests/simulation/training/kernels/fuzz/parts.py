"""What operations on modules share: how they find the part they change."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.simulation.training.kernels.fuzz.draw import Draw

WEIGHTED = (nn.Linear, nn.Conv2d)
POOLS = (nn.MaxPool2d, nn.AvgPool2d)


class Impossible(Exception):
    """This module has nothing to be changed in this way."""


def some(draw: Draw, module: nn.Module, kinds: Any) -> Any:
    parts = [part for part in module.modules() if isinstance(part, kinds)]
    if not parts:
        raise Impossible
    return draw.of(parts)


def like(parameter: torch.Tensor, *shape: int) -> nn.Parameter:
    return nn.Parameter(0.3 * torch.randn(shape).to(parameter.dtype))

"""What is changed for the whole process while a case runs: its process ends with the case."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_modules

from tests.simulation.training.kernels.fuzz.draw import Draw


def patched(draw: Draw) -> tuple[str, Any]:
    """What is changed, and a function that changes it."""
    name = draw.of(list(PATCHES))
    return name, PATCHES[name]


def _doubled(kind: type[nn.Module]) -> Any:
    def change() -> None:
        own = kind.forward
        kind.forward = lambda self, x: 2 * own(self, x)  # type: ignore[assignment]

    return change


def _called_otherwise() -> None:
    own = nn.Linear.__call__
    nn.Linear.__call__ = lambda self, x: 2 * own(self, x)  # type: ignore[assignment]


PATCHES: dict[str, Any] = {
    "nn.Linear.forward is another": _doubled(nn.Linear),
    "nn.Conv2d.forward is another": _doubled(nn.Conv2d),
    "nn.ReLU.forward is another": _doubled(nn.ReLU),
    "nn.Flatten.forward is another": _doubled(nn.Flatten),
    "nn.Sequential.forward is another": _doubled(nn.Sequential),
    "nn.Linear.__call__ is another": _called_otherwise,
    "a forward hook for all modules": lambda: torch_modules.register_module_forward_hook(
        lambda _module, _inputs, outputs: 2 * outputs
    ),
    "a pre-hook for all modules": lambda: torch_modules.register_module_forward_pre_hook(
        lambda _module, inputs: (2 * inputs[0],)
    ),
    "float64 is the default type": lambda: torch.set_default_dtype(torch.float64),
}

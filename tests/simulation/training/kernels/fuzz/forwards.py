"""Modules with forwards of their own: calls that make a plain chain, and calls that do not."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from tests.simulation.training.kernels.fuzz.draw import Draw

Tensor = torch.Tensor


class Named(nn.Module):
    """Layers as attributes, called one after the other."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.n_layers = len(layers)
        for number, layer in enumerate(layers):
            setattr(self, f"layer{number}", layer)

    def forward(self, x: Tensor) -> Tensor:
        for number in range(self.n_layers):
            x = getattr(self, f"layer{number}")(x)
        return x


class Listed(nn.Module):
    """Layers in a ModuleList."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Calls(nn.Module):
    """Layers, and calls of functions between them: (name, arguments)."""

    def __init__(self, steps: list[Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(step for step in steps if isinstance(step, nn.Module))
        self.steps = [None if isinstance(step, nn.Module) else step for step in steps]
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        layers = iter(self.layers)
        for step in self.steps:
            x = next(layers)(x) if step is None else CALLS[step[0]](self, x, *step[1:])
        return x


def as_call(draw: Draw, layer: nn.Module, after: tuple[int, ...]) -> Any:
    """The same as a layer, as a call; `after` is the shape of one example behind it."""
    kind = type(layer)
    if kind is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
        return draw.of(
            [
                ("view", -1), ("view", after[0]), ("view back", after[0]), ("flatten",),
                ("torch.flatten",), ("reshape", -1), ("torch.reshape", -1), ("view len",),
            ]
        )  # fmt: skip
    if kind is nn.Dropout:
        return ("dropout", layer.p)
    if kind in (nn.MaxPool2d, nn.AvgPool2d) and not layer.ceil_mode and not layer.padding:
        return (f"F.{kind.__name__}", layer.kernel_size, layer.stride)
    names = {
        nn.ReLU: ("F.relu", "torch.relu", "x.relu", "F.relu inplace", "x.relu_"),
        nn.Tanh: ("torch.tanh", "x.tanh", "F.tanh"),
        nn.Sigmoid: ("torch.sigmoid", "x.sigmoid", "F.sigmoid"),
    }.get(kind)
    return layer if names is None else (draw.of(names),)


OUTSIDE = [0]  # counted by forwards, and by no module


def _counted(module: Calls, x: Tensor) -> Tensor:
    module.count += 1
    return x * module.count


def _counted_outside(_: Calls, x: Tensor) -> Tensor:
    OUTSIDE[0] += 1
    return x if OUTSIDE[0] < 2 else 2 * x


def _followed(_: Calls, x: Any) -> Any:
    return x if isinstance(x, fx.Proxy) else 2 * x


def _if_a_tensor(_: Calls, x: Any) -> Any:
    return 2 * x if torch.is_tensor(x) else x


def _tried(_: Calls, x: Any) -> Any:
    try:
        return x if float(x.sum()) > 0 else -x
    except (TypeError, fx.proxy.TraceError):
        return x


# name -> a function of the module, the tensor and further arguments
CALLS: dict[str, Any] = {
    "view": lambda _, x, n: x.view(x.size(0), n),
    "view back": lambda _, x, n: x.view(-1, n),
    "view len": lambda _, x: x.view(len(x), -1),
    "reshape": lambda _, x, n: x.reshape((x.shape[0], n)),
    "torch.reshape": lambda _, x, n: torch.reshape(x, (x.size()[0], n)),
    "flatten": lambda _, x: x.flatten(1),
    "torch.flatten": lambda _, x: torch.flatten(x, start_dim=1),
    "dropout": lambda module, x, p: F.dropout(x, p, training=module.training),
    "F.MaxPool2d": lambda _, x, window, stride: F.max_pool2d(x, window, stride),
    "F.AvgPool2d": lambda _, x, window, stride: F.avg_pool2d(x, window, stride),
    "F.relu": lambda _, x: F.relu(x),
    "F.relu inplace": lambda _, x: F.relu(x, inplace=True),
    "torch.relu": lambda _, x: torch.relu(x),
    "x.relu": lambda _, x: x.relu(),
    "x.relu_": lambda _, x: x.relu_(),
    "torch.tanh": lambda _, x: torch.tanh(x),
    "x.tanh": lambda _, x: x.tanh(),
    "F.tanh": lambda _, x: F.tanh(x),
    "torch.sigmoid": lambda _, x: torch.sigmoid(x),
    "x.sigmoid": lambda _, x: x.sigmoid(),
    "F.sigmoid": lambda _, x: F.sigmoid(x),
}
# what is no layer of a chain; all keep the shape
ODD: dict[str, Any] = {
    "times two": lambda _, x: 2 * x,
    "plus itself": lambda _, x: x + x,
    "residual": lambda _, x: x + torch.tanh(x),
    "clamp": lambda _, x: x.clamp(min=-0.1),
    "leaky_relu": lambda _, x: F.leaky_relu(x),
    "minus mean": lambda _, x: x - x.mean(),
    "detach": lambda _, x: x.detach(),
    "flip": lambda _, x: x.flip(-1),
    "abs": lambda _, x: abs(x),
    "negative": lambda _, x: -x,
    "rolled batch": lambda _, x: x.roll(1, 0),
    "double and back": lambda _, x: x.double().to(x.dtype),
    "permuted": lambda _, x: x.transpose(0, -1).transpose(0, -1),
    "where": lambda _, x: torch.where(x > 0, x, -x),
    "no_grad": lambda _, x: torch.no_grad()(torch.tanh)(x),
    "dropout in evaluation": lambda _, x: F.dropout(x, 0.5),
    "only in training": lambda module, x: 2 * x if module.training else x,
    "only in evaluation": lambda module, x: x if module.training else 2 * x,
    "noise": lambda _, x: x * torch.rand(1).item(),
    "a count of its own": _counted,
    "a count kept outside": _counted_outside,
    "another way when followed": _followed,
    "another way for tensors": _if_a_tensor,
    "a try": _tried,
}
CALLS |= ODD


def odd_call(draw: Draw) -> tuple[str]:
    return (draw.of(list(ODD)),)

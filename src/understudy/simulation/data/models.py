"""Models by name, and how any model gets its first weights.

Each takes the shape of one input and the number of outputs. In the convolutional ones the rectifier
comes after the pooling: both orders give the same values and the same gradients, since a maximum
commutes with anything that does not decrease, and after the pooling there is a quarter to rectify.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from types import FunctionType
from typing import Any

import torch
from torch import nn

from understudy.core.module_origin import is_standard
from understudy.core.rng import torch_seed
from understudy.core.threads import alone_in_torch
from understudy.registry import imported
from understudy.simulation.data.text.sequence_models import char_lstm, char_transformer

Model = str | nn.Module | Callable[[], nn.Module] | Mapping[str, Any]
Shape = tuple[int, ...]


def softmax_regression(shape: Shape, n_classes: int) -> nn.Module:
    """Softmax regression on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), n_classes))


def mlp(shape: Shape, n_classes: int, hidden: int = 32) -> nn.Module:
    """One hidden layer of rectified units."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, n_classes)
    )


def fdms_cnn(shape: Shape, n_classes: int) -> nn.Module:
    """FL-FDMS's network for MNIST: 10 and 20 channels, then 50 units; 21,840 parameters there.

    Notes
    -----
    The paper speaks of one layer of 320 units, its authors' code has 320 inputs to a layer of 50:
    the code is followed, without its dropout layers.

    References
    ----------
    Wang & Xu, Friends to Help: Saving Federated Learning from Client Dropout, 2022.
    """
    return _convolutional("fdms_cnn", shape, n_classes, channels=(10, 20), hidden=(50,))


def lenet5(shape: Shape, n_classes: int) -> nn.Module:
    """LeNet-5 with maximum pooling: 6 and 16 channels, then 120 and 84 units; 62,006 on CIFAR-10.

    References
    ----------
    LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998.
    """
    return _convolutional("lenet5", shape, n_classes, channels=(6, 16), hidden=(120, 84))


def fedgs_cifar(shape: Shape, n_classes: int) -> nn.Module:
    """FedGS's network for CIFAR-10: twice 64 channels, then 384 and 192 units; 797,962 there.

    References
    ----------
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, AAAI
    2023.
    """
    return _convolutional("fedgs_cifar", shape, n_classes, channels=(64, 64), hidden=(384, 192))


def fedgs_fmnist(shape: Shape, n_classes: int) -> nn.Module:
    """FedGS's network for Fashion-MNIST: 32 and 64 channels, then 512 units; 1,663,370 there.

    References
    ----------
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, AAAI
    2023.
    """
    return _convolutional(
        "fedgs_fmnist", shape, n_classes, channels=(32, 64), hidden=(512,), padding=2
    )


def resnet18(shape: Shape, n_classes: int, groups: int = 32) -> nn.Module:
    """ResNet-18 for small images, with group normalisation; 11,173,962 parameters on CIFAR-10.

    Parameters
    ----------
    shape : tuple of int
        (channels, height, width).
    n_classes : int
        C.
    groups : int
        Groups of channels that are normalised together.

    Notes
    -----
    The stem is one 3×3 convolution without pooling, as usual for images of 32×32. Group
    normalisation instead of batch normalisation: statistics of batches drift apart where clients
    hold different classes.

    References
    ----------
    He et al., Deep Residual Learning for Image Recognition, 2016.
    Wu & He, Group Normalization, 2018.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(_image("resnet18", shape)[0], 64, 3, padding=1, bias=False),
        nn.GroupNorm(groups, 64),
        nn.ReLU(),
    ]
    width = 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [
            _Residual(width, channels, stride, groups),
            _Residual(channels, channels, 1, groups),
        ]
        width = channels
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, n_classes)
    )


class _Residual(nn.Module):
    """Two 3×3 convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.GroupNorm(groups, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(groups, outputs),
        )
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(groups, outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.main(x) + self.around(x))


MODELS: dict[str, Callable[[Shape, int], nn.Module]] = {
    "softmax": softmax_regression,
    "mlp": mlp,
    "fdms_cnn": fdms_cnn,
    "lenet5": lenet5,
    "fedgs_cifar": fedgs_cifar,
    "fedgs_fmnist": fedgs_fmnist,
    "resnet18": resnet18,
    "char_lstm": char_lstm,
    "char_transformer": char_transformer,
}


def build(model: Model, shape: Shape, n_classes: int, seed: int) -> nn.Module:
    """A module whose first weights depend on `seed` alone; torch's own generator stays as it was.

    Parameters
    ----------
    model : str, dict, function or torch.nn.Module
        A name in `MODELS`; such a name with settings, as ``{"name": "mlp", "hidden": 64}``; a
        function without arguments that makes the module; a module, which is copied, weights and
        all; or ``"module:Name"`` of one of these.
    shape : tuple of int
        Shape of one input.
    n_classes : int
        Outputs: C classes, or the targets of a regression.
    seed : int
        The run's seed.
    """
    settings: dict[str, Any] = {}
    if isinstance(model, Mapping):
        settings = {name: value for name, value in model.items() if name != "name"}
        if "name" not in model:
            raise ValueError(f"model: expected a 'name' among its settings, got {dict(model)}")
        model = model["name"]
    if isinstance(model, nn.Module):
        return copy.deepcopy(model)
    if isinstance(model, str) and ":" in model:
        model = _refused_unless_model(imported(model), model)
        if isinstance(model, nn.Module):
            return copy.deepcopy(model)
    if isinstance(model, str):
        if model not in MODELS:
            names = ", ".join(repr(name) for name in MODELS)
            raise ValueError(
                f"model: expected one of {names}, a function or a module, got {model!r}"
            )
        if n_classes < 1:
            raise ValueError(f"n_classes: {model!r} needs at least one output, got {n_classes}")
    with alone_in_torch(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(torch_seed(seed, "model"))
        make: Any = partial(MODELS[model], shape, n_classes) if isinstance(model, str) else model
        module = make(**settings)
    if not isinstance(module, nn.Module):
        raise TypeError(f"model: expected a function that returns a module, got {module!r} from it")
    return module


def is_builtin(model: Model) -> bool:
    """Whether it is one of `MODELS`, with settings or without."""
    name = model.get("name") if isinstance(model, Mapping) else model
    return isinstance(name, str) and name in MODELS


def _refused_unless_model(found: Any, place: str) -> Any:
    """What ``module:Name`` stands for, looked at before it is called: it may be anybody's."""
    made = found
    while isinstance(made, partial):
        made = made.func
    is_class = isinstance(made, type) and issubclass(made, nn.Module)
    # no function of the standard library makes a model, and some of them run commands
    is_function = isinstance(made, FunctionType) and not is_standard(made.__module__)
    if not (isinstance(made, nn.Module) or is_class or is_function):
        raise TypeError(
            f"model: expected {place!r} to be a torch module, a class of them or a function that "
            f"makes one, got {found!r}"
        )
    return found


def _image(name: str, shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ValueError(
            f"model: {name!r} takes images (channels, height, width), got inputs of shape {shape}"
        )
    channels, height, width = shape
    return channels, height, width


def _convolutional(
    name: str,
    shape: Shape,
    n_classes: int,
    channels: tuple[int, ...],
    hidden: tuple[int, ...],
    padding: int = 0,
) -> nn.Module:
    """Convolutions of 5×5, each halved by pooling and rectified, then fully connected layers."""
    width, *sides = _image(name, shape)
    layers: list[nn.Module] = []
    for outputs in channels:
        layers += [nn.Conv2d(width, outputs, 5, padding=padding), nn.MaxPool2d(2), nn.ReLU()]
        sides = [(side + 2 * padding - 4) // 2 for side in sides]
        width = outputs
        if min(sides) < 1:
            raise ValueError(f"model: {name!r} needs larger images than {shape[1]}×{shape[2]}")
    layers.append(nn.Flatten())
    units = width * prod(sides)
    for outputs in hidden:
        layers += [nn.Linear(units, outputs), nn.ReLU()]
        units = outputs
    return nn.Sequential(*layers, nn.Linear(units, n_classes))

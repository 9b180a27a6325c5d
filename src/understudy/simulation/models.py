"""Small models by name, and how any model gets its first weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import prod

import torch
from torch import nn

from understudy.rng import torch_seed

Model = str | nn.Module | Callable[[], nn.Module]


def softmax_regression(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Softmax regression on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), n_classes))


def mlp(shape: tuple[int, ...], n_classes: int, hidden: int = 32) -> nn.Module:
    """One hidden layer of rectified units."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, n_classes)
    )


MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "softmax": softmax_regression,
    "mlp": mlp,
}


def build(model: Model, shape: tuple[int, ...], n_classes: int, seed: int) -> nn.Module:
    """A module whose first weights depend on `seed` alone; torch's own generator stays as it was.

    Parameters
    ----------
    model : str, function or torch.nn.Module
        A name in `MODELS`; a function without arguments that makes the module; or a module, which
        is copied, weights and all.
    shape : tuple of int
        Shape of one input.
    n_classes : int
        C.
    seed : int
        The run's seed.
    """
    if isinstance(model, nn.Module):
        return copy.deepcopy(model)
    if isinstance(model, str) and model not in MODELS:
        names = ", ".join(repr(name) for name in MODELS)
        raise ValueError(f"model: expected one of {names}, a function or a module, got {model!r}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(torch_seed(seed, "model"))
        module = MODELS[model](shape, n_classes) if isinstance(model, str) else model()
    if not isinstance(module, nn.Module):
        raise TypeError(f"model: expected a function that returns a module, got {module!r} from it")
    return module

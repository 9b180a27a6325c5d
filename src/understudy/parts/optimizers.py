"""Clients' optimizers: the classes of `torch.optim` by name, with their options as plain data."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from understudy.parts.local import Local

# They need something that a step on a batch does not have.
REFUSED = {
    "lbfgs": "evaluates the loss several times in a step",
    "sparseadam": "takes sparse gradients only",
    "muon": "takes matrices only, and models have biases",
}
# Fields of `Local` that are arguments of optimizers.
OF_LOCAL = ("lr", "momentum", "weight_decay")


def optimizer_class(name: object) -> type[torch.optim.Optimizer]:
    """A class of `torch.optim` by its name, in upper or lower case."""
    known = {
        key.lower(): value
        for key, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
    }
    del known["optimizer"]
    key = name.lower() if isinstance(name, str) else ""
    if key in REFUSED:
        raise ValueError(
            f"optimizer: expected one that steps on any batch, got {name!r}, which {REFUSED[key]}"
        )
    if key not in known:
        words = ", ".join(repr(other) for other in sorted(known.keys() - REFUSED))
        raise ValueError(f"optimizer: expected one of {words}, got {name!r}")
    return known[key]


def check_optimizer(local: Local) -> None:
    """Refuse an unknown optimizer, and options that it does not have or that `Local` has."""
    if not isinstance(local.optimizer_options, Mapping):
        raise TypeError(
            f"optimizer_options: expected a table of options, got {local.optimizer_options!r}"
        )
    if local.plain_sgd:
        return
    cls = optimizer_class(local.optimizer)
    known = _arguments(cls)
    for name, value in local.optimizer_options.items():
        if name in OF_LOCAL:
            raise ValueError(f"optimizer_options: {name!r} is a field of Local; write {name}=…")
        if name not in known:
            words = ", ".join(option for option in known if option not in OF_LOCAL)
            raise ValueError(
                f"optimizer_options: expected options of {cls.__name__}, which are {words}, got "
                f"{name!r}"
            )
        if not _is_plain(value):
            raise TypeError(
                f"optimizer_options[{name!r}]: expected numbers or text, so that they can be sent, "
                f"got {value!r}"
            )
    for name in ("momentum", "weight_decay"):
        if getattr(local, name) and name not in known:
            raise ValueError(
                f"{name}: expected 0, since {cls.__name__} has none, got {getattr(local, name)!r}"
            )
    _check_values(cls, local)


def _check_values(cls: type[torch.optim.Optimizer], local: Local) -> None:
    """Let the class look at its options; without parameters, since these would load its compiler.

    Torch's classes look at their options first, and only then miss the parameters.
    """
    try:
        cls([], **_given(cls, local, local.lr))
    except Exception as error:
        if "empty parameter list" not in str(error):
            raise ValueError(
                f"optimizer_options: {cls.__name__} refuses {dict(local.optimizer_options)}: "
                f"{error}"
            ) from error


def make_optimizer(
    local: Local, parameters: Iterable[torch.nn.Parameter], lr: float
) -> torch.optim.Optimizer:
    """A new optimizer without memory, for one client's round."""
    cls = optimizer_class(local.optimizer)
    return cls(parameters, **_given(cls, local, lr))


def _given(cls: type[torch.optim.Optimizer], local: Local, lr: float) -> dict[str, Any]:
    known = _arguments(cls)
    own: dict[str, Any] = {
        name: getattr(local, name) for name in ("momentum", "weight_decay") if name in known
    }
    # a study's file has lists where torch wants tuples
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in local.optimizer_options.items()
    }
    return {"lr": lr, **own, **options}


def _arguments(cls: type[torch.optim.Optimizer]) -> list[str]:
    return [name for name in inspect.signature(cls).parameters if name != "params"]


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | str | Real)

"""Which library computes convolutions, oneDNN or torch itself, and what a forward pass costs.

By a rule, never by the clock: oneDNN loses on one-channel inputs and on small calls and wins on
larger ones. The two differ in the last bits, so the choice is part of a run and stored with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from understudy.core.threads import alone_in_torch
from understudy.simulation.training.targets import outputs_for

LARGE_CALL = 4e6  # multiply-adds of one convolution call from which oneDNN wins
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of one example's forward pass, as far as layers tell, and the kernels' rule."""

    per_example: float
    onednn: bool


def measure(module: nn.Module, example: torch.Tensor, batch_size: int) -> Cost:
    """Pass one example through, and count what convolutions and linear layers multiply."""
    total, favoured = 0.0, 0.0

    def count(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        nonlocal total, favoured
        if isinstance(layer, nn.Linear):
            total += output.numel() * layer.in_features
        elif isinstance(layer, CONVOLUTIONS):
            channels = layer.in_channels // layer.groups
            kernel = layer.weight[0, 0].numel()
            work = output.numel() * channels * kernel
            total += work
            if channels > 1 and work * batch_size >= LARGE_CALL:
                favoured += work

    hooks = [layer.register_forward_hook(count) for layer in module.modules()]
    try:
        outputs_for(module, example)
    finally:
        for hook in hooks:
            hook.remove()
    convolves = any(isinstance(layer, CONVOLUTIONS) for layer in module.modules())
    parameters = sum(parameter.numel() for parameter in module.parameters())
    # a model without such layers: each parameter is used about once
    return Cost(total or float(parameters), not convolves or favoured >= total / 2)


@contextmanager
def kernels(onednn: bool) -> Iterator[None]:
    """Convolutions by oneDNN or not, on one thread: two gain nothing on small models here.

    The flags are the process's, so other threads that ask for kernels wait until these are done.
    """
    with alone_in_torch():
        yield from _flagged(onednn)


def _flagged(onednn: bool) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        # torch tells of TF32 on graphics cards when the flags are touched
        warnings.simplefilter("ignore")
        flags = torch.backends.mkldnn.flags(enabled=onednn)
        flags.__enter__()
    try:
        # with oneDNN off, NNPACK takes over from batches of 16 on, and is slower
        # mixed precision around a run would cast weights once, and not see them change
        with torch.backends.nnpack.flags(enabled=False), torch.autocast("cpu", enabled=False):
            yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags.__exit__(None, None, None)
        torch.set_num_threads(threads)

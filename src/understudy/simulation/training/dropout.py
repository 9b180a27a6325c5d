"""Which units a dropout layer keeps: decided by address, like everything that is drawn.

A generator without state: the bits at an address are a mixture of the address. The compiled kernels
compute the same in C, so a plain chain with dropout is trained alike by every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from understudy.core.types import Floats

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD = 2**64 - 1


def factors(seed: int, step: int, layer: int, n: int, p: float, first: int = 0) -> Floats:
    """(n,) what a dropout layer multiplies by: 0 with probability p < 1, else 1 / (1 − p).

    `seed` has 64 bits: ``torch_seed(seed, "dropout", …)`` of the run, the round and the client;
    `step` is the client's local step, `layer` the number of the dropout layer in the order of their
    calls, `first` the position of the first number in the batch, in the order of its memory.

    SplitMix64 (Steele, Lea & Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014)
    counts with the golden ratio and mixes the count; here the count begins where seed, step and
    layer say.
    """
    stream = _mixed(seed)
    for coordinate in (step, layer):
        stream = _mixed(stream + coordinate)
    with np.errstate(over="ignore"):
        words = np.arange(first, first + n, dtype=np.uint64) * np.uint64(_GOLDEN)
        words += np.uint64(stream)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(_FIRST)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(_SECOND)
        words ^= words >> np.uint64(31)
    kept = (words >> np.uint64(32)) >= np.uint64(int(p * 2**32))
    return np.where(kept, 1 / (1 - p), 0.0)


def _mixed(word: int) -> int:
    word &= _WORD
    word = ((word ^ (word >> 30)) * _FIRST) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND) & _WORD
    return word ^ (word >> 31)


class AddressedDropout(TorchFunctionMode):
    """Lets dropout layers, and calls of torch's `dropout`, multiply by `factors`."""

    def __init__(self) -> None:
        super().__init__()
        self._seed = self._step = self._layer = 0

    def begin(self, seed: int) -> None:
        """A client's first step comes next."""
        self._seed, self._step = seed, 0

    def outputs(self, module: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        """What a module in training says; each call is one step of the client."""
        self._layer = 0
        with self:
            outputs: torch.Tensor = module(inputs)
        self._step += 1
        return outputs

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func is not F.dropout:
            return func(*args, **given)
        return self._dropped(*args, **given)

    def _dropped(
        self, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        if not training or p == 0:
            return x
        own = factors(self._seed, self._step, self._layer, x.numel(), p)
        self._layer += 1
        return x * torch.from_numpy(own).to(x).reshape(x.shape)

"""Maximum pooling of 2 × 2 windows without branches, for our own worker processes.

torch's kernel asks of every number whether it is larger, which a processor mispredicts half of the
time: it was a quarter of a step of a small network. This one compares whole rows. Values and
indices are the same (of zeros of either sign another may be taken), so nothing but the time depends
on it; and it replaces torch's kernel in processes that do nothing else than train, never in the
user's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch

from understudy.types import Ints

WORTH_IT = 8192  # numbers, below which torch's kernel is quicker
WIDEST = 126  # of an input: offsets within a window are kept in a byte

Pooled = tuple[torch.Tensor, torch.Tensor]  # values, and where in its plane each one stood


def pool_2x2(x: torch.Tensor) -> Pooled:
    """(n, C, H/2, W/2) maxima of 2 × 2 windows and their indices; H and W even, no NaN expected."""
    n, channels, height, width = x.shape
    flat = x.numpy().reshape(-1)
    left, right = flat[0::2], flat[1::2]
    larger = np.maximum(left, right).reshape(-1, 2, width // 2)
    at_right = np.greater(right, left).reshape(-1, 2, width // 2).view(np.int8)
    upper, lower = larger[:, 0], larger[:, 1]
    values = np.maximum(upper, lower)
    from_lower = np.greater(lower, upper)  # on a tie the first stays, as in torch
    offset = at_right[:, 1] + np.int8(width) - at_right[:, 0]
    offset *= from_lower
    offset += at_right[:, 0]
    index = _corners(height, width) + offset.reshape(n * channels, -1)
    shape = (n, channels, height // 2, width // 2)
    return torch.from_numpy(values.reshape(shape)), torch.from_numpy(index.reshape(shape))


@lru_cache(maxsize=16)
def _corners(height: int, width: int) -> Ints:
    """(1, H/2 · W/2) where in its plane each window begins."""
    rows = np.arange(0, height, 2, dtype=np.int64)[:, None] * width
    return (rows + np.arange(0, width, 2, dtype=np.int64)).reshape(1, -1)


def _kernel(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Pooled:
    """What torch calls for any maximum pooling of planes."""
    if _is_ours(x, kernel_size, stride, padding, dilation):
        values, index = pool_2x2(x.detach())
        if not torch.isnan(values.sum()):  # torch has rules of its own for what is not a number
            return values, index
    # the same windows one plane deep: torch's kernel for volumes gives the same answer
    sizes = (_pair(kernel_size), _pair(stride) if stride else (), _pair(padding), _pair(dilation))
    window, step, margin, spread = sizes
    values, index = torch.ops.aten.max_pool3d_with_indices.default(
        x.unsqueeze(-3),
        [1, *window],
        [1, *step] if step else [],
        [0, *margin],
        [1, *spread],
        ceil_mode,
    )
    return values.squeeze(-3), index.squeeze(-3)


def _is_ours(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> bool:
    return (
        x.ndim == 4
        and x.numel() >= WORTH_IT
        and x.dtype is torch.float32
        and x.is_contiguous()
        and _pair(kernel_size) == (2, 2)
        and (not stride or _pair(stride) == (2, 2))
        and not any(padding)
        and _pair(dilation) == (1, 1)
        and not x.shape[2] % 2
        and not x.shape[3] % 2
        and x.shape[3] <= WIDEST
    )


def _pair(sizes: Sequence[int]) -> tuple[int, int]:
    return (sizes[0], sizes[-1])


_library: torch.library.Library | None = None


def install() -> None:
    """Use this kernel in this process from now on."""
    global _library
    if _library is None:
        _library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that another kernel is replaced is the purpose
            _library.impl("max_pool2d_with_indices", _kernel, "CPU")  # type: ignore[no-untyped-call]

"""How the kernels make numbers of images that are kept as bytes: to the bits of torch, or not."""

from __future__ import annotations

import numpy as np
import torch

from understudy.memory.pixels import BYTES, Pixels
from understudy.simulation.training.kernels.library import Library
from understudy.simulation.training.kernels.memory import Located, memory
from understudy.simulation.training.kernels.plan import Plan

INT64, FLOAT32, UINT8 = np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.uint8)
SHORTEST = 16  # numbers of a channel from which vectors are used: a register of AVX-512


def unpacking(x: Pixels, plan: Plan, library: Library) -> Located | None:
    """The struct `pixels` of ``kernels.c`` for some inputs, for one thread.

    None where the kernels would not come to the same bits as torch, or would be slow: then the
    inputs have to be plain numbers.
    """
    n_channels = x.scaling.n_channels
    size = plan.n_inputs // n_channels
    if plan.dtype != FLOAT32 or size * n_channels != plan.n_inputs or size < SHORTEST:
        return None
    found = torch.stack([_by_kernels(x, channel, library) for channel in range(n_channels)], dim=1)
    if not torch.equal(found.view(torch.int32), x.scaling.of_bytes().view(torch.int32)):
        return None
    into = np.empty(plan.chunk * plan.n_inputs, dtype=FLOAT32)
    return _struct(n_channels, size, into, x.scaling.terms())


def _by_kernels(x: Pixels, channel: int, library: Library) -> torch.Tensor:
    """(256,) what the kernels make of each byte in a channel."""
    every, into = np.arange(BYTES, dtype=UINT8), np.empty(BYTES, dtype=FLOAT32)
    one = _struct(1, BYTES, into, x.scaling.terms()[channel : channel + 1])
    library.unpack(
        one.address,
        memory("bytes", every, UINT8, (BYTES,)).address,
        memory("numbers", into, FLOAT32, (BYTES,), writes=True).address,
    )
    return torch.from_numpy(into)


def _struct(n_channels: int, size: int, into: np.ndarray, terms: np.ndarray) -> Located:
    """Its fields, in order; what they point to is held with them."""
    terms = np.ascontiguousarray(terms)
    room = memory("into", into, FLOAT32, into.shape, writes=True)
    scales = memory("terms", terms, FLOAT32, terms.shape)
    fields = np.array([n_channels, size, room.address, scales.address], dtype=INT64)
    return Located(memory("pixels", fields, INT64, (4,)).address, (fields, room, scales))

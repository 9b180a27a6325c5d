"""Short hashes of models and data, to tell whether a run is the same run."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.memory.pixels import Pixels

if TYPE_CHECKING:
    from understudy.simulation.data.federation import Federation


_name = lru_cache(str)  # NumPy makes it anew each time: the most of 100,000 clients' hash


def digest(*parts: object) -> str:
    """A hash of tensors, arrays and texts."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, Pixels):  # to the hash of its floats, a few at a time
            hashed.update(f"{tuple(part.shape)} float32 ".encode())
            for chunk in part.chunks():
                hashed.update(chunk.numpy().data)
            continue
        if isinstance(part, torch.Tensor):
            part = part.detach().cpu().contiguous().numpy()
        if isinstance(part, np.ndarray):
            hashed.update(f"{part.shape} {_name(part.dtype)} ".encode())
            hashed.update(np.ascontiguousarray(part).data)
        else:
            hashed.update(f"{part!r} ".encode())
    return hashed.hexdigest()


def federation_digest(federation: Federation, per_client: bool = True) -> str:
    """A hash of the data and of who holds it.

    Whose the test examples are counts where it is known, since it decides what each client's
    accuracy is measured on; not with `per_client` false, for a run that measures none.
    """
    held = [*federation.clients, *(federation.validation or ())]
    owners = federation.test_clients if per_client else None
    return digest(
        federation.x,
        federation.y,
        federation.test,
        *held,
        federation.groups,
        federation.features,
        *([] if owners is None else ["test_clients", owners]),
    )

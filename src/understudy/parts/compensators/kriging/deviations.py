"""What a memory is worth, for `Kriging`: learnt from those who come back.

A memory is trusted as far as it would have helped with those who came, each predicted from the
others, and what is left of it is what the model has not yet gone along it. Evidence is shared among
clients whose updates are about as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from understudy.core.types import Floats, Ints, Vectors

PRIOR = 0.25  # rounds' worth of evidence against trust, and for "a memory is spent at its length"
FURTHEST = 20.0  # lengths: a progress beyond is evidence like one of so many
PIECE = 1 << 20  # float64 values of a piece of all rows, 8 MB


@dataclass(frozen=True, eq=False)
class Returns:
    """Scalar products of those who came back, (b,) each.

    A deviation is a row minus the mixture of the others' rows that is nearest to it.
    """

    now: Floats  # |deviation of the updates|²
    then: Floats  # |deviation of the memories|²
    both: Floats  # <deviation of the updates, deviation of the memories>
    along: Floats  # <update, memory>, the memory as a whole
    squared: Floats  # |memory|²


def returns(
    fresh: Vectors,
    memory: torch.Tensor,
    slots: Ints,
    scale: Floats,
    left: Floats,
    weights: Floats,
    n_parameters: int,
) -> Returns:
    """One pass over the rows of those who came back.

    Parameters
    ----------
    fresh : b vectors
        Their updates.
    memory, slots : (m, d), (b,)
        Rows that are remembered, and whose they are.
    scale, left : (b,)
        η_t/η_s of each memory, and what is left of it.
    weights : (b, b)
        How each is mixed of the others.
    n_parameters : int
        Entries beyond are buffers.
    """
    b = len(slots)
    mixed: Any = weights
    if np.count_nonzero(weights) < b * b / 4:
        from scipy.sparse import csr_array  # here: it takes a while, and memory

        mixed = csr_array(weights)
    sums = np.zeros((5, b))
    for updates, remembered in _pieces(fresh, memory, slots, n_parameters):
        remembered *= scale[:, None]
        sums[3] += (updates * remembered).sum(axis=1)
        sums[4] += (remembered * remembered).sum(axis=1)
        remembered *= left[:, None]
        now, then = updates - mixed @ updates, remembered - mixed @ remembered
        sums[0] += (now * now).sum(axis=1)
        sums[1] += (then * then).sum(axis=1)
        sums[2] += (now * then).sum(axis=1)
    return Returns(*sums)


def _pieces(
    fresh: Vectors, memory: torch.Tensor, slots: Ints, n_parameters: int
) -> Iterator[tuple[Floats, Floats]]:
    width = max(256, PIECE // max(1, len(slots)))
    where = torch.from_numpy(slots).to(memory.device)
    for start in range(0, n_parameters, width):
        cut = slice(start, min(start + width, n_parameters))
        if isinstance(fresh, torch.Tensor):
            updates = fresh[:, cut]
        else:
            updates = torch.stack([row[cut] for row in fresh])
        yield _doubles(updates), _doubles(memory[:, cut][where])


def _doubles(rows: torch.Tensor) -> Floats:
    found: Floats = rows.detach().cpu().to(torch.float64, copy=True).numpy()
    return found


def alike(length: Floats, width: float, of: Ints) -> Floats:
    """(len(of), N) how much clients share evidence: by the difference of their log lengths."""
    apart = (length[of][:, None] - length[None, :]) / width
    return np.asarray(np.exp(-0.5 * apart**2))


def trust(kernel: Floats, agreement: Floats, size: Floats) -> Floats:
    """a in [0, 1]: regression of the deviation now on the one remembered, with a prior of 0."""
    return np.clip(kernel @ agreement / (kernel @ size + PRIOR), 0, 1)


def left_of(kernel: Floats, spent: Floats, gone: Floats, progress: Floats) -> Floats:
    """l in [0, 1]: 1 − r·g, r how much of a memory one of its lengths takes; 1 without evidence."""
    rate = np.clip((kernel @ spent + PRIOR) / (kernel @ gone + PRIOR), 0, 1)
    return np.clip(1 - rate * progress, 0, 1)

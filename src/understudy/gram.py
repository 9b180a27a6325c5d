"""Scalar products of updates, all pairs at once."""

from __future__ import annotations

import numpy as np
import torch

from understudy.types import Floats, Vectors

ENTRIES = 2**22  # numbers held in double precision at a time


def gram(vectors: Vectors, n_parameters: int) -> Floats:
    """(k, k) scalar products of k vectors over their first `n_parameters` entries, in float64.

    Taken in slices, so that k vectors of a large model need no second copy. One BLAS call per
    slice: for a thousand updates of 60,000 entries some forty times faster than a loop over pairs.
    """
    k = len(vectors)
    total = np.zeros((k, k))
    step = max(1024, ENTRIES // max(1, k))
    for start in range(0, n_parameters, step):
        part = slice(start, min(start + step, n_parameters))
        if isinstance(vectors, torch.Tensor):
            rows = vectors[:, part]
        else:
            rows = torch.stack([vector[part] for vector in vectors])
        block = rows.detach().double().cpu().numpy()
        total += block @ block.T
    return total


def cosines(products: Floats) -> Floats:
    """Cosine of each pair from their scalar products; 0 where one of the two is zero."""
    norms = np.sqrt(np.diag(products))
    scale = np.outer(norms, norms)
    cosine = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return np.asarray(np.clip(cosine, -1.0, 1.0))


def distances(products: Floats) -> Floats:
    """Euclidean distance of each pair from their scalar products."""
    squares = np.diag(products)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0)))

"""Cosines and distances of updates, all pairs at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from understudy.core.types import Floats, Vectors

ENTRIES = 2**22  # numbers held in double precision at a time


def cosines(vectors: Vectors, n_parameters: int) -> Floats:
    """(k, k) cosine of each pair over the first `n_parameters` entries; 0 where one is zero."""
    largest = _largest(vectors, n_parameters)
    products = _gram(vectors, n_parameters, largest)
    norms = np.sqrt(np.diag(products))
    scale = np.outer(norms, norms)
    cosine = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return np.asarray(np.clip(cosine, -1.0, 1.0))


def distances(vectors: Vectors, n_parameters: int) -> Floats:
    """(k, k) Euclidean distance of each pair over the first `n_parameters` entries."""
    largest = float(_largest(vectors, n_parameters).max(initial=0.0)) or 1.0
    products = _gram(vectors, n_parameters, np.full(len(vectors), largest))
    squares = np.diag(products)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0))
    with np.errstate(over="ignore"):  # a hostile update is as far as a number goes
        return np.asarray(np.minimum(apart * largest, np.finfo(np.float64).max))


def _largest(vectors: Vectors, n_parameters: int) -> Floats:
    """(k,) largest absolute entry of each vector: divided by it, no square leaves the range."""
    return np.array([float(vector[:n_parameters].abs().max()) for vector in vectors])


def _gram(vectors: Vectors, n_parameters: int, scale: Floats) -> Floats:
    """(k, k) scalar products in float64, each vector divided by its scale (if that is not zero).

    Taken in slices, so that k vectors of a large model need no second copy. One BLAS call per
    slice, where a loop over pairs would read every vector k times.
    """
    total = np.zeros((len(vectors), len(vectors)))
    divisor = np.where(scale > 0, scale, 1.0)[:, None]
    for block in _slices(vectors, n_parameters):
        block /= divisor
        total += block @ block.T
    return total


def _slices(vectors: Vectors, n_parameters: int) -> Iterator[Floats]:
    step = max(1024, ENTRIES // max(1, len(vectors)))
    for start in range(0, n_parameters, step):
        part = slice(start, min(start + step, n_parameters))
        if isinstance(vectors, torch.Tensor):
            rows = vectors[:, part]
        else:
            rows = torch.stack([vector[part] for vector in vectors])
        yield rows.detach().cpu().to(torch.float64, copy=True).numpy()

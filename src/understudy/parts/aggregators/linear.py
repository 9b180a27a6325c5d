"""`Linear`: the weighted sum of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from understudy.core.types import Contributions

# Entries of the model worked on at once: a slice of the result then stays in the cache while the
# rows pass by, and a robust statistic needs no second matrix of all rows.
SLICE = 65_536


@dataclass(frozen=True)
class Linear:
    """Σ coef · row, in the order of mention: the same bits wherever the rows lie."""

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        return linear_sum(contributions)


def linear_sum(contributions: Contributions) -> torch.Tensor:
    """(d,) Σ coef · row; the entries that are buffers with coefficients of their own, if any."""
    if contributions.buffer_coef is None:
        return _sum(contributions, 0, None)
    n = contributions.n_parameters
    of_buffers = replace(contributions, coef=contributions.buffer_coef)
    return torch.cat([_sum(contributions, 0, n), _sum(of_buffers, n or 0, None)])


def _sum(contributions: Contributions, first: int, end: int | None) -> torch.Tensor:
    """Σ coef · row over the entries from `first` to `end`."""
    rows, coefs = contributions.by_row()
    vectors = [contributions.vector(row)[first:end] for row in rows.tolist()]
    update = torch.zeros_like(vectors[0])
    terms = list(zip(vectors, coefs.tolist(), strict=True))
    if len(update) <= SLICE and all(vector.device == update.device for vector in vectors):
        for vector, coef in terms:  # a small model, without the cost of slicing
            update.add_(vector, alpha=coef)
        return update
    for part in slices(len(update)):
        for vector, coef in terms:
            update[part].add_(vector[part].to(update.device), alpha=coef)
    return update


def slices(size: int) -> Iterator[slice]:
    """Pieces of a vector that fit into the cache."""
    return (slice(start, start + SLICE) for start in range(0, size, SLICE))

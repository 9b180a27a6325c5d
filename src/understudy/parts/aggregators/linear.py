"""`Linear`: the weighted sum of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from understudy.core.types import Contributions

# Entries of the model worked on at once: a slice of the result then stays in the cache while the
# rows pass by, and a robust statistic needs no second matrix of all rows.
SLICE = 65_536
BLOCK = 2**25  # bytes of rows that are summed up before the next ones are looked at
FEW = 1024  # rows of a small model that are looked up together


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
    update = torch.zeros_like(contributions.vector(int(rows[0]))[first:end])
    # a few rows after the other: a memory in a file is read once, from its beginning to its end
    # where clients came in their order, and no more of it has to be in memory
    few = min(FEW, max(1, BLOCK // max(1, update.nbytes)))
    contributions.read_ahead(rows[:few])
    for start in range(0, len(rows), few):
        contributions.read_ahead(rows[start + few : start + 2 * few])
        vectors = [row[first:end] for row in contributions.vectors(rows[start : start + few])]
        terms = list(zip(vectors, coefs[start : start + few].tolist(), strict=True))
        if len(update) <= SLICE:  # a small model, without the cost of slicing
            for vector, coef in terms:
                update.add_(vector.to(update.device), alpha=coef)
            continue
        for part in slices(len(update)):
            for vector, coef in terms:
                update[part].add_(vector[part].to(update.device), alpha=coef)
    return update


def slices(size: int) -> Iterator[slice]:
    """Pieces of a vector that fit into the cache."""
    return (slice(start, start + SLICE) for start in range(0, size, SLICE))

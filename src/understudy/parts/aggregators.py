"""From contributions to one update: the weighted sum, or a robust statistic of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Contributions, Floats

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

# Entries of the model worked on at once: a slice of the result then stays in the cache while the
# rows pass by, and a robust statistic needs no second matrix of all rows.
SLICE = 65_536


@dataclass(frozen=True)
class Linear:
    """Σ coef · row, in the order of mention: the same bits wherever the rows lie."""

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        rows, coefs = contributions.by_row()
        vectors = [contributions.vector(row) for row in rows.tolist()]
        update = torch.zeros_like(vectors[0])
        terms = list(zip(vectors, coefs.tolist(), strict=True))
        if len(update) <= SLICE and all(vector.device == update.device for vector in vectors):
            for vector, coef in terms:  # a small model, without the cost of slicing
                update.add_(vector, alpha=coef)
            return update
        for part in _slices(len(update)):
            for vector, coef in terms:
                update[part].add_(vector[part].to(update.device), alpha=coef)
        return update


@dataclass(frozen=True)
class Median:
    """Coordinate-wise weighted median of the distinct rows.

    A row's weight is the sum of its coefficients; weights are normalised, and the result is
    multiplied by their sum. Where the weight splits exactly in halves the two middle values are
    averaged, so that with equal weights this is the ordinary median.
    """

    def check(self, strategy: Strategy) -> None:
        _refuse_signed(self, strategy)

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        def median(values: torch.Tensor, upto: torch.Tensor) -> torch.Tensor:
            half = 0.5
            tolerance = 1e-9  # of weights that are sums of floats
            low = (upto >= half - tolerance).int().argmax(dim=0, keepdim=True)
            high = (upto > half + tolerance).int().argmax(dim=0, keepdim=True)
            both = values.gather(0, low) + values.gather(0, high)
            return both[0] / 2

        return _robust(contributions, median)


@dataclass(frozen=True)
class TrimmedMean:
    """Coordinate-wise weighted mean without the outer `share` of the weight on each side.

    Parameters
    ----------
    share : float
        In [0, 0.5). With equal weights and share = j/n the j smallest and the j largest of n values
        are left out; a row at the border counts with what remains of its weight.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        checks.number("share", self.share, low=0, high=0.5, high_open=True)

    def check(self, strategy: Strategy) -> None:
        _refuse_signed(self, strategy)

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        low, high = self.share, 1 - self.share

        def trimmed(values: torch.Tensor, upto: torch.Tensor) -> torch.Tensor:
            before = torch.cat([torch.zeros_like(upto[:1]), upto[:-1]])
            kept = upto.clamp(low, high) - before.clamp(low, high)  # overlap with [low, high]
            return (values * kept).sum(dim=0) / (high - low)

        return _robust(contributions, trimmed)


def _robust(
    contributions: Contributions, statistic: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """`statistic` of (rows sorted per coordinate, cumulative weight up to each), × Σ coef."""
    rows, coefs = contributions.by_row()
    vectors = [contributions.vector(row) for row in rows.tolist()]
    total = float(coefs.sum())
    update = torch.zeros_like(vectors[0])
    if total <= 0:
        return update
    weight = torch.from_numpy(_normalised(coefs)).to(update.device)
    for part in _slices(len(update)):
        stacked = torch.stack([vector[part].to(update.device) for vector in vectors]).double()
        values, order = stacked.sort(dim=0, stable=True)
        update[part] = (statistic(values, weight[order].cumsum(dim=0)) * total).to(update.dtype)
    return update


def _normalised(coefs: Floats) -> Floats:
    return np.asarray(coefs / coefs.sum(), dtype=np.float64)


def _refuse_signed(aggregator: object, strategy: Strategy) -> None:
    if strategy.compensator.signed:
        raise ValueError(
            f"aggregator: {type(aggregator).__name__} takes weights, which must not be negative; "
            f"{type(strategy.compensator).__name__} gives signed coefficients (use Linear)"
        )


def _slices(size: int) -> Iterator[slice]:
    return (slice(start, start + SLICE) for start in range(0, size, SLICE))

"""`Median`, `TrimmedMean`: what one row, however large, moves only so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Contributions, Floats
from understudy.parts.aggregators.linear import slices

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

CLOSE = 1e-9  # tolerance of shares of weight, which are sums of floats


@dataclass(frozen=True)
class Median:
    """Coordinate-wise weighted median of the distinct rows.

    A row's weight is the sum of its coefficients; weights are normalised, and the result is
    multiplied by their sum. Where the weight splits exactly in halves the two middle values are
    averaged, so that with equal weights this is the ordinary median. A client whose number of
    examples no `Population` confirms has one vote, whatever it claims.

    Parameters
    ----------
    min_rows : int
        With fewer rows of clients no step is taken, and the note ``too_few_rows`` says how many
        there were. 1: every round steps.
    mixtures : bool
        Whether a mixture counts like any other row: `FDMS` represents the absent who have no friend
        by the mean of those who came, which each of these moves as it likes. False: its weight goes
        to the rows of clients, in proportion to what each carries for itself.

    Notes
    -----
    It holds against rows that together have less than half of the weight, and the note
    ``rows_held`` says how many rows that is in a round. The median of two rows is their mean, and
    one client moves it wherever it wants: rows_held is 0. Three or four rows of equal weight hold
    against one. Where one row, or a mixture, has half of the weight because it stands in for many,
    no number of rows helps, and rows_held is 0 as well.
    """

    min_rows: int = added("0.2", 1)
    mixtures: bool = added("0.2", True)
    ignores_claims = True

    def __post_init__(self) -> None:
        checks.integer("min_rows", self.min_rows, low=1)
        checks.choice("mixtures", self.mixtures, (True, False))

    def notes(self, contributions: Contributions) -> dict[str, float]:
        counted = _counted(contributions, self.mixtures)
        return {"rows_held": rows_held(counted, lambda weight: weight < 0.5 - CLOSE)}

    def check(self, strategy: Strategy) -> None:
        _refuse_signed(self, strategy)

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        def median(values: torch.Tensor, upto: torch.Tensor) -> torch.Tensor:
            half = 0.5
            low = (upto >= half - CLOSE).int().argmax(dim=0, keepdim=True)
            high = (upto > half + CLOSE).int().argmax(dim=0, keepdim=True)
            both = values.gather(0, low) + values.gather(0, high)
            return both[0] / 2

        return _robust(_counted(contributions, self.mixtures), median)


@dataclass(frozen=True)
class TrimmedMean:
    """Coordinate-wise weighted mean without the outer `share` of the weight on each side.

    Parameters
    ----------
    share : float
        In [0, 0.5). With equal weights and share = j/n the j smallest and the j largest of n values
        are left out; a row at the border counts with what remains of its weight.
    min_rows : int
        As in `Median`.
    mixtures : bool
        As in `Median`.

    Notes
    -----
    It holds against rows that together have at most `share` of the weight: the note ``rows_held``
    says how many rows that is in a round. One row of n has 1/n of it, so with the default share a
    round of fewer than ten clients holds against nobody: the outermost row counts with
    (1/n − share) / (1 − 2 share), a little less than in the mean, and moves the result without
    bound. `Median`, or a share of at least 1/n together with ``min_rows=n``, holds there. Claims
    are treated as in `Median`.
    """

    share: float = 0.1
    min_rows: int = added("0.2", 1)
    mixtures: bool = added("0.2", True)
    ignores_claims = True

    def __post_init__(self) -> None:
        checks.number("share", self.share, low=0, high=0.5, high_open=True)
        checks.integer("min_rows", self.min_rows, low=1)
        checks.choice("mixtures", self.mixtures, (True, False))

    def notes(self, contributions: Contributions) -> dict[str, float]:
        counted = _counted(contributions, self.mixtures)
        return {"rows_held": rows_held(counted, lambda weight: weight <= self.share + CLOSE)}

    def check(self, strategy: Strategy) -> None:
        _refuse_signed(self, strategy)

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        low, high = self.share, 1 - self.share

        def trimmed(values: torch.Tensor, upto: torch.Tensor) -> torch.Tensor:
            before = torch.cat([torch.zeros_like(upto[:1]), upto[:-1]])
            kept = upto.clamp(low, high) - before.clamp(low, high)  # overlap with [low, high]
            return (values * kept).sum(dim=0) / (high - low)

        return _robust(_counted(contributions, self.mixtures), trimmed)


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
    for part in slices(len(update)):
        stacked = torch.stack([vector[part].to(update.device) for vector in vectors]).double()
        values, order = stacked.sort(dim=0, stable=True)
        update[part] = (statistic(values, weight[order].cumsum(dim=0)) * total).to(update.dtype)
    return update


def _counted(contributions: Contributions, mixtures: bool) -> Contributions:
    """What is aggregated: all, or clients' rows alone, which then share the weight of mixtures.

    They share it as the mean of those who came is made up: in proportion to what each row carries
    for its own client. What it carries for others must not grow beyond a cap by this.
    """
    source, coef = contributions.source, contributions.coef
    mixed = source < 0
    own = np.where(source == contributions.ids, coef, 0.0)
    if mixtures or not mixed.any() or not own.sum() > 0:
        return contributions
    coef = (coef + coef[mixed].sum() * own / own.sum())[~mixed]
    return replace(
        contributions,
        ids=contributions.ids[~mixed],
        row=contributions.row[~mixed],
        coef=coef,
        share=None,
        buffer_coef=None,
    )


def rows_held(contributions: Contributions, is_held: Callable[[float], bool]) -> float:
    """How many rows, whichever they are, may be hostile: the statistic stays within the others.

    `is_held` says whether hostile rows of some share of the weight are held. A mixture of rows is
    taken to be hostile as soon as one row is.
    """
    rows, coefs = contributions.by_row()
    if not coefs.sum() > 0:
        return 0.0
    owner = np.concatenate([block.owner for block in contributions.rows])[rows]
    weight = _normalised(coefs)
    heaviest = -np.sort(-weight[owner >= 0])
    taken = heaviest.cumsum() + weight[owner < 0].sum()
    return float(sum(is_held(share) for share in taken.tolist()))


def _normalised(coefs: Floats) -> Floats:
    return np.asarray(coefs / coefs.sum(), dtype=np.float64)


def _refuse_signed(aggregator: object, strategy: Strategy) -> None:
    if strategy.compensator.signed:
        raise ValueError(
            f"aggregator: {type(aggregator).__name__} takes weights, which must not be negative; "
            f"{type(strategy.compensator).__name__} gives signed coefficients (use Linear)"
        )

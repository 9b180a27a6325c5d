"""How far the updates of a round disagree: two numbers for servers that declare `needs_rows`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from understudy.core.types import Contributions, Floats, RoundEnd, RowSpread

ALL = "all"


def spread(which: str, end: RoundEnd, contributions: Contributions) -> RowSpread | None:
    """Σ p ‖Δ‖² and ‖Σ p Δ‖²; None where no row has a weight.

    Of the ``"fresh"`` updates, weighted by q; or of ``"all"`` rows that contributions point to,
    weighted by the sums of their coefficients: p is the absolute value, a negative row points back.
    """
    if which == ALL:
        rows, coef = contributions.by_row()
        vectors: Iterable[torch.Tensor] = (contributions.vector(row) for row in rows.tolist())
    else:
        coef, vectors = end.q[end.came], (delta for _, delta in end.arrivals)
    total = float(np.abs(coef).sum())
    if not total > 0:
        return None
    return _spread(vectors, coef / total, end.params, end.n_parameters)


def _spread(
    vectors: Iterable[torch.Tensor], share: Floats, params: torch.Tensor, n_parameters: int
) -> RowSpread:
    mean = torch.zeros(n_parameters, dtype=torch.float64, device=params.device)
    mean_square = 0.0
    for vector, p in zip(vectors, share.tolist(), strict=True):
        row = vector[:n_parameters].to(mean)
        mean.add_(row, alpha=p)
        mean_square += abs(p) * float(row.dot(row))
    return RowSpread(mean_square, float(mean.dot(mean)))

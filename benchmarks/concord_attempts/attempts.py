"""`Fresh`: Concord with FedExP's step from fresh rows where there is no conflict. It did not help.

For ``attempts.toml`` beside it: ``understudy run benchmarks/concord_attempts/attempts.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Contributions, RoundEnd
from understudy.parts.aggregators.common_direction import common_direction
from understudy.parts.aggregators.linear import linear_sum
from understudy.parts.aggregators.stand_ins import refuse_without_stand_ins, stand_ins
from understudy.server.strategy import Strategy


@dataclass(frozen=True)
class Fresh:
    """Concord whose Σc is at least FedExP's factor of the updates that came.

    Parameters
    ----------
    calm : bool
        Go there only as far as the products of the stand-ins are not negative: (1 − their share of
        the sum of absolute products)².
    """

    calm: bool = False

    def __post_init__(self) -> None:
        checks.choice("calm", self.calm, (True, False))

    def check(self, strategy: Strategy) -> None:
        refuse_without_stand_ins(self, strategy)

    def reweigh(self, contributions: Contributions, end: RoundEnd) -> Contributions:
        told = stand_ins(contributions, end.n_parameters)
        weight = common_direction(told.gram, told.share, 0.1, centred=True, bound=5.0)
        weight = told.share if weight is None else weight
        came = np.isin(told.ids, end.came)
        p, g = told.share[came] / told.share[came].sum(), told.gram[np.ix_(came, came)]
        factor = max(1.0, 0.5 * float(p @ np.diag(g)) / max(float(p @ g @ p), 1e-30))
        grown = weight.sum() / told.share.sum()
        more = factor / grown - 1
        if self.calm:
            conflict = np.abs(np.minimum(told.gram, 0)).sum() / max(np.abs(told.gram).sum(), 1e-30)
            more *= (1 - conflict) ** 2
        return told.weighted(contributions, weight * (1 + max(more, 0.0)))

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        return linear_sum(contributions)

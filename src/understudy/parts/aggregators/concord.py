"""`Concord`: a step that agrees with every client's update, or with what stands in for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Contributions, Ints, RoundEnd
from understudy.graph.similarity import most_alike
from understudy.parts.aggregators.common_direction import common_direction
from understudy.parts.aggregators.linear import linear_sum
from understudy.parts.aggregators.stand_ins import refuse_without_stand_ins, stand_ins

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass(frozen=True)
class Concord:
    """Weigh stand-ins D̂_k by c ≥ 0 such that ⟨D̂_k, Σ c_j D̂_j⟩ ≥ Σ_j s_j max(⟨D̂_k, D̂_j⟩, 0).

    Where updates conflict, their weighted mean is short, and for some clients leads back. This step
    u goes for every client at least as far along its own update as those that agree with it would
    take it, up to a ridge; so it grows under conflict.

    Parameters
    ----------
    ridge : float
        ρ > 0, in units of the mean squared norm of the stand-ins: bounds Σc.
    centred : bool
        Pull c towards the shares s and not towards 0: without conflict c is then s.
    bound : float, optional
        At least 1: no client counts more than `bound` times its share. None: no bound.
    exact : int
        With more clients than this, absent ones with the same nearest friend count as one.

    Notes
    -----
    c = argmin_{0 ≤ c ≤ bound·s} c'(G + ρI)c − 2(b + ρs)'c with G_kj = ⟨D̂_k, D̂_j⟩ in units of its
    mean diagonal and b_k = Σ_j s_j max(G_kj, 0). Buffers keep the compensator's coefficients.

    In the log: ``extrapolation`` is Σc/Σs, ``at_bound`` the share of clients at the bound, and
    ``no_direction`` 1 where the search for c did not end and the shares were taken.

    A client whose stand-in others point away from gains weight, a hostile one too: the default of
    `bound` is the largest under which none of the attacks of ``benchmarks/hostile_concord.py``
    leaves less than the plain sum of the same stand-ins does.
    """

    ridge: float = 0.1
    centred: bool = True
    bound: float | None = 5.0
    exact: int = 256

    def __post_init__(self) -> None:
        checks.number("ridge", self.ridge, low=0, low_open=True)
        checks.choice("centred", self.centred, (True, False))
        if self.bound is not None:
            checks.number("bound", self.bound, low=1)
        checks.integer("exact", self.exact, low=0)

    def check(self, strategy: Strategy) -> None:
        refuse_without_stand_ins(self, strategy)

    def reweigh(self, contributions: Contributions, end: RoundEnd) -> Contributions:
        many = len(np.unique(contributions.ids)) > self.exact
        groups = friends_groups(contributions, end.came, end.n_parameters) if many else None
        told = stand_ins(contributions, end.n_parameters, groups)
        if not len(told.ids):
            return contributions
        weight = common_direction(
            told.gram, told.share, self.ridge, centred=self.centred, bound=self.bound
        )
        notes = {} if weight is not None else {"no_direction": 1.0}
        weight = told.share if weight is None else weight
        notes["extrapolation"] = float(weight.sum() / told.share.sum())
        if self.bound is not None:
            high = weight >= self.bound * told.share * (1 - 1e-9)
            notes["at_bound"] = float(np.mean(high))
        return told.weighted(contributions, weight, notes)

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        return linear_sum(contributions)


def friends_groups(contributions: Contributions, came: Ints, n_parameters: int) -> Ints:
    """(c,) of each entry: a client of the group of its client.

    Each who came is a group, and so are the absent ones with the same nearest friend: of a client
    that its own remembered update represents most, the arrival most alike to that update; of any
    other, the row that represents most of it.
    """
    ids, row, source = contributions.ids, contributions.row, contributions.source
    weight = np.abs(contributions.coef)
    absent = (weight > 0) & ~np.isin(ids, came)
    entry = np.flatnonzero(absent)
    entry = entry[np.lexsort((entry, source[entry] != ids[entry], -weight[entry], ids[entry]))]
    clients, first = np.unique(ids[entry], return_index=True)
    nearest = row[entry[first]]
    by_itself = source[entry[first]] == clients
    arrived = np.unique(row[(source == ids) & np.isin(ids, came)])
    if len(arrived) and by_itself.any():
        own = contributions.vectors(nearest[by_itself])
        nearest[by_itself] = arrived[most_alike(own, contributions.vectors(arrived), n_parameters)]
    _, leader, which = np.unique(nearest, return_index=True, return_inverse=True)
    group = np.arange(ids.max(initial=-1) + 1)
    group[clients] = clients[leader[which]]
    return np.asarray(group[ids])

"""`FedFV` (Wang et al., 2021): conflicts between updates are projected away before the mean."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Bools, Contributions, Floats, Ints, RoundEnd
from understudy.parts.aggregators.linear import linear_sum
from understudy.parts.aggregators.stand_ins import refuse_without_stand_ins, stand_ins

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass(frozen=True)
class FedFV:
    """Each update loses what points against another's; their mean keeps its length.

    In the order of their losses, the smallest first: where g_i·g_j < 0, g_i loses its projection on
    g_j. Those with the largest losses stay as they are. What points against g_j is thus taken out
    last where the loss of j is large.

    Parameters
    ----------
    alpha : float
        α in [0, 1]: the share of clients, of largest loss, whose updates stay as they are.
    external : {"none", "absent", "came"}
        What the mean is projected off after that: nothing, and all stand-ins are averaged; the sum
        of those stand-ins of absent clients that conflict with it, which are then not averaged; or,
        as the authors' code does at its default τ = 1, the sum of this round's own updates that
        conflict with it.

    Notes
    -----
    The paper's external conflicts are with the last updates of clients absent now that came in one
    of the τ rounds before, round by round: ``external="absent"`` has them from the compensator
    (`Stale` for last updates) and takes all at once. The paper asks for the loss of the global
    model before training; here it is the one that clients report, a mean over their local steps.
    Without a report, as for the absent, it counts as the smallest. Averages are by shares.

    References
    ----------
    Wang, Fan, Qi, Wen, Wang & Yu, Federated Learning with Fair Averaging, 2021 (algorithms 1–3).
    """

    alpha: float = 0.1
    external: str = "none"

    def __post_init__(self) -> None:
        checks.number("alpha", self.alpha, low=0, high=1)
        checks.choice("external", self.external, ("none", "absent", "came"))

    def check(self, strategy: Strategy) -> None:
        refuse_without_stand_ins(self, strategy)

    def reweigh(self, contributions: Contributions, end: RoundEnd) -> Contributions:
        told = stand_ins(contributions, end.n_parameters)
        came = np.isin(told.ids, end.came)
        averaged = came if self.external == "absent" and came.any() else np.ones_like(came)
        share = np.where(averaged, told.share, 0)
        share *= told.share.sum() / share.sum()
        losses = reported(told.ids, end)
        mix = projected(told.gram, np.flatnonzero(averaged), losses, self.alpha)
        weight = share @ mix
        if self.external != "none":
            others = came if self.external == "came" else ~averaged
            weight = off_the_others(told.gram, weight, others)
        before, after = (np.sqrt(max(float(c @ told.gram @ c), 0)) for c in (share, weight))
        weight = weight * (before / after) if after > 0 else share
        conflicts = float((told.gram[np.ix_(came, came)] < 0).mean()) if came.any() else 0.0
        return told.weighted(contributions, weight, {"conflicts": conflicts})

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        return linear_sum(contributions)


def reported(ids: Ints, end: RoundEnd) -> Floats:
    """(n,) the losses that clients reported in this round, −∞ without."""
    losses = np.full(len(ids), -np.inf)
    if end.arrivals.losses is not None:
        told = dict(zip(end.came.tolist(), end.arrivals.losses, strict=True))
        losses = np.array([told.get(client, -np.inf) for client in ids.tolist()], dtype=np.float64)
    return np.where(np.isnan(losses), -np.inf, losses)


def projected(gram: Floats, averaged: Ints, losses: Floats, alpha: float) -> Floats:
    """(n, n) each update as a mixture of all, without its internal conflicts (algorithm 2)."""
    mix = np.eye(len(gram))
    order = averaged[np.argsort(losses[averaged], kind="stable")]
    kept = order[ceil((len(order) - 1) * (1 - alpha)) :] if alpha > 0 else order[:0]
    for i in np.setdiff1d(averaged, kept).tolist():
        for j in order.tolist():
            product = float(gram[j] @ mix[i])  # with what is left of i by now
            if j != i and product < 0:
                mix[i, j] -= product / gram[j, j]
    return mix


def off_the_others(gram: Floats, weight: Floats, others: Bools) -> Floats:
    """The mean off the sum of those of the others that conflict with it (algorithm 3)."""
    conflicting = np.where(others & (gram @ weight < 0), 1.0, 0.0)
    square = float(conflicting @ gram @ conflicting)
    product = float(weight @ gram @ conflicting)
    return weight - conflicting * (product / square) if product < 0 and square > 0 else weight

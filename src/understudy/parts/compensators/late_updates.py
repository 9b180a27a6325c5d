"""`LateUpdates` (REFL, Abdelmoniem et al., 2023): late updates join the mean with less weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Block, Contributions, Floats, RoundEnd, Setup

RULES = ("refl", "inverse", "root", "exponential", "equal")


@dataclass(frozen=True)
class LateUpdates:
    """REFL's aggregation: the mean of those who came, and of late updates with weights s_i ≤ 1.

    With τ_i the rounds since a late update's start, and Λ_i its squared distance to the mean of the
    updates that came, s_i = (1 − β)/(τ_i + 1) + β (1 − e^{−Λ_i/Λ_max}/c): the older, the less; the
    more it differs from the others, and so adds to them, the more.

    Parameters
    ----------
    rule : {"refl", "inverse", "root", "exponential", "equal"}
        That; or 1/(τ_i + 1); or its root, as in FedBuff; or e^{−(τ_i + 1)}; or 1.
    beta : float
        β in [0, 1], of "refl".
    c : float
        At least 1, of "refl". The paper has no such factor, as if it were 1.
    max_age : int, optional
        An update with τ_i beyond it is dropped; None: none is.

    Notes
    -----
    c = 10 and β = 0.35 are the defaults of the authors' code. Its comments call the inverse AdaSGD
    and the exponential DynSGD; to our knowledge it is the other way round, so rules are called
    what they do.

    Their code averages models unless it is told to send differences; here updates are averaged, and
    a late one is rescaled by η_t/η_s, from the local step it was made with to the current one. Λ
    looks at the parameters only; where nobody came in time all Λ_i/Λ_max are 1, and a step is taken
    on late updates alone (their code keeps these for the next round).

    References
    ----------
    Abdelmoniem, Sahu, Canini and Fahmy, REFL: Resource-Efficient Federated Learning, EuroSys 2023
    (section 4.2).
    """

    rule: str = "refl"
    beta: float = 0.35
    c: float = 10.0
    max_age: int | None = None
    signed = False
    normalised = True
    fills_without_arrivals = True

    def __post_init__(self) -> None:
        checks.choice("rule", self.rule, RULES)
        checks.number("beta", self.beta, low=0, high=1)
        checks.number("c", self.c, low=1)
        if self.max_age is not None:
            checks.integer("max_age", self.max_age, low=1)

    def init(self, setup: Setup) -> None:
        return None

    def fill(self, state: None, end: RoundEnd) -> Contributions:
        late = Block(owner=np.asarray(end.late.ids, dtype=np.int64), data=end.late.deltas)
        start = np.asarray([] if end.late.start_round is None else end.late.start_round)
        rescale = np.array([end.lr(end.t) / end.lr(int(s)) for s in start.tolist()])
        tau = end.t - start.astype(np.float64)
        weight = self.weights(tau, self._deviations(end, late, rescale))
        if self.max_age is not None:
            weight[tau > self.max_age] = 0.0
        used = np.flatnonzero(weight)
        owners = late.owner[used]
        old = end.base[owners] * weight[used]
        total = end.q[end.came].sum() + old.sum()
        if not total:
            return Contributions.none()
        k = np.arange(len(end.came))
        fresh = end.q[end.came] / total
        if not len(used):
            return Contributions.of((end.came, end.fresh(), k, fresh))
        terms = [(owners, late, used, old / total * rescale[used])]
        if len(k):  # a block of no rows is none
            terms = [(end.came, end.fresh(), k, fresh), *terms]
        return Contributions.of(*terms, notes={"late_weight": float(old.sum() / total)})

    def weights(self, tau: Floats, deviation: Floats) -> Floats:
        """s_i, of ages τ and of Λ_i/Λ_max."""
        if self.rule == "equal":
            return np.ones(len(tau))
        if self.rule == "exponential":
            return np.asarray(np.exp(-(tau + 1)))
        inverse = 1 / (tau + 1)
        if self.rule in ("inverse", "root"):
            return np.asarray(inverse if self.rule == "inverse" else np.sqrt(inverse))
        boost = 1 - np.exp(-deviation) / self.c
        return np.asarray((1 - self.beta) * inverse + self.beta * boost)

    def _deviations(self, end: RoundEnd, late: Block, rescale: Floats) -> Floats:
        """(l,) Λ_i/Λ_max."""
        if self.rule != "refl" or not len(end.came):
            return np.ones(len(late))
        n = end.n_parameters
        mean = torch.zeros_like(end.params[:n], dtype=torch.float64)
        share = end.q[end.came] / end.q[end.came].sum()
        for (_, delta), one in zip(end.arrivals, share, strict=True):
            mean.add_(delta[:n].double(), alpha=float(one))
        apart = np.array(
            [
                float((delta[:n].double() * float(scale) - mean).square().sum())
                for delta, scale in zip(late.data, rescale, strict=True)
            ]
        )
        return np.asarray(apart / apart.max()) if apart.any() else apart

    def learn(self, state: None, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        return {}

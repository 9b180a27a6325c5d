"""`Capped`: a limit on the weight with which one update represents others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.core import checks
from understudy.core.roles import Compensator, check_with
from understudy.core.types import Contributions, Floats, Ints, RoundEnd, Setup
from understudy.parts.compensators.fdms import FDMS

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass(frozen=True)
class Capped:
    """Limit what one row carries *for others* to ``max(share, 1/|came|)`` of the total.

    A friend of many absent clients may otherwise have ten times anyone's weight: a risk to
    stability, and an opening for a hostile client. A row's own weight is never cut; so that it is
    not what its client claims, a client whose size no `Population` confirms has one vote. What is
    cut goes to the others who came, in proportion to q, until none is over; mixtures are exempt.

    Parameters
    ----------
    inner : Compensator
        Its coefficients must be unsigned and normalised.
    share : float
        In (0, 1].
    """

    inner: Compensator = field(default_factory=FDMS)
    share: float = 0.2
    signed = False
    normalised = True
    ignores_claims = True

    def __post_init__(self) -> None:
        checks.part("inner", self.inner, "init", "fill", "learn")
        checks.number("share", self.share, low=0, high=1, low_open=True)
        if self.inner.signed or not self.inner.normalised:
            why = "signed" if self.inner.signed else "not normalised"
            raise ValueError(
                "inner: expected a compensator whose coefficients are unsigned and sum to one, "
                f"got {self.inner!r}, which is {why}"
            )

    @property
    def fills_without_arrivals(self) -> bool:
        return bool(getattr(self.inner, "fills_without_arrivals", False))

    def check(self, strategy: Strategy) -> None:
        check_with(self.inner, strategy)

    def init(self, setup: Setup) -> Any:
        return self.inner.init(setup)

    def fill(self, state: Any, end: RoundEnd) -> Contributions:
        return capped(self.inner.fill(state, end), self.share, end)

    def stand_ins(self, state: Any, end: RoundEnd) -> Contributions:
        told = getattr(self.inner, "stand_ins", self.inner.fill)
        return capped(told(state, end), self.share, end)

    def starts(self, state: Any, ids: Ints) -> Callable[[int], torch.Tensor] | None:
        starts: Callable[..., Any] | None = getattr(self.inner, "starts", None)
        return None if starts is None else starts(state, ids)

    def learn(
        self, state: Any, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float] | None:
        return self.inner.learn(state, end, step)


def capped(filled: Contributions, share: float, end: RoundEnd) -> Contributions:
    """The same contributions with no row above the cap."""
    if not len(filled) or not len(end.came):  # nobody could take over what is cut
        return filled
    source = filled.source
    for_others = (source >= 0) & (source != filled.ids)
    load = np.zeros(sum(len(block) for block in filled.rows))  # what a row carries for others
    np.add.at(load, filled.row[for_others], filled.coef[for_others])
    cap = max(share, 1 / len(end.came)) * filled.coef.sum()
    over = load > cap * (1 + 1e-12)  # rounding alone is no excess
    if not over.any():
        return filled
    receiver = _rows_of_those_who_came(filled, end)
    given = _water_fill(load, cap, receiver, end.q[end.came])
    kept = np.where(over, cap / np.where(over, load, 1.0), 1.0)
    coef = np.where(for_others, filled.coef * kept[filled.row], filled.coef)
    cut = filled.coef - coef
    losing = np.flatnonzero(cut > 0)
    taking = np.flatnonzero(given > 0)
    # who stands in anew for whom: each loser's cut is shared out as the receivers' total is
    extra = np.outer(cut[losing], given[taking] / given.sum())
    told = filled.share
    return Contributions(
        ids=np.concatenate([filled.ids, np.repeat(filled.ids[losing], len(taking))]),
        row=np.concatenate([filled.row, np.tile(receiver[taking], len(losing))]),
        coef=np.concatenate([coef, extra.ravel()]),
        rows=filled.rows,
        share=None if told is None else np.append(told, np.repeat(told[losing], len(taking))),
        notes={**filled.notes, "capped_rows": float(over.sum()), "capped_weight": cut.sum()},
    )


def _rows_of_those_who_came(filled: Contributions, end: RoundEnd) -> Ints:
    """(k,) the row of each client that came: the one that speaks for itself."""
    own = filled.source == filled.ids
    row_of = dict(zip(filled.ids[own].tolist(), filled.row[own].tolist(), strict=True))
    return np.array([row_of[client] for client in end.came.tolist()], dtype=np.int64)


def _water_fill(load: Floats, cap: float, receiver: Ints, q: Floats) -> Floats:
    """(k,) what each receiver gets of the excess, so that no row is above the cap.

    There is always room: k rows times at least 1/k of the total.
    """
    excess = float(np.maximum(load - cap, 0).sum())
    room = np.maximum(cap - load[receiver], 0)
    given = np.zeros(len(receiver))
    while excess > 1e-15 and (open_rows := given < room).any():
        offer = excess * np.where(open_rows, q, 0) / q[open_rows].sum()
        taken = np.minimum(given + offer, room) - given
        given += taken
        if taken.sum() <= 0:
            break
        excess -= float(taken.sum())
    return given

"""Stand-ins, client by client: what aggregators need that give each client a weight of their own.

A stand-in is the update that is taken for a client's own: Σ coef/share · row over its entries. All
that is done with them needs their scalar products only; no stand-in is ever kept as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.types import Contributions, Floats, Ints
from understudy.graph.similarity import gram

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass(frozen=True, eq=False)
class StandIns:
    """Who is represented with a share above 0, and how the estimates of their updates lie.

    Clients of one group count as one, which their weighted mean stands in for.
    """

    ids: Ints  # (n,) ascending; of a group, its first client
    share: Floats  # (n,)
    gram: Floats  # (n, n) scalar products of the stand-ins, over the parameters; symmetric
    place: Ints  # (c,) position in `ids` of each entry's client; -1: it has no share
    n_parameters: int

    def weighted(
        self, contributions: Contributions, weight: Floats, notes: Mapping[str, float] | None = None
    ) -> Contributions:
        """The same entries, so that client ``ids[k]``'s stand-in has weight[k] in the sum.

        Buffers keep the coefficients they had: a sum of running means is none, unless the
        coefficients sum to one.
        """
        factor = np.append(weight / self.share, 0.0)[self.place]
        buffers = contributions.buffer_coef
        return replace(
            contributions,
            coef=contributions.coef * factor,
            buffer_coef=contributions.coef if buffers is None else buffers,
            n_parameters=self.n_parameters,
            notes={**contributions.notes, **(notes or {})},
        )


def stand_ins(
    contributions: Contributions, n_parameters: int, groups: Ints | None = None
) -> StandIns:
    """The stand-ins of all who are represented.

    Contributions have shares, or coefficients that are not negative: a client's share is their sum.
    `groups` (c,) has the group of each entry's client, by the number of one of its clients; without
    it, each client is one by itself.
    """
    clients, which = np.unique(contributions.ids, return_inverse=True)
    share = np.zeros(len(clients))
    if contributions.share is None:
        np.add.at(share, which, contributions.coef)
    else:
        share[which] = contributions.share
    if groups is not None:
        of_client = clients.copy()
        of_client[which] = groups
        clients, together = np.unique(of_client, return_inverse=True)
        share, which = np.bincount(together, weights=share).astype(np.float64), together[which]
    there = share > 0
    place = np.where(there, np.cumsum(there) - 1, -1)[which]
    mix, rows = mixture(contributions, place, share[there])
    products = gram([contributions.vector(row) for row in rows.tolist()], n_parameters, mix)
    return StandIns(clients[there], share[there], products, place, n_parameters)


def mixture(contributions: Contributions, place: Ints, share: Floats) -> tuple[Floats, Ints]:
    """(n, r) how each stand-in is made of rows, and the r rows in the order of mention."""
    rows, _ = contributions.by_row()
    column = np.empty(rows.max(initial=0) + 1, dtype=np.int64)
    column[rows] = np.arange(len(rows))
    mix = np.zeros((len(share), len(rows)))
    used = place >= 0
    entry = (place[used], column[contributions.row[used]])
    np.add.at(mix, entry, contributions.coef[used] / share[place[used]])
    return mix, rows


def refuse_without_stand_ins(aggregator: object, strategy: Strategy) -> None:
    """For `check`: a compensator must say, one way or the other, what it takes for whom."""
    part = strategy.compensator
    if part.signed and not hasattr(part, "stand_ins"):
        raise ValueError(
            f"aggregator: {type(aggregator).__name__} weighs the stand-ins of clients; "
            f"{type(part).__name__} gives signed coefficients and does not say what stands in for "
            "whom (it has no stand_ins)"
        )

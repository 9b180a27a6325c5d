"""Rounds in a row without a client, and whether they are more than bad luck."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.core.types import Bools, Ints
from understudy.representation.representation import Representation


class Gaps(NamedTuple):
    """Rounds in a row without each client: those that last, and those that ended; (N,) each."""

    now: Ints
    rounds: Ints  # since it is known
    present: Ints  # of these, not in a gap
    ended: Ints  # gaps
    in_ended: Ints  # rounds

    @classmethod
    def without_update(cls, counted: Representation) -> Gaps:
        """Steps in which nothing represented it."""
        present = counted.steps - counted.voiced[:, -1]
        return cls(counted.gap, counted.steps, present, counted.gaps, counted.in_gaps)

    @classmethod
    def away(cls, counted: Representation) -> Gaps:
        """Rounds in which it did not come."""
        ended = counted.aways, counted.in_aways
        return cls(counted.away, counted.there, counted.came, *ended)


def unlikely(gaps: Gaps, least: Ints, active: Bools, chance: float) -> Ints:
    """Clients whose gap is as long as `least`, and longer than that of equals would ever be.

    If each gap ended in a round with the probability r that those of the others have, some gap of n
    rounds would come up in N clients and T rounds with a probability of at most N·T·(1 − r)^n. Who
    stays away for days comes back in few of the rounds: r is the smaller of how often the others
    are there, and how often their gaps ended.
    """
    long = active & (gaps.now >= least)
    if not long.any():
        return np.zeros(0, dtype=np.int64)
    others = active & ~long & (gaps.rounds > 0)
    if not others.any():
        return np.zeros(0, dtype=np.int64)
    rate = float((gaps.present[others] / gaps.rounds[others]).mean())
    ended = int(gaps.ended[others].sum())
    if ended:
        rate = min(rate, ended / int(gaps.in_ended[others].sum()))
    if rate <= 0:
        return np.zeros(0, dtype=np.int64)
    tried = float(active.sum()) * max(float(gaps.rounds.max()), 1.0)
    needed = math.log(chance / tried) / math.log1p(-min(rate, 0.999))
    return np.flatnonzero(long & (gaps.now >= needed))

"""Rounds by hand: who came, and whose row spoke for whom."""

import numpy as np

from understudy.core.types import Outcome, RoundLog

CAME, LATE, ERROR, AWAY, MISSING, RESTARTED, REFUSED, NOT = Outcome


def played(t, outcome, contributions=None, **fields):
    """A log of (represented, source, coefficient); by default the mean of those who came."""
    if contributions is None:
        came = [number for number, one in enumerate(outcome) if one == CAME]
        contributions = [(one, one, 1 / len(came)) for one in came]
    ids, source, coef = zip(*contributions, strict=True) if contributions else ((), (), ())
    return RoundLog(
        t=t,
        outcome=np.array(outcome, dtype=np.int8),
        refusals=fields.pop("refusals", ()),
        ids=np.array(ids, dtype=np.int64),
        source=np.array(source, dtype=np.int64),
        coef=np.array(coef, dtype=np.float64),
        notes=fields.pop("notes", {}),
        **fields,
    )

"""Clients that did not come, and what represented them: by round and per strategy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from understudy.core.types import Outcome, RoundLog

REPRESENTED = "absent_represented"  # share of the clients that did not come


def by_round(logs: Iterable[RoundLog]) -> pd.DataFrame:
    """One row per round: how many clients did not come, and by what they were represented.

    A client that several rows speak for is counted once for each kind of row.
    """
    rows = []
    for log in logs:
        absent = log.outcome != Outcome.CAME
        heard = (log.coef != 0) & absent[log.ids]
        ids, source = log.ids[heard], log.source[heard]
        n_represented = len(np.unique(ids))
        n_absent = int(absent.sum())
        rows.append(
            {
                "t": log.t,
                "absent": n_absent,
                "own": len(np.unique(ids[source == ids])),
                "other": len(np.unique(ids[(source != ids) & (source >= 0)])),
                "mixture": len(np.unique(ids[source < 0])),
                "unrepresented": n_absent - n_represented,
                # of a round in which everyone came there is no share
                REPRESENTED: n_represented / n_absent if n_absent else np.nan,
            }
        )
    return pd.DataFrame(rows)

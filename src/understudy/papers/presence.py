"""Who could have represented the absent, and who did: from the logs of a run and its clusters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from understudy.core.types import Ints, Outcome, RoundLog


def presence(logs: Iterable[RoundLog], groups: Ints) -> dict[str, float]:
    """The rate of friend absence, and the share of stand-ins from another cluster.

    Parameters
    ----------
    logs : iterable of RoundLog
        All rounds of a run.
    groups : (N,) ints
        Cluster of each client. No compensator knows it.

    Returns
    -------
    dict
        ``friend_absence``, the share of absent clients (wanted, and did not come, each round by
        itself) of whose own cluster nobody came: r of FL-FDMS's eq. 74.
        ``stand_ins_from_elsewhere``, the share of the rows that represented an absent client and
        were another client's whose owner is of another cluster: the event that lemma 2 bounds. Each
        is left out where there is nothing to count. Where a log keeps only the largest stand-ins of
        each client (`RoundLog.totals`), the share is of these.
    """
    groups = np.asarray(groups)
    absent = alone = stand_ins = foreign = 0
    for log in logs:
        came = log.outcome == Outcome.CAME
        missed = ~came & (log.outcome != Outcome.NOT_WANTED)
        absent += int(missed.sum())
        alone += int((missed & ~np.isin(groups, groups[came])).sum())
        others = missed[log.ids] & (log.source >= 0) & (log.source != log.ids)
        stand_ins += int(others.sum())
        foreign += int((groups[log.source[others]] != groups[log.ids[others]]).sum())
    found = {}
    if absent:
        found["friend_absence"] = alone / absent
    if stand_ins:
        found["stand_ins_from_elsewhere"] = foreign / stand_ins
    return found

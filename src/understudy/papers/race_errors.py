"""Did FL-FDMS's race drop a true friend? The event whose probability theorem 2 bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.analysis.findings import Findings
from understudy.analysis.part_state import state_of
from understudy.core.types import Bools, Ints
from understudy.parts.compensators.fdms import FDMSState

if TYPE_CHECKING:
    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Task


def race_errors(run: Run, task: Task) -> Findings:
    """Which candidates the race has dropped by the end: friends, and strangers.

    Needs FL-FDMS with a race, and clients with clusters; nothing is found without them.

    Returns
    -------
    Findings
        See `dropped`.
    """
    state = state_of(run.state.compensator, FDMSState)
    groups = run.federation.groups
    if state is None or state.removed is None or groups is None:
        return Findings()
    everyone = np.arange(run.state.n_clients)
    return Findings(dropped(state.removed.gather(everyone).numpy() != 0, groups))


def dropped(removed: Bools, groups: Ints) -> dict[str, float]:
    """Candidates that were dropped, by whether they are of one's own cluster.

    Parameters
    ----------
    removed : (N, N) bools
        Row k: who is no candidate of k any more.
    groups : (N,) ints
        Cluster of each client.

    Returns
    -------
    dict
        ``a_friend_was_dropped``, 1 or 0: theorem 2 holds that over runs its mean is at most p;
        ``friends_dropped`` and ``strangers_dropped``, the shares of (client, friend) and of
        (client, stranger) that were. A share is left out where there are no such pairs.
    """
    groups = np.asarray(groups)
    own = groups[:, None] == groups[None, :]
    friends, strangers = own & ~np.eye(len(groups), dtype=np.bool_), ~own
    found = {"a_friend_was_dropped": float((removed & friends).any())}
    if friends.any():
        found["friends_dropped"] = float(removed[friends].mean())
    if strangers.any():
        found["strangers_dropped"] = float(removed[strangers].mean())
    return found

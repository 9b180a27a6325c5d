"""How long clients stay away: τ̄, τ_max and ν of FedAR's theorems, counted from a run's logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from understudy.analysis.findings import Findings
from understudy.core.types import Outcome, RoundLog

if TYPE_CHECKING:
    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Task


def inactive_rounds(run: Run, task: Task) -> Findings:
    """τ̄, τ_max and ν, on which the rates of FedAR's theorems 1 and 2 depend.

    Returns
    -------
    Findings
        See `ages`, whose ``longest_away`` is an array here.
    """
    return ages(run.logs)


def ages(logs: Iterable[RoundLog]) -> Findings:
    """Inactive rounds τ(i, t): 0 where client i came in round t, else one more than before.

    Parameters
    ----------
    logs : iterable of RoundLog
        All rounds of a run, in their order.

    Returns
    -------
    Findings
        ``tau_mean``, τ̄, the mean of τ(i, t) over clients and rounds; ``tau_max``, the largest;
        ``nu``, the mean over clients of ν_i = max_t τ(i, t), the smallest number that assumption 7
        allows; ``never_came``, the share of clients that never came. Array ``longest_away`` (N,),
        ν_i; NaN for those who never came. Nothing but ``never_came`` where nobody ever came.

    Notes
    -----
    A client has no age before it first came: the server, which has no update of it, does not know
    it, and the rounds before are left out. The theorems do not tell what τ is then.
    """
    tau = np.zeros(0, dtype=np.int64)  # (N,)
    longest = np.zeros(0, dtype=np.int64)
    known = np.zeros(0, dtype=np.bool_)
    total = counted = 0
    for log in logs:
        came = log.outcome == Outcome.CAME
        grown = (0, len(came) - len(tau))  # clients may join
        tau, longest, known = np.pad(tau, grown), np.pad(longest, grown), np.pad(known, grown)
        known |= came
        tau = np.where(came, 0, tau + known)
        longest = np.maximum(longest, tau)
        total += int(tau.sum())
        counted += int(known.sum())
    found = {"never_came": float((~known).mean())} if len(known) else {}
    if not counted:
        return Findings(found)
    found |= {
        "tau_mean": total / counted,
        "tau_max": float(longest.max()),
        "nu": float(longest[known].mean()),
    }
    return Findings(found, {"longest_away": np.where(known, longest, np.nan)})

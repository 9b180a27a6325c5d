"""Does FL-FDMS find the clusters? (fig. 3)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.analysis.findings import Findings
from understudy.analysis.part_state import state_of
from understudy.core.types import Floats, Ints
from understudy.parts.compensators.fdms import FDMSState

if TYPE_CHECKING:
    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Task

MOST_CLIENTS = 2000  # whose N x N arrays are kept: 32 MB


def similarity(run: Run, task: Task) -> Findings:
    """The similarities R and counts N that FL-FDMS has at the end, and how well they tell clusters.

    Nothing is found for a strategy that keeps no similarities.

    Returns
    -------
    Findings
        Where clients have clusters: ``similarity_within`` and ``similarity_between``, the mean R of
        two clients of one cluster and of two, ``similarity_separation``, their difference, and
        ``best_friend_in_cluster``, the share of clients whose most similar client is one of their
        own cluster, among those who have anybody to compare with there and elsewhere. Arrays
        ``similarity`` (N, N), NaN for pairs that never came together and on the diagonal,
        ``similarity_counts`` (N, N) and ``groups`` (N,); for up to 2,000 clients.
    """
    matrices = similarity_of(run)
    if matrices is None:
        return Findings()
    score, count = matrices
    groups = run.federation.groups
    arrays = {}
    if len(score) <= MOST_CLIENTS:
        arrays = {"similarity": score, "similarity_counts": count}
        arrays |= {} if groups is None else {"groups": np.asarray(groups)}
    return Findings({} if groups is None else separation(score, groups), arrays)


def similarity_of(run: Run) -> tuple[Floats, Ints] | None:
    """(N, N) R and N of FL-FDMS, NaN where a pair never came together; None where none are kept."""
    state = state_of(run.state.compensator, FDMSState)
    if state is None:
        return None
    everyone = np.arange(run.state.n_clients)
    count = state.count.gather(everyone).numpy().astype(np.int64)
    score = np.where(count > 0, state.score.gather(everyone).numpy(), np.nan)
    np.fill_diagonal(score, np.nan)
    return score, count


def separation(score: Floats, groups: Ints) -> dict[str, float]:
    """How far similarities within clusters stand out from those between them.

    `score` is (N, N), NaN where a pair is unknown and on the diagonal.
    """
    own = groups[:, None] == groups[None, :]
    known = ~np.isnan(score)
    within, between = score[known & own], score[known & ~own]
    found = {}
    if len(within):
        found["similarity_within"] = float(within.mean())
    if len(between):
        found["similarity_between"] = float(between.mean())
    if len(within) and len(between):
        gap = found["similarity_within"] - found["similarity_between"]
        found["similarity_separation"] = gap
    asked = (known & own).any(axis=1) & (known & ~own).any(axis=1)
    if asked.any():
        best = np.where(known, score, -np.inf).argmax(axis=1)
        found["best_friend_in_cluster"] = float((groups[best] == groups)[asked].mean())
    return found


def smallest_gap(score: Floats, groups: Ints) -> float | None:
    """δ_min = min_k (min over friends of R_ki − max over others of R_ki); None without a pair of
    each kind."""
    own = groups[:, None] == groups[None, :]
    known = ~np.isnan(score)
    worst_friend = np.where(known & own, score, np.inf).min(axis=1)
    best_other = np.where(known & ~own, score, -np.inf).max(axis=1)
    gaps = worst_friend - best_other  # infinite where one of them is missing
    gaps = gaps[np.isfinite(gaps)]
    return float(gaps.min()) if len(gaps) else None

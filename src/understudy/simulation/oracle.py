"""What a round would have been with everybody: known in a simulation only.

The absent are trained too, in passes of their own, and used for nothing but these figures.
"""

from __future__ import annotations

import numpy as np
import torch

from understudy.core.threads import one_thread
from understudy.core.types import Floats, Ints
from understudy.graph.similarity import distances
from understudy.server.round import Filled


@one_thread()
def compare(
    filled: Filled, ids: Ints, true: list[torch.Tensor], groups: Ints | None
) -> tuple[dict[str, float], Floats]:
    """Figures of a round, and the error of each contribution's stand-in.

    Parameters
    ----------
    filled : Filled
        The round, before the memories took it in.
    ids, true
        All active clients, ascending, and the update each would have sent.
    groups : (N,) array, optional
        Clusters: friends are then the clients of one cluster.

    Returns
    -------
    notes
        ``oracle_error`` = ‖e_t‖², e_t = update − mean of all true updates (by weight), and
        ``oracle_error_relative``, divided by the squared norm of that mean; the same against the
        wanted alone where a sampler picks (``oracle_error_wanted``); ``oracle_error_ignoring`` =
        ‖e_t‖² of the mean of those who came, which a round that leaves the absent out would have
        taken from this very model; ``sigma_p`` = σ_P², the largest ‖Δ_i − Δ_j‖² of any pair, and
        ``sigma_f`` = σ_F², the largest among friends (without clusters: each client's nearest);
        with clusters the means ``friends_apart`` and ``strangers_apart`` of ‖Δ_i − Δ_j‖² over pairs
        of one cluster and of two.
    errors : (c,)
        ‖stand-in − true‖² for each contribution of an absent client, NaN for those who came. Where
        several rows speak for one client, its stand-in is their weighted mean.
    """
    end, wanted = filled.end, filled.end.cohort.wanted
    position = {int(client): row for row, client in enumerate(ids)}
    notes = _differences(filled, _mean(true, end.base[ids]), "oracle_error")
    came = end.came
    if len(came):
        rows = [true[position[int(client)]] for client in came]
        gap = _mean(rows, end.q[came]) - _mean(true, end.base[ids])
        notes["oracle_error_ignoring"] = float(gap[: end.n_parameters].square().sum())
    if len(wanted) < len(ids):
        rows = [true[position[int(client)]] for client in wanted]
        notes |= _differences(filled, _mean(rows, end.q[wanted]), "oracle_error_wanted")
    notes |= _spread(true, end.n_parameters, None if groups is None else groups[ids])
    return notes, _stand_in_errors(filled, true, position)


def _mean(rows: list[torch.Tensor], weight: Floats) -> torch.Tensor:
    total = torch.zeros_like(rows[0], dtype=torch.float64)
    for row, share in zip(rows, weight / weight.sum(), strict=True):
        total.add_(row.double(), alpha=float(share))
    return total


def _differences(filled: Filled, full: torch.Tensor, name: str) -> dict[str, float]:
    taken = torch.zeros_like(full) if filled.update is None else filled.update.double()
    n = filled.end.n_parameters
    error, size = float((taken - full)[:n].square().sum()), float(full[:n].square().sum())
    return {name: error, f"{name}_relative": error / size if size > 0 else float("nan")}


def _spread(true: list[torch.Tensor], n_parameters: int, groups: Ints | None) -> dict[str, float]:
    if len(true) < 2:
        return {}
    apart = distances(true, n_parameters) ** 2
    others = ~np.eye(len(true), dtype=np.bool_)
    notes = {"sigma_p": float(apart[others].max())}
    if groups is None:
        return notes | {"sigma_f": float(np.where(others, apart, np.inf).min(axis=1).max())}
    friends = others & (groups[:, None] == groups[None, :])
    strangers = others & ~friends
    if friends.any():
        notes["sigma_f"] = float(apart[friends].max())
        notes["friends_apart"] = float(apart[friends].mean())
    if strangers.any():
        notes["strangers_apart"] = float(apart[strangers].mean())
    return notes


def _stand_in_errors(filled: Filled, true: list[torch.Tensor], position: dict[int, int]) -> Floats:
    contributions, came = filled.contributions, set(filled.end.came.tolist())
    errors = np.full(len(contributions), np.nan)
    n = filled.end.n_parameters
    entries: dict[int, list[int]] = {}
    for entry, client in enumerate(contributions.ids.tolist()):
        if client not in came and client in position:
            entries.setdefault(client, []).append(entry)
    for client, mine in entries.items():
        coef = contributions.coef[mine]
        # a stand-in made of a model and its opposite (Stale of models) is their plain sum
        scale = coef.sum() if abs(coef.sum()) > 1e-12 else np.abs(coef).max()
        if scale == 0:
            continue  # nothing speaks for it: there is no stand-in that could be wrong
        stand_in = torch.zeros_like(true[0], dtype=torch.float64)
        for entry, weight in zip(mine, coef / scale, strict=True):
            row = contributions.vector(int(contributions.row[entry]))
            stand_in.add_(row.to(stand_in.device).double(), alpha=float(weight))
        gap = (stand_in - true[position[client]].double())[:n]
        errors[mine] = float(gap.square().sum())
    return errors

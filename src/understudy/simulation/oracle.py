"""What a round would have been with everybody: known in a simulation only.

The absent are trained too, in passes of their own, and used for nothing but these figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.threads import one_thread
from understudy.core.types import Floats, Ints
from understudy.graph.similarity import distances
from understudy.parts.aggregators.linear import linear_sum
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

        Of the sum as the compensator weighed it, by shares, whatever an aggregator then made of it:
        ``oracle_stand_ins_error``, the same relative, and ``oracle_cosine``, its cosine with the
        mean of all true updates. Of single stand-ins D̂_k: ``oracle_stand_in_error`` is Σ q_k ‖D̂_k −
        Δ_k‖² / Σ q_k ‖Δ_k‖² over the absent that are represented; over those of them whose own last
        update is among the rows that represent them, ``oracle_stand_in_error_known`` is the same
        and ``oracle_last_update_error`` the error of these last updates by themselves.
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
    notes |= _sum_of_stand_ins(filled, _mean(true, end.base[ids]))
    of_the_absent, errors = _of_the_absent(filled, true, position)
    notes |= of_the_absent
    notes |= _spread(true, end.n_parameters, None if groups is None else groups[ids])
    return notes, errors


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


def _sum_of_stand_ins(filled: Filled, full: torch.Tensor) -> dict[str, float]:
    """How far, and where to, the share-weighted sum of the stand-ins is from the true mean."""
    told, n = filled.stand_ins, filled.end.n_parameters
    if not len(told):
        return {}
    taken, wanted = linear_sum(told).double()[:n], full[:n]
    error, size = float((taken - wanted).square().sum()), float(wanted.square().sum())
    notes = {"oracle_stand_ins_error": error}
    if size > 0:
        notes["oracle_stand_ins_error_relative"] = error / size
        along, norm = float(taken @ wanted), float(taken.norm())
        notes["oracle_cosine"] = along / (norm * size**0.5) if norm > 0 else 0.0
    return notes


@dataclass
class _Relative:
    """Σ weight · ‖error‖² over Σ weight · ‖truth‖²."""

    error: float = 0.0
    size: float = 0.0

    def add(self, weight: float, error: float, size: float) -> None:
        self.error, self.size = self.error + weight * error, self.size + weight * size

    def told(self, name: str) -> dict[str, float]:
        return {name: self.error / self.size} if self.size > 0 else {}


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


def _of_the_absent(
    filled: Filled, true: list[torch.Tensor], position: dict[int, int]
) -> tuple[dict[str, float], Floats]:
    """Errors of single stand-ins: relative ones, weighted by q; and squares, for each entry."""
    told, n, q = filled.stand_ins, filled.end.n_parameters, filled.end.q
    source, errors = told.source, np.full(len(told), np.nan)
    every, known, last = _Relative(), _Relative(), _Relative()
    for client, mine in _entries_of_the_absent(filled, position).items():
        coef = told.coef[mine]
        if told.share is not None:
            scale = told.share[mine[0]]
        else:  # a stand-in made of a model and its opposite (Stale of models) is their plain sum
            scale = coef.sum() if abs(coef.sum()) > 1e-12 else np.abs(coef).max()
        if scale == 0:
            continue  # nothing speaks for it: there is no stand-in that could be wrong
        truth = true[position[client]].double()
        stand_in = torch.zeros_like(truth)
        for entry, weight in zip(mine, coef / scale, strict=True):
            row = told.vector(int(told.row[entry]))
            stand_in.add_(row.to(stand_in.device).double(), alpha=float(weight))
        square = float(truth[:n].square().sum())
        error = float((stand_in - truth)[:n].square().sum())
        errors[mine] = error
        every.add(q[client], error, square)
        for entry in [entry for entry in mine if source[entry] == client][:1]:
            before = told.vector(int(told.row[entry])).to(truth.device).double()
            known.add(q[client], error, square)
            last.add(q[client], float((before - truth)[:n].square().sum()), square)
    names = {
        "oracle_stand_in_error": every,
        "oracle_stand_in_error_known": known,
        "oracle_last_update_error": last,
    }
    notes = {key: value for name, one in names.items() for key, value in one.told(name).items()}
    return notes, errors


def _entries_of_the_absent(filled: Filled, position: dict[int, int]) -> dict[int, list[int]]:
    """Each absent client that is represented, and the places of its entries."""
    came = set(filled.end.came.tolist())
    entries: dict[int, list[int]] = {}
    for entry, client in enumerate(filled.stand_ins.ids.tolist()):
        if client not in came and client in position:
            entries.setdefault(client, []).append(entry)
    return entries

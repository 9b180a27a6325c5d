"""`FDMS` (FL-FDMS, Wang & Xu, 2022): the most similar client that came represents an absent one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Block, Bools, Contributions, Floats, Ints, RoundEnd, Setup, Term
from understudy.graph.pair_groups import n_pairs, pair_groups
from understudy.graph.similarity import cosines, distances
from understudy.memory.rows import RowStore
from understudy.parts.compensators.race import HoeffdingRace, eliminate

CHUNK = 512  # clients whose candidates are looked at together


@dataclass
class FDMSState:
    score: RowStore  # (N, N) R, mean similarity of each pair; symmetric
    count: RowStore  # (N, N) rounds behind each mean
    removed: RowStore | None  # (N, N) of 0 and 1: row k, who is no candidate of k any more
    joined: Ints  # (N,) round in which a client joined


@dataclass(frozen=True)
class FDMS:
    """Friend discovery and model substitution: (1/K)(Σ_{i∈A} Δ_i + Σ_{k∉A} Δ_φ(k)) (eq. 5).

    Each pair that comes together is scored by r_ij = ½(cos(Δ_i, Δ_j) + 1) (eq. 14); R_ij is the
    mean of its scores (eq. 15). The friend φ(k) of an absent client k is the one of highest R_ki
    among those who came.

    Parameters
    ----------
    similarity : {"cosine", "distance"}
        The alternative score is −‖Δ_i − Δ_j‖.
    race : HoeffdingRace, optional
        Drop candidates that lag behind, and compute only what someone still needs (§5.3).

    Notes
    -----
    Where no candidate of k came, or none that was ever seen together with it, the paper is
    silent; here the best non-candidate that was seen stands in, else the q-weighted mean of those
    who came. The note ``no_candidate`` is the share of the absent so treated. It is not the rate
    of friend absence of appendix B, which needs to know who is whose friend: `papers.sigma` has
    that one. With a race, ``pairs_needed`` counts the pairs someone still needs (the
    paper's fig. 4) and ``pairs_computed`` those in the products that give them: `pair_groups`
    finds groups of clients who all need each other, and one product gives the pairs of a group.

    The friend comes from the R of the rounds before. That is the paper's order: R_ki does not
    change in a round that k missed.

    References
    ----------
    Wang & Xu, Friends to Help: Saving Federated Learning from Client Dropout, 2022, and its longer
    version, Combating Client Dropout in Federated Learning via Friend Model Substitution, whose
    numbers the equations carry.
    """

    similarity: str = "cosine"
    race: HoeffdingRace | None = None
    signed = False
    normalised = True

    def __post_init__(self) -> None:
        checks.choice("similarity", self.similarity, ("cosine", "distance"))
        if self.race is not None and not isinstance(self.race, HoeffdingRace):
            raise TypeError(f"race: expected a HoeffdingRace or None, got {self.race!r}")
        if self.race is not None and self.similarity == "distance":
            raise ValueError(
                "race: expected None with similarity='distance', since its bound needs scores in "
                f"[0, 1], got {self.race!r}"
            )

    def init(self, setup: Setup) -> FDMSState:
        n = setup.population.n_clients
        return FDMSState(
            score=setup.rows(width=n, dtype=torch.float64),
            count=setup.rows(width=n, dtype=torch.int32),
            removed=None if self.race is None else setup.rows(width=n, dtype=torch.uint8),
            joined=np.full(n, setup.t, dtype=np.int64),
        )

    def fill(self, state: FDMSState, end: RoundEnd) -> Contributions:
        came, absent = end.came, end.absent
        share = end.q / end.q[end.cohort.wanted].sum()
        friend, candidate = self._friends(state, came, absent)
        known = friend >= 0
        lonely = absent[~known]
        fresh = end.fresh()
        parts: list[Term] = [
            (came, fresh, np.arange(len(came)), share[came]),
            (absent[known], fresh, friend[known], share[absent[known]]),
        ]
        if len(lonely):
            parts.append((lonely, _mean_of_those_who_came(end), 0, share[lonely]))
        notes = {"no_candidate": float((~candidate).mean())} if len(absent) else {}
        return Contributions.of(*parts, notes=notes)

    def _friends(self, state: FDMSState, came: Ints, absent: Ints) -> tuple[Ints, Bools]:
        """For each absent client: the position of its friend in `came` (-1: none), and whether
        that friend is one of its candidates."""
        # R is symmetric: the rows of those who came are fewer, as a rule, than those of all
        score = state.score.gather(came).numpy()[:, absent].T
        seen = state.count.gather(came).numpy()[:, absent].T > 0
        candidate = seen
        if state.removed is not None:
            candidate = seen & (state.removed.gather(absent).numpy()[:, came] == 0)
        eligible = np.where(candidate.any(axis=1, keepdims=True), candidate, seen)
        friend = np.where(eligible, score, -np.inf).argmax(axis=1)
        return np.where(seen.any(axis=1), friend, -1), np.asarray(candidate.any(axis=1))

    def learn(
        self, state: FDMSState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        came = end.came
        if not len(came):
            return {}
        needed = ~np.eye(len(came), dtype=np.bool_)
        if state.removed is not None:
            removed = state.removed.gather(came).numpy()[:, came] != 0
            needed &= ~(removed & removed.T)
        members = np.flatnonzero(needed.any(axis=1))
        groups: list[Ints] = []
        if len(members):
            deltas = [end.arrivals.deltas[int(i)] for i in members]
            among = needed[np.ix_(members, members)]
            groups = pair_groups(among)
            self._take_in(state, came[members], among, deltas, groups, end)
        if self.race is not None:
            self._eliminate(state, end, self.race)
        pairs = n_pairs(groups)
        return {"pairs_needed": float(needed.sum() // 2), "pairs_computed": float(pairs)}

    def _take_in(
        self,
        state: FDMSState,
        ids: Ints,
        needed: Bools,
        deltas: list[torch.Tensor],
        groups: list[Ints],
        end: RoundEnd,
    ) -> None:
        """Running mean of the needed pairs' similarity (eq. 15)."""
        similarity = self._similarity(deltas, end.n_parameters, groups)
        score, count = state.score.gather(ids), state.count.gather(ids)
        mean, rounds = score.numpy()[:, ids], count.numpy()[:, ids] + needed
        mean = np.where(needed, mean + (similarity - mean) / np.maximum(rounds, 1), mean)
        score[:, ids], count[:, ids] = torch.from_numpy(mean), torch.from_numpy(rounds).int()
        state.score.scatter(ids, score)
        state.count.scatter(ids, count)

    def _similarity(
        self, deltas: list[torch.Tensor], n_parameters: int, groups: list[Ints]
    ) -> Floats:
        if self.similarity == "cosine":
            return (cosines(deltas, n_parameters, groups) + 1) / 2  # eq. 14
        return -distances(deltas, n_parameters)  # without a race, so that all pairs are needed

    def _eliminate(self, state: FDMSState, end: RoundEnd, race: HoeffdingRace) -> None:
        assert state.removed is not None
        active = np.flatnonzero(end.active)
        for start in range(0, len(active), CHUNK):
            ids = active[start : start + CHUNK]
            joined = np.maximum(state.joined[ids][:, None], state.joined[None, :])
            bound = race.bound(end.t + 1 - joined, end.population.n_clients)
            before = state.removed.gather(ids).numpy() != 0
            seen = (state.count.gather(ids).numpy() > 0) & end.active  # who left is no rival
            after = eliminate(state.score.gather(ids).numpy(), seen, before, bound)
            changed = np.flatnonzero((after != before).any(axis=1))
            state.removed.scatter(ids[changed], torch.from_numpy(after[changed].astype(np.uint8)))


def _mean_of_those_who_came(end: RoundEnd) -> Block:
    """The one row this compensator adds: a mixture, which has no owner."""
    q = end.q[end.came]
    mean = torch.zeros_like(end.params)
    for (_, delta), weight in zip(end.arrivals, q / q.sum(), strict=True):
        mean.add_(delta, alpha=float(weight))
    return Block(owner=np.array([-1]), data=mean[None])

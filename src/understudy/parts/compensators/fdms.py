"""`FDMS` (FL-FDMS, Wang & Xu, 2022): the most similar client that came represents an absent one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import (
    Block,
    Bools,
    Contributions,
    Floats,
    Ints,
    RoundEnd,
    Setup,
    Term,
    Vectors,
)
from understudy.graph.pair_groups import n_pairs, pair_groups
from understudy.graph.similarity import cosines, distances
from understudy.memory.rows import RowStore
from understudy.parts.compensators.race import HoeffdingRace, Screen, eliminate
from understudy.parts.compensators.sparse_friends import SparseFriends

CHUNK = 128  # clients whose candidates are looked at together


@dataclass
class FDMSState:
    score: RowStore  # (N, N) R, mean similarity of each pair; symmetric
    count: RowStore  # (N, N) rounds behind each mean
    removed: RowStore | None  # (N, N) of 0 and 1: row k, who is no candidate of k any more
    joined: Ints  # (N,) round in which a client joined
    _screen: Screen | None = None  # whose rows the race has to look at


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
    single_from : int
        From so many updates in a round on, their cosines are of products in single precision, off
        by about 1e-6, in half the time; the note ``single_precision`` says so.
    exact_up_to : int
        Largest number of clients for which all pairs are kept. Of more, each keeps its best
        `candidates` only, and the note ``candidates_kept`` says so; a race is then refused.
    candidates : int
        How many those are.

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
    single_from: int = added("0.2", 500)
    exact_up_to: int = added("0.2", 20_000)
    candidates: int = added("0.2", 64)
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

        checks.integer("single_from", self.single_from, low=1)
        checks.integer("exact_up_to", self.exact_up_to, low=0)
        checks.integer("candidates", self.candidates, low=1)

    def init(self, setup: Setup) -> FDMSState | SparseFriends:
        n = setup.population.n_clients
        if n > self.exact_up_to:
            if self.race is not None:
                raise ValueError(
                    f"race: expected None above exact_up_to={self.exact_up_to} clients, of whom "
                    f"only the best candidates are kept anyway, got {self.race!r} and {n} clients"
                )
            return SparseFriends.empty(setup, self.candidates)
        return FDMSState(
            score=setup.rows(width=n, dtype=torch.float64),
            count=setup.rows(width=n, dtype=torch.int32),
            removed=None if self.race is None else setup.rows(width=n, dtype=torch.uint8),
            joined=np.full(n, setup.t, dtype=np.int64),
        )

    def fill(self, state: FDMSState | SparseFriends, end: RoundEnd) -> Contributions:
        came, absent = end.came, end.absent
        share = end.q / end.q[end.cohort.wanted].sum()
        if isinstance(state, SparseFriends):
            friend = state.friends(came, absent)
            candidate = friend >= 0
        else:
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
        shape = (len(came), len(absent))
        removed = None
        if state.removed is not None:
            removed = np.ascontiguousarray(state.removed.part(absent, came).numpy().T)
        # R is symmetric: the rows of those who came are fewer, as a rule, than those of all
        best = np.full((2, shape[1]), -np.inf)  # of those seen together; of candidates
        friend = np.full((2, shape[1]), -1)
        for position, client in enumerate(came.tolist()):
            if not state.count.known[client]:
                continue
            score = state.score.get(client).numpy()[absent]
            ever = state.count.get(client).numpy()[absent] > 0
            for kind in (0, 1) if removed is not None else (0,):
                eligible = ever if kind == 0 else ever & (removed[position] == 0)  # type: ignore[index]
                better = eligible & ((score > best[kind]) | (friend[kind] < 0))
                best[kind][better], friend[kind][better] = score[better], position
        if removed is None:
            return friend[0], friend[0] >= 0
        return np.where(friend[1] >= 0, friend[1], friend[0]), friend[1] >= 0

    def learn(
        self, state: FDMSState | SparseFriends, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        came = end.came
        if not len(came):
            return {}
        if isinstance(state, SparseFriends):
            notes = {"candidates_kept": float(self.candidates)}
            everybody = [np.arange(len(came))]
            if len(came) > 1:
                similarity = self._similarity(end.arrivals.deltas, end.n_parameters, everybody)
                state.take_in(came, similarity)
            return {**notes, **self._notes(len(came) * (len(came) - 1) // 2, everybody)}
        needed = ~np.eye(len(came), dtype=np.bool_)
        if state.removed is not None:
            removed = state.removed.part(came, came).numpy() != 0
            needed &= ~(removed & removed.T)
        members = np.flatnonzero(needed.any(axis=1))
        groups: list[Ints] = []
        if len(members):
            deltas = end.arrivals.deltas
            if len(members) < len(came):
                deltas = [deltas[int(i)] for i in members]
            among = needed[np.ix_(members, members)]
            groups = pair_groups(among)
            self._take_in(state, came[members], among, deltas, groups, end)
        if self.race is not None:
            self._eliminate(state, end, self.race)
        return self._notes(int(needed.sum()) // 2, groups)

    def _notes(self, needed: int, groups: list[Ints]) -> dict[str, float]:
        notes = {"pairs_needed": float(needed), "pairs_computed": float(n_pairs(groups))}
        if self._is_single(groups):
            notes["single_precision"] = 1.0
        return notes

    def _is_single(self, groups: list[Ints]) -> bool:
        """By how many rows the products have; never by the clock."""
        largest = max((len(group) for group in groups), default=0)
        return self.similarity == "cosine" and largest >= self.single_from

    def _take_in(
        self,
        state: FDMSState,
        ids: Ints,
        needed: Bools,
        deltas: Vectors,
        groups: list[Ints],
        end: RoundEnd,
    ) -> None:
        """Running mean of the needed pairs' similarity (eq. 15)."""
        similarity = self._similarity(deltas, end.n_parameters, groups)
        mean = state.score.part(ids, ids).numpy()
        rounds = state.count.part(ids, ids).numpy() + needed
        mean = np.where(needed, mean + (similarity - mean) / np.maximum(rounds, 1), mean)
        state.score.put_part(ids, ids, torch.from_numpy(mean))
        state.count.put_part(ids, ids, torch.from_numpy(rounds).int())

    def _similarity(self, deltas: Vectors, n_parameters: int, groups: list[Ints]) -> Floats:
        if self.similarity == "cosine":
            single = self._is_single(groups)
            return (cosines(deltas, n_parameters, groups, single=single) + 1) / 2  # eq. 14
        return -distances(deltas, n_parameters)  # without a race, so that all pairs are needed

    def _eliminate(self, state: FDMSState, end: RoundEnd, race: HoeffdingRace) -> None:
        """Look at the rows that may have somebody to drop: no pass over all pairs."""
        assert state.removed is not None
        n, screen = end.population.n_clients, state._screen
        changed = end.came
        if screen is None or not np.array_equal(screen.active, end.active):
            screen = state._screen = Screen.empty(end.active)
            changed = np.flatnonzero(end.active)
        for ids in _chunks(changed):
            screen.take(ids, *_candidates(state, ids, end.active))
        levels, level = np.unique(state.joined, return_inverse=True)
        bounds = race.bound(end.t + 1 - levels, n)
        for ids in _chunks(screen.suspects(bounds[level])):
            bound = bounds[np.maximum(level[ids][:, None], level[None, :])]  # of the later to join
            score, candidate = _candidates(state, ids, end.active)
            dropped = eliminate(score, candidate, np.zeros_like(candidate), bound)
            some = np.flatnonzero(dropped.any(axis=1))
            if len(some):
                before = state.removed.gather(ids[some]).numpy()
                after = torch.from_numpy(before | dropped[some].astype(np.uint8))
                state.removed.scatter(ids[some], after)
                screen.take(ids[some], score[some], candidate[some] & ~dropped[some])


def _chunks(ids: Ints) -> Iterator[Ints]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


def _candidates(state: FDMSState, ids: Ints, active: Bools) -> tuple[Floats, Bools]:
    """(r, N) the scores of some clients, and who is a candidate of each; not who left."""
    assert state.removed is not None
    candidate = (state.count.gather(ids).numpy() > 0) & active
    candidate &= state.removed.gather(ids).numpy() == 0
    return state.score.gather(ids).numpy(), candidate


def _mean_of_those_who_came(end: RoundEnd) -> Block:
    """The one row this compensator adds: a mixture, which has no owner."""
    q = end.q[end.came]
    mean = torch.zeros_like(end.params)
    for (_, delta), weight in zip(end.arrivals, q / q.sum(), strict=True):
        mean.add_(delta, alpha=float(weight))
    return Block(owner=np.array([-1]), data=mean[None])

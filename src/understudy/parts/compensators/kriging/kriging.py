"""`Kriging`: absent updates predicted from friends, and from how they differed before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Arrivals, Contributions, Floats, Ints, RoundEnd, Setup
from understudy.graph.similarity import gram
from understudy.memory.rows import RowStore
from understudy.parts.compensators.kriging.deviations import (
    FURTHEST,
    Returns,
    alike,
    left_of,
    returns,
    trust,
)
from understudy.parts.compensators.kriging.friends import TINY, expected_cosines, weights_of_friends
from understudy.parts.compensators.kriging.start_models import StartModels, gone_along
from understudy.parts.compensators.memory import Memory

CHUNK = 64  # memories looked at together
LEAST = 1e-9  # weight of friends below which there are none


@dataclass
class KrigingState:
    memory: Memory
    models: StartModels
    cosine: RowStore  # (N, N) R, running mean cosine of updates that came together; symmetric
    together: RowStore  # (N, N) decayed number of rounds behind it
    agreement: Floats  # (N,) <deviation now, deviation remembered>, decayed, normalised
    size: Floats  # (N,) |deviation remembered|² in the same unit
    spent: Floats  # (N,) progress × what was lost of the memory, over returns, decayed
    gone: Floats  # (N,) progress²
    length: Floats  # (N,) log norm of the remembered update
    progress: Floats  # (N,) g: how far the model has gone along it since, in its lengths
    _seen: Any = field(default=None)  # (end, Evidence) between fill and learn


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a round's arrivals tell, together with what was known before."""

    cosine: Floats  # (k, k) of those who came
    norm: Floats  # (k,)
    expected: Floats  # (k, N) cosines expected of pairs, before this round
    back: Ints  # (b,) places in `came` of those who came back
    left: Floats  # (N,) what is left of each memory
    agreement: Floats  # (N,) these four as in the state, this round taken in
    size: Floats
    spent: Floats
    gone: Floats


@dataclass(frozen=True)
class Kriging:
    """Predict each absent update: D̂_k = f_k + a_k (l_k m_k − Σ_i W_ki l_i m_i), f_k = Σ_i W_ki Δ_i.

    f_k is the mixture of those who came that is nearest to k by running cosines (ordinary kriging,
    weights W_ki ≥ 0 of sum 1). To it is added how k's remembered update m_k differed from the same
    friends' memories, as far as such differences have lasted (a_k), and as far as the model has
    not yet gone along them (l_k). Both are learnt from clients that come back.

    Parameters
    ----------
    nugget : float
        λ > 0: pull of W towards the plain mean of those who came.
    decay : float
        Of a running cosine's weight per joint round, in (0, 1].
    evidence_decay : float
        Of the evidence for a and l per round with returns, in (0, 1].
    prior : float
        Joint rounds' worth of the mean cosine of all pairs that each pair begins with, > 0.
    alike : float
        Clients whose updates differ in log length by this much share evidence in good part, > 0.
    nearest : int
        With more than `exact` arrivals W looks at so many of the largest cosines only.
    exact : int
        Arrivals up to which W is computed over all of them.

    Notes
    -----
    a_k: every returning client j is predicted from the other returning ones. a = Σ⟨now, then⟩ /
    (Σ‖then‖² + ¼), now = Δ_j − Σ_i W_ji Δ_i, then the same of the memories l m, an observation
    divided by ‖now‖² + ‖then‖². l_k = clip(1 − r_k g_k, 0, 1): g_k = Σ⟨step, m_k⟩/‖m_k‖² over the
    steps since m_k began; r = (Σ w g (1 − y) + ¼)/(Σ w g² + ¼), w = 1/(1 + g²), y = ⟨Δ, m⟩/‖m‖²
    at the return. Sums are decayed and shared by a kernel on log lengths. Without evidence r is 1:
    a memory alone never leads beyond its client's own model.

    W = mean with a = l = 1 is `FedVARP` where everyone is wanted; one friend and a = 0 is `FDMS`;
    no friends `Stale`; a = 0 and W = mean `Ignore`.

    A client never seen is represented by its friends at the mean cosine. A memory is rescaled by
    η_t/η_s. A late update is remembered with the model's progress since it began, for which the
    models of up to 16 rounds with open requests are kept; one that began before is dropped
    (note ``late_dropped``). Buffers are those of the mixture of friends.

    References
    ----------
    Ordinary kriging: Matheron, Principles of Geostatistics, Economic Geology 58, 1963.
    """

    nugget: float = 0.1
    decay: float = 0.95
    evidence_decay: float = 0.95
    prior: float = 2.0
    alike: float = 0.5
    nearest: int = 16
    exact: int = 256
    signed = True
    normalised = False

    def __post_init__(self) -> None:
        checks.number("nugget", self.nugget, low=0, low_open=True)
        checks.number("decay", self.decay, low=0, high=1, low_open=True)
        checks.number("evidence_decay", self.evidence_decay, low=0, high=1, low_open=True)
        checks.number("prior", self.prior, low=0, low_open=True)
        checks.number("alike", self.alike, low=0, low_open=True)
        checks.integer("nearest", self.nearest, low=1)
        checks.integer("exact", self.exact, low=0)

    def init(self, setup: Setup) -> KrigingState:
        n = setup.population.n_clients
        table = {"width": n, "dtype": torch.float64}
        return KrigingState(
            Memory.empty(setup),
            StartModels.empty(setup),
            setup.rows(**table),
            setup.rows(**table),
            *(np.zeros(n) for _ in range(6)),
        )

    def fill(self, state: KrigingState, end: RoundEnd) -> Contributions:
        came, absent, memory = end.came, end.absent, state.memory
        share = end.q / end.q[end.cohort.wanted].sum()
        seen = self._evidence(state, end)
        state._seen = (end, seen)  # derived: it spares `learn` the scalar products
        weights = weights_of_friends(
            seen.cosine,
            seen.expected[:, absent].T,
            share[came] / share[came].sum(),
            self.nugget,
            nearest=self._nearest(came),
        )
        # of the absent with a memory, compared with those who came and have one too
        gone = np.flatnonzero(memory.rows.known[absent])
        ids, back = absent[gone], came[seen.back]
        a = trust(alike(state.length, self.alike, ids), seen.agreement, seen.size)
        if not len(back):
            a = np.zeros(len(ids))
        taken = a[:, None] * _among(weights[gone], seen.back, share[came])
        left = np.zeros(len(share))
        left[ids], left[back] = seen.left[ids], seen.left[back]
        left[ids] *= memory.rescaled(end, ids)
        left[back] *= memory.rescaled(end, back)
        k, i = np.nonzero(weights)
        j, b = np.nonzero(taken)
        fresh, rows, slot = end.fresh(), memory.rows.block(), memory.rows.slot
        contributions = Contributions.of(
            (came, fresh, np.arange(len(came)), share[came]),
            (absent[k], fresh, i, share[absent[k]] * weights[k, i]),
            (ids, rows, slot[ids], share[ids] * a * left[ids]),
            (ids[j], rows, slot[back[b]], -share[ids[j]] * taken[j, b] * left[back[b]]),
            notes={"trust": float(a.mean())} if len(ids) else {},
        )
        n_fresh = len(came) + len(k)
        of_buffers = np.where(np.arange(len(contributions)) < n_fresh, contributions.coef, 0.0)
        return replace(
            contributions.with_shares(share), buffer_coef=of_buffers, n_parameters=end.n_parameters
        )

    def stand_ins(self, state: KrigingState, end: RoundEnd) -> Contributions:
        return self.fill(state, end)

    def learn(
        self, state: KrigingState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        came = end.came
        if len(came):
            seen = self._evidence(state, end)
            state.agreement[:], state.size[:] = seen.agreement, seen.size
            state.spent[:], state.gone[:] = seen.spent, seen.gone
            state.length[came] = np.log(seen.norm)
            self._learn_cosines(state, came, seen.cosine)
        state._seen = None
        notes = self._remember(state, end)
        state.models.keep(end)
        if step is not None:
            known = np.flatnonzero(state.memory.rows.known)
            for start in range(0, len(known), CHUNK):
                ids = known[start : start + CHUNK]
                along = gone_along(state.memory.rows.gather(ids), step, end.n_parameters)
                state.progress[ids] += along / np.exp(2 * state.length[ids])
        return notes

    def _nearest(self, ids: Ints) -> int | None:
        return self.nearest if len(ids) > self.exact else None

    def _evidence(self, state: KrigingState, end: RoundEnd) -> Evidence:
        """A pure function of state and round; once computed for a round it is looked up."""
        if state._seen is not None and state._seen[0] is end:
            return state._seen[1]  # type: ignore[no-any-return]
        came, memory = end.came, state.memory
        products = gram(end.arrivals.deltas, end.n_parameters)
        norm = np.sqrt(np.maximum(np.diag(products), TINY))
        cosine = products / np.outer(norm, norm)
        expected = expected_cosines(
            state.cosine.gather(came).numpy(),
            state.together.gather(came).numpy(),
            cosine,
            self.prior,
        )
        known = np.flatnonzero(memory.rows.known)
        left = np.zeros(len(state.length))
        kernel = alike(state.length, self.alike, known)
        left[known] = left_of(kernel, state.spent, state.gone, state.progress[known])
        back = np.flatnonzero(memory.rows.known[came])
        agreement, size = state.agreement.copy(), state.size.copy()
        spent, gone = state.spent.copy(), state.gone.copy()
        if len(back):
            found = self._returns(state, end, back, cosine, expected, left)
            ids = came[back]
            if len(back) > 1:  # nobody can be predicted from nobody
                agreement, size = self.evidence_decay * agreement, self.evidence_decay * size
                unit = found.now + found.then + TINY
                agreement[ids] += found.both / unit
                size[ids] += found.then / unit
            g = np.clip(state.progress[ids], -FURTHEST, FURTHEST)
            w = 1 / (1 + g * g)
            y = np.clip(found.along / np.maximum(found.squared, TINY), -1, 2)
            spent, gone = self.evidence_decay * spent, self.evidence_decay * gone
            spent[ids] += w * g * (1 - y)
            gone[ids] += w * g * g
        return Evidence(cosine, norm, expected, back, left, agreement, size, spent, gone)

    def _returns(
        self,
        state: KrigingState,
        end: RoundEnd,
        back: Ints,
        cosine: Floats,
        expected: Floats,
        left: Floats,
    ) -> Returns:
        memory, ids = state.memory, end.came[back]
        weights = np.zeros((1, 1))
        if len(back) > 1:
            weights = weights_of_friends(
                cosine[np.ix_(back, back)],
                expected[np.ix_(back, ids)],
                end.q[ids] / end.q[ids].sum(),
                self.nugget,
                itself=True,
                nearest=self._nearest(back),
            )
        deltas = end.arrivals.deltas
        return returns(
            deltas if len(back) == len(deltas) else [deltas[int(i)] for i in back],
            memory.rows.block().data,  # type: ignore[arg-type]
            memory.rows.slot[ids],
            memory.rescaled(end, ids),
            left[ids],
            weights,
            end.n_parameters,
        )

    def _learn_cosines(self, state: KrigingState, came: Ints, cosine: Floats) -> None:
        """Running means of the pairs that came together."""
        means, rounds = state.cosine.gather(came), state.together.gather(came)
        before = rounds.numpy()[:, came] * self.decay
        mean = (means.numpy()[:, came] * before + cosine) / (before + 1)
        count = before + 1
        np.fill_diagonal(mean, 0)
        np.fill_diagonal(count, 0)
        means[:, came], rounds[:, came] = torch.from_numpy(mean), torch.from_numpy(count)
        state.cosine.scatter(came, means)
        state.together.scatter(came, rounds)

    def _remember(self, state: KrigingState, end: RoundEnd) -> Mapping[str, float]:
        """Take in the updates, late ones with the model's progress since they began."""
        memory, kept, dropped = state.memory, Arrivals.none(), 0
        if len(end.late):
            assert end.late.start_round is not None
            newest = memory.last_seen.copy()
            newest[end.came] = end.t  # a fresh one wins
            taken: list[tuple[int, torch.Tensor, int]] = []
            for (client, delta), start in zip(end.late, end.late.start_round, strict=True):
                model = state.models.at(int(start))
                if start <= newest[client]:
                    continue
                if model is None:
                    dropped += 1
                    continue
                taken.append((client, delta, int(start)))
                square = max(float(delta[: end.n_parameters].double().square().sum()), TINY)
                moved = gone_along(delta[None], end.params - model, end.n_parameters)
                state.length[client] = np.log(square) / 2
                state.progress[client] = moved[0] / square
            if taken:
                ids, deltas, starts = zip(*taken, strict=True)
                kept = Arrivals(ids, deltas, start_round=starts)
        memory.store(replace(end, late=kept))
        state.progress[end.came] = 0
        return {"late_dropped": float(dropped)} if dropped else {}


def _among(weights: Floats, back: Ints, share: Floats) -> Floats:
    """(r, b) weights of friends among those who came back; their plain mean where there are none.

    `share` (k,) is that of those who came.
    """
    of_back = weights[:, back]
    total = of_back.sum(axis=1, keepdims=True)
    mean = share[back] / share[back].sum() if len(back) else share[back]
    return np.where(total > LEAST, of_back / np.maximum(total, LEAST), mean)

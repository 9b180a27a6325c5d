"""`FedVARP` (Jhunjhunwala et al., 2022): variance reduction with remembered updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Block, Contributions, RoundEnd, Setup, Term
from understudy.memory.precision import PRECISIONS
from understudy.parts.aggregators.linear import linear_sum
from understudy.parts.compensators.memory import Memory

# Of an absent client and one that came: with more, what all absent ones share is one row.
MOST_PAIRS = 1_000_000


@dataclass(frozen=True)
class FedVARP:
    """FedVARP: ``(1/N) Σ_j y_j + (1/|A|) Σ_{i∈A} (Δ_i − y_i)``, then y_i ← Δ_i.

    y_j is the last update of client j, zero before its first. The first sum spans everyone
    remembered; by examples, the means are weighted.

    Parameters
    ----------
    precision : {"full", "float16", "bfloat16", "int8"}
        How updates are remembered: as the model is, in half of the room, or in a quarter.

    Notes
    -----
    The paper divides updates by the local step: an old one is rescaled by η_t/η_s, from the step
    it was made with to the current one.

    References
    ----------
    Jhunjhunwala et al., FedVARP: Tackling the Variance Due to Partial Client Participation in
    Federated Learning, 2022 (algorithm 1).
    """

    precision: str = added("0.2", "full")
    signed = True
    normalised = True

    def __post_init__(self) -> None:
        checks.choice("precision", self.precision, PRECISIONS)

    def init(self, setup: Setup) -> Memory:
        return Memory.empty(setup, self.precision)

    def fill(self, state: Memory, end: RoundEnd) -> Contributions:
        came = end.came
        fresh = end.q[came] / end.q[came].sum()
        coef = end.base / end.base.sum()
        coef[came] -= fresh
        remembered = np.flatnonzero(state.rows.known & end.active)
        old = coef[remembered] * state.rescaled(end, remembered)
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), fresh),
            (remembered, state.block(), state.rows.slot[remembered], old),
        )

    def stand_ins(self, state: Memory, end: RoundEnd) -> Contributions:
        """The same sum: y_k + Σ_{i∈A} w_i (Δ_i − y_i) for an absent k, w the weights of those who
        came; for one that came y_k + r_k (Δ_k − y_k), r_k = w_k Σ_{i∈A} s_i / s_k. That is Δ_k
        itself where everyone is wanted: the w are then shares s, normalised over A."""
        came = end.came
        share = end.base / end.base.sum()
        weight = end.q[came] / end.q[came].sum()
        known = state.rows.known & end.active
        absent = np.setdiff1d(np.flatnonzero(end.active), came)
        fresh, memory = end.fresh(), state.block()
        older, back = absent[known[absent]], np.flatnonzero(known[came])
        own = weight * share[came].sum()
        scale = np.ones(end.population.n_clients)
        scale[known] = state.rescaled(end, np.flatnonzero(known))
        these: list[Term] = [
            (came, fresh, np.arange(len(came)), own),
            (
                came[back],
                memory,
                state.rows.slot[came[back]],
                (share[came] - own)[back] * scale[came[back]],
            ),
            (older, memory, state.rows.slot[older], share[older] * scale[older]),
        ]
        new = (came, fresh, np.arange(len(came)), weight)
        old = (came[back], memory, state.rows.slot[came[back]], -(weight * scale[came])[back])
        if len(absent) * len(came) > MOST_PAIRS:
            change = linear_sum(Contributions.of(new, old))
            one = Block(owner=np.array([-1]), data=change[None])
            return Contributions.of(*these, (absent, one, 0, share[absent])).with_shares(share)
        for ids, block, row, coef in (new, old):
            k, m = np.repeat(absent, len(ids)), np.tile(np.arange(len(ids)), len(absent))
            these.append((k, block, row[m], share[k] * coef[m]))
        return Contributions.of(*these).with_shares(share)

    def learn(self, state: Memory, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        state.store(end)
        return {}

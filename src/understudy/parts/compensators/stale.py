"""`Stale` (FL-FDMS's benchmark): a client's last update, or model, represents it when absent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Block, Contributions, RoundEnd, Setup, Term
from understudy.memory.precision import PRECISIONS
from understudy.parts.compensators.memory import Memory


@dataclass(frozen=True)
class Stale:
    """FL-FDMS's benchmark: an absent client's last update (or model) stands in for its next.

    A client never seen contributes zero.

    Parameters
    ----------
    kind : {"update", "model"}
        The paper's words say the last update. The authors' code averages last *models*: the
        stand-in is then x_k − w, from the current model w to the client's last local model x_k.
    precision : {"full", "float16", "bfloat16", "int8"}
        How updates are remembered: as the model is, in half of the room, or in a quarter.

    Notes
    -----
    By eq. 3 and 4 an old update is a sum of gradients, which takes the current local step: it is
    rescaled by η_t/η_s, which is 1 at a constant step. A model is not rescaled. A late model is
    dropped, since it is a step from a model that is gone; a late update is kept with the round it
    started from.
    """

    kind: str = "update"
    precision: str = added("0.2", "full")

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, ("update", "model"))
        checks.choice("precision", self.precision, PRECISIONS)

    @property
    def signed(self) -> bool:
        return self.kind == "model"  # the current model is subtracted

    @property
    def normalised(self) -> bool:
        return self.kind == "update"

    def init(self, setup: Setup) -> Memory:
        return Memory.empty(setup, self.precision)

    def fill(self, state: Memory, end: RoundEnd) -> Contributions:
        share = end.q / end.q[end.cohort.wanted].sum()
        came = end.came
        remembered = end.absent[state.rows.known[end.absent]]
        old = share[remembered]
        if self.kind == "update":
            old = old * state.rescaled(end, remembered)
        parts: list[Term] = [
            (came, end.fresh(), np.arange(len(came)), share[came]),
            (remembered, state.block(), state.rows.slot[remembered], old),
        ]
        if self.kind == "model":
            current = Block(owner=np.array([-1]), data=end.params[None])
            parts.append((remembered, current, 0, -share[remembered]))
        return Contributions.of(*parts)

    def stand_ins(self, state: Memory, end: RoundEnd) -> Contributions:
        return self.fill(state, end).with_shares(end.q / end.q[end.cohort.wanted].sum())

    def learn(self, state: Memory, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        if self.kind == "update":
            state.store(end)
            return {}
        for client, delta in end.arrivals:
            state.put(client, end.params + delta)
            state.last_seen[client] = end.t
        return {}

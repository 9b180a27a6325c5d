"""`MIFA` (Gu et al., 2021): the mean of everyone's latest update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Contributions, RoundEnd, Setup
from understudy.memory.precision import PRECISIONS
from understudy.parts.compensators.memory import Memory


@dataclass
class MIFAState:
    memory: Memory
    complete: bool  # everyone was seen once: never waits again


@dataclass(frozen=True)
class MIFA:
    """MIFA: the mean of everyone's latest update, (η_t/N) Σ_i G_i with G_i = Δ_i/η_s.

    Parameters
    ----------
    wait : bool
        Take no step until every client was seen once, as the paper's analysis asks; a client that
        joins later does not stall it again. Without it, the unseen count as zero.
    step_when_empty : bool
        Step on memory alone in a round in which nobody came, as the paper does. By default such a
        round takes no step, as with every other method.
    precision : {"full", "float16", "bfloat16", "int8"}
        How updates are remembered: as the model is, in half of the room, or in a quarter.

    Notes
    -----
    Weights by examples take the place of 1/N where the strategy says so.

    References
    ----------
    Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, 2021
    (algorithm 1).
    """

    wait: bool = True
    step_when_empty: bool = added("0.2", False)
    precision: str = added("0.2", "full")
    signed = False
    normalised = True

    def __post_init__(self) -> None:
        checks.choice("wait", self.wait, (True, False))
        checks.choice("step_when_empty", self.step_when_empty, (True, False))
        checks.choice("precision", self.precision, PRECISIONS)

    @property
    def fills_without_arrivals(self) -> bool:
        return self.step_when_empty

    def init(self, setup: Setup) -> MIFAState:
        return MIFAState(Memory.empty(setup, self.precision), complete=False)

    def fill(self, state: MIFAState, end: RoundEnd) -> Contributions:
        seen = state.memory.seen(end)
        waits = self.wait and not state.complete and not seen[end.active].all()
        if waits:
            return Contributions.none({"mifa_unseen": float((end.active & ~seen).sum())})
        return state.memory.sum(end, end.base / end.base.sum() * seen)

    def stand_ins(self, state: MIFAState, end: RoundEnd) -> Contributions:
        return self.fill(state, end).with_shares(end.base / end.base.sum())

    def learn(
        self, state: MIFAState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        state.memory.store(end)
        state.complete = state.complete or bool(state.memory.seen(end)[end.active].all())
        return {}

"""What is trained, and how: each client into its own row, from data that all processes share.

A row holds a client's flat model, and is trained in place: no copy is made at the end. What a
client's row becomes depends on the seed, the round and the client alone, never on who else is
trained, in which order, or in which process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from understudy.core.types import Ints
from understudy.parts.local import Local
from understudy.simulation.training.kernels.library import VERSION
from understudy.simulation.training.kernels.plan import Plan

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # outputs, labels -> mean loss


@dataclass(frozen=True, eq=False)
class EngineChoice:
    """Which engine trains, decided once for a run: workers use what the parent decided."""

    plan: Plan | None = None  # of the compiled kernels; None: the loop
    addressed_dropout: bool = False  # a plain chain: its dropout layers draw by address
    reason: str = ""  # why it is not the kernels

    @property
    def name(self) -> str:
        """As it is stored with a run; engines of different names differ in last bits."""
        return "loop" if self.plan is None else f"kernels {VERSION}"


@dataclass(frozen=True, eq=False)
class Recipe:
    """What training needs besides data: sent to each worker once."""

    module: nn.Module
    loss: Loss
    local: Local
    seed: int
    clients: tuple[Ints, ...]  # examples of each client
    onednn: bool = True  # which convolution kernels: see `convolution_backend`
    device: str = "cpu"
    engine: EngineChoice = EngineChoice()


@dataclass(frozen=True, eq=False)
class Job:
    """Clients to be trained in one round, and the rows they are trained in."""

    t: int
    clients: list[int]
    rows: list[int]  # aligned with clients
    params: torch.Tensor  # (d,) the model to start from
    matrix: torch.Tensor  # (k, d) rows: trained here, then local − start
    starts: torch.Tensor | None = None  # (k, d) a start per row, in place of params
    corrections: torch.Tensor | None = None  # (k, d) added to each gradient
    lr: float | None = None  # η; None: by the round's number

    def lr_of(self, local: Local) -> float:
        """η of this round."""
        return local.lr_at(self.t) if self.lr is None else self.lr


Trained = list[tuple[int, float]]  # per client: local steps, mean loss over the examples seen


class Engine(Protocol):
    """Trains the clients of a job in their rows."""

    def train(self, job: Job) -> Trained: ...

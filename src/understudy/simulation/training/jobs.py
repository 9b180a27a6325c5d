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

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # outputs, labels -> mean loss


@dataclass(frozen=True, eq=False)
class Recipe:
    """What training needs besides data: sent to each worker once."""

    module: nn.Module
    loss: Loss
    local: Local
    seed: int
    clients: tuple[Ints, ...]  # examples of each client
    onednn: bool
    device: str = "cpu"


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


Trained = list[tuple[int, float]]  # per client: local steps, mean loss over the examples seen


class Engine(Protocol):
    """Trains the clients of a job in their rows."""

    def train(self, job: Job) -> Trained: ...

    def together(self, t: int) -> int:
        """How many clients it steps side by side: a job had better have a multiple of it."""

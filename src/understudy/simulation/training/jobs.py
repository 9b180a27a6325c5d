"""What is trained, and how: each client into its own row, from data that all processes share.

A row holds a client's flat model, and is trained in place: no copy is made at the end. What a
client's row becomes depends on the seed, the round and the client alone, never on who else is
trained, in which order, or in which process.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import nn

from understudy.core.types import Cohort, Ints
from understudy.parts.local import Local
from understudy.simulation.data.shared_memory import aligned_matrix
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

    @classmethod
    def of(cls, params: torch.Tensor, cohort: Cohort, matrix: torch.Tensor | None = None) -> Job:
        """The training of a cohort's asked clients; without a matrix, `in_new_rows` makes one."""
        clients = cohort.asked.tolist()

        def rows(function: Callable[[int], torch.Tensor] | None) -> torch.Tensor | None:
            if function is None:
                return None
            made = aligned_matrix(len(clients), len(params), params.dtype).to(params.device)
            return each_row(made, function, clients)

        return cls(
            cohort.t,
            clients,
            list(range(len(clients))),
            params,
            params.new_empty((0, len(params))) if matrix is None else matrix,
            rows(cohort.start),
            rows(cohort.correction),
            cohort.lr,
        )

    def in_new_rows(self) -> Job:
        """The same in rows of this process: for a job that was sent here without any.

        Rows are aligned, since the last bits of what is computed in them may depend on it.
        """
        rows = aligned_matrix(len(self.clients), len(self.params), self.params.dtype)
        return replace(self, matrix=rows.to(self.params.device))

    def part(self, positions: Sequence[int]) -> Job:
        """The training of some of the clients."""
        clients, rows = ([of[i] for i in positions] for of in (self.clients, self.rows))
        return replace(self, clients=clients, rows=rows)

    def lr_of(self, local: Local) -> float:
        """η of this round."""
        return local.lr_at(self.t) if self.lr is None else self.lr


Trained = list[tuple[int, float]]  # per client: local steps, mean loss over the examples seen


def each_row(
    rows: torch.Tensor, function: Callable[[int], torch.Tensor], clients: Sequence[int]
) -> torch.Tensor:
    """Write what a function of one id says of each client into a row."""
    for row, client in enumerate(clients):
        rows[row] = function(client)
    return rows


def in_order(parts: Sequence[Sequence[int]], results: Iterable[Trained]) -> Trained:
    """The results of a job's parts, by position in the job."""
    found = {
        position: one
        for part, trained in zip(parts, results, strict=True)
        for position, one in zip(part, trained, strict=True)
    }
    return [found[position] for position in range(len(found))]


class Engine(Protocol):
    """Trains the clients of a job in their rows."""

    def train(self, job: Job) -> Trained: ...


def versions() -> dict[str, str]:
    """What bits depend on, besides this package: libraries, and the kind of CPU."""
    return {
        "Python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "CPU": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }

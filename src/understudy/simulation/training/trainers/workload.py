"""The training of a round as counted work: how long it takes, and how it is divided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.types import Ints
from understudy.parts.local import Local
from understudy.simulation.training.batches import n_steps_of
from understudy.simulation.training.jobs import EngineChoice

AT_ONCE = 0.75  # of the work that is left, given out in one large part per worker


@dataclass(frozen=True)
class Pace:
    """What an engine does on a typical core, roughly."""

    client: float  # seconds for each client
    step: float  # seconds for each of its steps
    multiply_adds: float  # a second


LOOP_PACE = Pace(client=0.0, step=150e-6, multiply_adds=7e9)
# measured: 17 to 34e9 on FedGS's networks (12 and 15 million multiply-adds), 43e9 on ResNet-18
LARGE_LOOP_PACE = Pace(client=0.0, step=150e-6, multiply_adds=30e9)
LARGE = 4e6  # multiply-adds of an example's forward pass from which the loop is so fast
KERNELS_PACE = Pace(client=100e-6, step=2e-6, multiply_adds=40e9)


def pace_of(engine: EngineChoice, per_example: float = 0.0) -> Pace:
    """How fast an engine is, with a model of so many multiply-adds an example."""
    if engine.plan is not None:
        return KERNELS_PACE
    return LARGE_LOOP_PACE if per_example >= LARGE else LOOP_PACE


@dataclass(frozen=True, eq=False)
class Workload:
    """Work in seconds of a typical core: counted, not measured, so that no clock decides.

    Parameters
    ----------
    sizes : (N,) ints
        Examples of each client.
    local : Local
        How clients train.
    per_example : float
        Multiply-adds of one example's forward pass.
    pace : Pace
        Of the engine.
    n_workers : int
        How many clients are trained at a time.
    """

    sizes: Ints
    local: Local
    per_example: float
    pace: Pace
    n_workers: int

    def training(self, clients: Sequence[int], t: int) -> float:
        """Seconds that training these clients in round `t` takes."""
        sizes, steps = self.sizes[list(clients)], self._steps(clients, t)
        examples = (steps * np.minimum(sizes, self.local.batch_size_at(t))).sum()
        pace, multiply_adds = self.pace, 3 * examples * self.per_example
        seconds = len(sizes) * pace.client + steps.sum() * pace.step
        return float(seconds + multiply_adds / pace.multiply_adds)

    def forward(self, n_examples: int) -> float:
        """Seconds that a forward pass of so many examples takes."""
        return n_examples * self.per_example / self.pace.multiply_adds

    def is_worth(self, clients: Sequence[int], t: int, seconds: float) -> bool:
        """Whether several clients are trained at a time, where that pays from so much work on."""
        return self.n_workers > 1 and len(clients) > 1 and self.training(clients, t) >= seconds

    def parts(self, clients: Sequence[int], t: int) -> list[list[int]]:
        """Positions in parts that workers take one after the other, long clients first.

        A large part for each worker, then smaller and smaller ones for whoever is free: so all end
        at about the same time, even if something else runs on one of the cores.
        """
        steps = self._steps(clients, t)
        order = np.argsort(-steps, kind="stable")
        done = np.concatenate([[0], np.cumsum(steps[order])])
        first = 0
        parts: list[list[int]] = []
        while first < len(order):
            if len(parts) % self.n_workers == 0:
                each = AT_ONCE * (done[-1] - done[first]) / self.n_workers
            n_clients = int(np.searchsorted(done, done[first] + each, side="right")) - 1 - first
            n_clients = max(1, n_clients)
            parts.append(order[first : first + n_clients].tolist())
            first += n_clients
        return parts

    def _steps(self, clients: Sequence[int], t: int) -> Ints:
        return n_steps_of(self.sizes[list(clients)], self.local, t)

"""`KernelTrainer`: clients trained by the compiled kernels, in threads of this process."""

from __future__ import annotations

from functools import partial
from typing import cast

import torch

from understudy.core.threads import one_thread
from understudy.core.types import Arrivals, Cohort, Floats, Ints
from understudy.simulation.training.evaluation import client_losses, pieces
from understudy.simulation.training.jobs import Job
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernel_threads import KernelThreads
from understudy.simulation.training.trainers.rows import RowMemory
from understudy.simulation.training.trainers.task import TrainingTask

WORTH_THREADS = 0.005  # seconds of counted work from which several threads pay


class KernelTrainer:
    """A `Trainer` for tasks whose engine is the compiled kernels; see `local_trainer`.

    It evaluates by the kernels too: a round of theirs is short, and torch takes several times as
    long for the examples of a small net.
    """

    def __init__(self, task: TrainingTask) -> None:
        self.task = task
        engine = cast(KernelEngine, task.engine())
        self._threads = KernelThreads(engine, task.workload.n_workers)
        self._rows = RowMemory(task.layout)

    def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
        """Train everyone asked."""
        params = self.task.checked(params)
        if not len(cohort.asked):
            return Arrivals.none()
        workload = self.task.workload
        job = Job.of(params, cohort, self._rows.own(into, len(cohort.asked), params.device))
        several = workload.is_worth(job.clients, job.t, WORTH_THREADS)
        parts = workload.parts(job.clients, job.t) if several else [job.rows]
        return self.task.arrivals(cohort, job.matrix, self._threads.train(job, parts))

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats:
        """(len(ids),) mean loss of a model on each client's validation (else training) examples."""
        with one_thread():
            ask = partial(self.outputs, self.task.checked(params))
            loss = self.task.recipe.loss
            return client_losses(ask, self.task.federation, ids, loss, together=True)

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """What the model with these parameters says to some of the examples."""
        params, indices = self.task.checked(params), self.task.checked_indices(indices)
        workload = self.task.workload
        several = workload.forward(len(indices)) >= WORTH_THREADS
        parts = pieces(indices, workload.n_workers if several else 1)
        return self._threads.outputs(params, parts or [indices])

    def close(self) -> None:
        """Let go of rows and threads."""
        self._rows.clear()
        self._threads.close()

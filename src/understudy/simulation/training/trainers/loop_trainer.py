"""`LoopTrainer`: clients trained by the torch loop, in this process or in worker processes."""

from __future__ import annotations

import copy
from functools import partial
from typing import cast

import torch

from understudy.core.types import Arrivals, Cohort, Floats, Ints
from understudy.simulation.data.shared_memory import Shared
from understudy.simulation.training.convolution_backend import kernels
from understudy.simulation.training.evaluation import (
    client_losses,
    model_outputs,
    outputs_of,
    pieces,
)
from understudy.simulation.training.jobs import Job, Trained, each_row, in_order
from understudy.simulation.training.local_sgd import LoopEngine, point_to
from understudy.simulation.training.trainers.rows import RowMemory
from understudy.simulation.training.trainers.task import TrainingTask
from understudy.simulation.training.workers import TrainRequest, Workers, start_workers

WORTH_WORKERS = 0.02  # seconds of counted work from which worker processes pay
WORTH_STARTING = 0.2  # of a round with everybody, from which processes are started beforehand


class LoopTrainer:
    """A `Trainer` for any task; see `local_trainer`.

    Where a worker process dies, what was asked of all of them is done again, once; then it is
    `WorkerDied`.
    """

    def __init__(self, task: TrainingTask) -> None:
        self.task = task
        n_workers, everyone = task.workload.n_workers, range(task.federation.n_clients)
        if task.workload.is_worth(everyone, 0, WORTH_STARTING):
            start_workers(n_workers)
        self._here = cast(LoopEngine, task.engine())
        self._evaluated = copy.deepcopy(task.recipe.module)  # the engine's is pointed at rows
        self._rows = RowMemory(task.layout)
        self._workers: Workers | None = None
        self._params: Shared | None = None
        self._deaths = 0  # of workers that were let go

    @property
    def deaths(self) -> int:
        """How often worker processes died and a round was trained again."""
        return self._deaths + (0 if self._workers is None else self._workers.deaths)

    def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
        """Train everyone asked."""
        params, clients = self.task.checked(params), cohort.asked.tolist()
        if not clients:
            return Arrivals.none()
        if self.task.workload.is_worth(clients, cohort.t, WORTH_WORKERS):
            return self.task.arrivals(cohort, *self._spread(params, cohort, clients, into))
        job = Job.of(params, cohort, self._rows.own(into, len(clients), params.device))
        return self.task.arrivals(cohort, job.matrix, self._here.train(job))

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats:
        """(len(ids),) mean loss of a model on each client's validation (else training) examples."""
        data, recipe = self.task.federation, self.task.recipe
        with kernels(recipe.onednn):
            point_to(self._here.module, self.task.layout, self.task.checked(params))
            ask = partial(outputs_of, self._here.module, data.x, device=recipe.device)
            return client_losses(lambda held: ask(held).cpu(), data, ids, recipe.loss)

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """What the model with these parameters says to some of the examples."""
        params, indices = self.task.checked(params), self.task.checked_indices(indices)
        workload = self.task.workload
        # processes are not started for this alone
        if (
            self._workers is not None
            and self._params is not None
            and workload.forward(len(indices)) >= WORTH_WORKERS
        ):
            self._params.tensor.copy_(params)
            return self._workers.outputs(self._params.handle, pieces(indices, workload.n_workers))
        x, device = self.task.federation.x, self.task.recipe.device
        return model_outputs(self._evaluated, params, x, indices, device)

    def close(self) -> None:
        """Let go of rows. Worker processes stay for the next run, and end when idle."""
        self._deaths = self.deaths
        self._workers = self._params = None
        self._rows.clear()

    def _spread(
        self, params: torch.Tensor, cohort: Cohort, clients: list[int], into: str
    ) -> tuple[torch.Tensor, Trained]:
        """Train in worker processes: rows and results."""
        layout, workload = self.task.layout, self.task.workload
        if self._workers is None or self._params is None:
            self._workers = Workers(self.task.recipe, self.task.federation, workload.n_workers)
            self._params = Shared((layout.size,), layout.dtype)
        self._params.tensor.copy_(params)
        matrix = self._rows.shared(into, len(clients))
        handles = {"params": self._params.handle, "matrix": matrix.handle}
        for name, function in (("starts", cohort.start), ("corrections", cohort.correction)):
            if function is not None:
                rows = self._rows.shared(name, len(clients))
                each_row(rows.tensor, function, clients)
                handles[name] = rows.handle
        parts = workload.parts(clients, cohort.t)
        orders = [
            TrainRequest(cohort.t, [clients[i] for i in part], part, **handles, lr=cohort.lr)
            for part in parts
        ]
        return matrix.tensor[: len(clients)], in_order(parts, self._workers.train(orders))

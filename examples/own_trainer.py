"""A trainer of one's own: clients are trained by a pool of processes, chunk by chunk.

    python examples/own_trainer.py

A cluster or a scheduler is used in the same way: the data and the recipe go to each worker once, a
round sends the model and who is to be trained, and rows come back. The bits are those of the
built-in trainers, which the last line shows.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import cloudpickle
import numpy as np
import torch

from understudy import Arrivals, Cohort, FixedDropout, Local, fdms
from understudy.simulation import (
    Job,
    Run,
    Simulation,
    TrainingTask,
    clustered_digits,
    engine_for,
    local_trainer,
)

N_PROCESSES = 2


class PoolTrainer:
    """Trains in a pool of processes; evaluates as the simulator does."""

    def __init__(self, task: TrainingTask) -> None:
        self.task, self.here = task, local_trainer(task)
        self.losses, self.outputs = self.here.losses, self.here.outputs
        data = task.federation
        kit = cloudpickle.dumps((task.recipe, data.x, data.y))  # once for each process
        fresh = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(N_PROCESSES, fresh, begin, (kit,))

    def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
        chunks = np.array_split(cohort.asked, N_PROCESSES)
        jobs = [Job.of(params, replace(cohort, asked=ids)) for ids in chunks]
        done = list(self.pool.map(train, jobs))  # in the order of the chunks
        rows = [row for matrix, _ in done for row in matrix]
        return self.task.arrivals(cohort, rows, [one for _, trained in done for one in trained])

    def close(self) -> None:
        self.pool.shutdown()
        self.here.close()


# -- in a process of the pool ----------------------------------------------------------------------


def begin(kit: bytes) -> None:
    global engine
    engine = engine_for(*cloudpickle.loads(kit))


def train(job: Job) -> tuple[torch.Tensor, list[tuple[int, float]]]:
    job = job.in_new_rows()
    trained = engine.train(job)  # (steps, mean loss) of each client
    return job.matrix, trained


def main() -> None:
    settings = Simulation(model="mlp", availability=FixedDropout(0.5), rounds=3)
    strategy = fdms(local=Local(lr=0.1, epochs=1, batch_size=10))
    models = []
    for trainer in (None, PoolTrainer):
        run = Run(clustered_digits(), strategy, replace(settings, trainer=trainer))
        accuracy = [log.metrics["test_accuracy"] for log in run][-1]
        models.append(run.state.params)
        print(f"{trainer.__name__ if trainer else 'built in'}: accuracy {accuracy:.3f}")
    print("the same bits:", torch.equal(*models))


if __name__ == "__main__":
    main()

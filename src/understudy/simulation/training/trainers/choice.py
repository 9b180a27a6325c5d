"""Which trainer a run has: the user's own, threads for the compiled kernels, else processes."""

from __future__ import annotations

from collections.abc import Callable

from understudy.core.roles import Trainer
from understudy.simulation.training.trainers.checked import CheckedTrainer
from understudy.simulation.training.trainers.kernel_trainer import KernelTrainer
from understudy.simulation.training.trainers.loop_trainer import LoopTrainer
from understudy.simulation.training.trainers.task import TrainingTask

MakeTrainer = Callable[[TrainingTask], Trainer]  # a class whose objects are made of a task, say


def local_trainer(task: TrainingTask) -> KernelTrainer | LoopTrainer:
    """The trainer of this machine: threads where the kernels train, else processes, or this one.

    Which engine trains was decided by the shapes of the model and the data when the task was made,
    never by the clock (`understudy.simulation.training.engines`).
    """
    return LoopTrainer(task) if task.recipe.engine.plan is None else KernelTrainer(task)


def trainer_of(task: TrainingTask, make: MakeTrainer | None) -> Trainer:
    """The user's own trainer, checked in every call; without one, that of this machine."""
    return local_trainer(task) if make is None else CheckedTrainer(task, make)

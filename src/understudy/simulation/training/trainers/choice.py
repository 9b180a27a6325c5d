"""Which trainer a run has: the one asked for, else threads for the kernels, else processes."""

from __future__ import annotations

from collections.abc import Callable

from understudy.core.roles import Trainer
from understudy.registry import imported
from understudy.simulation.training.trainers.checked import CheckedTrainer
from understudy.simulation.training.trainers.kernel_trainer import KernelTrainer
from understudy.simulation.training.trainers.loop_trainer import LoopTrainer
from understudy.simulation.training.trainers.task import TrainingTask

MakeTrainer = Callable[[TrainingTask], Trainer]  # a class whose objects are made of a task, say

NAMED = {"ray": "understudy.simulation.training.trainers.ray_trainer:RayTrainer"}


def local_trainer(task: TrainingTask) -> KernelTrainer | LoopTrainer:
    """The trainer of this machine: threads where the kernels train, else processes, or this one.

    Which engine trains was decided by the shapes of the model and the data when the task was made,
    never by the clock (`understudy.simulation.training.engines`).
    """
    return LoopTrainer(task) if task.recipe.engine.plan is None else KernelTrainer(task)


def trainer_of(task: TrainingTask, make: MakeTrainer | str | None) -> Trainer:
    """One that is named or the user's own, checked in every call; else that of this machine."""
    if make is None:
        return local_trainer(task)
    return CheckedTrainer(task, imported(NAMED[make])() if isinstance(make, str) else make)

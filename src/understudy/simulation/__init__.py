"""A federation on one machine: data, local training, and the loop of rounds.

The loop is loaded when it is asked for: worker processes start sooner without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.registry import imported
from understudy.simulation.data.dataset import Dataset
from understudy.simulation.data.digits import clustered_digits, digits
from understudy.simulation.data.federate import federate
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.image_sets import cifar10, cifar100, fashion_mnist, mnist, svhn
from understudy.simulation.data.models import build
from understudy.simulation.data.partitions import (
    SHARD_LEVELS,
    Partition,
    classes_per_client,
    clustered,
    dirichlet,
    hold_out,
    iid,
    shards,
)
from understudy.simulation.data.synthetic import synthetic
from understudy.simulation.training.batches import batch_plan
from understudy.simulation.training.engines import engine_for
from understudy.simulation.training.evaluation import evaluate
from understudy.simulation.training.jobs import Job
from understudy.simulation.training.trainers.checked import TrainerError
from understudy.simulation.training.trainers.choice import NAMED, local_trainer
from understudy.simulation.training.trainers.task import TrainingTask

if TYPE_CHECKING:
    from understudy.simulation.references import pooled
    from understudy.simulation.run import Run, simulate
    from understudy.simulation.settings import Simulation
    from understudy.simulation.training.trainers.ray_trainer import RayTrainer

__all__ = [
    "SHARD_LEVELS",
    "Dataset",
    "Federation",
    "Job",
    "Partition",
    "RayTrainer",
    "Run",
    "Simulation",
    "TrainerError",
    "TrainingTask",
    "batch_plan",
    "build",
    "cifar10",
    "cifar100",
    "classes_per_client",
    "clustered",
    "clustered_digits",
    "digits",
    "dirichlet",
    "engine_for",
    "evaluate",
    "fashion_mnist",
    "federate",
    "fedgs_synthetic",
    "hold_out",
    "iid",
    "local_trainer",
    "mnist",
    "pooled",
    "shards",
    "simulate",
    "svhn",
    "synthetic",
]


def __getattr__(name: str) -> Any:
    if name == "pooled":
        from understudy.simulation import references

        return references.pooled
    if name in ("Run", "Simulation", "simulate"):
        from understudy.simulation import run

        return getattr(run, name)
    if name == "RayTrainer":
        return imported(NAMED["ray"])
    if name == "fedgs_synthetic":  # of the papers, under the name that it had here
        return imported("understudy.papers.fedgs_synthetic:fedgs_synthetic")
    raise AttributeError(f"module 'understudy.simulation' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

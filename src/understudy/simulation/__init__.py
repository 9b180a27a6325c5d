"""A federation on one machine: data, local training, and the loop of rounds."""

from understudy.simulation.data import Federation
from understudy.simulation.digits import clustered_digits, digits
from understudy.simulation.engine import Run, simulate
from understudy.simulation.models import build
from understudy.simulation.partitions import Partition, clustered, hold_out, iid
from understudy.simulation.training import LoopTrainer, batch_plan, evaluate

__all__ = [
    "Federation",
    "LoopTrainer",
    "Partition",
    "Run",
    "batch_plan",
    "build",
    "clustered",
    "clustered_digits",
    "digits",
    "evaluate",
    "hold_out",
    "iid",
    "simulate",
]

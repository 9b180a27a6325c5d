"""What travels to a Ray cluster, and what its processes do with it.

Whatever is large travels as bytes, which Ray's object store keeps once on each machine: all
processes there look at the same memory. This module is imported where Ray is, and does without it.
"""

from __future__ import annotations

import socket
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import cloudpickle
import numpy as np
import torch

from understudy._version import __version__
from understudy.core.threads import one_thread
from understudy.core.types import Ints
from understudy.memory.pixels import inputs_of, stored_of
from understudy.simulation.data.federation import Federation
from understudy.simulation.training.jobs import each_row, versions
from understudy.simulation.training.trainers.choice import local_trainer
from understudy.simulation.training.trainers.kernel_trainer import KernelTrainer
from understudy.simulation.training.trainers.loop_trainer import LoopTrainer
from understudy.simulation.training.trainers.task import TrainingTask


class OtherNode(RuntimeError):
    """A machine of the cluster that would train to other bits, or lacks what training needs."""


@dataclass(frozen=True, eq=False)
class Sent:
    """A tensor as bytes of Ray's object store: the processes of a machine share them, read only."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    shape: torch.Size
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Self:
        """The bytes of a tensor."""
        flat = tensor.detach().contiguous().reshape(-1)
        return cls(flat.view(torch.uint8).numpy(), tensor.shape, tensor.dtype)

    def tensor(self) -> torch.Tensor:
        """The same memory as a tensor, which must not be written to."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(self.data).view(self.dtype).view(self.shape)


@dataclass(frozen=True, eq=False)
class RowsOf:
    """A cohort's function of one client's id, its answers given beforehand."""

    ids: list[int]
    rows: Sent

    @classmethod
    def clients(
        cls, function: Callable[[int], torch.Tensor], ids: Ints, like: torch.Tensor
    ) -> Self:
        """The answers for these clients."""
        rows = each_row(like.new_empty((len(ids), len(like))), function, ids.tolist())
        return cls(ids.tolist(), Sent.of(rows))

    def __call__(self, client: int) -> torch.Tensor:
        return self.rows.tensor()[self.ids.index(client)]


@dataclass(frozen=True, eq=False)
class Kit:
    """A task as it travels: to each machine once."""

    key: str
    needs: Mapping[str, str]  # what bits depend on
    pickled: np.ndarray[Any, np.dtype[np.uint8]]  # recipe, workload, and the data but x and y
    x: Sent  # its bytes, where it is kept as such
    y: Sent

    @classmethod
    def of(cls, task: TrainingTask) -> Self:
        """Everything that training needs."""
        data = task.federation
        names = [item.name for item in fields(data) if item.name not in ("x", "y")]
        rest = {name: getattr(data, name) for name in names}
        stored, scaling = stored_of(data.x)
        try:
            text = cloudpickle.dumps((task.recipe, task.workload, rest, scaling))
        except Exception as error:  # a pickle runs anybody's code
            raise TypeError(
                "the model, its loss or its local training cannot be sent to a cluster: "
                f"{type(error).__name__}: {error}"
            ) from error
        pickled = np.frombuffer(text, dtype=np.uint8)
        return cls(uuid.uuid4().hex, bits_need(), pickled, Sent.of(stored), Sent.of(data.y))

    def task(self) -> TrainingTask:
        """The task, on a machine that trains it to the same bits."""
        here = bits_need()
        others = [
            f"{name} {here.get(name)}, expected {needed}"
            for name, needed in self.needs.items()
            if here.get(name) != needed
        ]
        if others:
            raise OtherNode(
                f"the machine {socket.gethostname()} of the cluster would train to other bits than "
                f"this one: it has {'; '.join(others)}"
            )
        try:
            recipe, workload, rest, scaling = cloudpickle.loads(self.pickled)
        except Exception as error:
            raise OtherNode(
                f"the machine {socket.gethostname()} of the cluster cannot load the model, its "
                f"loss or its local training: {type(error).__name__}: {error}. Their modules must "
                "be importable there"
            ) from error
        x = inputs_of(self.x.tensor(), scaling)
        return TrainingTask(Federation(x, self.y.tensor(), **rest), recipe, workload)


def bits_need() -> dict[str, str]:
    """What two machines must have in common; Ray itself compares versions of Python."""
    named = {"understudy": __version__, **versions()}
    return {name: version for name, version in named.items() if name != "Python"}


_at_work: dict[str, KernelTrainer | LoopTrainer] = {}  # of this process: that of one run


def work(kit: Kit, model: Sent, verb: str, asked: Any) -> Any:
    """Do a chunk in this process, by a trainer that is kept for the run."""
    with one_thread():
        trainer = _at_work.get(kit.key)
        if trainer is None:
            _at_work.clear()  # two sets of data may not fit
            trainer = _at_work[kit.key] = local_trainer(kit.task())
        params = model.tensor()
        if verb == "losses":
            return trainer.losses(params, asked)
        if verb == "outputs":
            return Sent.of(trainer.outputs(params, asked))
        arrivals = trainer.train(params, asked)
        assert isinstance(arrivals.deltas, torch.Tensor)
        return Sent.of(arrivals.deltas), arrivals.n_steps, arrivals.losses

"""What travels to a cluster comes out as it was, and a machine that is not alike says so."""

from __future__ import annotations

import pickle
import sys
from dataclasses import fields, replace
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import SEED, federation
from understudy import Local
from understudy.simulation import TrainingTask
from understudy.simulation.training.trainers import ray_work
from understudy.simulation.training.trainers.ray_work import Kit, OtherNode, RowsOf, Sent


def task(module: nn.Module | None = None) -> TrainingTask:
    data = replace(federation(dtype=torch.float32), names=("a", "b", "c"), features=np.eye(3))
    return TrainingTask.of(data, module or nn.Linear(6, 3), Local(lr=0.1), SEED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 1, 3)])
def test_a_tensor_comes_out_as_it_was(dtype, shape):
    tensor = torch.arange(-2, int(np.prod(shape)) - 2).reshape(shape).to(dtype)
    beside: list[pickle.PickleBuffer] = []
    text = pickle.dumps(Sent.of(tensor), protocol=5, buffer_callback=beside.append)
    found = pickle.loads(text, buffers=[bytes(one) for one in beside]).tensor()  # read only
    assert found.dtype == dtype
    assert found.shape == tensor.shape
    assert torch.equal(found, tensor)
    turned = tensor.T if len(shape) == 2 else tensor
    assert torch.equal(Sent.of(turned).tensor(), turned)  # numbers that do not lie densely


def test_rows_are_told_by_client():
    rows = {4: torch.tensor([4.0, 1.0]), 1: torch.tensor([1.0, 2.0]), 7: torch.tensor([7.0, 3.0])}
    told = RowsOf.clients(rows.__getitem__, np.array([7, 1]), torch.zeros(2))
    assert torch.equal(told(1), rows[1])
    assert torch.equal(told(7), rows[7])
    with pytest.raises(ValueError, match="4"):
        told(4)  # it was not sent


def test_a_task_comes_out_as_it_was():
    made = task()
    found = pickle.loads(pickle.dumps(Kit.of(made))).task()
    for item in fields(made.federation):
        ours, theirs = (getattr(one.federation, item.name) for one in (made, found))
        if isinstance(ours, torch.Tensor):
            ours, theirs = ours.numpy(), theirs.numpy()
        np.testing.assert_equal(theirs, ours)
    assert found.recipe.engine.name == made.recipe.engine.name
    assert found.workload.n_workers == made.workload.n_workers
    assert torch.equal(found.recipe.module.weight, made.recipe.module.weight)
    assert Kit.of(made).key != Kit.of(made).key


@pytest.mark.parametrize("what", ["understudy", "torch", "numpy", "CPU"])
def test_a_machine_that_would_round_differently_is_refused(what, monkeypatch):
    kit = Kit.of(task())
    monkeypatch.setattr(ray_work, "bits_need", lambda: {**kit.needs, what: "another"})
    monkeypatch.setattr(ray_work.socket, "gethostname", lambda: "node7")
    words = f"machine node7 .* to other bits than this one: it has {what} another, expected "
    with pytest.raises(OtherNode, match=words):
        kit.task()


def test_a_machine_without_the_models_module_is_refused(monkeypatch):
    text = "import torch\nclass Own(torch.nn.Linear): pass\n"
    module = ModuleType("module_of_mine")
    exec(text, module.__dict__)
    monkeypatch.setitem(sys.modules, "module_of_mine", module)
    kit = Kit.of(task(module.Own(6, 3)))
    monkeypatch.delitem(sys.modules, "module_of_mine")
    words = "cannot load the model, .* No module named 'module_of_mine'. Their modules must be"
    with pytest.raises(OtherNode, match=words):
        kit.task()

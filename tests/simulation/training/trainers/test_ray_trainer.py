"""Chunks on a cluster, with a Ray of this process: the same bits, and what goes wrong by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import SEED, all_facts, cohort, federation
from tests.simulation.training.trainers.stub_ray import StubRay, as_module
from understudy import (
    Deadline,
    FixedDropout,
    Latency,
    Local,
    fedavg,
    fedawe,
    power_of_choice,
    scaffold,
    simulate,
)
from understudy.core.flat import Layout
from understudy.simulation import Simulation, TrainerError, TrainingTask
from understudy.simulation.training.trainers import ray_trainer, ray_work
from understudy.simulation.training.trainers.ray_trainer import ClusterTrainer, RayTrainer
from understudy.simulation.training.workers import WorkerDied
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.study import Study

DATA = federation((8, 12, 6, 10, 7), dtype=torch.float32)
LOCAL = Local(lr=0.1, batch_size=4)
SLOW = Deadline(Latency(step_spread=1.5, jitter=0.5, seed=2), seconds=0.05)
GIVEN: dict[str, Any] = {"model": "softmax", "rounds": 3, "seed": SEED}
TOML = """
name = "s"
rounds = 2
model = "softmax"
strategies = ["fedavg"]
data = { name = "digits", partition = "iid", n_clients = 4 }
"""
CLUSTER = "understudy.simulation.training.trainers.ray_cluster"


def net() -> nn.Module:
    """Buffers that are aggregated, one that is not, and a layer that draws."""
    return nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.4), nn.Linear(5, 3)
    )


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubRay]:
    """A Ray of this process; nothing is too small to be sent, and a chunk has two clients."""
    stub = StubRay()
    monkeypatch.setitem(sys.modules, CLUSTER, as_module(stub))
    monkeypatch.setattr(ray_trainer, "WORTH_SENDING", 0.0)
    monkeypatch.setattr(ray_trainer, "CHUNK_BYTES", 2 * 21 * 4)
    yield stub
    ray_work._at_work.clear()


def task(**more: Any) -> TrainingTask:
    module = Simulation(**GIVEN).module(DATA)
    return TrainingTask.of(DATA, module, LOCAL, SEED, **more)


def params_of(made: TrainingTask) -> torch.Tensor:
    return Layout.of(made.recipe.module).vector(made.recipe.module)


@pytest.mark.parametrize("engine", ["auto", "loop"])
@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        (fedavg(local=LOCAL), {"oracle": True, "evaluate": ("test", "train")}),
        (scaffold(local=LOCAL), {"delay": SLOW}),  # corrections; late ones
        (power_of_choice(2, local=LOCAL), {}),  # asks for losses
        (fedawe(local=LOCAL), {"availability": FixedDropout(0.5)}),  # starts of their own
        (fedavg(local=replace(LOCAL, momentum=0.9)), {"model": net}),
    ],
)
def test_the_bits_are_those_of_local_training(ray, strategy, more, engine):
    given = {**GIVEN, **more, "engine": engine}
    expected = all_facts(simulate(DATA, strategy, **given))
    assert all_facts(simulate(DATA, strategy, **given, trainer=RayTrainer())) == expected
    assert {"train", "outputs"} <= {verb for _, _, _, verb, _ in ray.tasks}
    assert ray.n_members == 0  # it was left at the end
    assert ray.options == {"num_cpus": 1, "max_retries": 0, "name": "understudy"}


def test_data_are_put_once_and_the_model_once_a_round(ray):
    trainer = ClusterTrainer(task())
    params = params_of(trainer.task)
    assert ray.n_puts == 1
    for t in range(3):
        trainer.train(params, cohort(range(5), t))
        assert ray.n_puts == 2 + t
    keys = {kit.key for _, kit, *_ in ray.tasks}
    assert len(keys) == 1  # and one process has one trainer
    assert len(ray_work._at_work) == 1
    ClusterTrainer(task()).train(params, cohort([1]))
    assert list(ray_work._at_work) != list(keys)  # of one run: two sets of data may not fit


def test_chunks_have_everybody_once_and_few_rows(ray):
    trainer = ClusterTrainer(task())
    for clients in ([3], [4, 0, 2], list(range(5)), [2] * 40):
        chunks = trainer._chunks(clients, 0)
        assert sorted(np.concatenate(chunks).tolist()) == list(range(len(clients)))
        assert max(len(chunk) for chunk in chunks) <= 2
    ray.n_cpus = 3
    trainer.train(params_of(trainer.task), cohort(range(5)))
    assert ray.most_running <= ray_trainer.CHUNKS_AHEAD * 3


def test_what_is_soon_done_stays_here(ray, monkeypatch):
    monkeypatch.setattr(ray_trainer, "WORTH_SENDING", 0.1)
    trainer = ClusterTrainer(task())
    params = params_of(trainer.task)
    assert len(trainer.train(params, cohort([0, 1]))) == 2
    assert trainer.losses(params, np.arange(5)).shape == (5,)
    assert trainer.outputs(params, np.arange(7)).shape == (7, 3)
    assert ray.tasks == []


def test_what_a_lost_process_had_is_done_again(ray, caplog):
    expected = all_facts(simulate(DATA, fedavg(local=LOCAL), **GIVEN))
    ray.dies = lambda number: number in (0, 3, 4, 8)
    made = []

    def make(task: TrainingTask) -> ClusterTrainer:
        made.append(ClusterTrainer(task))
        return made[-1]

    assert all_facts(simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=make)) == expected
    assert made[0].deaths == 4
    told = [record.getMessage() for record in caplog.records if "was lost" in record.getMessage()]
    assert len(told) == 4
    assert "was lost while training round 0" in told[0]
    assert told[0].endswith("is done again (killed)")


def test_a_chunk_that_kills_every_process_ends_the_run(ray):
    ray.dies = lambda number: True
    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=RayTrainer())
    words = "died 4 times over the same . clients while training round 0; .* The last time: killed"
    with pytest.raises(TrainerError, match=words) as caught:
        list(run)
    assert isinstance(caught.value.__cause__, WorkerDied)
    assert len(ray.cancelled) == len(ray._todo) > 0  # nobody goes on training for nobody
    ray.dies = lambda number: False
    expected = all_facts(simulate(DATA, fedavg(local=LOCAL), **GIVEN))
    assert all_facts(run) == expected  # it can be iterated again


def test_a_cluster_without_a_cpu_is_not_waited_for_for_ever(ray, monkeypatch):
    monkeypatch.setattr(ray_trainer, "PATIENCE_SECONDS", 2 * ray_trainer.LOOK_SECONDS)
    trainer = ClusterTrainer(task())
    ray.n_cpus = 0
    with pytest.raises(WorkerDied, match="the cluster has had no CPU for 10 s while training"):
        trainer.train(params_of(trainer.task), cohort(range(5), 2))


def test_an_interrupt_calls_off_what_runs(ray, monkeypatch):
    trainer = ClusterTrainer(task())

    def interrupted(refs: Any, timeout: float) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ray, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(params_of(trainer.task), cohort(range(5)))
    assert len(ray.cancelled) == len(ray.tasks) > 0


def fails(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if torch.is_grad_enabled():
        raise OverflowError("a loss of one's own")
    return nn.functional.cross_entropy(outputs, labels)


def test_an_error_in_a_task_is_that_error(ray):
    trainer = ClusterTrainer(task(loss=fails))
    with pytest.raises(OverflowError, match="a loss of one's own") as caught:
        trainer.train(params_of(trainer.task), cohort(range(5)))
    assert "a task raised" in str(caught.value.__cause__)  # with where it happened
    assert ray.cancelled


class Unsendable(nn.Linear):
    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("it holds an open file")


def test_what_does_not_pickle_is_refused_before_a_cluster_is_joined(ray):
    made = task()
    broken = replace(made, recipe=replace(made.recipe, module=Unsendable(6, 3)))
    words = "its loss or its local training cannot be sent to a cluster: .* it holds an open file"
    with pytest.raises(TypeError, match=words):
        ClusterTrainer(broken)
    assert ray.n_members == 0


def test_a_device_is_refused(ray):
    made = task()
    made = replace(made, recipe=replace(made.recipe, device="cuda"))
    with pytest.raises(ValueError, match="device: expected 'cpu' on a cluster, got 'cuda'"):
        ClusterTrainer(made)


def test_nothing_is_kept_of_a_cluster_that_cannot_take_the_data(ray, monkeypatch):
    def full(value: Any) -> Any:
        raise OSError("the store is full")

    monkeypatch.setattr(ray, "put", full)
    with pytest.raises(OSError, match="the store is full"):
        ClusterTrainer(task())
    assert ray.n_members == 0


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, CLUSTER, raising=False)
    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer="ray")
    words = r"trainer RayTrainer\(\) failed in round 0: ImportError: .*needs Ray: pip install ray"
    with pytest.raises(TrainerError, match=words):
        list(run)


def test_an_address_is_a_text():
    with pytest.raises(TypeError, match="address: expected a text or None, got 6379"):
        RayTrainer(6379)


def test_a_study_names_it_and_no_key_knows(ray, tmp_path):
    given: dict[str, Any] = {
        "data": DATA,
        "model": "softmax",
        "strategies": {"fedavg": fedavg(local=LOCAL)},
        "rounds": 2,
    }
    plain = Study("s", **given)
    (key,) = (cell.key for cell in plain.cells())
    for made in ("ray", RayTrainer("10.0.0.1:6379")):
        (cell,) = Study("s", **given, trainer=made).cells()
        assert cell.key == key
        assert cell.task.settings.trainer == made
    with pytest.raises(StudyError, match="trainer: expected one of 'ray', got 'rya'"):
        Study("s", **given, trainer="rya")
    asked = Study.read('trainer = "ray"' + TOML)
    overridden = Study.read(TOML, overrides=["trainer=ray"])
    for study in (asked, overridden):
        assert [cell.task.settings.trainer for cell in study.cells()] == ["ray"]
    done = Study("s", **given, trainer="ray").run(tmp_path, on="here", progress=False)
    assert done.done == (key,)
    assert {verb for _, _, _, verb, _ in ray.tasks} == {"train", "outputs"}
    assert plain.run(tmp_path, on="here", progress=False).skipped == (key,)

"""A user's own trainer: the same bits, and refused by name where it returns anything else."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.simulation.small import SEED, all_facts, federation
from understudy import (
    Arrivals,
    Cohort,
    Deadline,
    Latency,
    Local,
    Outcome,
    fedavg,
    power_of_choice,
    scaffold,
    simulate,
)
from understudy.core.roles import Trainer
from understudy.simulation import Job, Simulation, TrainerError, TrainingTask, local_trainer
from understudy.simulation.training.trainers.kernel_trainer import KernelTrainer
from understudy.simulation.training.trainers.loop_trainer import LoopTrainer
from understudy.studies.definition.cell import Task
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.study import Study

DATA = federation((8, 12, 5, 9), dtype=torch.float32)
LOCAL = Local(lr=0.1, batch_size=4)
SLOW = Deadline(Latency(step_spread=1.5, jitter=0.5, seed=2), seconds=0.05)
GIVEN: dict[str, Any] = {"model": "softmax", "rounds": 3, "seed": SEED}


class Alone:
    """Trains clients one by one, each in a job and in rows of its own, the last one first."""

    n_made = 0

    def __init__(self, task: TrainingTask, log: list[str] | None = None) -> None:
        self.task, self.log, self.here = task, log, local_trainer(task)
        self.losses, self.outputs = self.here.losses, self.here.outputs
        Alone.n_made += 1

    def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
        done = {}
        for client in cohort.asked[::-1]:
            job = Job.of(params, replace(cohort, asked=np.array([client]))).in_new_rows()
            (trained,) = self.task.engine().train(job)
            done[client] = job.matrix[0], trained
        rows, results = zip(*(done[client] for client in cohort.asked), strict=True)
        if self.log is not None:
            self.log.append(f"{into} {cohort.t}")
        return self.task.arrivals(cohort, list(rows), list(results))

    def close(self) -> None:
        self.here.close()
        if self.log is not None:
            self.log.append("closed")


def wrapped(train: Any) -> Any:
    """A class of trainers whose arrivals are altered."""

    class Altered(Alone):
        def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
            return train(super().train(params, cohort, into=into))

    return Altered


@pytest.mark.parametrize("engine", ["auto", "loop"])
@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        (fedavg(local=LOCAL), {"oracle": True}),
        (scaffold(local=LOCAL), {"delay": SLOW}),  # corrections; late ones
        (power_of_choice(2, local=LOCAL), {}),  # asks for losses
    ],
)
def test_the_bits_are_those_of_the_built_in_trainers(strategy, more, engine):
    given = {**GIVEN, **more, "engine": engine}
    expected = all_facts(simulate(DATA, strategy, **given))
    assert all_facts(simulate(DATA, strategy, **given, trainer=Alone)) == expected


def test_the_rule_is_the_engine():
    module = Simulation(**GIVEN).module(DATA)
    loop = TrainingTask.of(DATA, module, LOCAL, SEED, engine="loop")
    assert isinstance(local_trainer(loop), LoopTrainer)
    auto = TrainingTask.of(DATA, module, LOCAL, SEED)
    kind = LoopTrainer if auto.recipe.engine.plan is None else KernelTrainer
    trainer = local_trainer(auto)
    assert type(trainer) is kind
    assert isinstance(trainer, Trainer)


def test_options_are_a_partial_and_it_is_closed_at_the_end():
    log: list[str] = []
    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=partial(Alone, log=log))
    list(run)
    assert log == ["round 0", "round 1", "round 2", "closed"]
    scores = run.scores(run.state.params)  # asked again, another one is made
    assert scores["test_loss"] == run.logs[-1].metrics["test_loss"]
    run.close()
    run.close()
    assert log[4:] == ["closed"]


def test_it_is_not_made_for_a_run_that_is_refused(tmp_path):
    list(simulate(DATA, fedavg(local=LOCAL), **GIVEN, folder=tmp_path))
    before = Alone.n_made
    with pytest.raises(Exception, match="holds another run"):
        simulate(DATA, fedavg(local=LOCAL), **{**GIVEN, "seed": 0}, folder=tmp_path, trainer=Alone)
    assert Alone.n_made == before


def test_a_run_is_resumed_with_another_trainer(tmp_path):
    expected = all_facts(simulate(DATA, fedavg(local=LOCAL), **GIVEN))
    with simulate(DATA, fedavg(local=LOCAL), **GIVEN, folder=tmp_path, trainer=Alone) as run:
        next(iter(run))
    assert all_facts(simulate(DATA, fedavg(local=LOCAL), **GIVEN, folder=tmp_path)) == expected


def test_a_trainer_that_cannot_be_closed_leaves_the_folder_free(tmp_path):
    class Stuck(Alone):
        def close(self):
            raise OSError("no answer")

    with pytest.raises(Exception, match="no answer"):
        list(simulate(DATA, fedavg(local=LOCAL), **GIVEN, folder=tmp_path, trainer=Stuck))
    again = simulate(DATA, fedavg(local=LOCAL), **GIVEN, folder=tmp_path)
    assert [log.t for log in again] == [0, 1, 2]


def test_it_is_in_no_cells_key():
    def task(**more: Any) -> Task:
        return Task(DATA, "softmax", fedavg(local=LOCAL), 2, **more)

    assert task(trainer=Alone).resolved() == task().resolved()
    same: dict[str, Any] = {"data": DATA, "model": "softmax", "strategies": ["fedavg"], "rounds": 1}
    (plain,) = Study("s", **same).cells()
    for written in (Alone, f"{__name__}:Alone"):
        (cell,) = Study("s", **same, trainer=written).cells()
        assert cell.task.settings.trainer is Alone
        assert cell.key == plain.key
    with pytest.raises(StudyError, match="trainer: expected a text, got 5"):
        Study("s", **same, trainer=5)


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda a: None, "what is no Arrivals: expected one, got None"),
        (lambda a: replace(a, ids=a.ids[::-1]), r"other ids: .*\[0, 1, 2, 3\], got \[3, 2, 1, 0\]"),
        (lambda a: replace(a, ids=a.ids[:2], deltas=a.deltas[:2]), r"other ids: .* got \[0, 1\]"),
        (lambda a: replace(a, ids=[0, 1, 2, 9]), r"other ids: .* got \[0, 1, 2, 9\]"),
        (lambda a: replace(a, deltas=a.deltas[:3]), "deltas: expected 4 updates, got 3"),
        (lambda a: replace(a, deltas=[d[1:] for d in a.deltas]), r"like the model.* \(20,\)"),
        (lambda a: replace(a, deltas=[d.double() for d in a.deltas]), "got torch.float64"),
        (lambda a: replace(a, deltas=[d.numpy() for d in a.deltas]), "got float32 of shape"),
        (lambda a: replace(a, n_steps=None), r"n_steps: expected shape \(4,\), got \(\)"),
        (lambda a: replace(a, losses=["a"] * 4), "losses: expected an array of float"),
        (lambda a: replace(a, n_examples=[1, 2]), r"n_examples: .*\(4,\), got \(2,\)"),
    ],
)
def test_another_form_is_refused_by_name(alter, words):
    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=wrapped(alter))
    with pytest.raises(TrainerError, match=rf"trainer .*Altered returned .*{words}"):
        list(run)
    assert run.state.t == 0


def test_a_client_that_could_not_be_trained_is_refused_alone():
    def without_two(arrivals: Arrivals) -> Arrivals:
        arrivals.deltas[2].fill_(float("nan"))
        return arrivals

    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=wrapped(without_two))
    for log in run:
        assert log.outcome[2] == Outcome.REFUSED
        assert (log.outcome[[0, 1, 3]] == Outcome.CAME).all()
    assert bool(torch.isfinite(run.state.params).all())


def test_an_error_names_the_trainer_and_the_run_can_be_iterated_again():
    fails = [True]

    def breaks(arrivals: Arrivals) -> Arrivals:
        if fails.pop() if fails else False:
            raise OSError("the node is gone")
        return arrivals

    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=wrapped(breaks))
    words = "trainer .*Altered failed in round 0: OSError: the node is gone"
    with pytest.raises(TrainerError, match=words) as caught:
        list(run)
    assert isinstance(caught.value.__cause__, OSError)
    assert all_facts(run) == all_facts(simulate(DATA, fedavg(local=LOCAL), **GIVEN))


class SaysTooLittle(Alone):
    def __init__(self, task: TrainingTask) -> None:
        super().__init__(task)
        self.losses = lambda params, ids: np.zeros(len(ids) + 1)  # type: ignore[method-assign]
        self.outputs = lambda params, indices: torch.zeros(1, 3)  # type: ignore[method-assign]


def test_outputs_and_losses_are_checked():
    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=SaysTooLittle)
    words = "SaysTooLittle returned outputs: expected a tensor of 5 rows, got torch.float32 of"
    with pytest.raises(TrainerError, match=words):
        list(run)
    run = simulate(DATA, power_of_choice(2, local=LOCAL), **GIVEN, trainer=SaysTooLittle)
    with pytest.raises(TrainerError, match=r"returned losses: expected shape \(4,\), got \(5,\)"):
        list(run)


def test_what_is_no_trainer_is_refused():
    with pytest.raises(TypeError, match=r"trainer: expected a class or function .* got 5"):
        Simulation(**GIVEN, trainer=5)
    with pytest.raises(ValueError, match="trainer: expected one of 'ray', got 'rya'"):
        Simulation(**GIVEN, trainer="rya")
    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=lambda task: object())
    with pytest.raises(TrainerError, match="trainer: expected a part with train, losses"):
        list(run)

    def fails(task: TrainingTask) -> Trainer:
        raise OSError("no cluster")

    run = simulate(DATA, fedavg(local=LOCAL), **GIVEN, trainer=fails)
    with pytest.raises(TrainerError, match=r"trainer .*fails failed in round 0: OSError: no cl"):
        list(run)

"""A device other than the CPU: what can be shown without one."""

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.elsewhere import DEVICE, Elsewhere, is_marked, mark
from tests.simulation.small import federation
from tests.studies.texts import study
from understudy import (
    FDMS,
    MIFA,
    Arrivals,
    Capped,
    FedVARP,
    Gather,
    HoeffdingRace,
    KeepAsking,
    Local,
    NormGuard,
    Population,
    Scaffold,
    Stale,
    Strategy,
    TrimmedMean,
    Yogi,
    fedavg,
    power_of_choice,
)
from understudy.simulation import (
    Simulation,
    TrainingTask,
    build,
    clustered_digits,
    local_trainer,
    simulate,
)
from understudy.simulation.training import generators
from understudy.studies import StudyError

STRATEGIES = {
    "fdms": Strategy(compensator=FDMS()),
    "race": Strategy(compensator=FDMS(race=HoeffdingRace(scale=0.05, beta=1.0, delta_f=0.0))),
    "distance": Strategy(compensator=FDMS(similarity="distance")),
    "scaffold": Strategy(local=Local(rule=Scaffold())),
    "mifa": Strategy(compensator=MIFA()),
    "fedvarp": Strategy(compensator=FedVARP()),
    "stale": Strategy(compensator=Stale("update"), guard=NormGuard()),
    "stale model": Strategy(compensator=Stale("model")),
    "gather": Strategy(sampler=KeepAsking(), compensator=Gather()),
    "capped": Strategy(compensator=Capped(FDMS(), 0.4), server=Yogi()),
    "trimmed": Strategy(compensator=MIFA(), aggregator=TrimmedMean(0.1)),
}


def play(strategy, params, folder, place=lambda tensor: tensor):
    """Eight rounds of six clients; the model after each."""
    rng = np.random.default_rng(0)
    state = strategy.init(Population(6), params, seed=0, folder=folder)
    models = []
    for _ in range(8):
        cohort = strategy.select(state, rng.random(6) < 0.8)
        deltas = torch.from_numpy(rng.normal(size=(6, 5)))
        if cohort.correction is not None:
            for client in cohort.asked:
                deltas[client] -= place(torch.zeros(5)).cpu() + cohort.correction(int(client)).cpu()
        arrivals = Arrivals(
            cohort.asked.tolist(),
            [place(deltas[int(i)].clone()) for i in cohort.asked],
            n_examples=[1] * len(cohort.asked),
            n_steps=[3] * len(cohort.asked),
        )
        applied = strategy.apply(state, cohort, arrivals)
        assert applied.refusals == ()
        models.append(state.params.cpu().clone())
    state.close()
    return models


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "folder"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_part_mixes_devices(name, kept, tmp_path):
    """The same bits as on the CPU: only where things lie is different."""
    strategy = STRATEGIES[name]
    expected = play(strategy, torch.zeros(5).double(), tmp_path / "cpu" if kept else None)
    with Elsewhere():
        params = mark(torch.zeros(5).double())
        found = play(strategy, params, tmp_path / "elsewhere" if kept else None, mark)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(expected[-1], expected[0])


def elsewhere(module):
    """The module with its parameters elsewhere."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, torch.nn.Parameter(mark(parameter)))
    return module


def test_power_of_choice_asks_for_losses_on_the_device():
    """The model and the inputs go there, the outputs come back; the picks are those of the CPU."""
    data, module = federation((8, 12, 5, 30), (6,), 3), build("mlp", (6,), 3, 0).double()
    trainer = local_trainer(
        TrainingTask.of(data, module, Local(), seed=0, workers=1, engine="loop")
    )
    strategy, here = power_of_choice(2), np.ones(4, dtype=bool)
    params = trainer.task.layout.vector(module)

    def picked(start):
        told = []

        def losses(ids):
            told.append(trainer.losses(state.params, ids))
            return told[-1]

        state = strategy.init(Population(4), start, seed=0)
        return strategy.select(state, here, losses=losses).asked.tolist(), told[0].tolist()

    expected = picked(params)
    recipe = replace(trainer.task.recipe, device=str(DEVICE))
    trainer.task = replace(trainer.task, recipe=recipe)
    with Elsewhere():
        trainer._here.module = elsewhere(copy.deepcopy(module))
        assert picked(mark(params)) == expected
        changed = picked(mark(params + 1))  # the model that is asked about, not the first one
        assert changed[1] != expected[1]
        trainer._here.module = copy.deepcopy(module)  # left behind
        with pytest.raises(RuntimeError, match="expected all tensors on one device"):
            trainer.losses(mark(params), np.array([0]))


def test_the_mode_sees_mixtures():
    here = torch.ones(3)
    with Elsewhere():
        there = mark(torch.ones(3))
        assert there.device == DEVICE
        assert is_marked(there * 2)
        assert is_marked(torch.zeros(2, device=DEVICE))
        assert is_marked(here.to(there.device))
        assert not is_marked(there.cpu())
        with pytest.raises(RuntimeError, match="expected all tensors on one device"):
            here + there
        with pytest.raises(RuntimeError, match="expected all tensors on one device"):
            torch.stack([here, there])
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()


@pytest.mark.parametrize("device", ["cud", "gpu 0", "", 3, None, "meta"])
def test_a_device_that_torch_does_not_know_is_refused_when_made(device):
    with pytest.raises(ValueError, match=re.escape(f"got {device!r}")):
        Simulation(model="softmax", rounds=1, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has one")
def test_a_device_that_is_not_here_is_refused_before_the_first_round():
    with pytest.raises(ValueError, match="device: expected one that is here, got 'cuda'"):
        simulate(clustered_digits(), fedavg(), model="softmax", rounds=1, device="cuda")


def test_generators_of_the_device_are_seeded(monkeypatch):
    """On the CPU its own alone, elsewhere those of all devices."""
    told = []
    monkeypatch.setattr(torch, "manual_seed", told.append)
    with generators.forked("cpu"):
        generators.seed(3, "cpu")
        first = torch.rand(2)
        generators.seed(3, "cpu")
        assert torch.equal(torch.rand(2), first)
    assert told == []
    generators.seed(4, "cuda:1")
    assert told == [4]


def test_a_study_is_refused_when_it_is_read():
    with pytest.raises(StudyError, match=r"study: device: expected 'cpu', 'cuda'.* got 'cud'"):
        study(top='device = "cud"').cells()
    (cell, *_) = study(top='device = "cuda:1"').cells()  # whether it is here, a run finds out
    assert cell.task.settings.device == "cuda:1"

"""What clients weigh: by examples once, whatever the method, and told as it was resolved."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import dataclass, replace

import pytest
import torch

from understudy import (
    FDMS,
    Always,
    Blind,
    ByData,
    Everyone,
    HoeffdingRace,
    KeepAsking,
    Local,
    PowerOfChoice,
    Strategy,
    Uniform,
    fdms,
    fedar,
    fedavg,
    fedavg_is,
    fedgs,
    fedvarp,
    mdsample,
    mifa,
    simulate,
    stale,
    waiting_fedavg,
)
from understudy.core.describe import describe
from understudy.simulation import federate
from understudy.studies.definition.cell import Cell, DataRecipe, Task


@dataclass(frozen=True)
class TwiceAsOften(Uniform):
    """Somebody's sampler, which says of itself that it draws by examples."""

    draws_by_examples = True


SAMPLERS = {
    "examples": [
        Everyone(), Uniform(3), Blind(), KeepAsking(), PowerOfChoice(), Blind(PowerOfChoice()),
    ],
    "clients": [
        ByData(), Blind(ByData()), KeepAsking(Blind(ByData())), TwiceAsOften(),
        Blind(TwiceAsOften()), PowerOfChoice(candidates=5),
    ],
}  # fmt: skip
BY_SAMPLER = [(sampler, told) for told, samplers in SAMPLERS.items() for sampler in samplers]


@pytest.mark.parametrize(("sampler", "told"), BY_SAMPLER, ids=repr)
def test_examples_count_once_and_every_description_says_how(sampler, told) -> None:
    strategy = Strategy(sampler=sampler)
    assert strategy.weighting == told
    assert describe(strategy)["weighting"] == told
    assert f"weighting='{told}'" in repr(strategy)
    assert Cell.of({}, Task(DataRecipe("digits", "iid"), "softmax", strategy, 1)).resolved[
        "strategy"
    ]["weighting"] == told  # fmt: skip
    assert strategy == Strategy(sampler=sampler, weighting=told)


@pytest.mark.parametrize(("sampler", "told"), BY_SAMPLER, ids=repr)
@pytest.mark.parametrize("carried", [lambda it: it, deepcopy, lambda it: _pickled(it)])
@pytest.mark.parametrize("before", [Strategy(), mdsample(), fdms(compensator=FDMS())])
def test_a_default_follows_the_sampler(before, carried, sampler, told) -> None:
    assert replace(carried(before), sampler=sampler).weighting == told


def _pickled(strategy: Strategy) -> Strategy:
    return pickle.loads(pickle.dumps(strategy))


@pytest.mark.parametrize("asked", ["clients", "examples"])
def test_what_was_asked_for_stays(asked) -> None:
    strategy = _pickled(replace(fdms(weighting=asked), sampler=Uniform(3)))
    assert strategy.weighting == replace(strategy, local=Local()).weighting == asked
    if asked == "examples":
        with pytest.raises(ValueError, match="weighting: expected 'clients' with ByData"):
            replace(strategy, sampler=ByData())


def test_a_papers_own_is_a_methods_alone() -> None:
    assert fdms(weighting="paper").weighting == "clients"
    assert fedgs(weighting="paper").weighting == "examples"
    with pytest.raises(ValueError, match=r"weighting: expected one of .*, got 'paper'"):
        Strategy(weighting="paper")


SAME = Local(lr=0.1, epochs=2, batch_size=16)
WANT_EVERYONE = {  # and train plainly
    "stale": stale(local=SAME),
    "stale model": stale("model", local=SAME),
    "fdms": fdms(local=SAME),
    "fdms race": fdms(race=HoeffdingRace(), local=SAME),
    "fedar": fedar(local=SAME),
    "mifa": mifa(local=SAME),
    "mifa without waiting": mifa(wait=False, local=SAME),
    "fedvarp": fedvarp(local=SAME),
    "fedavg_is": fedavg_is(local=SAME),
    "waiting_fedavg": waiting_fedavg(1.0, local=SAME),
    "parts": Strategy(compensator=FDMS(), local=SAME),
}


@pytest.fixture(scope="module")
def unequal():
    federation = federate("digits", "dirichlet", n_clients=10, alpha=0.3, seed=1)
    sizes = [len(held) for held in federation.clients]
    assert max(sizes) > 5 * min(sizes)
    return federation, _played(federation, fedavg(local=SAME))


def _played(federation, strategy):
    run = simulate(federation, strategy, model="mlp", availability=Always(), rounds=6, workers=1)
    return [log.metrics for log in run], run.state.params


@pytest.mark.parametrize("name", WANT_EVERYONE)
def test_with_nobody_absent_all_are_fedavg_to_the_last_bit(name, unequal) -> None:
    federation, (logs, params) = unequal
    metrics, reached = _played(federation, WANT_EVERYONE[name])
    assert metrics == logs
    assert torch.equal(reached, params)
    by_clients, _ = _played(federation, replace(WANT_EVERYONE[name], weighting="clients"))
    assert by_clients != logs  # sizes matter here

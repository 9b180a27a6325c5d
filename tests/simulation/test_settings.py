"""The settings of a run: one object, the same whichever way they are given."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, replace
from typing import get_type_hints

import pytest
import torch

from tests.simulation.small import SEED, all_facts, federation
from understudy import Always, Failure, FixedDropout, Local, Run, fedavg, simulate
from understudy.simulation import Simulation
from understudy.simulation.settings import MAY_CHANGE, Options

DATA = federation(dtype=torch.float32)
STRATEGY = fedavg(local=Local(batch_size=4))
REQUIRED = {"model", "rounds"}


def test_a_run_of_an_object_is_that_of_its_keywords():
    given = {"model": "softmax", "rounds": 3, "seed": SEED, "evaluate": ["test", "train"]}
    settings = Simulation(**given)
    assert settings.evaluate == ("test", "train")
    expected = all_facts(simulate(DATA, STRATEGY, **given))
    assert all_facts(Run(DATA, STRATEGY, settings)) == expected
    other = Run(DATA, STRATEGY, replace(settings, seed=SEED + 1))
    assert all_facts(other) != expected
    assert other.settings.rounds == 3


def test_the_keywords_of_simulate_are_the_fields():
    """Type checkers read `Options`, people and notebooks the signature: both are the fields."""
    names = {item.name for item in fields(Simulation)}
    assert set(get_type_hints(Options)) == names - REQUIRED
    shown = inspect.signature(simulate).parameters
    assert set(shown) == names | {"federation", "strategy", "folder"}
    for item in fields(Simulation):
        default = shown[item.name].default
        if item.name in REQUIRED:
            assert default is inspect.Parameter.empty
        elif item.default_factory is MISSING:
            assert default is item.default
        else:
            assert default == item.default_factory()
    assert set(MAY_CHANGE) <= names


def test_each_keyword_is_documented():
    headings = re.findall(r"^(\w+(?:, \w+)*) : ", inspect.getdoc(simulate) or "", re.MULTILINE)
    documented = {name for heading in headings for name in heading.split(", ")}
    assert documented == set(inspect.signature(simulate).parameters)


def test_none_stands_for_the_default():
    settings = Simulation(model="softmax", rounds=1, availability=None, metrics=None)
    assert settings.availability == Always()
    assert settings.metrics == {}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"rounds": 0}, ValueError, "rounds: expected a whole number >= 1, got 0"),
        ({"seed": -1}, ValueError, "seed: expected a whole number >= 0, got -1"),
        ({"workers": 0}, ValueError, "workers: expected a whole number >= 1, got 0"),
        ({"per_client_every": -1}, ValueError, "per_client_every: .* >= 0, got -1"),
        ({"evaluate": ["tests"]}, ValueError, "evaluate: expected one of .*, got 'tests'"),
        ({"availability": FixedDropout}, TypeError, r"availability: .*FixedDropout\(\)"),
        ({"delay": Failure}, TypeError, r"delay: .*Failure\(\)"),
        ({"evaluate_evry": 2}, TypeError, "evaluate_evry"),
    ],
)
def test_what_makes_no_sense_is_refused_without_any_data(changes, error, words):
    with pytest.raises(error, match=words):
        Simulation(**{"model": "softmax", "rounds": 2, **changes})
    with pytest.raises(error, match=words):
        replace(Simulation(model="softmax", rounds=2), **changes)


def test_what_depends_on_the_data_is_refused_when_the_run_begins():
    settings = Simulation(model="softmax", rounds=1, evaluate=("validation",))
    with pytest.raises(ValueError, match=r"evaluate: 'validation' needs a federation with"):
        Run(DATA, STRATEGY, settings)

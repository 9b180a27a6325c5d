"""Modules that were moved: old names import the same module, and keys do not tell them apart."""

from importlib import import_module

import pytest

from understudy.moved import MOVED, first_name
from understudy.registry import imported
from understudy.simulation import fedgs_synthetic
from understudy.studies.definition.build.data import data_of
from understudy.studies.definition.identity import canonical_data, canonical_model


@pytest.mark.parametrize(("first", "now"), MOVED.items())
def test_the_first_name_is_the_same_module(first: str, now: str) -> None:
    module = import_module(first)
    assert module is import_module(now)
    assert module.__name__ == module.__spec__.name == now


def test_a_name_of_the_simulator_that_is_now_the_papers() -> None:
    assert fedgs_synthetic is imported("understudy.papers.fedgs_synthetic:fedgs_synthetic")


def test_keys_have_the_first_name_whichever_is_written() -> None:
    assert first_name("other.module:name") == "other.module:name"
    for written in ("understudy.papers.readings", "understudy.studies.builtin.readings"):
        name = f"{written}:fdms_cnn_320"
        assert first_name(name) == "understudy.studies.builtin.readings:fdms_cnn_320"
        assert canonical_model(name) == {"name": first_name(name)}
        recipe = data_of({"name": f"{written}:synthetic_without_validation"}, 0)
        told = "understudy.studies.builtin.readings:synthetic_without_validation"
        assert canonical_data(recipe)["name"] == told

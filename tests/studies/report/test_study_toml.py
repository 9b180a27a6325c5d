"""A study written as TOML is the study that was read."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.studies.definition.builtins import NAMES, built_in
from understudy.studies.definition.study import Study
from understudy.studies.report.study_toml import study_toml

PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def without_nothing(value):
    """Without what the text leaves out at the top: empty tables and lists."""
    return {key: item for key, item in value.items() if item not in ({}, [])}


@given(st.dictionaries(st.text(max_size=6).filter(lambda key: key != "block"), PLAIN, max_size=4))
def test_what_is_written_is_read_back(document):
    assert tomllib.loads(study_toml(document)) == without_nothing(document)


def test_names_alone_are_short_and_blocks_have_their_heads():
    document = {
        "name": "mine",
        "target": 0.8,
        "title": None,
        "axes": {"local.lr": [0.1, 0.5]},
        "strategies": {
            "a": {"method": "fedavg"},
            "b": {"method": "fdms", "similarity": "distance"},
        },
        "local": {},
        "block": {"one": {"rounds": 3, "availability": {"all": {"name": "always"}}}},
    }
    assert study_toml(document) == (
        'name = "mine"\n'
        "target = 0.8\n"
        "\n"
        "[axes]\n"
        '"local.lr" = [0.1, 0.5]\n'
        "\n"
        "[strategies]\n"
        'a = "fedavg"\n'
        'b = { method = "fdms", similarity = "distance" }\n'
        "\n"
        "[[block]]\n"
        'name = "one"\n'
        "rounds = 3\n"
        'availability = { all = "always" }\n'
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_toml_of_a_built_in_study_gives_the_same_cells(name):
    """With the scale and an override applied, so that neither is needed again."""
    study = built_in(name, "quick", ["seeds=[3]"])
    again = Study.read(study_toml(study.about()["document"]))
    assert [cell.key for cell in again.cells()] == [cell.key for cell in study.cells()]
    assert [dict(c.labels) for c in again.cells()] == [dict(c.labels) for c in study.cells()]
    assert [cell.key for cell in again.tuning()] == [cell.key for cell in study.tuning()]

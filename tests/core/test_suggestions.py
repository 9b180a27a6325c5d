"""What may have been meant by a name that is not known."""

from __future__ import annotations

import pytest

from understudy.core.suggestions import closest, suggestion
from understudy.registry import SAMPLERS, UnknownName
from understudy.studies.definition.errors import unknown_key


@pytest.mark.parametrize(
    ("name", "meant"), [("unifrom", "uniform"), ("FEDGS", "fedgs"), ("weather", None), ("", None)]
)
def test_the_closest_name_is_found_where_one_is_close(name: str, meant: str | None) -> None:
    assert closest(name, ("everyone", "uniform", "fedgs")) == meant


def test_all_that_is_known_is_told_once_and_in_its_order() -> None:
    assert suggestion("lrr", ("lr", "epochs", "lr")) == "did you mean 'lr'? known: lr, epochs"
    assert suggestion("weather", ("lr", "epochs")) == "known: lr, epochs"


def test_registries_and_studies_suggest_alike() -> None:
    with pytest.raises(UnknownName) as found:
        _ = SAMPLERS["unifrom"]
    words = suggestion("unifrom", SAMPLERS)
    assert words.startswith("did you mean 'uniform'? known: everyone, uniform, ")
    assert str(found.value) == f"no sampler named 'unifrom'; {words}"
    assert unknown_key("unifrom", SAMPLERS).message == f"no such key; {words}"

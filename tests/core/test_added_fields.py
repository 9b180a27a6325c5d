"""A field that came later leaves descriptions, and so cells and checkpoints, as they were."""

from __future__ import annotations

from dataclasses import MISSING, field, fields, make_dataclass
from typing import Any

import numpy as np
import pytest

from understudy import Local, Strategy, fedavg
from understudy.core.describe import added, describe, differences, renamed, told_fields
from understudy.parts.local import Plain
from understudy.parts.schedules import constant
from understudy.simulation.settings import Simulation
from understudy.studies.definition import cell as cells
from understudy.studies.definition.cell import Cell, DataRecipe, Task

RECIPE = DataRecipe("digits", "clustered", 0, {"per_client": 30})
BEFORE = make_dataclass("Part", [("m", int, 3)], frozen=True)


def grown(kind: Any, default: Any = MISSING, **given: Any) -> Any:
    """The part after an upgrade, with a new field."""
    after = [("m", int, 3), ("new", kind, added("0.2", default, **given))]
    return make_dataclass("Part", after, frozen=True)


@pytest.mark.parametrize(
    ("later", "same", "other"),
    [
        (grown(int, 0), {"new": 0}, {"new": 1}),
        (grown(int, 0), {}, {"new": False}),  # 0 and false mean different things
        (grown(Any, None), {"new": None}, {"new": 0.5}),
        (grown(Any, factory=Plain), {"new": Plain()}, {"new": Local()}),
        (grown(Any, factory=lambda: np.zeros(3)), {"new": np.zeros(3)}, {"new": np.ones(3)}),
        (grown(Any, constant), {"new": constant}, {"new": np.sin}),
    ],
)
def test_a_part(later, same, other):
    assert describe(later(**same)) == describe(BEFORE())
    assert describe(later(m=4, **same)) == describe(BEFORE(m=4))
    changed = describe(later(**other))
    assert list(changed) == ["class", "m", "new"]
    assert differences(changed, describe(BEFORE())) != []


def test_a_field_whose_default_is_not_what_was_before():
    """The old way is described as before, the new default is told."""
    later = grown(str, "new", before="old")
    assert describe(later(new="old")) == describe(BEFORE())
    assert describe(later())["new"] == "new"


def test_a_renamed_field_is_described_by_its_old_name():
    later = make_dataclass("Part", [("size", int, renamed("m", 3))], frozen=True)
    assert describe(later()) == describe(BEFORE())
    assert describe(later(size=4)) == describe(BEFORE(m=4))


def test_a_part_in_a_part():
    def inside(part: Any) -> Any:
        return describe({"strategy": Strategy(), "parts": [part]})

    assert inside(grown(int, 0)()) == inside(BEFORE())
    assert inside(grown(int, 0)(new=1)) != inside(BEFORE())


def test_fields_that_were_always_there_are_always_told():
    always = make_dataclass("Part", [("m", int, 3), ("n", int, field(default=0))])
    assert [item.name for item in told_fields(always())] == ["m", "n"]


def with_a_new_setting() -> type:
    """`Simulation` as it may look in the next version."""
    known = []
    for item in fields(Simulation):
        same = {"default": item.default, "default_factory": item.default_factory}
        known.append((item.name, item.type, field(metadata=item.metadata, **same)))
    methods = {name: getattr(Simulation, name) for name in ("__post_init__", "check", "about")}
    return make_dataclass(
        "Simulation",
        [*known, ("warm_up", int, added("0.2", 0))],
        frozen=True,
        kw_only=True,
        namespace=methods,
    )


def test_a_setting_of_a_run(monkeypatch):
    def key(**settings: Any) -> str:
        return Cell.of({}, Task(RECIPE, "softmax", fedavg(), 2, **settings)).key

    before = key()
    monkeypatch.setattr(cells, "Simulation", with_a_new_setting())
    assert key() == before
    assert key(warm_up=0) == before
    assert key(warm_up=3) != before
    task = Task(RECIPE, "softmax", fedavg(), 2, warm_up=3)
    assert task.resolved()["warm_up"] == 3
    assert task.warm_up == 3
    assert task.changed(rounds=5).warm_up == 3


def test_a_setting_of_a_run_in_a_folder():
    """What a stored run is compared with: as before while the new setting has its default."""
    from understudy.simulation import clustered_digits

    data, later = clustered_digits(), with_a_new_setting()
    module = Simulation(model="softmax", rounds=1).module(data)
    params = next(module.parameters()).detach().ravel()

    def about(cls: Any, **settings: Any) -> str:
        given = cls(model="softmax", rounds=1, **settings)
        told: str = given.about(data, module, params, True)
        return told

    assert about(later) == about(Simulation)
    assert '"warm_up": 2' in about(later, warm_up=2)

"""A study as a value: made in Python or read, hashed alike in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.studies.texts import text
from understudy import (
    FDMS,
    Always,
    FixedDropout,
    Local,
    Markov,
    Proximal,
    Strategy,
    Uniform,
    compare,
    fdms,
    fedavg,
    fedprox,
    results,
)
from understudy.simulation import clustered_digits
from understudy.strategies import FDMS_LOCAL
from understudy.studies import Study, StudyError
from understudy.studies.definition.cell import DataRecipe, key_of

RECIPE = {"name": "digits", "partition": "clustered", "per_client": 30}


def small(**changes: object) -> Study:
    given = {
        "name": "small",
        "data": RECIPE,
        "model": "softmax",
        "strategies": {"drop": fedavg(), "fdms": fdms(local=Local())},
        "rounds": 3,
        **changes,
    }
    return Study(**given)  # type: ignore[arg-type]


def keys(study: Study) -> list[str]:
    return [cell.key for cell in study.cells()]


# -- in Python -------------------------------------------------------------------------------------


def test_objects_and_words_make_the_same_cells() -> None:
    written = Study.read(text("[availability]\nhalf = {name = 'fixed_dropout', alpha = 0.5}"))
    made = small(availability={"half": FixedDropout(0.5)})
    assert keys(made) == keys(written)
    assert [cell.labels for cell in made.cells()] == [cell.labels for cell in written.cells()]
    tables = small(
        strategies={"drop": "fedavg", "fdms": {"method": fdms(local=Local())}},
        availability={"half": {"name": "fixed_dropout"}},
        data=DataRecipe("digits", "clustered", settings={"per_client": 30}),
        model={"name": "softmax"},
        seeds=[0],
    )
    assert keys(tables) == keys(written)


def test_names_alone() -> None:
    made = small(strategies=["fedavg", "fdms"], availability=["always", "markov"], data="digits")
    assert [tuple(cell.labels.values()) for cell in made.cells()] == [
        ("fedavg", "always"),
        ("fdms", "always"),
        ("fedavg", "markov"),
        ("fdms", "markov"),
    ]


def test_whole_numbers_where_floats_are_meant_are_the_same_cell() -> None:
    assert keys(small(availability={"x": FixedDropout(1)})) == keys(
        small(availability={"x": FixedDropout(1.0)})
    )
    cell = small(availability={"x": FixedDropout(1)}).cells()[0]
    assert type(cell.task.availability.alpha) is float  # as its checkpoint will say


def test_a_strategy_object_with_its_own_availability() -> None:
    made = small(
        strategies={"full": {"method": fedavg(), "availability": Always()}, "fdms": fdms()},
        availability={"half": FixedDropout(), "walk": Markov()},
    )
    assert [tuple(cell.labels.values()) for cell in made.cells()] == [
        ("full", None),
        ("fdms", "half"),
        ("fdms", "walk"),
    ]


def test_objects_keep_their_training() -> None:
    strategies = {
        "object": fdms(),
        "in a table": {"method": fdms(), "availability": Always()},
        "a table over it": {"method": fdms(), "local": {"lr": 0.2}},
        "word": "fdms",
    }
    made = small(strategies=strategies, local={"lr": 0.7})
    found = {cell.labels["strategy"]: cell.task.strategy.local for cell in made.cells()}
    assert found == {
        "object": FDMS_LOCAL,
        "in a table": FDMS_LOCAL,
        "a table over it": replace(FDMS_LOCAL, lr=0.2),
        "word": Local(lr=0.7),
    }


def test_an_axis_of_training_reaches_into_objects() -> None:
    strategies = {"a": fedprox(mu=0.3), "b": {"method": fdms(), "availability": Always()}}
    made = small(strategies=strategies, axes={"local.lr": [0.5, 0.6]})
    found = [(c.labels["strategy"], c.labels["lr"], c.task.strategy.local) for c in made.cells()]
    assert [(label, lr) for label, lr, _ in found] == [
        ("a", 0.5),
        ("b", 0.5),
        ("a", 0.6),
        ("b", 0.6),
    ]
    assert all(local.lr == lr for _, lr, local in found)
    assert {local.batch_size for _, _, local in found} == {32, 5}
    assert found[0][2].rule == Proximal(0.3)


def test_axes_reach_into_objects() -> None:
    made = small(
        axes={
            "strategies.fdms.compensator.similarity": ["cosine", "distance"],
            "availability.alpha": np.array([0.25, 0.5]).tolist(),
            "local.lr": [np.float64(0.1)],
        },
        availability={"half": FixedDropout()},
    )
    assert made.axes == {"similarity": ["cosine", "distance"], "alpha": [0.25, 0.5], "lr": [0.1]}
    fancy = [c.task for c in made.cells() if c.labels["similarity"] == "distance"]
    assert [task.strategy.compensator for task in fancy] == [FDMS("distance")] * 2
    assert [task.availability for task in fancy] == [FixedDropout(0.25), FixedDropout(0.5)]


def test_levels_may_be_objects() -> None:
    made = small(
        axes={"strategies.drop.sampler": {"few": Uniform(2), "many": Uniform(0.9)}},
        strategies={"drop": fedavg()},
    )
    assert [c.task.strategy.sampler for c in made.cells()] == [Uniform(2), Uniform(0.9)]
    made = small(axes={"strategies.drop.sampler": [Uniform(2)]}, strategies={"drop": fedavg()})
    assert made.axes == {"sampler": ["Uniform(m=2)"]}


def test_a_federation_is_known_by_what_is_in_it() -> None:
    one, same, other = (clustered_digits(n_clients=n, per_client=20) for n in (6, 6, 7))
    assert keys(small(data=one)) == keys(small(data=same))
    assert keys(small(data=one)) != keys(small(data=other))
    made = small(data=one, axes={"data": {"one": one, "other": other}})
    assert [cell.task.federation().n_clients for cell in made.cells()] == [6, 6, 7, 7]


def test_models_are_known_by_their_weights_or_by_their_function() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    before = keys(small(model=module))
    assert before == keys(small(model=module))
    with torch.no_grad():
        module[1].bias[0] += 1
    assert before != keys(small(model=module))

    def make(width: int) -> object:
        return lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(width, 10))

    assert keys(small(model=make(64))) == keys(small(model=make(64)))
    assert keys(small(model=make(64))) != keys(small(model=make(65)))  # held, not written


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": "many"}, "study 'small': rounds: expected a whole number, got 'many'"),
        ({"seeds": [True]}, "study 'small': seeds: expected a whole number >= 1, or a list of "),
        ({"round": 3}, "study 'small': round: no such key; did you mean 'rounds'? known: name, "),
        ({"strategies": {}}, "study 'small': strategies: expected a table of labels, got {}"),
        ({"strategies": {"x": fdms}}, "study 'small': strategies.x: expected the name of a method"),
        ({"strategies": {"x": FDMS()}}, "study 'small': strategies.x: expected the name of a "),
        (
            {"availability": {"x": FDMS()}},
            "study 'small': availability.x: expected an availability (always, ",
        ),
        (
            {"axes": {"strategies.fdms.compensator.similar": [1]}},
            ("study 'small': strategies.fdms.compensator.similar: no such key; did you mean "
            "'similarity'? known: similarity, race"),
        ),
        (
            {"axes": {"strategies.fdms.compensator.similarity": ["x"]}},
            "study 'small': strategies.fdms.compensator.similarity: expected one of 'cosine', ",
        ),
        ({"data": 3}, "study 'small': data: expected a table with the name of a data set, got 3"),
        ({"model": 3}, "study 'small': model: expected a table with the name of a model, got 3"),
    ],
)  # fmt: skip
def test_errors_in_python_name_the_study(changes: dict[str, object], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        small(**changes)
    assert str(caught.value).startswith(message)


def test_what_the_store_keeps_of_a_study_is_plain() -> None:
    made = small(
        data=clustered_digits(n_clients=6, per_client=20),
        strategies={"full": {"method": fedavg(), "availability": Always()}, "fdms": fdms()},
        axes={"local.lr": [0.1, 0.2]},
        seeds=2,
        baseline="fdms",
        target=0.5,
        title="A title",
    )
    about = made.about()
    assert json.loads(json.dumps(about)) == about
    assert {name: about[name] for name in ("name", "title", "baseline", "target", "seeds")} == {
        "name": "small",
        "title": "A title",
        "baseline": "fdms",
        "target": 0.5,
        "seeds": [0, 1],
    }
    assert about["strategies"] == ["full", "fdms"]
    assert about["references"] == ["full"]
    assert about["axes"] == {"lr": [0.1, 0.2]}
    assert about["tune"] is None
    assert about["rounds"] == 3
    assert repr(made) == "<Study 'small': 8 cells>"


def test_a_cell_can_be_played() -> None:
    cell = small(availability={"half": FixedDropout()}).cells()[1]
    assert cell.task.strategy == fdms(local=Local())
    logs = list(cell.task.open(workers=1))
    assert [log.t for log in logs] == [0, 1, 2]
    assert cell.seed == 0


def test_the_names_that_people_import() -> None:
    assert compare.__module__ == "understudy.studies.statistics.comparison"
    assert results.__module__ == "understudy.studies.statistics.frames"
    assert issubclass(StudyError, ValueError)


# -- hashes ----------------------------------------------------------------------------------------


def test_a_key_is_the_beginning_of_a_sha256() -> None:
    """Of {"a":[1,2.5],"b":null}, whatever the order of its keys."""
    assert key_of({"b": None, "a": [1, 2.5]}) == key_of({"a": [1, 2.5], "b": None})
    assert key_of({"a": [1, 2.5], "b": None}) == "f66b2c50ccae61e3"


def test_the_order_of_tables_does_not_matter() -> None:
    one = Study.read(text(strategies='[strategies]\nx = {method = "fedgs", alpha = 2, m = 3}'))
    other = Study.read(text(strategies='[strategies]\nx = {m = 3, alpha = 2, method = "fedgs"}'))
    assert keys(one) == keys(other)


SCRIPT = """
import sys
from understudy.studies import Study
print(" ".join(cell.key for cell in Study.read(sys.argv[1]).cells()))
"""


def test_hashes_are_the_same_in_every_process(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        text(
            "[availability]\nhalf = {name = 'fixed_dropout', alpha = 0.5}",
            top="metrics = {b = 'torch:numel', a = 'torch.nn.functional:l1_loss'}\n"
            "analysis = ['shapley', 'similarity']",
        )
    )
    found = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(file)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        found.add(done.stdout.strip())
    assert found == {" ".join(keys(Study.read(file)))}


PLUGIN = """
from dataclasses import dataclass
from understudy import Uniform

@dataclass(frozen=True)
class Mine:
    m: int = 2
    def init(self, setup): return None
    def pick(self, state, start): return Uniform(self.m).pick(None, start)
    def learn(self, state, end): pass
"""


def test_an_edited_plug_in_is_another_cell_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    module, file = tmp_path / "edited_plugin.py", tmp_path / "study.toml"
    module.write_text(PLUGIN)
    file.write_text(
        text(strategies="[strategies]\nmine = {sampler = 'edited_plugin:Mine'}\ndrop = 'fedavg'")
    )
    before = Study.read(file).cells()
    assert list(before[0].resolved["sources"]) == ["edited_plugin"]
    assert before[1].resolved["sources"] == {}
    assert keys(Study.read(file)) == [cell.key for cell in before]
    # of the same length, within the same second: Python's own cache would not notice
    module.write_text(PLUGIN.replace("m: int = 2", "m: int = 3"))
    after = Study.read(file).cells()
    assert after[0].task.strategy.sampler.m == 3
    assert after[0].key != before[0].key
    assert after[1].key == before[1].key
    module.write_text(PLUGIN)
    assert keys(Study.read(file)) == [cell.key for cell in before]


def test_plug_ins_of_two_studies_may_have_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = []
    for m in (4, 5):
        folder = tmp_path / str(m)
        folder.mkdir()
        (folder / "twin_plugin.py").write_text(PLUGIN.replace("m: int = 2", f"m: int = {m}"))
        (folder / "s.toml").write_text(
            text(strategies="[strategies]\nx = {sampler = 'twin_plugin:Mine'}")
        )
        found.append(Study.read(folder / "s.toml").cells()[0])
    assert [cell.task.strategy.sampler.m for cell in found] == [4, 5]
    assert found[0].key != found[1].key


@dataclass(frozen=True)
class Here:
    """A part of this very file."""

    m: int = 2

    def init(self, setup: object) -> None: ...
    def pick(self, state: object, start: object) -> tuple[list[int], list[float]]:
        return [0], [1.0]

    def learn(self, state: object, end: object) -> None: ...


def test_a_part_of_a_program_is_known_with_its_file() -> None:
    sources = small(strategies={"x": Strategy(sampler=Here())}).cells()[0].resolved["sources"]
    assert list(sources) == [Here.__module__]


MAIN = """
from understudy import Study, fdms
import torch

def net():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, {width}))

# {comment}
study = Study("x", data="digits", model=net, strategies={{"fdms": fdms()}}, rounds=1)
print(study.cells()[0].key)
"""


def test_a_definition_of_a_script_is_known_by_its_own_lines(tmp_path: Path) -> None:
    script = tmp_path / "script.py"

    def key(**words: object) -> str:
        script.write_text(MAIN.format(**words))
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout.strip()

    first = key(width=10, comment="a remark")
    assert key(width=10, comment="another remark") == first
    assert key(width=12, comment="a remark") != first


# -- with the runner -------------------------------------------------------------------------------


def test_a_tuned_study_runs_its_trials_first(tmp_path: Path) -> None:
    made = small(
        data={**RECIPE, "validation": 0.2},
        strategies={"fdms": fdms()},
        tune={"key": "local.lr", "values": [1e-6, 0.1], "seeds": [100, 101], "rounds": 4},
    )
    outcome = made.run(tmp_path, on="here", progress=False)
    assert not outcome.failed
    assert len(outcome.done) == 4 + 1
    # a step of a millionth learns nothing in four rounds
    from understudy.studies.store.store import Store

    with Store.open(tmp_path) as store:
        assert made.picks(store) == {"fdms": {"local.lr": 0.1}}
        assert [cell.key for cell in store.cells("small")] == [
            cell.key for cell in made.cells({"fdms": {"local.lr": 0.1}})
        ]

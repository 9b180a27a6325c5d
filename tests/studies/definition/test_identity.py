"""What a cell is known by: different configurations never share a name, equal ones always do."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from tests.studies.texts import text
from understudy import FedAR, Local, Strategy, fedavg
from understudy.core import describe
from understudy.core.describe import describe as described
from understudy.core.module_origin import is_installed, is_known
from understudy.parts.schedules import constant
from understudy.registry import imported
from understudy.simulation.data.models import mlp
from understudy.studies import Study, StudyError
from understudy.studies.definition import plugins
from understudy.studies.definition.build.data import data_of
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.studies.definition.identity import canonical_data, canonical_model, first_name

RECIPE = DataRecipe("digits", "clustered", 0, {"per_client": 30})


def key(**changes: Any) -> str:
    given = {"data": RECIPE, "model": "softmax", "strategy": fedavg(), "rounds": 2, **changes}
    return Cell.of({}, Task(**given)).key


# -- modules ---------------------------------------------------------------------------------------


def net(*layers: nn.Module) -> nn.Module:
    """The same weights each time, so that they cannot be what tells two of them apart."""
    module = nn.Sequential(nn.Linear(4, 4), *layers)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(0.5)
    return module


class Scaled(nn.Module):
    def __init__(self, factor: float, *, private: float = 0.0) -> None:
        super().__init__()
        self.factor, self._private = factor, private


class Shown(nn.Module):
    """A child whose words do not tell its setting."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def extra_repr(self) -> str:
        return f"{self.function}"  # with its place in memory


def frozen() -> nn.Module:
    module = net()
    module[0].weight.requires_grad_(False)
    return module


def tied(*, together: bool) -> nn.Module:
    module = net(nn.Linear(4, 4))
    with torch.no_grad():
        module[1].weight.fill_(0.5), module[1].bias.fill_(0.5)
    if together:
        module[1].weight = module[0].weight
    return module


def buffered(value: float) -> nn.Module:
    module = net()
    module.register_buffer("extra", torch.tensor(value), persistent=False)
    return module


def hooked(factor: float) -> nn.Module:
    module = net()
    module[0].register_forward_hook(lambda module, given, out: out * factor)
    return module


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (net(nn.ReLU()), net(nn.Tanh())),
        (net(nn.Dropout(0.1)), net(nn.Dropout(0.9))),
        (net(nn.Sequential(nn.ReLU())), net(nn.Sequential(nn.GELU()))),
        (net(Scaled(1.0)), net(Scaled(2.0))),
        (net(Scaled(1.0, private=1.0)), net(Scaled(1.0, private=2.0))),
        (net(Shown(torch.sin)), net(Shown(torch.cos))),
        (net(), frozen()),
        (tied(together=False), tied(together=True)),
        (buffered(1.0), buffered(2.0)),
        (hooked(1.0), hooked(2.0)),
        (net(nn.Dropout()), net(nn.Dropout()).eval()),
    ],
)
def test_modules_that_differ_are_different_models(one: nn.Module, other: nn.Module) -> None:
    assert key(model=one) != key(model=other)
    assert key(loss=one) != key(loss=other)


def test_the_same_module_made_twice_is_the_same_model() -> None:
    assert key(model=net(nn.ReLU(), Scaled(2.0))) == key(model=net(nn.ReLU(), Scaled(2.0)))
    assert key(model=net(Shown(torch.sin))) == key(model=net(Shown(torch.sin)))
    assert key(model=hooked(2.0)) == key(model=hooked(2.0))


def test_the_class_of_a_module_within_brings_its_file() -> None:
    resolved = Task(RECIPE, net(Scaled(1.0)), fedavg(), 2).resolved()
    assert list(resolved["sources"]) == [__name__]
    assert Task(RECIPE, net(nn.ReLU()), fedavg(), 2).resolved()["sources"] == {}


def test_a_module_of_half_precision_is_told_by_its_weights() -> None:
    one, other = net().to(torch.bfloat16), net().to(torch.bfloat16)
    assert key(model=one) == key(model=other)
    with torch.no_grad():
        other[0].bias.fill_(1.0)
    assert key(model=one) != key(model=other)


# -- functions -------------------------------------------------------------------------------------


def closure(value: Any) -> Callable[..., Any]:
    def held(*given: Any, **named: Any) -> Any:
        return value

    return held


def default(value: Any) -> Callable[..., Any]:
    def held(*given: Any) -> Any:
        return None

    held.__defaults__ = (value,)
    return held


def keyword(value: Any) -> Callable[..., Any]:
    def held(*given: Any, factor: Any = value) -> Any:
        return factor

    return held


def attribute(value: Any) -> Callable[..., Any]:
    def held(*given: Any) -> Any:
        return None

    held.factor = value  # type: ignore[attr-defined]
    return held


def nameless(value: Any) -> Callable[..., Any]:
    return lambda *given, **named: value


def nested(value: Any) -> Callable[..., Any]:
    inner = closure(value)

    def held(*given: Any) -> Any:
        return inner(*given)

    return held


def cached(value: Any) -> Callable[..., Any]:
    return functools.cache(closure(value))


def method(value: Any) -> Callable[..., Any]:
    return Holder(value).told


def callable_object(value: Any) -> Callable[..., Any]:
    return Holder(value)


def worded_object(value: Any) -> Callable[..., Any]:
    return Worded(value)


def slotted(value: Any) -> Callable[..., Any]:
    return Slotted(value)


def of_a_part(value: Any) -> Callable[..., Any]:
    return {"x": value}.get


def branched(value: Any) -> Callable[..., Any]:
    """Two functions of one name in one file, which hold nothing."""
    if value == 1.0:

        def held(*given: Any) -> Any:
            return 1
    else:

        def held(*given: Any) -> Any:
            return 2

    return held


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value

    def told(self, *given: Any) -> Any:
        return self.value

    __call__ = told


class Worded(Holder):
    """Its words say nothing of what it holds."""

    def __repr__(self) -> str:
        return "Worded()"


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, *given: Any) -> Any:
        return self.value


MAKERS = [
    closure,
    default,
    keyword,
    attribute,
    nameless,
    nested,
    cached,
    method,
    callable_object,
    worded_object,
    slotted,
    of_a_part,
    branched,
    lambda value: partial(closure(value), 3),
    lambda value: partial(closure(0.0), value),
    lambda value: partial(closure(0.0), function=value),
    lambda value: closure([{"deep": (closure(value),)}]),
]
USES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "loss": lambda function: {"loss": function},
    "metric": lambda function: {"metrics": {"mine": function}},
    "model": lambda function: {"model": function},
    "schedule": lambda function: {"strategy": fedavg(local=Local(schedule=function))},
    "cutoff": lambda function: {"strategy": Strategy(compensator=FedAR(cutoff=function))},
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", MAKERS)
def test_functions_that_hold_other_values_are_different(
    make: Callable[[Any], Callable[..., Any]], use: str
) -> None:
    one, same, other = (key(**USES[use](make(value))) for value in (1.0, 1.0, 2.0))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.zeros(3), torch.ones(3)),
        (list(range(5000)), [*range(4999), 0]),
        (np.array(["a", None], dtype=object), np.array(["a", 1], dtype=object)),
        (np.random.default_rng(1), np.random.default_rng(2)),
        (nn.Dropout(0.1), nn.Dropout(0.2)),
        ({"a", "b"}, {"a", "c"}),
        (torch, np),
        (b"x" * 5000, b"x" * 5001),
        (np.complex128(1j), np.complex128(2j)),
    ],
)
def test_all_kinds_of_things_may_be_held(one: Any, other: Any) -> None:
    assert key(loss=closure(one)) == key(loss=closure(one))
    assert key(loss=closure(one)) != key(loss=closure(other))


def test_much_that_is_held_is_told_by_its_hash() -> None:
    rng = random.Random(0)
    numbers = [rng.random() for _ in range(20_000)]
    assert len(json.dumps(described(closure(numbers)))) < 300


def test_a_function_that_calls_itself_can_be_described() -> None:
    def make(step: int) -> Callable[[int], float]:
        def again(t: int) -> float:
            return 1.0 if t <= 0 else again(t - step)

        return again

    def later() -> float:
        return missing()  # noqa: F821 - deleted below: its cell is empty

    missing = later
    del missing
    assert described(make(1)) == described(make(1)) != described(make(2))
    assert "<empty>" in described(later)["holds"]


def test_a_long_chain_of_functions_can_be_described() -> None:
    function: Callable[..., Any] = constant
    for _ in range(300):
        function = closure(function)
    told = described(function)
    assert json.loads(json.dumps(told)) == told


def test_things_that_hold_each_other_can_be_described() -> None:
    one, other = Holder(None), Holder(None)
    one.value, other.value = other, [one]
    assert described(one)["value"]["value"] == [f"{__name__}:Holder, 3 above"]


def plain(t: int) -> float:
    return 1.0


def test_functions_that_hold_nothing_are_known_by_their_names() -> None:
    assert described(constant) == "constant"
    assert described(mlp) == "mlp"  # its defaults come with its name
    assert described(mse_loss) == "torch.nn.functional:mse_loss"
    assert described(plain) == f"{__name__}:plain"
    assert described(torch.sin) == described(torch.sin)
    assert describe.described_function(cross_entropy) == {
        "function": "torch.nn.functional:cross_entropy",
        "holds": [None, None, -100, None, "mean", 0.0],
    }


TELL = """
import json, sys
from tests.studies.definition import test_identity as here
from understudy.core.describe import describe
things = [make(1.0) for make in here.MAKERS]
things += [here.net(here.Shown(here.torch.sin)), {"b", "a", "c"}, lambda t: t in {"a", "b", "c"}]
things += [here.np.random.default_rng(3), here.closure(here.np.array(["x", None], dtype=object))]
print(json.dumps(describe(things)))
"""


def test_a_description_is_the_same_in_every_process() -> None:
    told = set()
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", TELL],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        told.add(made.stdout)
    assert len(told) == 1


# -- sources of plug-ins ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of plug-ins are forgotten, and those they took the place of are back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        if not is_installed(name):
            del sys.modules[name]
    sys.modules.update({name: before[name] for name in ("statistics",) if name in before})
    for name in [name for name in plugins._seen if name not in before]:
        del plugins._seen[name]


PART = """
from dataclasses import dataclass
from understudy import Uniform

@dataclass(frozen=True)
class Mine(Uniform):
    m: int = 2

def metric(outputs, targets): return {"x": 2.0}
def model(): raise NotImplementedError
def analysis(run, task): raise NotImplementedError
def data(n: int = 3): raise NotImplementedError
def constant_loss(outputs, targets): return outputs.sum() * 2
"""
WAYS = {
    "sampler": {"strategies": "[strategies]\nx = {sampler = 'PLACE:Mine'}"},
    "metric": {"top": "metrics = {x = 'PLACE:metric'}"},
    "loss": {"top": "loss = 'PLACE:constant_loss'"},
    "analysis": {"top": "analysis = ['PLACE:analysis']"},
    "model": {"model": "PLACE:model"},
    "data": {"data": "PLACE:data"},
}


def written(folder: Path, way: str, place: str) -> Path:
    given = {name: value.replace("PLACE", place) for name, value in WAYS[way].items()}
    lines = ['name = "plugged"', "rounds = 3", given.get("top", "")]
    data = f'name = "{given["data"]}"' if "data" in given else 'name = "digits"\nper_client = 30'
    partition = "" if "data" in given else 'partition = "clustered"\n'
    lines += [f"[data]\n{data}\n{partition}", f'[model]\nname = "{given.get("model", "softmax")}"']
    lines.append(given.get("strategies", "[strategies]\nx = 'fedavg'"))
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text("\n".join(lines))
    return folder / "study.toml"


@pytest.mark.parametrize("way", WAYS)
def test_what_a_package_shows_is_hashed_where_it_is_defined(tmp_path: Path, way: str) -> None:
    file = written(tmp_path, way, f"shown_{way}")
    package = tmp_path / f"shown_{way}"
    package.mkdir()
    names = "Mine, metric, model, analysis, data, constant_loss"
    (package / "__init__.py").write_text(f"from .impl import {names}\n")
    (package / "impl.py").write_text(PART)
    before = Study.read(file).cells()[0]
    assert f"shown_{way}.impl" in before.resolved["sources"]
    (package / "impl.py").write_text(PART + "# edited\n")
    after = Study.read(file).cells()[0]
    assert after.key != before.key
    (package / "impl.py").write_text(PART)
    assert Study.read(file).cells()[0].key == before.key


def test_an_edited_module_of_a_package_is_used_as_it_is_now(tmp_path: Path) -> None:
    file = written(tmp_path, "sampler", "edited_package")
    package = tmp_path / "edited_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .impl import Mine\n")
    for m in (2, 3):
        (package / "impl.py").write_text(PART.replace("m: int = 2", f"m: int = {m}"))
        assert Study.read(file).cells()[0].task.strategy.sampler.m == m


def test_a_class_is_hashed_with_those_it_builds_on(tmp_path: Path) -> None:
    file = written(tmp_path, "sampler", "upper_part")
    (tmp_path / "lower_part.py").write_text(PART)
    upper = "from dataclasses import dataclass\nimport lower_part\n@dataclass(frozen=True)\n"
    (tmp_path / "upper_part.py").write_text(f"{upper}class Mine(lower_part.Mine): pass\n")
    before = Study.read(file).cells()[0]
    assert list(before.resolved["sources"]) == ["lower_part", "upper_part"]
    (tmp_path / "lower_part.py").write_text(PART.replace("m: int = 2", "m: int = 4"))
    after = Study.read(file).cells()[0]
    assert after.key != before.key
    assert after.task.strategy.sampler.m == 4


def test_a_module_object_that_a_package_shows_is_hashed_where_it_is_made(tmp_path: Path) -> None:
    file = written(tmp_path, "model", "object_package")
    package = tmp_path / "object_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .impl import model\n")
    (package / "impl.py").write_text("from torch import nn\nmodel = nn.Linear(64, 10)\n")
    sources = Study.read(file).cells()[0].resolved["sources"]
    assert list(sources) == ["object_package", "object_package.impl"]


def test_a_plug_in_may_be_called_like_a_module_of_python(tmp_path: Path) -> None:
    file = written(tmp_path, "sampler", "statistics")
    (tmp_path / "statistics.py").write_text(PART)
    before = Study.read(file).cells()[0]
    assert list(before.resolved["sources"]) == ["statistics"]
    (tmp_path / "statistics.py").write_text(PART + "# edited\n")
    assert Study.read(file).cells()[0].key != before.key


def test_whose_a_module_is() -> None:
    assert is_known("torch.nn.functional")
    assert is_known("understudy.server.strategy")
    assert is_known("json")
    assert is_known("math")
    assert is_known("sys")
    assert is_known("numpy")
    assert not is_known("pytest")
    assert is_installed("pytest")
    assert not is_known(__name__)
    assert not is_installed(__name__)
    assert not is_known("nobody_has_this")
    assert not is_installed("nobody_has_this")


@pytest.mark.parametrize("way", WAYS)
def test_two_studies_read_before_their_cells_are_made(tmp_path: Path, way: str) -> None:
    """The cells of the first are those that it has when it is alone."""
    files = []
    for name in ("one", "two"):
        files.append(written(tmp_path / name, way, f"twins_{way}"))
        (files[-1].parent / f"twins_{way}.py").write_text(f"{PART}# {name}\n")
    alone = [Study.read(file).cells()[0].key for file in files]
    studies = [Study.read(file) for file in files]
    assert [study.cells()[0].key for study in studies] == alone
    assert alone[0] != alone[1]
    assert all(sys.path.count(str(file.parent)) == 1 for file in files)


def test_a_plug_in_edited_after_the_study_was_read_does_not_rename_what_was_made(
    tmp_path: Path,
) -> None:
    """The part in memory is the old one: so is its name, and whoever plays it sees the edit."""
    file = written(tmp_path, "sampler", "late_edit")
    (tmp_path / "late_edit.py").write_text(PART)
    before = Study.read(file).cells()[0]
    study = Study.read(file)
    (tmp_path / "late_edit.py").write_text(PART.replace("m: int = 2", "m: int = 3"))
    cell = study.cells()[0]
    assert cell.task.strategy.sampler.m == 2
    assert cell.key == before.key
    again = Study.read(file)
    assert again.cells()[0].task.strategy.sampler.m == 3
    assert again.cells()[0].key != before.key
    assert study.tuning() == []


def test_the_digest_of_a_plug_in_when_it_was_imported(tmp_path: Path) -> None:
    file = written(tmp_path, "sampler", "seen_once")
    (tmp_path / "seen_once.py").write_text(PART)
    assert plugins.digest_when_imported("seen_once") is None
    sources = Study.read(file).cells()[0].resolved["sources"]
    assert plugins.digest_when_imported("seen_once") == sources["seen_once"]
    (tmp_path / "seen_once.py").write_text(PART + "# edited\n")
    assert plugins.digest_when_imported("seen_once") == sources["seen_once"]


# -- plug-ins that are broken ----------------------------------------------------------------------


KEYS = {
    "sampler": "strategies.x.sampler: ",
    "metric": "metrics.x: ",
    "loss": "loss: ",
    "analysis": "analysis: ",
    "model": "model.name: ",
    "data": "data.name: ",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("number", "source", "told"),
    [
        (0, "x = 1\ny = (\n", "SyntaxError (NAME.py, line 2): '(' was never closed"),
        (1, "\n\n1 / 0\n", "ZeroDivisionError (NAME.py, line 3): division by zero"),
        (2, "raise RuntimeError('no\\n  luck')", "RuntimeError (NAME.py, line 1): no luck"),
        (3, "import math\nmath.nothing", "AttributeError (NAME.py, line 2): module 'math' has"),
        (4, "import not_there_at_all", "ModuleNotFoundError (NAME.py, line 1): No module named"),
        (5, "raise SystemExit", "SystemExit (NAME.py, line 1)"),
        (6, "import json\njson.loads('{')", "JSONDecodeError (NAME.py, line 2): Expecting"),
    ],
)
def test_a_broken_plug_in_is_told_in_one_line(
    tmp_path: Path, way: str, number: int, source: str, told: str
) -> None:
    name = f"broken_{way}_{number}"
    file = written(tmp_path, way, name)
    (tmp_path / f"{name}.py").write_text(source)
    with pytest.raises(StudyError) as caught:
        Study.read(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: {KEYS[way]}{name}:")
    assert told.replace("NAME", name) in message
    assert "\n" not in message


def test_what_is_missing_for_our_own_parts_is_told_by_them() -> None:
    with pytest.raises(ImportError) as caught:
        imported("understudy.not_there:Part")
    assert str(caught.value) == "understudy.not_there:Part: no module named 'understudy.not_there'"


def test_keys_call_modules_that_were_moved_by_their_first_name() -> None:
    assert first_name("other.module:name") == "other.module:name"
    first = "understudy.studies.builtin.readings"
    name = "understudy.papers.readings:fdms_cnn_320"
    assert canonical_model(name) == {"name": f"{first}:fdms_cnn_320"}
    recipe = data_of({"name": "understudy.papers.readings:synthetic_without_validation"}, 0)
    assert canonical_data(recipe)["name"] == f"{first}:synthetic_without_validation"


# -- plug-ins of the command line ------------------------------------------------------------------


@pytest.mark.parametrize(
    "override",
    [
        'strategies.mine={sampler="set_part:Mine"}',
        "strategies.drop.sampler=set_part:Mine",
        'axes={"strategies.drop.sampler" = ["everyone", "set_part:Mine"]}',
    ],
)
def test_plug_ins_that_only_the_command_line_names_are_found(tmp_path: Path, override: str) -> None:
    (tmp_path / "set_part.py").write_text(PART)
    file = tmp_path / "study.toml"
    file.write_text(text(strategies="[strategies]\ndrop = 'fedavg'"))
    study = Study.read(file, overrides=[override])
    assert study.path == (str(tmp_path),)
    assert "Mine" in {type(cell.task.strategy.sampler).__name__ for cell in study.cells()}
    assert Study.read(file).path == ()

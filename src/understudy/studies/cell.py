"""A cell of a study: one simulation as a value, and the hash that it is known by."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from torch import nn
from torch.nn.functional import cross_entropy

from understudy.availability.always import Always
from understudy.delay import Delay
from understudy.describe import describe
from understudy.registry import imported
from understudy.roles import Availability
from understudy.strategy import Strategy

if TYPE_CHECKING:
    from understudy.simulation.data import Federation
    from understudy.simulation.engine import Ledger, Run
    from understudy.simulation.engines import Loss
    from understudy.simulation.evaluation import Metric
    from understudy.simulation.models import Model

KEY_DIGITS = 16
Label = str | float | int | bool | None


@dataclass(frozen=True)
class DataRecipe:
    """Data by name: what `federate` is called with.

    Parameters
    ----------
    name : str
        A data set, or ``module:name``.
    partition : str, optional
        None for data that come divided.
    seed : int
        Of the division; `Task` puts its own there when the study says ``seed = "run"``.
    settings : mapping
        All else: `test`, `validation`, `root`, and the partition's own.
    """

    name: str
    partition: str | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def federation(self) -> Federation:
        """The data, divided."""
        from understudy.simulation.dataset import federate

        if self.partition is None and ":" in self.name:
            return _other_federation(self)
        return federate(self.name, self.partition, seed=self.seed, **self.settings)


@dataclass(frozen=True, eq=False)
class Task:
    """Everything that one simulation needs."""

    data: DataRecipe | Federation
    model: Model
    strategy: Strategy
    rounds: int
    availability: Availability = field(default_factory=Always)
    delay: Delay | None = None
    seed: int = 0
    loss: Loss = cross_entropy
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    evaluate: tuple[str, ...] = ("test",)
    evaluate_every: int = 1
    per_client_every: int = 0
    oracle: bool = False
    device: str = "cpu"
    analysis: tuple[str, ...] = ()
    path: tuple[str, ...] = ()  # folders that come first on sys.path: where plug-ins are found

    def federation(self) -> Federation:
        """The data."""
        return self.data.federation() if isinstance(self.data, DataRecipe) else self.data

    def open(
        self,
        federation: Federation | None = None,
        *,
        folder: Path | None = None,
        ledger: Ledger | None = None,
        workers: int | None = None,
    ) -> Run:
        """The simulation, ready to be iterated; with a folder it goes on where it stopped."""
        from understudy.simulation.engine import Run, prepare

        question = prepare(
            self.federation() if federation is None else federation,
            model=self.model,
            availability=self.availability,
            delay=self.delay,
            rounds=self.rounds,
            seed=self.seed,
            loss=self.loss,
            metrics=self.metrics,
            evaluate=self.evaluate,
            evaluate_every=self.evaluate_every,
            per_client_every=self.per_client_every,
            oracle=self.oracle,
            device=self.device,
            workers=workers,
        )
        return Run(self.strategy, question, folder, ledger)

    def settled(self) -> Self:
        """The same task, its numbers as its parts declare them: 1 where 1.0 is meant is 1.0."""
        changes = {
            name: settled(getattr(self, name)) for name in ("strategy", "availability", "delay")
        }
        return replace(self, **changes)

    def resolved(self) -> dict[str, Any]:
        """The task as plain data, all defaults filled in: what is hashed."""
        described = {
            item.name: describe(settled(getattr(self, item.name)))
            for item in fields(self)
            if item.name not in ("data", "path", "loss", "model", "metrics")
        }
        described["loss"] = described_function(self.loss)
        described["metrics"] = {
            name: described_function(metric) for name, metric in self.metrics.items()
        }
        described["model"] = canonical_model(self.model)
        described["data"] = self._described_data()
        sources = {name: _source_digest(name) for name in sorted(_foreign_sources(described))}
        plain: dict[str, Any] = json.loads(json.dumps({**described, "sources": sources}))
        return plain

    def _described_data(self) -> Any:
        if isinstance(self.data, DataRecipe):
            return canonical_data(self.data)
        return {"class": "Federation", "digest": _digest_of(self.data)}


@dataclass(frozen=True, eq=False)
class Cell:
    """A task with its place in a study."""

    labels: Mapping[str, Label]
    task: Task
    resolved: Mapping[str, Any]
    key: str

    @classmethod
    def of(cls, labels: Mapping[str, Label], task: Task) -> Cell:
        """The cell of a task, hashed."""
        task = task.settled()
        resolved = task.resolved()
        return cls(dict(labels), task, resolved, key_of(resolved))

    @property
    def seed(self) -> int:
        return self.task.seed


def key_of(resolved: Mapping[str, Any]) -> str:
    """The name of a cell: a hash of its resolved configuration."""
    text = json.dumps(resolved, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def canonical_data(recipe: DataRecipe) -> dict[str, Any]:
    """A data recipe with the defaults of its functions filled in; `root` is where, not what."""
    from understudy.simulation.dataset import federate
    from understudy.simulation.partitions import PARTITIONS
    from understudy.simulation.sources import DATASETS

    settings = {name: value for name, value in recipe.settings.items() if name != "root"}
    functions: list[Callable[..., Any]] = [federate] if recipe.partition is not None else []
    if recipe.partition is None:
        functions.append(
            DATASETS[recipe.name] if recipe.name in DATASETS else imported(recipe.name)
        )
    elif recipe.partition in PARTITIONS or ":" in recipe.partition:
        functions.append(PARTITIONS.get(recipe.partition) or imported(recipe.partition))
    defaults = {
        name: parameter.default
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty and name not in ("rng", "root")
    }
    known = {**defaults, **settings, "partition": recipe.partition, "seed": recipe.seed}
    return {"class": "DataRecipe", "name": recipe.name, **describe(known)}


def canonical_model(model: Model) -> Any:
    """A model with the defaults of its function filled in."""
    from understudy.simulation.models import MODELS

    if isinstance(model, str):
        model = {"name": model}
    if not isinstance(model, Mapping):
        return described_function(model)
    name = str(model["name"])
    make = imported(name) if ":" in name else MODELS[name]
    defaults = {}
    if not isinstance(make, nn.Module):
        parameters = inspect.signature(make).parameters.items()
        defaults = {
            setting: parameter.default
            for setting, parameter in parameters
            if parameter.default is not parameter.empty
        }
    return {**describe({**defaults, **model}), "name": name}


def described_function(thing: Any) -> Any:
    """A function as plain data, with what it holds on to from where it was made."""
    if not isinstance(thing, types.FunctionType):
        return describe(thing)
    held = [cell.cell_contents for cell in thing.__closure__ or ()]
    if not held and not thing.__defaults__:
        return describe(thing)
    return {"function": describe(thing), "holds": describe([*held, *(thing.__defaults__ or ())])}


def settled(part: Any) -> Any:
    """A part, whole numbers turned into floats where its fields are of that type; nested."""
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changes = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if type(value) is int and _wants_float(_hints(type(part)).get(item.name)):
            changes[item.name] = float(value)
        elif (inner := settled(value)) is not value:
            changes[item.name] = inner
    return replace(part, **changes) if changes else part


@cache
def _hints(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except Exception:  # a name that exists for type checkers only, in somebody's module
        return {}


def _wants_float(hint: Any) -> bool:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return float in choices and int not in choices


def _other_federation(recipe: DataRecipe) -> Federation:
    """Other people's data that come divided: a federation, or a function that makes one."""
    from understudy.simulation.data import Federation

    made = imported(recipe.name)
    if not isinstance(made, Federation):
        takes_seed = "seed" in inspect.signature(made).parameters
        made = made(**recipe.settings, **({"seed": recipe.seed} if takes_seed else {}))
    if not isinstance(made, Federation):
        raise ValueError(f"partition: {recipe.name!r} does not come divided; name a partition")
    return made


_digests: WeakKeyDictionary[Federation, str] = WeakKeyDictionary()


def _digest_of(federation: Federation) -> str:
    """Computed once: many cells share their data."""
    from understudy.simulation.fingerprint import federation_digest

    if federation not in _digests:
        _digests[federation] = federation_digest(federation)
    return _digests[federation]


def _foreign_sources(described: Any) -> set[str]:
    """Modules of ``module:Name`` in a description, other than ours and the usual libraries'.

    What was defined in the program itself is named whole: the rest of that file may well change.
    """
    if isinstance(described, Mapping):
        return set().union(*(_foreign_sources(value) for value in described.values()), set())
    if isinstance(described, list):
        return set().union(*(_foreign_sources(value) for value in described), set())
    if not isinstance(described, str) or ":" not in described:
        return set()
    module, _, name = described.partition(":")
    if not _is_foreign(module):
        return set()
    return {f"{module}:{name.partition('.')[0]}"} if module == "__main__" else {module}


def _is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    if not module or top in ("understudy", "torch", "numpy", "builtins") or not _is_name(module):
        return False
    return top not in sys.stdlib_module_names


def _is_name(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def _source_digest(name: str) -> str | None:
    """The sha256 of a module's file, or of one definition of the program itself."""
    module, _, definition = name.partition(":")
    if definition:
        return _definition_digest(getattr(sys.modules[module], definition, None))
    try:
        file = getattr(sys.modules.get(module) or import_module(module), "__file__", None)
    except ImportError:
        return None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None


def _definition_digest(thing: Any) -> str | None:
    """Of its text, or of its code where the text is not kept (an interactive session)."""
    try:
        return hashlib.sha256(inspect.getsource(thing).encode()).hexdigest()
    except (OSError, TypeError):
        parts = vars(thing).values() if isinstance(thing, type) else [thing]
    codes = [part.__code__ for part in parts if isinstance(part, types.FunctionType)]
    words = [(code.co_code, code.co_consts, code.co_names) for code in codes]
    # the constants of nested functions are told with their place in memory
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(words))
    return hashlib.sha256(text.encode()).hexdigest() if codes else None

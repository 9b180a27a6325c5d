"""A cell of a study: one simulation as a value, and the hash that it is known by."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

    def resolved(self) -> dict[str, Any]:
        """The task as plain data, all defaults filled in: what is hashed."""
        described = {
            item.name: describe(getattr(self, item.name))
            for item in fields(self)
            if item.name not in ("data", "path", "loss")
        }
        described["loss"] = describe(self.loss)
        described["data"] = self._described_data()
        sources = {module: _source_digest(module) for module in sorted(_foreign_modules(described))}
        plain: dict[str, Any] = json.loads(json.dumps({**described, "sources": sources}))
        return plain

    def _described_data(self) -> Any:
        if isinstance(self.data, DataRecipe):
            return canonical_data(self.data)
        from understudy.simulation.fingerprint import federation_digest

        return {"class": "Federation", "digest": federation_digest(self.data)}


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


def _foreign_modules(described: Any) -> set[str]:
    """Modules of ``module:Name`` in a description, other than ours and installed libraries'."""
    if isinstance(described, Mapping):
        return set().union(*(_foreign_modules(value) for value in described.values()), set())
    if isinstance(described, list):
        return set().union(*(_foreign_modules(value) for value in described), set())
    if not isinstance(described, str) or ":" not in described:
        return set()
    module = described.partition(":")[0]
    return {module} if _is_foreign(module) else set()


def _is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    if not module or top in ("understudy", "torch", "numpy", "builtins") or not _is_name(module):
        return False
    return top not in sys.stdlib_module_names


def _is_name(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def _source_digest(module: str) -> str | None:
    """The sha256 of a module's file; None where it has none (an interactive session)."""
    try:
        file = getattr(sys.modules.get(module) or import_module(module), "__file__", None)
    except ImportError:
        return None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None

"""A cell of a study: one simulation as a value, and the hash that it is known by."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from torch.nn.functional import cross_entropy

from understudy.core.describe import describe, refuse_unknown
from understudy.core.roles import Availability
from understudy.parts.availability.always import Always
from understudy.parts.delay import Delay
from understudy.registry import imported
from understudy.server.strategy import Strategy
from understudy.studies.definition import plugins
from understudy.studies.definition.identity import (
    canonical_data,
    canonical_model,
    described_function,
    digest_of,
    foreign_sources,
    settled,
    source_digest,
)

if TYPE_CHECKING:
    from understudy.simulation.data.federation import Federation
    from understudy.simulation.data.models import Model
    from understudy.simulation.run import Ledger, Run
    from understudy.simulation.training.evaluation import Metric
    from understudy.simulation.training.local_sgd import Loss

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
        from understudy.simulation.data.dataset import federate

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
    # module → sha256 of its file when its things were made for this task
    sources: Mapping[str, str] = field(default_factory=plugins.digests, repr=False)

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
        from understudy.simulation.run import Run, prepare

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
        plugins.first_on_path(self.path)  # another study may have come since
        described = {
            item.name: describe(settled(getattr(self, item.name)))
            for item in fields(self)
            if item.name not in ("data", "path", "sources", "loss", "model", "metrics")
        }
        described["loss"] = described_function(self.loss)
        described["metrics"] = {
            name: described_function(metric) for name, metric in self.metrics.items()
        }
        described["model"] = canonical_model(self.model)
        described["data"] = self._described_data()
        refuse_unknown(described)  # two of them would be one cell
        names = sorted(foreign_sources(described))
        sources = {name: source_digest(name, self.sources) for name in names}
        plain: dict[str, Any] = json.loads(json.dumps({**described, "sources": sources}))
        return plain

    def _described_data(self) -> Any:
        if isinstance(self.data, DataRecipe):
            return canonical_data(self.data)
        return {"class": "Federation", "digest": digest_of(self.data)}


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


def _other_federation(recipe: DataRecipe) -> Federation:
    """Other people's data that come divided: a federation, or a function that makes one."""
    from understudy.simulation.data.federation import Federation

    made = imported(recipe.name)
    if not isinstance(made, Federation):
        takes_seed = "seed" in inspect.signature(made).parameters
        made = made(**recipe.settings, **({"seed": recipe.seed} if takes_seed else {}))
    if not isinstance(made, Federation):
        raise ValueError(f"partition: {recipe.name!r} does not come divided; name a partition")
    return made

"""A cell of a study: one simulation as a value, and the hash that it is known by."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from understudy.core.describe import describe, described_function, refuse_unknown, told_fields
from understudy.server.strategy import Strategy
from understudy.simulation.data.federate import federate
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.models import Model
from understudy.simulation.data.sources import source_of
from understudy.simulation.settings import Options, Simulation
from understudy.studies.definition import plugins
from understudy.studies.definition.identity import (
    canonical_data,
    canonical_model,
    digest_of,
    foreign_sources,
    source_digest,
    with_float_fields,
)
from understudy.studies.definition.names import KEY_DIGITS

if TYPE_CHECKING:
    from understudy.journal.protocol import Journal
    from understudy.simulation.run import Run

NOT_IN_KEY = ("workers", "engine", "trainer")  # how a cell is computed, not what it is
Label = str | float | int | bool | None


@dataclass(frozen=True)
class DataRecipe:
    """Data by name: what `federate` is called with."""

    name: str  # a data set, or ``module:name``
    partition: str | None = None  # None for data that come divided
    seed: int = 0  # of the division; `Task` puts its own there for ``seed = "run"``
    settings: Mapping[str, Any] = field(default_factory=dict)  # all else, also the partition's own

    def federation(self) -> Federation:
        """The data, divided."""
        if self.partition is None and ":" in self.name:
            return _other_federation(self)
        return federate(self.name, self.partition, seed=self.seed, **self.settings)


@dataclass(frozen=True, eq=False, init=False)
class Task:
    """Everything that one simulation needs.

    Settings of the run are given one by one, as to `simulate`, and read likewise: ``task.rounds``
    is ``task.settings.rounds``.
    """

    data: DataRecipe | Federation
    strategy: Strategy
    settings: Simulation
    analysis: tuple[str, ...]
    path: tuple[str, ...]  # folders that come first on sys.path: where plug-ins are found
    # module → sha256 of its file when its things were made for this task
    sources: Mapping[str, str] = field(repr=False)
    pooled: bool  # all training data at one client: see `understudy.simulation.pooled`

    def __init__(
        self,
        data: DataRecipe | Federation,
        model: Model,
        strategy: Strategy,
        rounds: int,
        *,
        analysis: tuple[str, ...] = (),
        path: tuple[str, ...] = (),
        sources: Mapping[str, str] | None = None,
        pooled: bool = False,
        **options: Unpack[Options],
    ) -> None:
        settings = Simulation(model=model, rounds=rounds, **cast(Any, options))
        vars(self).update(
            data=data,
            strategy=strategy,
            settings=settings,
            analysis=analysis,
            path=path,
            sources=plugins.digests() if sources is None else sources,
            pooled=pooled,
        )

    def __getattr__(self, name: str) -> Any:
        if "settings" not in vars(self):  # it is being unpickled
            raise AttributeError(name)
        return getattr(self.settings, name)

    def changed(self, **changes: Any) -> Task:
        """The same task with other values, of its own or of its settings."""
        own = {name: value for name, value in vars(self).items() if name != "settings"}
        return Task(**{**own, **vars(self.settings), **changes})

    def federation(self) -> Federation:
        """The data."""
        return self.data.federation() if isinstance(self.data, DataRecipe) else self.data

    def open(
        self,
        federation: Federation | None = None,
        *,
        folder: Path | None = None,
        journal: Journal | None = None,
        workers: int | None = None,
    ) -> Run:
        """The simulation, ready to be iterated; with a folder it continues where it stopped."""
        from understudy.simulation.references import pooled
        from understudy.simulation.run import Run

        data, strategy = self.federation() if federation is None else federation, self.strategy
        if self.pooled:
            data, strategy = pooled(data, strategy)
        return Run(data, strategy, replace(self.settings, workers=workers), folder, journal)

    def with_float_fields(self) -> Task:
        """The same task, its numbers as its parts declare them: 1 where 1.0 is meant is 1.0."""
        names = ("strategy", "availability", "delay")
        return self.changed(**{name: with_float_fields(getattr(self, name)) for name in names})

    def resolved(self) -> dict[str, Any]:
        """The task as plain data, all defaults filled in: what is hashed."""
        plugins.first_on_path(self.path)  # another study may have come since
        settings = self.settings
        plain = {
            item.name: getattr(settings, item.name)
            for item in told_fields(settings)
            if item.name not in ("model", "loss", "metrics", *NOT_IN_KEY)
        }
        told = {"strategy": self.strategy, **plain, "analysis": self.analysis}
        described = {name: describe(with_float_fields(value)) for name, value in told.items()}
        described["loss"] = described_function(settings.loss)
        described["metrics"] = {
            name: described_function(metric) for name, metric in settings.metrics.items()
        }
        described["model"] = canonical_model(settings.model)
        described["data"] = self._described_data()
        if self.pooled:
            described["pooled"] = True
        refuse_unknown(described)  # two of them would be one cell
        names = sorted(foreign_sources(described))
        sources = {name: source_digest(name, self.sources) for name in names}
        resolved: dict[str, Any] = json.loads(json.dumps({**described, "sources": sources}))
        return resolved

    def _described_data(self) -> Any:
        if isinstance(self.data, DataRecipe):
            described = canonical_data(self.data)
            if self.data.partition is None and ":" in self.data.name and self.per_client_every:
                # others' data may know whose their test examples are; in earlier cells none did
                described["client_tests"] = "own where known"
            return described
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
        task = task.with_float_fields()
        resolved = task.resolved()
        return cls(dict(labels), task, resolved, key_of(resolved))

    @property
    def seed(self) -> int:
        return self.task.settings.seed


def key_of(resolved: Mapping[str, Any]) -> str:
    """The name of a cell: a hash of its resolved configuration."""
    text = json.dumps(resolved, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def _other_federation(recipe: DataRecipe) -> Federation:
    """Other people's data that come divided: a federation, or a function that makes one."""
    made = source_of(recipe.name).loader
    if not isinstance(made, Federation):
        takes_seed = "seed" in inspect.signature(made).parameters
        made = made(**recipe.settings, **({"seed": recipe.seed} if takes_seed else {}))
    if not isinstance(made, Federation):
        raise ValueError(f"partition: {recipe.name!r} does not come divided; name a partition")
    return made

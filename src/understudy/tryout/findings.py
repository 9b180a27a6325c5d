"""What a tried table came to: what is lost, who loses, what helps and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from understudy.measures.run_numbers import tail_length
from understudy.studies.statistics.frames import results
from understudy.tryout.absence import Situations
from understudy.tryout.effects import BySeed, Effect, adjusted, by_seed, effect, mean
from understudy.tryout.look import Look
from understudy.tryout.numbers_in_words import Scale, scale_of, scale_of_clients
from understudy.tryout.plan import EVERYONE, LEFT_OUT, POOLED, measure_of

STILL_LEARNING = 0.03  # of what was learnt: a rise in the last quarter that is told
FEWEST_ROUNDS = 4  # of which a last quarter can be told


@dataclass(frozen=True)
class ClientFinding:
    """One client in one situation."""

    name: str
    rows: int
    tested_on: float  # test rows, on average
    everyone: float
    left_out: float
    change: Effect


@dataclass(frozen=True)
class MethodFinding:
    """One method in one situation."""

    name: str
    values: BySeed
    change: Effect  # against leaving the absent out
    recovered: float  # share of the loss

    @property
    def mean(self) -> float:
        return mean(self.values)


@dataclass(frozen=True)
class Situation:
    """What came out where some are missing."""

    label: str
    gone: str | None  # the client that is gone
    left_out: BySeed
    loss: Effect  # of leaving out, against everybody
    methods: tuple[MethodFinding, ...]  # best first
    clients: tuple[ClientFinding, ...]  # who loses most first

    @property
    def best(self) -> MethodFinding | None:
        return self.methods[0] if self.methods else None


@dataclass(frozen=True)
class ServerCost:
    """What a method takes on the server, beyond what leaving out takes."""

    name: str
    memory: int
    disk: int


@dataclass(frozen=True)
class TableFindings:
    """All that is told of a table."""

    scale: Scale
    client_scale: Scale
    everyone: BySeed
    pooled: BySeed
    constant: float  # the measure of predicting the same for everyone; NaN: not known
    situations: tuple[Situation, ...]
    costs: tuple[ServerCost, ...]
    n_parameters: int
    seeds: int
    errors: Mapping[str, float] = field(default_factory=dict)  # RMSE in the target's own unit
    rounds: int = 0
    tail: int = 1  # last rounds that the measure is a mean of
    rise: float = math.nan  # of the measure with everybody, in the last quarter of the rounds
    steps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # see `_steps`

    @property
    def unfinished(self) -> bool:
        """Whether the model with everybody was still learning when training ended."""
        learnt = mean(self.everyone) - (self.constant if math.isfinite(self.constant) else 0.0)
        return self.rise > max(STILL_LEARNING * learnt, 0.0)


def findings(
    folder: Path, study: Any, look: Look, found: Situations, labels: Sequence[str]
) -> TableFindings:
    """From the stored runs of a study."""
    runs = results(folder, study=study.name)
    runs = runs[runs["status"] == "done"]
    clients = results(folder, level="client", study=study.name)
    clients = clients[clients["status"] == "done"]
    column, scale = measure_of(look), scale_of(look.target)
    client_scale = scale_of_clients(look.target)

    def of(strategy: str, situation: str | None = None, what: str = column) -> dict[int, float]:
        rows = runs[runs["strategy"] == strategy]
        if situation is not None:
            rows = rows[rows["availability"] == situation]
        return by_seed(rows.drop_duplicates("seed"), what)

    everyone = of(EVERYONE)
    losses = adjusted([effect(of(LEFT_OUT, label), everyone, False) for label in found.labels])
    made = []
    for label, loss in zip(found.labels, losses, strict=True):
        left_out = of(LEFT_OUT, label)
        tried = labels if label in found.at_times else ()
        rows = _of_clients(clients, label, client_scale, look)
        methods = _of_methods({name: of(name, label) for name in tried}, left_out, loss)
        made.append(Situation(label, found.gone.get(label), left_out, loss, methods, rows))
    reference = f"reference_{look.target.metric}"
    constant = float(runs[reference].mean()) if reference in runs else math.nan
    if look.target.metric == "auc":
        constant = 0.5
    errors = {}
    if look.target.metric == "r2":
        errors = {EVERYONE: mean(of(EVERYONE, None, "test_rmse_last")) * look.target.scale}
    return TableFindings(
        scale,
        client_scale,
        everyone,
        of(POOLED),
        constant,
        tuple(made),
        *_costs(study),
        len(everyone),
        errors,
        study.rounds,
        tail_length(study.rounds) if column == "accuracy_tail" else 1,
        _rise(folder, study, f"test_{look.target.metric}"),
        _steps(runs.attrs.get("picks", {})),
    )


def _rise(folder: Path, study: Any, column: str) -> float:
    """How much a measure rose with everybody in the last quarter of the rounds; NaN: not known."""
    rounds = results(folder, level="round", study=study.name)
    if column not in rounds or study.rounds < FEWEST_ROUNDS:
        return math.nan
    own = rounds[rounds["strategy"] == EVERYONE].drop_duplicates(["seed", "t"])
    courses = own.pivot(index="t", columns="seed", values=column).dropna(how="all")
    tail = tail_length(len(courses))
    last, early = courses.tail(tail), courses.head(len(courses) - len(courses) // 4).tail(tail)
    gains = (last.mean() - early.mean()).dropna()
    error = float(gains.std()) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    rise = float(gains.mean())
    # runs that go up and down by chance rise, too
    return rise if rise > error else 0.0


def _steps(picks: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Block (or nothing) → strategy → the server's step that was picked, as it is written."""
    told: dict[str, dict[str, str]] = {}
    for name, pick in picks.items():
        where, _, strategy = name.rpartition("/")
        step = re.search(r"lr=([\d.]+)", str(pick.get("server", "")))
        if step is not None and strategy != POOLED:
            told.setdefault(where, {})[strategy] = f"{float(step[1]):g}"
    return told


def _of_methods(
    values: Mapping[str, BySeed], left_out: BySeed, loss: Effect
) -> tuple[MethodFinding, ...]:
    changes = adjusted([effect(own, left_out, False) for own in values.values()])
    made = [
        MethodFinding(name, own, change, change.mean / -loss.mean if loss.mean < 0 else math.nan)
        for (name, own), change in zip(values.items(), changes, strict=True)
    ]
    known = [one for one in made if math.isfinite(one.mean)]
    return tuple(sorted(known, key=lambda one: -one.mean))


def _of_clients(
    clients: pd.DataFrame, label: str, scale: Scale, look: Look
) -> tuple[ClientFinding, ...]:
    if scale.metric not in clients:
        return ()
    everyone = clients[clients["strategy"] == EVERYONE].drop_duplicates(["seed", "name"])
    left_out = clients[(clients["strategy"] == LEFT_OUT) & (clients["availability"] == label)]
    found = []
    for name in look.clients:
        own, other = (rows[rows["name"] == name] for rows in (left_out, everyone))
        pair = by_seed(own, scale.metric), by_seed(other, scale.metric)
        if any(math.isfinite(mean(one)) for one in pair):
            tested_on = float(own["n_test"].mean()) if "n_test" in own else math.nan
            change = effect(*pair, scale.lower)
            one = ClientFinding(
                name, look.sizes[name], tested_on, mean(pair[1]), mean(pair[0]), change
            )
            found.append(one)
    changes = adjusted([one.change for one in found])
    told = [
        ClientFinding(one.name, one.rows, one.tested_on, one.everyone, one.left_out, change)
        for one, change in zip(found, changes, strict=True)
        if math.isfinite(change.mean)
    ]
    return tuple(sorted(told, key=lambda one: one.change.mean))


def _costs(study: Any) -> tuple[tuple[ServerCost, ...], int]:
    """Bytes of each method's server, and the size of the model."""
    sizes: dict[str, Any] = {}
    n_parameters = 0
    for cell in study.cells():
        name = str(cell.labels["strategy"])
        if name in sizes or name in (EVERYONE, POOLED):
            continue
        federation = cell.task.settings.fitted(cell.task.federation())
        module = cell.task.settings.module(federation)
        n_parameters = sum(entry.numel() for entry in module.parameters())
        sizes[name] = cell.task.strategy.footprint(federation.population(), n_parameters)
    base = sizes[LEFT_OUT]
    costs = [
        ServerCost(name, size.memory - base.memory, size.disk - base.disk)
        for name, size in sizes.items()
        if name != LEFT_OUT
    ]
    return tuple(costs), n_parameters

"""What methods cost: rounds and megabytes to a target, memory on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tools.absence.cells import SCALE, STUDY, Table
from understudy.core.flat import Layout
from understudy.core.types import Floats
from understudy.simulation.data.models import build
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.estimates import population_of, size_of


@dataclass(frozen=True)
class Price:
    """Of a target, over all absences and seeds of one data set; infinity: half never got there."""

    reached: float  # share of the runs
    rounds: float  # median
    megabytes: float | None  # median; None where it was not exported


def price(table: Table, method: str, data: str) -> Price | None:
    """What the target costs a method; None without a target, or without its runs."""
    target = table.target(data)
    places = [place for place in table.places(data) if table.has(method, place)]
    if target is None or not places:
        return None
    runs = [run for place in places for run in table.runs[place][method].values()]
    rounds = np.array([run.rounds_to(target) for run in runs])
    rates = [run.megabytes for run in runs]
    sent = None
    if all(rate is not None for rate in rates):
        sent = _median(rounds * np.array(rates, dtype=np.float64))
    return Price(float(np.isfinite(rounds).mean()), _median(rounds), sent)


def _median(values: Floats) -> float:
    """The upper one of two, so that half of the runs need no more."""
    return float(np.sort(values)[len(values) // 2])


def server_memory(block: str, methods: Sequence[str]) -> dict[str, float]:
    """Memory on the server in models of the block, of those methods that the study has."""
    cells = built_in(STUDY, SCALE, [f'blocks=["{block}"]', "seeds=[300]"]).cells()
    tasks = {str(cell.labels["strategy"]): cell.task for cell in cells}
    any_task = next(iter(tasks.values()))
    size = size_of(any_task)
    layout = Layout.of(build(any_task.model, size.shape, size.n_outputs, any_task.seed))
    population = population_of(size)
    known = replace(population, p=np.full(population.n_clients, 0.5))  # one method asks for it
    found = {}
    for method in methods:
        if method in tasks:
            strategy = tasks[method].strategy
            footprint = strategy.footprint(known, layout.size, dtype=layout.dtype)
            found[method] = footprint.memory / (layout.size * layout.dtype.itemsize)
    return found

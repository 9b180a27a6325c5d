"""How far methods are behind the best one of each cell, over all cells, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.absence.cells import Place, Table
from understudy.core.types import Floats
from understudy.studies.statistics.paired_tests import Interval, interval

DRAWS = 2000  # of the bootstrap
LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    """A number and its bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Standing:
    """One method over all places.

    Parameters
    ----------
    method : str
    mean, worst : Spread
        Of its regrets, in points.
    worst_place : (str, str)
        Where that is.
    best_or_level : int
        Places in which it is the best, or within noise of it.
    """

    method: str
    mean: Spread
    worst: Spread
    worst_place: Place
    best_or_level: int


def gap(table: Table, method: str, place: Place) -> Interval:
    """Its regret: how far it is behind the best of the place, in points, paired by seed."""
    return interval(table.behind(method, place))


def is_level(table: Table, method: str, place: Place) -> bool:
    """Whether the interval of its regret reaches zero."""
    found = gap(table, method, place)
    return found.half is None or found.mean <= found.half


def standings(table: Table, places: Sequence[Place]) -> list[Standing]:
    """Every method that was run in all these places, the least mean regret first.

    The interval is of a bootstrap over places, and within each over its seeds, which stay paired;
    the best of a place is looked for again in each draw.
    """
    methods = [m for m in table.methods if all(table.has(m, place) for place in places)]
    if not methods:
        return []
    cells = [np.array([100 * table.accuracies(m, place) for m in methods]) for place in places]
    regrets = np.array([_regrets(cell.mean(axis=1)) for cell in cells])  # (places, methods)
    drawn_mean, drawn_worst = _drawn(cells)
    made = []
    for at, method in enumerate(methods):
        worst = int(regrets[:, at].argmax())
        made.append(
            Standing(
                method,
                _spread(float(regrets[:, at].mean()), drawn_mean[:, at]),
                _spread(float(regrets[worst, at]), drawn_worst[:, at]),
                places[worst],
                sum(is_level(table, method, place) for place in places),
            )
        )
    return sorted(made, key=lambda standing: standing.mean.value)


def _drawn(cells: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Mean and largest regret of each method, (draws, methods), over places drawn again."""
    rng = np.random.default_rng(0)
    mean, worst = [], []
    for _ in range(DRAWS):
        regrets = []
        for at in rng.integers(len(cells), size=len(cells)):
            n = cells[at].shape[1]
            regrets.append(_regrets(cells[at][:, rng.integers(n, size=n)].mean(axis=1)))
        mean.append(np.mean(regrets, axis=0))
        worst.append(np.max(regrets, axis=0))
    return np.array(mean), np.array(worst)


def _regrets(means: Floats) -> Floats:
    return np.asarray(means.max() - means, dtype=np.float64)


def _spread(value: float, draws: Floats) -> Spread:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Spread(value, float(low), float(high))

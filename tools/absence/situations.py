"""Ten situations in words: which method, and how far ahead of leaving the absent out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tools.absence.cells import Place, Table
from tools.absence.regret import standings
from understudy.core.types import Floats
from understudy.studies.statistics.paired_tests import Interval, interval
from understudy.studies.statistics.text_table import NOTHING, number

OUT = "fedavg"  # leaves the absent out
A_FIFTH = ("fedgs", "f3ast", "fedlaavg")  # ask no more clients than that


@dataclass(frozen=True)
class Situation:
    """Some kinds of absence, and the methods that may be taken there; by default all."""

    words: str
    absences: Collection[str] | None = None
    methods: Collection[str] | None = None
    by_worst: bool = False


SITUATIONS = (
    Situation("Everyone is away equally often", ("0.7 missing", "markov")),
    Situation(
        "Some are there much less often than others",
        ("some seldom", "FedAU bernoulli", "FedAU markov"),
    ),
    Situation(
        "Who is there depends on the labels",
        ("FedAU bernoulli", "FedAU markov", "FedAU cyclic", "YC"),
    ),
    Situation("Clients come in turn", ("FedAU cyclic", "groups in turn", "YC")),
    Situation("By the hour of the day", ("FedAWE sine", "FedAWE staircase")),
    Situation("Clients leave for good", ("departure",)),
    Situation("Phones, as recorded", ("trace",)),
    Situation("Nobody knows: the least mean regret"),
    Situation("Nobody knows: the least of the largest regrets", by_worst=True),
    Situation("Only a fifth of the clients can be asked", methods=A_FIFTH),
)


def rows(table: Table, places: Sequence[Place]) -> Iterator[str]:
    """A row of a Markdown table for each situation that has cells here."""
    for situation in SITUATIONS:
        own = [p for p in places if situation.absences is None or p[1] in situation.absences]
        order = standings(table, own) if own else []
        if situation.methods is not None:
            order = [one for one in order if one.method in situation.methods]
        if situation.by_worst:
            order.sort(key=lambda one: one.worst.value)
        if not order:
            continue
        first = order[0].method
        second = order[1].method if len(order) > 1 else None
        cells = [situation.words, str(len(own)), f"`{first}`", ahead(table, own, first, OUT)]
        if second is None:
            cells += [NOTHING, NOTHING]
        else:
            cells += [f"`{second}`", ahead(table, own, first, second)]
        yield f"| {' | '.join(cells)} |"


def ahead(table: Table, places: Sequence[Place], method: str, other: str) -> str:
    """Points of accuracy, a mean over places, with the interval over seeds."""
    if method == other or not all(table.has(other, place) for place in places):
        return NOTHING
    return told(interval(_differences(table, places, method, other)))


def _differences(table: Table, places: Sequence[Place], method: str, other: str) -> Floats:
    """For each seed the mean over the places that have it."""
    found: dict[int, list[float]] = {}
    for place in places:
        gaps = table.accuracies(method, place) - table.accuracies(other, place)
        for seed, difference in zip(table.seeds(place), gaps, strict=True):
            found.setdefault(seed, []).append(100 * float(difference))
    return np.array([np.mean(gaps) for gaps in found.values()])


def told(found: Interval) -> str:
    """A difference in points, with half its interval."""
    half = "" if found.half is None else f" ± {number(found.half, 1)}"
    return f"{number(found.mean, 1, signed=True)}{half}"

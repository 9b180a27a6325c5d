"""The exported cells of the study ``absence``: data × absence × method × seed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tools.claims.results_book import TRIALS
from tools.trials import tuned_part
from understudy.core.types import Floats
from understudy.studies.definition.builtins import text
from understudy.studies.definition.grid import pick_name
from understudy.studies.statistics.export import CELLS, Exported, Row, read

STUDY, SCALE = "absence", "standard"
FULL = "full"  # everybody is there: what can be had, and no method
KNOWS = ("known p",)  # told what nobody knows: shown, never the best of a cell
TUNED, TRACE = "_tuned", "_trace"  # how names of blocks end
LAST = 10  # evaluations at the end
TARGET = 0.9  # of the accuracy with everybody present
DIVERGED = 1000.0  # a test loss from which on nothing is learnt

Place = tuple[str, str]  # data, absence


@dataclass(frozen=True)
class Run:
    """One cell of the study: what it reached, when, and what it sent."""

    accuracy: float  # mean of the last ten evaluations
    curve: tuple[tuple[float, float], ...]  # round, accuracy
    megabytes: float | None  # sent in an average round, up and down
    diverged: bool = False  # by its last test loss

    def rounds_to(self, target: float) -> float:
        """The first evaluated round with this accuracy; infinity where there is none."""
        return next((t for t, accuracy in self.curve if accuracy >= target), np.inf)


@dataclass(frozen=True)
class Table:
    """One of the two parts: every server tuned, or one server for all.

    Parameters
    ----------
    is_tuned : bool
        Which one.
    runs : mapping
        (data, absence) → method → seed → run; whole rows only: each method of a place has the same
        seeds there.
    methods : tuple of str
        In the study's order, and then those of others; neither `FULL` nor `KNOWS`.
    servers : mapping
        (data with its trace or without, method) → the server that was picked.
    """

    is_tuned: bool
    runs: Mapping[Place, Mapping[str, Mapping[int, Run]]]
    methods: tuple[str, ...]
    servers: Mapping[tuple[str, str], str]

    @property
    def data(self) -> list[str]:
        return list(dict.fromkeys(data for data, _ in self.runs))

    def places(self, data: str | None = None) -> list[Place]:
        return [place for place in self.runs if data in (None, place[0])]

    def seeds(self, place: Place) -> list[int]:
        return sorted(next(iter(self.runs[place].values())))

    def has(self, method: str, place: Place) -> bool:
        return method in self.runs[place]

    def accuracies(self, method: str, place: Place) -> Floats:
        """With each seed, in the same order for all methods of a place."""
        rows = self.runs[place][method]
        return np.array([rows[seed].accuracy for seed in self.seeds(place)])

    def n_diverged(self, method: str, places: Sequence[Place]) -> int:
        """Of its runs there."""
        runs = [run for place in places for run in self.runs[place][method].values()]
        return sum(run.diverged for run in runs)

    def best(self, place: Place) -> str:
        """The method with the highest mean there; of equal ones the first."""
        there = [method for method in self.methods if self.has(method, place)]
        return max(there, key=lambda method: float(self.accuracies(method, place).mean()))

    def behind(self, method: str, place: Place) -> Floats:
        """How far it is behind the best one with each seed, in points."""
        best = self.accuracies(self.best(place), place)
        return 100 * (best - self.accuracies(method, place))

    def target(self, data: str) -> float | None:
        """A part of what everybody present reaches on these data."""
        known = [
            float(self.accuracies(FULL, place).mean())
            for place in self.places(data)
            if self.has(FULL, place)
        ]
        return TARGET * float(np.mean(known)) if known else None


def tables_of(results: Path) -> list[Table]:
    """Those parts of which cells are exported, the tuned one first."""
    folder = results / STUDY
    if not (folder / CELLS).is_file():
        return []
    exported = read(folder)
    made = [_table(exported, _servers(results), is_tuned) for is_tuned in (True, False)]
    return [table for table in made if table.runs]


def _table(exported: Exported, servers: Mapping[str, str], is_tuned: bool) -> Table:
    own = [row for row in exported.rows if str(row.labels["block"]).endswith(TUNED) == is_tuned]
    found: dict[Place, dict[str, dict[int, Run]]] = {}
    full: dict[str, dict[int, Run]] = {}  # by block
    for row in sorted(own, key=_order):
        block, method = str(row.labels["block"]), str(row.labels["strategy"])
        run = _run(row, exported.curves[row.key])
        if method == FULL:  # has no absence of its own: it stands in each
            full.setdefault(block, {})[row.seed] = run
            continue
        place = data_of(block), str(row.labels["availability"])
        found.setdefault(place, {}).setdefault(method, {})[row.seed] = run
    of_block = {data_of(block): runs for block, runs in full.items()}
    runs = {}
    for place, rows in found.items():
        if place[0] in of_block:
            rows = {FULL: of_block[place[0]], **rows}
        most = max((set(seeds) for seeds in rows.values()), key=len)
        runs[place] = {method: seeds for method, seeds in rows.items() if set(seeds) == most}
    known = [m for m in methods() if any(m in rows for rows in runs.values())]
    others = sorted({m for rows in runs.values() for m in rows} - set(methods()))
    shown = tuple(m for m in (*known, *others) if m != FULL and m not in KNOWS)
    picked = {
        (block.removesuffix(TUNED), method): servers[name]
        for block in blocks()
        if block.endswith(TUNED) == is_tuned
        for method in (FULL, *KNOWS, *shown)
        if (name := pick_name(block, method)) in servers
    }
    return Table(is_tuned, runs, shown, picked)


def _order(row: Row) -> tuple[int, int, str, int]:
    """Blocks and absences as the study has them."""
    block, where = str(row.labels["block"]), str(row.labels["availability"])
    names = list(in_study()["availability"])
    at = names.index(where) if where in names else len(names)
    return data_names().index(data_of(block)), at, str(row.labels["strategy"]), row.seed


def _run(row: Row, points: Sequence[Mapping[str, float]]) -> Run:
    curve = [(p["round"], p["test_accuracy"]) for p in points if "test_accuracy" in p]
    values = [accuracy for _, accuracy in curve[-LAST:]]
    sent = row.measures.get("megabytes")
    losses = [p.get("test_loss", np.inf) for p in points if "test_accuracy" in p]
    return Run(
        float(np.mean(values)) if values else float("nan"),
        tuple(curve),
        None if sent is None else sent / row.rounds,
        diverged=bool(losses) and losses[-1] >= DIVERGED,
    )


def _servers(results: Path) -> dict[str, str]:
    """Name of a pick → the server, of the blocks whose trials are exported."""
    if not (results / STUDY / TRIALS).is_file():
        return {}
    _, picks = tuned_part(STUDY, results.parent, SCALE)
    return {name: str(levels["server"]) for name, levels in picks.items()}


@cache
def in_study() -> dict[str, Any]:
    """The study as it is written."""
    return tomllib.loads(text(STUDY))


def methods() -> list[str]:
    """In the study's order."""
    return list(in_study()["strategies"])


def blocks() -> list[str]:
    """In the study's order."""
    return [str(block["name"]) for block in in_study()["block"]]


def data_of(block: str) -> str:
    """What a block's data are called: blocks differ in the server and in who knows the chances."""
    return block.removesuffix(TUNED).removesuffix(TRACE)


@cache
def data_names() -> list[str]:
    """In the study's order."""
    return list(dict.fromkeys(map(data_of, blocks())))

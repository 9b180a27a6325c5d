"""The exported cells of the study ``concord``, block by block, for `tools.concord_table`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tools.claims.results_book import TRIALS
from tools.trials import tuned_part
from understudy.studies.definition.builtins import text
from understudy.studies.definition.grid import pick_name
from understudy.studies.statistics.export import CELLS, Row, read
from understudy.studies.statistics.paired_tests import holm, paired_t

STUDY, OURS, SCALE = "concord", "concord", "results"
TUNED = " tuned"  # how the labels of rows end whose server is picked
LAST = 10  # evaluations at the end
LOSS_BLOCKS = ("synthetic", "synthetic_tuned")
GUESSING = 0.15  # accuracy below which a run of ten classes has learnt nothing, or lost all it had


@dataclass(frozen=True)
class Cell:
    """One row in one setting: a number for each seed, NaN where the run diverged."""

    values: dict[int, float]
    collapsed: frozenset[int] = frozenset()  # seeds whose last evaluation is no better than a guess

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    @property
    def diverged(self) -> bool:
        return not np.isfinite(self.mean)

    def minus(self, other: Cell) -> list[float]:
        common = sorted(self.values.keys() & other.values.keys())
        return [self.values[seed] - other.values[seed] for seed in common]


@dataclass(frozen=True)
class Block:
    """One table: settings, rows, and what is measured."""

    name: str
    cells: dict[tuple[str, str], Cell]  # strategy, availability
    strategies: tuple[str, ...]
    settings: tuple[str, ...]
    lacking: tuple[str, ...] = ()  # rows that the study has and that are not there, or not whole
    servers: Mapping[str, str] = field(default_factory=dict)  # row → what was picked

    @property
    def is_loss(self) -> bool:
        return self.name in LOSS_BLOCKS

    @property
    def is_tuned(self) -> bool:
        return any(row.endswith(TUNED) for row in self.strategies)

    @property
    def ours(self) -> str:
        """The row that others are compared with: tuned, where they are."""
        return OURS + TUNED if self.is_tuned else OURS

    @property
    def n_seeds(self) -> int:
        return max(len(cell.values) for cell in self.cells.values())

    @cached_property
    def p_values(self) -> dict[tuple[str, str], float]:
        """Adjusted for all comparisons with ours in the table."""
        plain: dict[tuple[str, str], float] = {}
        for (row, setting), cell in self.cells.items():
            ours = self.cells.get((self.ours, setting))
            if ours is None or row == self.ours or is_full(row) or cell.diverged or ours.diverged:
                continue
            common = sorted(cell.values.keys() & ours.values.keys())
            p = paired_t([cell.values[s] for s in common], [ours.values[s] for s in common])
            if p is not None:
                plain[row, setting] = p
        return dict(zip(plain, holm(list(plain.values())), strict=True)) if plain else {}

    def better(self, difference: float) -> bool:
        return difference < 0 if self.is_loss else difference > 0

    def best(self, setting: str, rows: Sequence[str]) -> str | None:
        """The row with the best mean there; None where none has one."""
        sign = 1 if self.is_loss else -1
        known = [row for row in rows if (row, setting) in self.cells]
        known = [row for row in known if not self.cells[row, setting].diverged]
        return min(known, key=lambda row: sign * self.cells[row, setting].mean, default=None)

    @property
    def rivals(self) -> list[str]:
        """Published methods as they are: nothing of Kriging or Concord in them, nobody present."""
        ours = (OURS, "kriging")
        return [
            row for row in self.strategies if not is_full(row) and not any(o in row for o in ours)
        ]


def is_full(row: str) -> bool:
    """Whether everybody is present in a row."""
    return row.startswith("full")


def blocks_of(docs: Path) -> dict[str, Block]:
    """The exported blocks, in the study's order."""
    folder = docs / "results" / STUDY
    if not (folder / CELLS).is_file():
        return {}
    exported = read(folder)
    servers = _picked(docs)
    found = {}
    for name in block_names():
        rows = [row for row in exported.rows if row.labels["block"] == name]
        if not rows:
            continue
        values: dict[tuple[str, str], dict[int, float]] = {}
        collapsed: dict[tuple[str, str], set[int]] = {}
        for row in rows:
            place = str(row.labels["strategy"]), str(row.labels["availability"])
            points = exported.curves[row.key]
            values.setdefault(place, {})[int(row.seed)] = _at_the_end(name, points)
            if name not in LOSS_BLOCKS and points[-1].get("test_accuracy", 1.0) < GUESSING:
                collapsed.setdefault(place, set()).add(int(row.seed))
        seeds = max(len(one) for one in values.values())
        cells = {
            place: Cell(one, frozenset(collapsed.get(place, ())))
            for place, one in values.items()
            if len(one) == seeds
        }
        asked = next(b["strategies"] for b in _in_study()["block"] if b["name"] == name)
        there = {row for row, _ in cells}
        strategies = tuple(row for row in strategy_names() if row in there)
        block = Block(name, cells, strategies, ())
        settings = tuple(s for s in _settings(rows) if (block.ours, s) in cells)
        whole = {row for row in there if is_full(row) or all((row, s) in cells for s in settings)}
        found[name] = Block(
            name,
            _spread_full(cells, settings),
            strategies,
            settings,
            tuple(row for row in asked if row not in whole),
            {row: servers[at] for row in there if (at := pick_name(name, row)) in servers},
        )
    return found


@cache
def _in_study() -> dict[str, Any]:
    return tomllib.loads(text(STUDY))


def block_names() -> list[str]:
    """In the study's order."""
    return [block["name"] for block in _in_study()["block"]]


def strategy_names() -> list[str]:
    """In the study's order."""
    return list(_in_study()["strategies"])


def _at_the_end(block: str, points: Sequence[Mapping[str, float]]) -> float:
    """Mean of the last evaluations; NaN where one of them has no number: the run diverged."""
    name = "test_loss" if block in LOSS_BLOCKS else "test_accuracy"
    evaluated = [point for point in points if "test_accuracy" in point or "test_loss" in point]
    values = [point.get(name, float("nan")) for point in evaluated[-LAST:]]
    return float(np.mean(values)) if values else float("nan")


def _settings(rows: Sequence[Row]) -> Iterator[str]:
    yield from dict.fromkeys(str(row.labels["availability"]) for row in rows)


def _picked(docs: Path) -> dict[str, str]:
    """Name of a pick → the server, of the blocks whose trials are exported."""
    if not (docs / "results" / STUDY / TRIALS).is_file():
        return {}
    _, picks = tuned_part(STUDY, docs)
    return {name: str(levels["server"]) for name, levels in picks.items()}


def _spread_full(
    cells: dict[tuple[str, str], Cell], settings: Sequence[str]
) -> dict[tuple[str, str], Cell]:
    """A row with everybody present has one setting of its own: it stands in every column."""
    spread = dict(cells)
    for (row, setting), cell in cells.items():
        if setting not in settings and is_full(row):
            spread |= {(row, other): cell for other in settings}
    return {place: cell for place, cell in spread.items() if place[1] in settings}

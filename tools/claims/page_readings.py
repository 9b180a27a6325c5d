"""What other readings of a paper change, as tables of the results page: a row for each block.

A reading changes one setting of ``as_read``; of interest is what it does to the gain of the paper's
method. Cells are found by their keys, so that one exported with another study is used here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tools.claims.page_tables import number_words
from tools.claims.results_book import SCALE, Book, Sizes
from understudy.core.intervals import half_width
from understudy.measures import Measure, measure
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.cell import Cell
from understudy.studies.statistics.export import Row

NOTHING = "–"


@dataclass(frozen=True)
class Readings:
    """A study of readings of one paper."""

    study: str
    method: str  # what the names of the paper's method begin with
    metric: str


READINGS = {
    "FL-FDMS": Readings("fdms-readings", "fdms", "accuracy_mean"),
    "FedGS": Readings("fedgs-readings", "fedgs", "loss_best"),
    "FedAR": Readings("fedar-readings", "fedar", "accuracy_last10"),
}
HEAD = """\
### {paper}: other readings

The paper's method in each block of `{study}` ([which reads what](papers-as-studies.md)): {measure},
the mean over seeds, and in brackets what it is above `{baseline}`, ± half of the 95 % interval of
that difference, seed by seed.
"""


def readings_lines(paper: str, book: Book, sizes: Sizes) -> Iterator[str]:
    """The table of a paper's readings; nothing where none was run."""
    readings = READINGS.get(paper)
    rows = {row.key: row for part in (book.studies, book.reduced) for study in part.values()
            for row in study.rows}  # fmt: skip
    cells = sizes.cells(readings.study, SCALE) if readings else []
    if readings is None or not any(cell.key in rows for cell in cells):
        return
    baseline = str(built_in(readings.study, SCALE).baseline)
    shown = measure(readings.metric)
    where = list(dict.fromkeys(str(cell.labels["availability"]) for cell in cells
                               if str(cell.labels["strategy"]).startswith(readings.method)
                               and cell.key in rows))  # fmt: skip
    yield HEAD.format(paper=paper, study=readings.study, baseline=baseline, measure=_named(shown))
    yield f"| block | method | {' | '.join(where)} | seeds |"
    yield "| --- | --- |" + " ---: |" * (len(where) + 1)
    for block in dict.fromkeys(str(cell.labels["block"]) for cell in cells):
        mine = [cell for cell in cells if cell.labels["block"] == block]
        yield from _block(block, mine, rows, readings, baseline, where, shown)
    yield ""
    missing = [cell for cell in cells if cell.key not in rows]
    if missing:
        yield _not_run(missing, sizes)
        yield ""


def _named(shown: Measure) -> str:
    return f"{shown.head[0].lower()}{shown.head[1:]}"


def _block(
    block: str,
    cells: Sequence[Cell],
    rows: Mapping[str, Row],
    readings: Readings,
    baseline: str,
    where: Sequence[str],
    shown: Measure,
) -> Iterator[str]:
    names = dict.fromkeys(str(cell.labels["strategy"]) for cell in cells)
    for name in names:
        if not name.startswith(readings.method):
            continue
        told, n_seeds = [], set()
        for place in where:
            own = _by_seed(cells, rows, name, place, readings.metric)
            other = _by_seed(cells, rows, baseline, place, readings.metric)
            told.append(_gain(own, other, shown))
            n_seeds |= set(own)
        if n_seeds:
            yield f"| {block} | {name} | {' | '.join(told)} | {len(n_seeds)} |"


def _by_seed(
    cells: Sequence[Cell], rows: Mapping[str, Row], strategy: str, place: str, metric: str
) -> dict[int, float]:
    """The measure of the exported cells; a strategy that is of every setting has no place."""
    return {
        cell.seed: rows[cell.key].measures[metric]
        for cell in cells
        if cell.labels["strategy"] == strategy
        and cell.labels["availability"] in (place, None)
        and cell.key in rows
        and metric in rows[cell.key].measures
    }


def _gain(own: Mapping[int, float], other: Mapping[int, float], shown: Measure) -> str:
    if not own:
        return NOTHING
    words = number_words(shown.scale * float(np.mean(list(own.values()))), shown)
    both = [shown.scale * (own[seed] - other[seed]) for seed in own if seed in other]
    if not both:
        return words
    half = float(half_width(np.array(both)))
    spread = f" ± {number_words(half, shown)}" if np.isfinite(half) else ""
    return f"{words} ({number_words(float(np.mean(both)), shown, sign=True)}{spread})"


def _not_run(missing: Sequence[Cell], sizes: Sizes) -> str:
    """The blocks of which cells are missing, with their minutes."""
    blocks = dict.fromkeys(str(cell.labels["block"]) for cell in missing)
    told = []
    for block in blocks:
        cells = [cell for cell in missing if cell.labels["block"] == block]
        told.append(f"{block} {60 * sizes.hours(cells):.1f}")
    return f"Not run, or not whole, and minutes of two cores: {', '.join(told)}."

"""Every figure and table of the papers on the results page: run, at which size, or with its hours.

What there is to repeat is written down in ``docs/paper-figures.toml``; what was run is counted from
the exported cells.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.claims.results_book import NOT_ITS_OWN, PAPER, SCALE, WHOLE, Book, Sizes
from understudy.studies.definition.builtins import NAMES, built_in
from understudy.studies.definition.cell import Cell
from understudy.studies.statistics.export import Row

HEAD = """\
## Figures and tables

Each figure and table of the papers, what repeats it here, and at which size it was run. Hours are
estimates for two cores, of what is still to be run.
"""
NEEDED = ("paper", "place", "shows")
OPTIONAL = ("study", "blocks", "no_run")


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper."""

    paper: str
    place: str
    shows: str
    study: str = ""
    blocks: tuple[str, ...] = ()  # none: all of the study
    no_run: str = ""  # why there is nothing to run

    def cells(self, sizes: Sizes, scale: str) -> list[Cell]:
        """The cells that repeat it."""
        found = sizes.cells(self.study, scale)
        return [cell for cell in found if not self.blocks or cell.labels["block"] in self.blocks]


def read_figures(path: str | Path) -> tuple[Figure, ...]:
    """The figures of a file, in its order; none where there is no file."""
    path = Path(path)
    if not path.is_file():
        return ()
    with open(path, "rb") as file:
        entries = tomllib.load(file).get("figure", [])
    return tuple(_figure(entry) for entry in entries)


def _figure(entry: dict[str, object]) -> Figure:
    name = f"{entry.get('paper', 'a paper')}, {entry.get('place', 'a place')}"
    for key in entry:
        if key not in (*NEEDED, *OPTIONAL):
            raise ValueError(f"{name}: {key}: no such key")
    for key in NEEDED:
        if key not in entry:
            raise ValueError(f"{name}: {key}: expected a text, got none")
    if ("study" in entry) == ("no_run" in entry):
        raise ValueError(f"{name}: expected either a study or no_run")
    blocks = entry.pop("blocks", [])
    if not isinstance(blocks, list):
        raise ValueError(f"{name}: blocks: expected a list, got {blocks!r}")
    figure = Figure(**{key: str(value) for key, value in entry.items()}, blocks=tuple(blocks))
    if figure.study:
        if figure.study not in NAMES:
            raise ValueError(f"{name}: study: no built-in study named {figure.study!r}")
        for block in figure.blocks:
            if block not in built_in(figure.study, SCALE).blocks:
                raise ValueError(f"{name}: blocks: {figure.study} has no block {block!r}")
    return figure


def figure_lines(figures: Sequence[Figure], book: Book, sizes: Sizes) -> Iterator[str]:
    """The section of the page; nothing where no figures are written down."""
    if not figures:
        return
    rows = {row.key: row for part in (book.studies, book.reduced) for study in part.values()
            for row in study.rows}  # fmt: skip
    yield HEAD
    yield "| | what it shows | study | run | still to be run, hours |"
    yield "| --- | --- | --- | --- | --- |"
    for figure in figures:
        study = figure.study + (f" ({', '.join(figure.blocks)})" if figure.blocks else "")
        told = [figure.no_run or run_words(figure, rows, sizes),
                "" if figure.no_run else hours_words(figure, rows, sizes)]  # fmt: skip
        cells = [f"{figure.paper}, {figure.place}", figure.shows, study, *told]
        yield f"| {' | '.join(cells)} |"
    yield ""


def run_words(figure: Figure, rows: dict[str, Row], sizes: Sizes) -> str:
    """At which sizes it was run, and how much of it."""
    words = []
    paper = figure.cells(sizes, PAPER)
    whole = [cell for cell in paper if cell.key in rows]
    if whole:
        name = NOT_ITS_OWN.get(figure.paper, WHOLE)
        words.append(f"{name}{_part(whole, paper)}")
    keys = {cell.key for cell in paper}
    ours = [cell for cell in figure.cells(sizes, SCALE) if cell.key not in keys]
    there = [replace(rows[cell.key], labels=cell.labels) for cell in ours if cell.key in rows]
    small = [row for row in there if sizes.differences(figure.study, [row])]
    if len(small) < len(there):
        more = {row.seed for row in there} - {row.seed for row in small}
        words.append(f"{len(more)} more seeds")
    if small:
        how = sizes.reduced(figure.study, small)
        missing = "" if len(there) == len(ours) else f", {len(there)} of {len(ours)} runs"
        words.append(f"reduced: {how}{missing}")
    return "; ".join(words) or "not run"


def _part(there: Sequence[Cell], of: Sequence[Cell]) -> str:
    """Which part of the paper's cells there is: all, fewer seeds, or fewer cells."""
    if len(there) == len(of):
        return ""
    seeds, all_seeds = ({cell.seed for cell in cells} for cells in (there, of))
    if len(there) * len(all_seeds) == len(of) * len(seeds):
        return f", {len(seeds)} of {len(all_seeds)} seeds"
    return f", {len(there)} of {len(of)} runs"


def hours_words(figure: Figure, there: Collection[str], sizes: Sizes) -> str:
    """The hours of the cells that are not there, at the paper's size and at the reduced one."""
    paper = figure.cells(sizes, PAPER)
    words = []
    missing = [cell for cell in paper if cell.key not in there]
    if missing:
        name = NOT_ITS_OWN.get(figure.paper, WHOLE)
        words.append(f"{name}: {hours_of(sizes.hours(missing))}")
    keys = {cell.key for cell in paper}
    ours = [cell for cell in figure.cells(sizes, SCALE) if cell.key not in keys]
    missing = [cell for cell in ours if cell.key not in there]
    if missing:
        words.append(f"reduced: {hours_of(sizes.hours(missing))}")
    return "; ".join(words) or "–"


def hours_of(hours: float) -> str:
    """Hours as the page tells them."""
    return "under 0.1" if hours < 0.1 else f"{hours:.1f}" if hours < 10 else f"{hours:,.0f}"

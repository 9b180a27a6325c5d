"""Exported results of several studies, to be asked by claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from tools.claims.paper_claims import CURVE_METRIC, Claim, Contrast, Pick
from tools.claims.verdicts import NOT_RUN, WITHDRAWN, Verdict, judge
from understudy.core.describe import describe
from understudy.measures import MEASURES
from understudy.measures.run_numbers import RunNumbers
from understudy.studies.definition.builtins import NAMES, built_in
from understudy.studies.definition.cell import Cell, DataRecipe
from understudy.studies.definition.estimates import estimate
from understudy.studies.statistics.export import (
    CELLS,
    Exported,
    Place,
    Row,
    Value,
    label_text,
    place_of,
    read,
)
from understudy.studies.statistics.groups import groups_of

SCALE, PAPER = "results", "paper"
FROM_CURVES = ("fluctuation_late", "loss_fluctuation_late")  # newer than some exports
TRIALS = "tuning.csv"  # what the trials of a study that tunes scored (tools.home_table)
OTHER_PAGES = ("absence", "concord", "server-step")  # studies that have a page of their own
CORES = 2  # hours are told for a machine of so many
OWN_SIZE = "At the paper's own size"
WHOLE = "its own size"
NOT_ITS_OWN = {"FedAR": "all data"}  # its rounds and seeds are not given
# what scale `paper` is where the paper does not say all of it; the longest beginning counts
NOT_GIVEN = {
    "fedar-": "All data and rounds of MIFA's defaults; the paper gives neither rounds nor seeds",
    "fedar-fig1": "All data and the figure's nine rounds; the paper gives no seeds",
}


@dataclass(frozen=True)
class Book:
    """What was exported, by study."""

    studies: Mapping[str, Exported]
    reduced: Mapping[str, Exported] = field(default_factory=dict)  # also run at the paper's size

    @classmethod
    def read(cls, folder: str | Path) -> Book:
        """All studies below a folder, but for those that tune: no claim is made of them."""
        there = sorted(Path(folder).glob(f"*/{CELLS}"))
        paths = [
            path
            for path in there
            if not path.with_name(TRIALS).is_file() and path.parent.name not in OTHER_PAGES
        ]
        return cls({path.parent.name: _with_newer(read(path.parent)) for path in paths})

    def paper_size_first(self, sizes: Sizes) -> Book:
        """Reduced cells set apart where the same strategy and setting was run at the paper's size.

        A contrast must not mix seeds of 40 rounds with seeds of 100.
        """
        kept, apart = {}, {}
        for study, exported in self.studies.items():
            places = {row.key: place_of(row.labels) for row in exported.rows}
            reduced = {row.key for row in exported.rows if sizes.differences(study, [row])}
            whole = {place for key, place in places.items() if key not in reduced}
            apart_keys = {key for key in reduced if places[key] in whole}
            rows = [row for row in exported.rows if row.key not in apart_keys]
            small = [row for row in exported.rows if row.key in apart_keys]
            kept[study] = replace(exported, rows=tuple(rows))
            if small:
                apart[study] = replace(exported, rows=tuple(small))
        return Book(kept, apart)

    def for_claim(self, claim: Claim) -> Book:
        """The cells that judge a claim: reduced ones where only those have all its sides.

        One side may have been run at the paper's size, and the other not yet.
        """
        if not self.reduced or self._judged(claim).verdict != NOT_RUN:
            return self
        studies = dict(self.studies)
        for study, small in self.reduced.items():
            places = {place_of(row.labels) for row in small.rows}
            others = [row for row in studies[study].rows if place_of(row.labels) not in places]
            studies[study] = replace(small, rows=(*small.rows, *others))
        only_reduced = Book(studies)
        return self if only_reduced._judged(claim).verdict == NOT_RUN else only_reduced

    def verdict_at_reduced_size(self, claim: Claim) -> Verdict | None:
        """What the cells set apart say to a claim; None where they do not have all its sides."""
        book = Book(self.reduced)
        picks = [pick for contrast in claim.contrasts for pick in contrast.picks]
        if has_values(claim) or claim.withdrawn or not all(book.rows(pick) for pick in picks):
            return None
        return book.verdict(claim)

    def rows(self, pick: Pick) -> list[Row]:
        """The exported cells that a side of a contrast picks."""
        asked = (pick.study, *sorted((name, label_text(at)) for name, at in pick.labels.items()))
        if asked not in self._picked:
            exported = self.studies.get(pick.study, Exported())
            self._picked[asked] = [row for row in exported.rows if matches(pick, row.labels)]
        return self._picked[asked]

    @cached_property
    def _picked(self) -> dict[tuple[Any, ...], list[Row]]:
        return {}

    def verdict(self, claim: Claim, sizes: Sizes | None = None) -> Verdict:
        """What the exported cells say to a claim.

        With sizes, numbers of a paper are compared with cells of the paper's own size only; and a
        claim on the mean over rounds is judged at the end where the runs have the paper's length.
        """
        found, end = self._judged(claim), claim.at_the_end()
        is_whole = sizes is not None and sizes.has_all_rounds(claim, self)
        if claim.all_rounds and sizes is not None and not is_whole:
            return replace(found, verdict=NOT_RUN)
        if end is not None and not claim.withdrawn:
            at_end = self._judged(end)
            if is_whole or claim.at_end:
                return replace(at_end, beside=found)
            return replace(found, beside=at_end)
        if sizes is None or not has_values(claim) or not sizes.smaller(claim, self):
            return found
        return replace(found, verdict=WITHDRAWN if claim.withdrawn else NOT_RUN)

    def _judged(self, claim: Claim) -> Verdict:
        return judge(
            claim,
            lambda pick: self.numbers(claim, pick),
            lambda contrast: self._never(claim, contrast),
        )

    def numbers(self, claim: Claim, pick: Pick) -> dict[int, float]:
        """The measure of the picked cells by seed; NaN where a run has no number, having diverged.

        A measure that no cell of the study has was not asked for when they were run.
        """
        found: dict[int, float] = {}
        if not self._is_measured(pick):
            return found
        for row in self.rows(pick):
            value = self._measure(claim, pick, row)
            if row.seed in found:
                raise ValueError(f"{claim.id}: {pick} picks more than one cell of seed {row.seed}")
            found[row.seed] = value
        return found

    def _is_measured(self, pick: Pick) -> bool:
        rows = self.studies.get(pick.study, Exported()).rows
        return pick.metric == CURVE_METRIC or any(pick.metric in row.measures for row in rows)

    def _measure(self, claim: Claim, pick: Pick, row: Row) -> float:
        if pick.metric != CURVE_METRIC:
            return row.measures.get(pick.metric, math.nan)
        assert claim.target is not None
        for point in self.studies[pick.study].curves[row.key]:
            if point.get("test_accuracy", -math.inf) >= claim.target:
                return point["round"]
        return float(row.rounds + 1)

    def _never(self, claim: Claim, contrast: Contrast) -> float | None:
        """What a run counts that does not reach the claim's target; None: there is no target."""
        rounds = self.rounds(contrast)
        return None if claim.target is None or rounds is None else float(rounds + 1)

    def rounds(self, contrast: Contrast) -> int | None:
        """The rounds of all cells of a contrast; None where they differ, or there are none."""
        found = {row.rounds for pick in contrast.picks for row in self.rows(pick)}
        return found.pop() if len(found) == 1 else None

    def picked(self, claim: Claim, study: str | None = None) -> list[Row]:
        """All exported cells that a claim looks at; with a study, those of it."""
        rows = {
            row.key: row
            for contrast in claim.contrasts
            for pick in contrast.picks
            if study in (None, pick.study)
            for row in self.rows(pick)
        }
        return list(rows.values())


def _with_newer(exported: Exported) -> Exported:
    """With measures that came later than an export, from the rounds that were evaluated."""
    rows = []
    for row in exported.rows:
        run = RunNumbers(pd.DataFrame(exported.curves.get(row.key, ())))
        functions = {name: MEASURES[name].of for name in FROM_CURVES}
        found = {name: of(run) for name, of in functions.items() if of is not None}
        newer = {name: value for name, value in found.items() if value is not None}
        rows.append(replace(row, measures={**newer, **row.measures}))
    return replace(exported, rows=tuple(rows))


def has_values(claim: Claim) -> bool:
    """Whether a claim has numbers of the paper that ours are to meet."""
    return any(contrast.of_paper for contrast in claim.contrasts)


def whole_size(study: str) -> str:
    """What is said of cells at scale `paper`: not the paper's own size where it gives none."""
    known = [start for start in NOT_GIVEN if study.startswith(start)]
    return NOT_GIVEN[max(known, key=len)] if known else OWN_SIZE


def matches(pick: Pick, labels: Mapping[str, Any]) -> bool:
    """Whether a cell has the labels; one that has no value for a label is of every group."""
    return all(
        name in labels and (labels[name] is None or label_text(labels[name]) == label_text(value))
        for name, value in pick.labels.items()
    )


@dataclass(frozen=True)
class RowGroup:
    """Exported cells that differ in strategy and seed only."""

    labels: Mapping[str, Value]  # those in which groups differ; a block though it be the only one
    rows: tuple[Row, ...]  # those that are of every group come last


def row_groups(rows: Sequence[Row]) -> list[RowGroup]:
    """The groups of a study's exported cells."""
    made = []
    for group in groups_of(rows):
        told = [name for name in group.labels if name in group.varying or name == "block"]
        own = {name: group.labels[name] for name in told if group.labels[name] is not None}
        cells = sorted(group.cells, key=lambda at: (not _is_own(rows[at], own), at))
        made.append(RowGroup(own, tuple(rows[at] for at in cells)))
    return made


def _is_own(row: Row, labels: Mapping[str, Value]) -> bool:
    return all(row.labels.get(name) == value for name, value in labels.items())


@dataclass(frozen=True)
class Sizes:
    """The built-in studies at two scales: what is reduced, and what is still to be run."""

    @cached_property
    def _by_study(self) -> dict[str, tuple[dict[Place, Cell], dict[str, Cell], set[str]]]:
        return {}

    def cells(self, study: str, scale: str) -> list[Cell]:
        """The cells of a built-in study."""
        return _cells_of(study, scale) if study in NAMES else []

    def _known(self, study: str) -> tuple[dict[Place, Cell], dict[str, Cell], set[str]]:
        """The paper's cells by their labels, ours by key, and the keys of both."""
        if study not in self._by_study:
            paper, ours = self.cells(study, PAPER), self.cells(study, SCALE)
            self._by_study[study] = (
                {place_of(cell.labels): cell for cell in paper},
                {cell.key: cell for cell in ours},
                {cell.key for cell in (*ours, *paper)},
            )
        return self._by_study[study]

    def missing(self, claim: Claim, book: Book, scale: str = SCALE) -> list[Cell]:
        """Cells that a claim needs and that are not exported."""
        there = {row.key for study in book.studies.values() for row in study.rows}
        return [cell for cell in self.needed(claim, scale) if cell.key not in there]

    def needed(self, claim: Claim, scale: str = SCALE) -> list[Cell]:
        """Cells that a claim looks at."""
        picks = [pick for contrast in claim.contrasts for pick in contrast.picks]
        found = {
            cell.key: cell
            for pick in picks
            for cell in self.cells(pick.study, scale)
            if matches(pick, cell.labels)
        }
        return list(found.values())

    def hours(self, cells: list[Cell]) -> float:
        """Of two cores, about, of a machine with the compiled kernels: the same on every one."""
        return estimate(cells, with_kernels=True).seconds(CORES) / 3600

    def smaller(self, claim: Claim, book: Book) -> bool:
        """Whether exported cells of a claim are smaller than the paper's, but for their seeds."""
        return any(self.differences(study, book.picked(claim, study)) for study in claim.studies)

    def has_all_rounds(self, claim: Claim, book: Book) -> bool:
        """Whether exported cells of a claim have as many rounds as the paper's."""
        for study in claim.studies:
            paper, _, _ = self._known(study)
            for row in book.picked(claim, study):
                theirs = paper.get(place_of(row.labels))
                if theirs is None or row.rounds < theirs.task.rounds:
                    return False
        return bool(book.picked(claim))

    def scales(self, study: str, rows: Sequence[Row]) -> list[str]:
        """The scales at which exported cells are run."""
        _, ours, _ = self._known(study)
        return sorted({SCALE if row.key in ours else PAPER for row in rows}, reverse=True)

    def reduced(self, study: str, rows: Sequence[Row]) -> str:
        """In which ways exported cells are smaller than the paper's; empty where they are not."""
        words = dict.fromkeys(self.differences(study, rows))
        n_seeds = len({row.seed for row in rows})
        places = {place_of(row.labels) for row in rows}
        paper = [cell for cell in self.cells(study, PAPER) if place_of(cell.labels) in places]
        n_paper = len({cell.seed for cell in paper})
        if n_seeds < n_paper:
            words[f"{n_seeds} of {n_paper} seeds"] = None
        return ", ".join(words)

    def differences(self, study: str, rows: Sequence[Row]) -> list[str]:
        """In which ways exported cells are smaller than the paper's, but for their seeds."""
        paper, ours, known = self._known(study)
        words: dict[str, None] = {}
        for row in rows:
            if known and row.key not in known:  # its size would be taken for the paper's
                raise ValueError(
                    f"{study}: the exported cell {row.key} (seed {row.seed}) is none of the "
                    "study's as it is now; run and export it again, or remove its row"
                )
            theirs = paper.get(place_of(row.labels))
            if theirs is None:
                continue
            if row.rounds != theirs.task.rounds:
                words[f"{row.rounds} of {theirs.task.rounds} rounds"] = None
            mine = ours.get(row.key)
            if mine is not None:
                words |= dict.fromkeys(_smaller(mine, theirs))
        return list(words)


@cache
def _cells_of(study: str, scale: str) -> list[Cell]:
    return built_in(study, scale).cells()


def _smaller(ours: Cell, theirs: Cell) -> list[str]:
    """Differences in model and data, as words."""
    words = []
    mine, other = describe(ours.task.model), describe(theirs.task.model)
    if mine != other:
        words.append(f"{_named(mine)} for {_named(other)}")
    if isinstance(ours.task.data, DataRecipe) and isinstance(theirs.task.data, DataRecipe):
        own, full = ours.task.data.settings, theirs.task.data.settings
        for name in sorted({*own, *full}):
            if own.get(name) != full.get(name):
                whole = "all there are" if full.get(name) is None else full[name]
                words.append(f"{name} {own.get(name)} for {whole}")
    if ours.task.evaluate_every != theirs.task.evaluate_every:
        words.append(f"evaluated every {ours.task.evaluate_every} rounds")
    return words


def _named(model: Any) -> str:
    return str(model.get("name", model) if isinstance(model, dict) else model)

"""What a run leaves out: cells that were exported elsewhere, and the trials that led to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.tuning import name_of, scored_results

if TYPE_CHECKING:
    from understudy.studies.definition.cell import Cell, Label
    from understudy.studies.definition.study import Study


@dataclass(frozen=True)
class Skipped:
    """Results that are elsewhere.

    Parameters
    ----------
    keys : collection of str
        Of cells that are not run.
    scores : mapping
        Of trials, by key. A row's trials are not run where all of them are here and all cells of
        the row, at the values that they pick, are among `keys`.
    folder : path, optional
        Where all of this was read, for tables to find it.
    """

    keys: Collection[str] = frozenset()
    scores: Mapping[str, float] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def of(cls, skip: Collection[str] | Skipped) -> Skipped:
        """Itself, or keys alone."""
        return skip if isinstance(skip, Skipped) else cls(frozenset(skip))


@dataclass(frozen=True)
class WorkLeft:
    """What is left of a study.

    Parameters
    ----------
    trials, cells : list of Cell
        That are to be run, as far as this is known before the trials: `cells` of rows that are
        tuned here have the values that the study gives them.
    scores : mapping
        Of the trials that are not run, by key.
    """

    trials: list[Cell]
    cells: list[Cell]
    scores: Mapping[str, float]


def work_of(study: Study, skip: Collection[str] | Skipped) -> WorkLeft:
    """What a run of a study has to do."""
    skipped = Skipped.of(skip)
    elsewhere = _tuned_elsewhere(study, skipped)
    trials = study.tuning()
    scores = {
        trial.key: skipped.scores[trial.key]
        for trial in trials
        if name_of(trial.labels) in elsewhere
    }
    return WorkLeft(
        [trial for trial in trials if name_of(trial.labels) not in elsewhere],
        [
            cell
            for cell in study.cells()
            if cell.key not in skipped.keys and name_of(cell.labels) not in elsewhere
        ],
        scores,
    )


def _tuned_elsewhere(study: Study, skipped: Skipped) -> frozenset[str]:
    """Rows (names of picks) whose trials and cells are all there."""
    if not skipped.scores or study.tune is None:
        return frozenset()
    trials: dict[str, list[Cell]] = {}
    for trial in study.tuning():
        trials.setdefault(name_of(trial.labels), []).append(trial)
    picks: dict[str, dict[str, Label]] = {}
    for name, own in trials.items():
        if not all(trial.key in skipped.scores for trial in own):
            continue
        try:
            picks |= study.pick(scored_results(own, skipped.scores, study.tune.metric), {name})
        except StudyError:  # a run of this row says what is wrong with it
            continue
    cells: dict[str, list[Cell]] = {}
    for cell in study.cells(picks) if picks else ():
        cells.setdefault(name_of(cell.labels), []).append(cell)
    return frozenset(
        name for name in picks if all(cell.key in skipped.keys for cell in cells[name])
    )

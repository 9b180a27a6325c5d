"""Cells that were exported, in place of those that a study has not run here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from understudy.studies.execution.skipped import Skipped
from understudy.studies.statistics.export import CELLS, Row, keys_in, read
from understudy.studies.statistics.frames import results
from understudy.studies.statistics.trial_files import TRIALS, scores_in
from understudy.studies.store.store import Store, StoredCell

EXPORTED = "exported"  # status of a cell that was skipped, in place of "waiting"

if TYPE_CHECKING:
    import pandas

    from understudy.studies.definition.study import Study


def exported_in(folder: str | Path, study: Study) -> Skipped:
    """What a folder of exports spares a run of a study: ``run --skip-in``.

    Parameters
    ----------
    folder : path
        Of all exports, as for `export`.
    study : Study
        What is to be run.

    Returns
    -------
    Skipped
        For ``study.run(…, skip=…)``: keys of all cells that are there, and what the trials of this
        study scored.
    """
    path = Path(folder)
    tune = study.tune
    trials = path / study.name / TRIALS
    scores = {} if tune is None else scores_in(trials, study.tuning(), tune.metric)
    return Skipped(keys_in(path), scores, path)


def whole_results(runs: str | Path, study: str) -> pandas.DataFrame:
    """`results` of a study, one row per cell, with those that were skipped because they had been
    exported, where that folder is still there."""
    frame = results(runs, study=study)
    folder = exports_of(runs, study)
    return frame if folder is None else with_exported(frame, folder)


def exports_of(runs: str | Path, study: str) -> Path | None:
    """The folder whose cells a study skipped when it ran last; None where there is none."""
    with Store.open(runs) as store:
        told = store.study(study).about.get("skipped_in")
    folder = None if told is None else Path(runs).resolve() / str(told)
    return folder if folder is not None and folder.is_dir() else None


def marked(cells: Sequence[StoredCell], keys: Collection[str]) -> list[StoredCell]:
    """The cells of a study; those that wait, and never will be run, as exported."""
    return [
        replace(cell, status=EXPORTED) if cell.status == "waiting" and cell.key in keys else cell
        for cell in cells
    ]


def with_exported(frame: pandas.DataFrame, folder: str | Path) -> pandas.DataFrame:
    """Results of a study, its cells that have not run filled in from a folder of exports.

    Parameters
    ----------
    frame : DataFrame
        One row per cell, as from `results`.
    folder : path
        Of all exports. Cells are found by their keys, of whichever study they are.
    """
    exported: dict[str, Row] = {}
    for path in sorted(Path(folder).glob(f"*/{CELLS}")):
        exported |= {row.key: row for row in read(path.parent).rows}
    waiting = (frame["status"] == "waiting") & frame["key"].isin(exported)
    rows = [exported[key] for key in frame.loc[waiting, "key"]]
    if not rows:
        return frame
    made = frame.copy()
    made.attrs = dict(frame.attrs)
    made.loc[waiting, "status"] = "done"
    made.loc[waiting, "rounds_played"] = [row.rounds for row in rows]
    if any(row.engine for row in rows):
        engines = made["engine"].astype(object)
        engines[waiting] = [row.engine for row in rows]
        made["engine"] = engines
    for name in sorted({name for row in rows for name in row.measures}):
        column = np.full(len(made), np.nan)
        if name in made:
            column[:] = made[name].astype(float)
        column[waiting.to_numpy()] = [row.measures.get(name, np.nan) for row in rows]
        made[name] = column
    return made

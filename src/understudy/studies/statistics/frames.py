"""What a study's cells came to, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.core import checks
from understudy.measures import EVALUATED, RunNumbers
from understudy.studies.definition.differences import differences
from understudy.studies.definition.reference_rows import words_of_references
from understudy.studies.definition.training import kept_in_words
from understudy.studies.statistics.constant_prediction import REFERENCE
from understudy.studies.store.client_names import client_names
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import FILE, Store, StoredCell, StoredStudy

Level = Literal["run", "round", "client"]
LEVELS = ("run", "round", "client")
FACTS = {
    "n_examples": "sizes",
    "group": "groups",
    "n_test": "test_sizes",
}  # column: name among a run's facts


def results(path: str | Path, level: Level = "run", study: str | None = None) -> pd.DataFrame:
    """The results of a study.

    Parameters
    ----------
    path : path
        A runs folder, or the folder of a study in it.
    level : {"run", "round", "client"}
        One row per cell, per round of each cell, or per client of each cell. Cells without a
        round have a row only in the first.
    study : str, optional
        Which study of the runs folder; by default all, told apart by a first column ``study``
        where there are several.

    Returns
    -------
    DataFrame
        The labels of the cells, then seed, key and status ("waiting", "running", "stopped",
        "done" or "failed"), then:

        run
            ``version`` of the package, ``engine`` that trained, ``error`` of a failed cell,
            ``rounds_played``, ``rounds_evaluated`` (on test data), what a constant prediction would
            have (``reference_accuracy`` and the like: always the most frequent class, or the mean
            of the targets), the measures of `summarise` and what the study's analyses found.
        round
            ``t``, ``clock`` and megabytes; how many clients were wanted, asked, came in time, came
            late, and arrivals refused; metrics; notes of the parts; ``seconds_…`` of wall clock.
        client
            ``client`` and its ``name`` (its number as text where it has none); in how many rounds
            it was wanted, asked, came in time, came late, was refused; ``stood_in_for_it``, rounds
            in which another's row or a mixture represented it; ``spoke_for_others``, how often its
            row represented another; ``n_examples``, ``group``, and each metric per client as last
            measured.

        A label None means "in every group". A measure that has the name of a label is called
        ``measured_…``. ``attrs`` holds the names of the labels, and the study's ``baseline``,
        ``target`` and ``metric`` where all agree; of a single study also its name (``study``), what
        tuning picked (``picks``), which of it lies at the edge of what was tried (``edges``), its
        ``references`` with words on those that have some, and ``differences``: in which settings
        others differ from each strategy.
    """
    checks.choice("level", level, LEVELS)
    folder, named = _places(Path(path))
    with Store.open(folder) as store:
        name = study or named
        chosen = store.studies() if name is None else [store.study(name)]
        cells = [(one, cell) for one in chosen for cell in store.cells(one.name)]
        if name is not None and not cells and chosen[0].about.get("trials"):
            raise StoreError(
                f"{name}: has no cells before it is tuned; understudy show {name} tells how far "
                "its trials are"
            )
        names = list(dict.fromkeys(name for _, cell in cells for name in cell.labels))
        if len(chosen) > 1:
            names = ["study", *names]
        tables = [_table(store, cell, one, level, taken=names) for one, cell in cells]
        labels = [{"study": one.name, **cell.labels} for one, cell in cells]
        frame = _joined(names, labels, tables)
        facts = _of_one_study(store, chosen[0], level) if len(chosen) == 1 else {}
    frame.attrs["labels"] = names
    for fact in ("baseline", "target", "metric"):
        values = [one.about.get(fact) for one in chosen]
        if values and values[0] is not None and values.count(values[0]) == len(values):
            frame.attrs[fact] = values[0]
    if len(chosen) == 1 and chosen[0].picks:
        frame.attrs |= {"picks": dict(chosen[0].picks), "edges": dict(chosen[0].edges)}
    frame.attrs |= facts
    return frame


def _of_one_study(store: Store, study: StoredStudy, level: Level) -> dict[str, Any]:
    """What `compare` tells of a study; plain data, since some writers write it into their files."""
    told: dict[str, Any] = {"study": study.name}
    if level != "run":
        return told
    if study.about.get("references"):
        told["references"] = words_of_references(study.about)
    begun = [cell for cell in store.cells(study.name) if cell.status != "waiting"]
    pairs = [(cell.labels, store.resolved(cell.key)) for cell in begun]
    found = {
        name: [list(one) for one in differences(pairs, name, study.tuned) if not one.is_the_method]
        for name in dict.fromkeys(str(cell.labels["strategy"]) for cell in begun)
    }
    if any(found.values()):
        told["differences"] = found
    if study.about.get("kept_local"):
        told["kept_local"] = f"{kept_in_words(study.about['kept_local'])}."
    return told


def rows_of_clients(store: Store, cell: StoredCell) -> pd.DataFrame:
    """One row per client of a cell; none where it has no round."""
    columns: dict[str, Any] = dict(store.client_counts(cell.key))
    n_clients = len(columns["wanted"])
    for name, fact in FACTS.items():
        known = cell.facts.get(fact)
        if known is not None and len(known) == n_clients:
            columns[name] = known
    measured = store.last_client_metrics(cell.key)
    if measured:  # cells of before own test examples were kept: all of them matched
        columns["tested_on"] = cell.facts.get("per_client_test", "matched")
    for name, values in measured.items():
        columns[name if name not in columns else f"measured_{name}"] = values
    names = client_names(cell.facts, n_clients)
    return pd.DataFrame({"client": range(n_clients), "name": names, **columns})


def _places(path: Path) -> tuple[Path, str | None]:
    """The runs folder, and the study that the path names."""
    if (path / FILE).is_file():
        return path, None
    inside = path.absolute()
    if (inside.parent / FILE).is_file():
        return inside.parent, inside.name
    raise StoreError(f"{path}: no runs here (no file {FILE}, nor in the folder above)")


def _table(
    store: Store, cell: StoredCell, study: StoredStudy, level: Level, taken: Sequence[str]
) -> pd.DataFrame:
    """A cell's rows: its place in the study, then what was measured."""
    rows = rows_of_clients(store, cell) if level == "client" else store.rounds(cell.key)
    if level == "run":
        rows = pd.DataFrame([_measures(store, cell, rows, study.about)])
    place: dict[str, Any] = {"seed": cell.seed, "key": cell.key, "status": cell.status}
    rows = rows.rename(columns={name: f"measured_{name}" for name in (*taken, *place)})
    for position, (name, value) in enumerate(place.items()):
        rows.insert(position, name, value)
    return rows


def _measures(
    store: Store, cell: StoredCell, rounds: pd.DataFrame, about: Mapping[str, Any]
) -> dict[str, Any]:
    """A run in one row."""
    from understudy.studies.statistics.summary import summarise

    told = {"version": cell.version, "engine": cell.facts.get("engine")}
    told |= {"error": cell.error, "rounds_played": cell.rounds}
    reference = cell.facts.get("reference") or {}
    told |= {f"{REFERENCE}_{name}": value for name, value in reference.items()}
    if not len(rounds):
        return told
    told[EVALUATED] = RunNumbers(rounds).n_evaluated
    clients = rows_of_clients(store, cell)
    measures = summarise(rounds, clients, dict(cell.facts), about.get("target"))
    return {**told, **measures, **cell.findings_metrics}


def _joined(
    names: Sequence[str], labels: Sequence[Mapping[str, Any]], tables: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """One below the other, labels first; columns in the order in which they first appear."""
    lengths = [len(rows) for rows in tables]
    columns: dict[str, Any] = {}
    for name in names:
        # as they are: None stays None, and does not turn integers into floats
        values = np.array([*(one.get(name) for one in labels), None], dtype=object)[:-1]
        columns[name] = _column(values.repeat(lengths))
    filled = [rows for rows in tables if len(rows)]
    for name in dict.fromkeys(str(name) for rows in tables for name in rows.columns):
        columns[name] = _measured(name, filled)
    return pd.DataFrame(columns)


def _measured(name: str, tables: Sequence[pd.DataFrame]) -> pd.Series[Any]:
    """A column over all tables; NaN (None in text) where a table does not have it."""
    present = [rows[name].to_numpy() for rows in tables if name in rows]
    if present and all(piece.dtype.kind in "iuf" for piece in present):
        pieces = [
            rows[name].to_numpy() if name in rows else np.full(len(rows), np.nan) for rows in tables
        ]
        return pd.Series(np.concatenate(pieces))
    values = [rows[name].tolist() if name in rows else [None] * len(rows) for rows in tables]
    return _column(
        np.array([*(value for piece in values for value in piece), None], dtype=object)[:-1]
    )


def _column(values: npt.NDArray[Any]) -> pd.Series[Any]:
    """Text, or labels; of their own type where none is missing."""
    column: pd.Series[Any] = pd.Series(values, dtype=object)
    return column if column.isna().any() else column.infer_objects()

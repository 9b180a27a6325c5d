"""Results as small files: tables for a repository, whole levels for other tools, a trained model.

Numbers are written with six significant digits: the same runs give the same bytes, and on another
kind of processor, where last bits differ, nearly always too.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from understudy.core.csv_files import faults_of
from understudy.core.files import replaced, write_file
from understudy.measures import EVALUATED
from understudy.studies.statistics.client_files import (
    Clients,
    Scores,
    clients_of,
    clients_text,
    read_clients,
    read_scores,
    scores_of,
    scores_text,
)
from understudy.studies.statistics.csv_cells import (
    csv_lines,
    csv_text,
    guarded_frame,
    number_word,
)
from understudy.studies.statistics.frames import LEVELS, Level, results
from understudy.studies.statistics.places import Place as Place
from understudy.studies.statistics.places import Value as Value
from understudy.studies.statistics.places import label_text as label_text
from understudy.studies.statistics.places import place_of as place_of
from understudy.studies.statistics.trial_files import (
    export_trials,
    read_rows,
    with_rows,
    write_rows,
)
from understudy.studies.store.store import Store

if TYPE_CHECKING:
    import pandas

CELLS, CURVES = "cells.csv", "curves.csv"
CLIENTS, SCORES = "clients.csv", "scores.csv"  # where a cell has something to tell of clients
ENGINE = "engine"  # a column of words
MOST_POINTS = 100  # of a curve
# what is drawn over rounds; the rest of a round stays in the store
EVALUATIONS = ("test_accuracy", "test_loss", "train_loss")
CURVE_COLUMNS = (
    *EVALUATIONS,
    "pairs_needed",
    "oracle_error_relative",
    "sigma_f",
    "sigma_p",
    "friends_apart",
    "strangers_apart",
)
NOT_MEASURES = ("key", "status", "seed", "version", "engine", "error", "rounds_played", EVALUATED)
NAMES_ONLY = ("strategy", "availability", "block")  # labels that are words, though they be digits


@dataclass(frozen=True)
class Row:
    """A cell as it is exported."""

    key: str
    labels: Mapping[str, Value]  # None: in every group
    seed: int
    rounds: int
    measures: Mapping[str, float]  # what was not measured, or never reached, is not there
    engine: str | None = None  # that trained it, where that is known

    @property
    def place(self) -> tuple[Place, int]:
        """What it is in its study: a newer cell of the same place takes its place."""
        return place_of(self.labels), self.seed


@dataclass(frozen=True)
class Exported:
    """The tables of a study; all but the first by key."""

    rows: tuple[Row, ...] = ()
    curves: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)
    clients: Mapping[str, Clients] = field(default_factory=dict)  # of cells that have something
    scores: Mapping[str, Scores] = field(default_factory=dict)  # of one seed of a setting


def export(
    runs: str | Path,
    study: str,
    to: str | Path,
    *,
    places: Collection[Place] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write ``<to>/<study>/cells.csv`` and ``curves.csv`` from the finished cells of a study.

    Cells that are in the files already stay there, in their place, unless

    * the same cell, or one with the same labels and seed, is exported now: it takes their place;
    * their labels are none of the study's any more, as far as `places` tells.

    So a study can be run and exported block by block, on several machines, and with more seeds.
    Rows of one's own (``--with``) stay, and are told of in ``with.csv``; what the trials of a study
    that tunes scored is in ``tuning.csv``.
    Beside them, in the same way, where cells have it: ``clients.csv`` (how often each client was
    picked, the accuracy of the last model for it) and ``scores.csv`` (who is like whom to
    FL-FDMS, of the first seed of each setting).

    Parameters
    ----------
    runs : path
        The runs folder.
    study : str
        Its name.
    to : path
        The folder of all exports.
    places : collection, optional
        Labels (`place_of`) of cells that may stay. By default, for a built-in study, those of its
        cells at any scale, all else being dropped; for other studies all may stay.
    tell : function, optional
        Called with a sentence where cells are dropped.

    Returns
    -------
    Path
        The folder that was written.
    """
    folder = Path(to) / study
    fresh = _finished(Path(runs), study)
    if not fresh.rows:
        raise ValueError(f"{runs}: no cell of {study!r} is done; nothing was exported")
    kept = read(folder) if (folder / CELLS).is_file() else Exported()
    with Store.open(runs) as store:
        joined = read_rows(folder) | (store.study(study).about.get("joined") or {})
    known = places_of(study) if places is None else places
    known = with_rows(known, joined)
    whole = merged(kept, fresh, known)
    _tell_of_dropped(kept, whole, folder / CELLS, tell)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(joined, folder)
    with Store.open(runs) as store:
        export_trials(store, study, folder, known)
    _write_or_drop(folder / CLIENTS, clients_text(whole.clients))
    _write_or_drop(folder / SCORES, scores_text(whole.scores))
    write_file(folder / CURVES, curves_text(whole).encode())
    write_file(folder / CELLS, cells_text(whole).encode())  # last: where it is, its curves are
    return folder


def _write_or_drop(path: Path, text: str) -> None:
    if text:
        write_file(path, text.encode())
    else:
        path.unlink(missing_ok=True)


def merged(kept: Exported, fresh: Exported, places: Collection[Place] | None = None) -> Exported:
    """Old and new rows, each place once, by labels and seed."""
    new = _each_place_once(fresh.rows)
    renamed = _Renamed(fresh.rows, places)
    stay = [
        row
        for row in kept.rows
        if row.place not in new
        and (places is None or place_of(row.labels) in places)
        and not renamed(row)
    ]
    rows = [*stay, *new.values()]
    labels = _label_names(rows)
    rows.sort(key=lambda row: _order(row, labels))
    curves = {**kept.curves, **fresh.curves}
    clients = {**kept.clients, **fresh.clients}
    return Exported(
        tuple(rows),
        {row.key: curves.get(row.key, ()) for row in rows},
        {row.key: clients[row.key] for row in rows if row.key in clients},
        _of_first_seeds(rows, {**kept.scores, **fresh.scores}),
    )


def _of_first_seeds(rows: Sequence[Row], scores: Mapping[str, Scores]) -> dict[str, Scores]:
    """The scores of one cell for each setting and length: that of the lowest seed."""
    chosen: dict[tuple[Place, int], Row] = {}
    for row in sorted(rows, key=lambda row: row.seed):
        if row.key in scores:
            chosen.setdefault((row.place[0], row.rounds), row)
    keys = {row.key for row in chosen.values()}
    return {row.key: scores[row.key] for row in rows if row.key in keys}


def _each_place_once(rows: Iterable[Row]) -> dict[tuple[Place, int], Row]:
    found: dict[tuple[Place, int], Row] = {}
    for row in rows:
        other = found.setdefault(row.place, row)
        if other is not row:
            words = ", ".join(f"{name} {text}" for name, text in sorted(row.place[0]))
            raise ValueError(
                f"cells {other.key} and {row.key} would have the same row ({words}, seed "
                f"{row.seed}); give their labels names that differ when written"
            )
    return found


class _Renamed:
    """Whether an old row is a cell that is exported now, under labels it had before.

    Several blocks may share a cell, of which only some are exported: its rows in the others stay.
    """

    def __init__(self, fresh: Sequence[Row], places: Collection[Place] | None) -> None:
        self._blocks: dict[str, set[Value]] = {}
        for row in fresh:
            self._blocks.setdefault(row.key, set()).add(row.labels.get("block"))
        self._known = places is not None

    def __call__(self, row: Row) -> bool:
        if self._known or row.key not in self._blocks:
            return False  # where places are known, they decide
        return row.labels.get("block") in self._blocks[row.key]


def _order(row: Row, labels: Sequence[str]) -> tuple[Any, ...]:
    """By labels, then by seed: the same files whatever was exported first."""
    values = [_value(name, label_text(row.labels.get(name))) for name in labels]
    return tuple(
        (value is not None, isinstance(value, str), value if value is not None else 0)
        for value in (*values, row.seed)
    )


def _label_names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.labels))


def _tell_of_dropped(
    kept: Exported, whole: Exported, path: Path, tell: Callable[[str], None] | None
) -> None:
    there = {row.place for row in whole.rows}
    dropped = sum(row.place not in there for row in kept.rows)
    if dropped and tell is not None:
        rows = "row is" if dropped == 1 else "rows are"
        tell(f"{path}: {dropped} {rows} of no cell of the study any more and dropped")


def places_of(study: str) -> frozenset[Place] | None:
    """Labels of all cells of a built-in study, at any scale; None for another."""
    from understudy.studies.definition.builtins import NAMES, built_in, scales_of

    if study not in NAMES:
        return None
    return frozenset(
        place_of(cell.labels)
        for scale in scales_of(study)
        for cell in built_in(study, scale).cells()
    )


def keys_in(folder: str | Path) -> frozenset[str]:
    """Keys of all cells that were exported to a folder: what ``run --skip-in`` leaves out."""
    found: set[str] = set()
    for path in sorted(Path(folder).glob(f"*/{CELLS}")):
        found |= {row.key for row in read(path.parent).rows}
    return frozenset(found)


# -- from the store --------------------------------------------------------------------------------


def _finished(runs: Path, study: str) -> Exported:
    frame = results(runs, study=study)
    labels = list(frame.attrs["labels"])
    done = frame[frame["status"] == "done"]
    rows = [_row(record, labels) for record in done.to_dict("records")]
    with Store.open(runs) as store:
        curves = {row.key: curve(store.rounds(row.key)) for row in rows}
        clients = {row.key: clients_of(store, row.key) for row in rows}
        scores = {row.key: scores_of(store, row.key) for row in rows}
    told = {key: one for key, one in clients.items() if one}
    known = {key: one for key, one in scores.items() if one}
    return Exported(tuple(rows), curves, told, known)


def _row(record: Mapping[Any, Any], labels: Sequence[str]) -> Row:
    measures = {
        str(name): float(value)
        for name, value in record.items()
        if name not in labels and name not in NOT_MEASURES and not _missing(value)
    }
    return Row(
        key=str(record["key"]),
        labels={name: _value(name, label_text(record[name])) for name in labels},
        seed=int(record["seed"]),
        rounds=int(record["rounds_played"]),
        measures=measures,
        engine=record.get("engine") or None,
    )


def _missing(value: Any) -> bool:
    return value is None or bool(math.isnan(value))


def _evenly(rounds: pandas.DataFrame, most: int) -> pandas.DataFrame:
    if len(rounds) <= most:
        return rounds
    return rounds.iloc[np.linspace(0, len(rounds) - 1, most).round().astype(int)]


def curve(rounds: pandas.DataFrame) -> list[dict[str, float]]:
    """At most 100 rounds: those that were evaluated, and as many others as there is room for.

    Of either too many are thinned evenly, the first and the last staying.
    """
    names = [name for name in CURVE_COLUMNS if name in rounds]
    told = rounds[rounds[names].notna().any(axis=1)] if names else rounds.iloc[:0]
    evaluated = told[told[[name for name in EVALUATIONS if name in names]].notna().any(axis=1)]
    kept = _evenly(evaluated, MOST_POINTS)
    others = _evenly(told.drop(evaluated.index), MOST_POINTS - len(kept))
    told = told.loc[kept.index.union(others.index)]
    return [
        {"round": float(record["t"]) + 1}
        | {name: float(record[name]) for name in names if not math.isnan(record[name])}
        for record in told.to_dict("records")
    ]


# -- files -----------------------------------------------------------------------------------------


def cells_text(exported: Exported) -> str:
    """The table of cells: key, labels, seed, rounds, the engine where it is known, measures."""
    labels = _label_names(exported.rows)
    measures = sorted({name for row in exported.rows for name in row.measures})
    known = any(row.engine for row in exported.rows)
    lines = [
        [row.key, *(label_text(row.labels.get(name)) for name in labels), str(row.seed),
         str(row.rounds), *([row.engine or ""] if known else []),
         *(number_word(row.measures.get(name)) for name in measures)]
        for row in exported.rows
    ]  # fmt: skip
    engine = [ENGINE] if known else []
    return csv_text([["key", *labels, "seed", "rounds", *engine, *measures], *lines])


def curves_text(exported: Exported) -> str:
    """The table of curves: key, round, what is drawn."""
    keys = dict.fromkeys(row.key for row in exported.rows)  # blocks may share a cell
    points = [(key, point) for key in keys for point in exported.curves[key]]
    names = [name for name in CURVE_COLUMNS if any(name in point for _, point in points)]
    lines = [
        [key, str(int(point["round"])), *(number_word(point.get(name)) for name in names)]
        for key, point in points
    ]
    return csv_text([["key", "round", *names], *lines])


def read(folder: str | Path) -> Exported:
    """What was exported to the folder of a study."""
    path = Path(folder) / CELLS
    lines = csv_lines(path)
    if not lines or lines[0][:1] != ["key"] or not {"seed", "rounds"} <= set(lines[0]):
        raise ValueError(f"{path}: expected the columns key, …, seed, rounds, …")
    head, seed_at = lines[0], lines[0].index("seed")
    with faults_of(path):
        cells = (dict(zip(head, line, strict=True)) for line in lines[1:])
        rows = tuple(_read_row(cell, head, seed_at) for cell in cells)
    curves: dict[str, list[dict[str, float]]] = {row.key: [] for row in rows}
    curve_lines = csv_lines(path.with_name(CURVES))
    with faults_of(path.with_name(CURVES)):
        for line in curve_lines[1:]:
            point = dict(zip(curve_lines[0][1:], line[1:], strict=True))
            numbers = {name: float(number) for name, number in point.items() if number}
            curves.setdefault(line[0], []).append(numbers)
    clients, scores = path.with_name(CLIENTS), path.with_name(SCORES)
    return Exported(
        rows,
        curves,
        read_clients(clients) if clients.is_file() else {},
        read_scores(scores) if scores.is_file() else {},
    )


def _read_row(line: Mapping[str, str], head: Sequence[str], seed_at: int) -> Row:
    rest = head[seed_at + 2 :]
    measures = [name for name in rest if name != ENGINE]
    return Row(
        key=line["key"],
        labels={name: _value(name, line[name]) for name in head[1:seed_at]},
        seed=int(line["seed"]),
        rounds=int(line["rounds"]),
        measures={name: float(line[name]) for name in measures if line[name]},
        engine=(line[ENGINE] or None) if ENGINE in rest else None,
    )


def _value(name: str, word: str) -> Value:
    """A label from its text: a number where that is written so, so that the text stays."""
    if not word:
        return None
    try:
        number = float(word)
    except ValueError:
        return word
    same = math.isfinite(number) and label_text(number) == word
    return number if same and name not in NAMES_ONLY else word


# -- for other tools -------------------------------------------------------------------------------


def export_level(
    runs: str | Path, study: str, to: str | Path, level: Level = "run", form: str = "csv"
) -> Path:
    """One level of a study's results in one file.

    Parameters
    ----------
    runs : path
        The runs folder.
    study : str
        Its name.
    to : path
        A folder; the file is called ``<study>-<level>.csv`` or ``.parquet``. Or the file itself,
        where the name ends so.
    level : {"run", "round", "client"}
        As in `results`.
    form : {"csv", "parquet"}
        Parquet needs the extra ``parquet`` (pyarrow).
    """
    if level not in LEVELS:
        raise ValueError(f"level: expected one of {', '.join(LEVELS)}, got {level!r}")
    if form not in ("csv", "parquet"):
        raise ValueError(f"form: expected csv or parquet, got {form!r}")
    path = Path(to)
    if path.suffix != f".{form}":
        path = path / f"{study}-{level}.{form}"
    frame = results(runs, level=level, study=study)
    frame.attrs = {}  # not all writers know what to do with them
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as file:
        if form == "csv":
            guarded_frame(frame).to_csv(file, index=False, lineterminator="\n", encoding="utf-8")
        else:
            _parquet(frame, file)
    return path


def _parquet(frame: pandas.DataFrame, file: BinaryIO) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install pyarrow") from error
    columns = {name: _plain(frame[name].tolist()) for name in frame.columns}
    pyarrow.parquet.write_table(pyarrow.table(columns), file)


def _plain(values: list[Any]) -> list[Any]:
    """A column of one kind: where labels are of several, all become words."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        return [None if value is None else str(value) for value in values]
    return [
        float(value) if isinstance(value, int) and float in kinds else value for value in values
    ]


def export_model(runs: str | Path, key: str, to: str | Path) -> Path:
    """Copy the trained model of a finished cell: a safetensors file, and a JSON file beside it.

    Parameters
    ----------
    runs : path
        The runs folder.
    key : str
        The cell's key, or its beginning.
    to : path
        A folder, or a file whose name ends in ``.safetensors``.
    """
    from understudy.studies.store.model_files import ABOUT, WEIGHTS, cells_folder, is_verified

    folders = sorted(cells_folder(runs).glob(f"{key}*")) if key else []
    found = [folder for folder in folders if (folder / WEIGHTS).is_file()]
    if len(found) != 1:
        words = "no trained model" if not found else f"{len(found)} trained models"
        raise ValueError(f"{runs}: {words} of a cell whose key begins with {key!r}")
    is_verified(found[0])  # a damaged one is an error, not a copy
    path = Path(to)
    if path.suffix != ".safetensors":
        path = path / f"{found[0].name}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, target in ((ABOUT, path.with_suffix(".json")), (WEIGHTS, path)):
        with replaced(target) as file, open(found[0] / name, "rb") as source:
            shutil.copyfileobj(source, file)
    return path

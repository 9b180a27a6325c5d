"""Results as small files: tables for a repository, whole levels for other tools, a trained model.

Numbers are written with six significant digits: the same runs give the same bytes, and on another
kind of processor, where last bits differ, nearly always too.
"""

from __future__ import annotations

import csv
import io
import math
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.studies.frames import LEVELS, Level, results
from understudy.studies.store import Store

if TYPE_CHECKING:
    import pandas

CELLS, CURVES = "cells.csv", "curves.csv"
MOST_POINTS = 100  # of a curve
# what is drawn over rounds; the rest of a round stays in the store
CURVE_COLUMNS = (
    "test_accuracy",
    "test_loss",
    "train_loss",
    "pairs_needed",
    "oracle_error_relative",
    "sigma_f",
    "sigma_p",
)
NOT_MEASURES = ("key", "status", "seed", "version", "error", "rounds_played")

Value = str | float | None


@dataclass(frozen=True)
class Row:
    """A cell as it is exported."""

    key: str
    labels: Mapping[str, Value]  # None: in every group
    seed: int
    rounds: int
    measures: Mapping[str, float]  # what was not measured, or never reached, is not there

    @property
    def place(self) -> tuple[Any, ...]:
        """What it is in its study: a newer cell of the same place takes its place."""
        return (*self.labels.items(), self.seed)


@dataclass(frozen=True)
class Exported:
    """The two tables of a study."""

    rows: tuple[Row, ...] = ()
    curves: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)  # by key


def export(
    runs: str | Path, study: str, to: str | Path, *, present: Collection[str] | None = None
) -> Path:
    """Write ``<to>/<study>/cells.csv`` and ``curves.csv`` from the finished cells of a study.

    Cells that are in the files already stay there, in their place, unless

    * the same cell, or one with the same labels and seed, is exported now: it takes their place;
    * they are no cell of the study any more, as far as `present` tells.

    So a study can be run and exported block by block, and on several machines.

    Parameters
    ----------
    runs : path
        The runs folder.
    study : str
        Its name.
    to : path
        The folder of all exports.
    present : collection of str, optional
        Keys that may stay. By default, for a built-in study, those of its cells at any scale but
        ``tiny``, all else being dropped; for other studies all may stay.

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
    whole = merged(kept, fresh, keys_of(study) if present is None else present)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / CURVES, curves_text(whole))
    _write(folder / CELLS, cells_text(whole))  # last: where it is, its curves are
    return folder


def merged(kept: Exported, fresh: Exported, present: Collection[str] | None = None) -> Exported:
    """Old and new rows, each place once; the old ones first, new places behind them."""
    new = {row.place: row for row in fresh.rows}
    rows: list[Row] = []
    for row in kept.rows:
        if row.place in new:
            rows.append(new.pop(row.place))
        elif present is None or row.key in present:
            rows.append(row)
    rows += new.values()
    rows.sort(key=lambda row: _order(row, rows))
    curves = {**kept.curves, **fresh.curves}
    return Exported(tuple(rows), {row.key: curves.get(row.key, ()) for row in rows})


def _order(row: Row, rows: Sequence[Row]) -> tuple[Any, ...]:
    """By labels, then by seed: the same files whatever was exported first."""
    return tuple(
        (value is not None, isinstance(value, str), value if value is not None else 0)
        for value in (*row.labels.values(), row.seed)
    )


def keys_of(study: str) -> frozenset[str] | None:
    """Keys of all cells of a built-in study, at any scale but ``tiny``; None for another study."""
    from understudy.studies.builtins import NAMES, SCALES, built_in

    if study not in NAMES:
        return None
    scales = [scale for scale in SCALES if scale != "tiny"]
    return frozenset(cell.key for scale in scales for cell in built_in(study, scale).cells())


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
    return Exported(tuple(rows), curves)


def _row(record: Mapping[Any, Any], labels: Sequence[str]) -> Row:
    measures = {
        str(name): float(value)
        for name, value in record.items()
        if name not in labels and name not in NOT_MEASURES and not _missing(value)
    }
    return Row(
        key=str(record["key"]),
        labels={name: _label(record[name]) for name in labels},
        seed=int(record["seed"]),
        rounds=int(record["rounds_played"]),
        measures=measures,
    )


def _missing(value: Any) -> bool:
    return value is None or bool(math.isnan(value))


def _label(value: Any) -> Value:
    if value is None or isinstance(value, str):
        return value
    return float(value) if not isinstance(value, bool | np.bool_) else str(bool(value)).lower()


def curve(rounds: pandas.DataFrame) -> list[dict[str, float]]:
    """At most 100 rounds, evenly spaced, the first and the last among them."""
    names = [name for name in CURVE_COLUMNS if name in rounds]
    told = rounds[rounds[names].notna().any(axis=1)] if names else rounds.iloc[:0]
    if len(told) > MOST_POINTS:
        places = np.linspace(0, len(told) - 1, MOST_POINTS).round().astype(int)
        told = told.iloc[places]
    return [
        {"round": float(record["t"]) + 1}
        | {name: float(record[name]) for name in names if not math.isnan(record[name])}
        for record in told.to_dict("records")
    ]


# -- files -----------------------------------------------------------------------------------------


def cells_text(exported: Exported) -> str:
    """The table of cells: key, labels, seed, rounds, measures."""
    labels = list(dict.fromkeys(name for row in exported.rows for name in row.labels))
    measures = sorted({name for row in exported.rows for name in row.measures})
    lines = [
        [row.key, *(_written(row.labels.get(name)) for name in labels), str(row.seed),
         str(row.rounds), *(_written(row.measures.get(name)) for name in measures)]
        for row in exported.rows
    ]  # fmt: skip
    return _csv([["key", *labels, "seed", "rounds", *measures], *lines])


def curves_text(exported: Exported) -> str:
    """The table of curves: key, round, what is drawn."""
    points = [(row.key, point) for row in exported.rows for point in exported.curves[row.key]]
    names = [name for name in CURVE_COLUMNS if any(name in point for _, point in points)]
    lines = [
        [key, str(int(point["round"])), *(_written(point.get(name)) for name in names)]
        for key, point in points
    ]
    return _csv([["key", "round", *names], *lines])


def read(folder: str | Path) -> Exported:
    """What was exported to the folder of a study."""
    path = Path(folder) / CELLS
    lines = _lines(path)
    if not lines or lines[0][:1] != ["key"] or not {"seed", "rounds"} <= set(lines[0]):
        raise ValueError(f"{path}: expected the columns key, …, seed, rounds, …")
    head, seed_at = lines[0], lines[0].index("seed")
    rows = tuple(_read_row(dict(zip(head, line, strict=True)), head, seed_at) for line in lines[1:])
    curves: dict[str, list[dict[str, float]]] = {row.key: [] for row in rows}
    curve_lines = _lines(Path(folder) / CURVES)
    for line in curve_lines[1:]:
        point = dict(zip(curve_lines[0][1:], line[1:], strict=True))
        numbers = {name: float(number) for name, number in point.items() if number}
        curves.setdefault(line[0], []).append(numbers)
    return Exported(rows, curves)


def _read_row(line: Mapping[str, str], head: Sequence[str], seed_at: int) -> Row:
    measures = head[seed_at + 2 :]
    return Row(
        key=line["key"],
        labels={name: _value(line[name]) for name in head[1:seed_at]},
        seed=int(line["seed"]),
        rounds=int(line["rounds"]),
        measures={name: float(line[name]) for name in measures if line[name]},
    )


def _value(word: str) -> Value:
    if not word:
        return None
    try:
        return float(word)
    except ValueError:
        return word


def _written(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return (
        f"{value:.6g}" if not float(value).is_integer() or abs(value) >= 1e15 else str(int(value))
    )


def _csv(lines: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _lines(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)


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
    partial = path.with_name(path.name + ".partial")
    if form == "csv":
        frame.to_csv(partial, index=False, lineterminator="\n")
    else:
        _parquet(frame, partial)
    os.replace(partial, path)
    return path


def _parquet(frame: pandas.DataFrame, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet needs pyarrow; install the extra: pip install 'understudy-fl[parquet]'"
        ) from error
    columns = {name: _plain(frame[name].tolist()) for name in frame.columns}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


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
    from understudy.studies.trained import ABOUT, WEIGHTS, cells_folder

    folders = sorted(cells_folder(runs).glob(f"{key}*")) if key else []
    found = [folder for folder in folders if (folder / WEIGHTS).is_file()]
    if len(found) != 1:
        words = "no trained model" if not found else f"{len(found)} trained models"
        raise ValueError(f"{runs}: {words} of a cell whose key begins with {key!r}")
    path = Path(to)
    if path.suffix != ".safetensors":
        path = path / f"{found[0].name}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, target in ((ABOUT, path.with_suffix(".json")), (WEIGHTS, path)):
        partial = target.with_name(target.name + ".partial")
        shutil.copyfile(found[0] / name, partial)
        os.replace(partial, target)
    return path

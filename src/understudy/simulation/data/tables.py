"""Tables: of pandas, or of a CSV file whose every fault is an error with its name and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core.brief import shown
from understudy.core.csv_files import csv_rows, even_rows, faults_of

MOST_COLUMNS = 100_000  # more take minutes to be read, and are a mistake
MOST_SHOWN = 20  # columns in a message


class DataTable(NamedTuple):
    """Columns of equal length."""

    frame: Any  # pandas'
    path: Path | None = None  # of the file that it was read from

    def place(self, row: int) -> str:
        """Where a row is, to be put before what is wrong with it."""
        if self.path is None:
            return ""
        for number, (line, _) in enumerate(csv_rows(self.path)):
            if number == row + 1:  # the header is no row
                return f"{self.path}, line {line}: "
        return f"{self.path}: "

    def column(self, what: str, name: str) -> npt.NDArray[Any]:
        """The values of a column, none missing; `what` is what an error calls it."""
        _refuse_missing(what, name, list(self.frame.columns))
        values = np.asarray(self.frame[name])
        if values.ndim != 1:
            raise ValueError(f"{what}: the table has {values.shape[1]} columns {name!r}")
        missing = np.zeros(len(values), dtype=np.bool_)
        if values.dtype.kind == "f":
            missing = np.isnan(values)
        elif values.dtype.kind not in "biu":
            # whatever stands for a missing value is None, or does not equal itself, or cannot say
            missing[:] = [value is None or not _same(value) for value in values.tolist()]
        if missing.any():
            place = self.place(int(missing.argmax()))
            raise ValueError(f"{place}{what}: column {name!r} has {missing.sum()} missing values")
        return values

    def numbers(self, what: str, names: Sequence[str]) -> npt.NDArray[np.float32]:
        """(n, f) some columns side by side."""
        if not len(names):
            raise ValueError(f"{what}: expected at least one column of inputs, got none")
        columns = []
        for name in names:
            values = self.column(what, name)
            if values.dtype.kind not in "biuf":
                raise ValueError(self._no_number(what, name, values))
            with np.errstate(over="ignore"):
                columns.append(values.astype(np.float32))
            wrong = ~np.isfinite(columns[-1])
            if wrong.any():
                row = int(wrong.argmax())
                raise ValueError(
                    f"{self.place(row)}{what}: column {name!r}: expected finite numbers of 32 "
                    f"bits, got {values[row]} in row {row}"
                )
        return np.stack(columns, axis=1)

    def _no_number(self, what: str, name: str, values: npt.NDArray[Any]) -> str:
        row = _first_that_is_no_number(values)
        came = f" (such as {shown(values[row])})" if len(values) else ""
        place = self.place(row) if came else ""
        return (
            f"{place}{what}: column {name!r} does not hold numbers{came}; "
            "turn it into numbers first, for example with pandas.get_dummies, or name the columns "
            "to use in features"
        )


def table_of(name: str, table: Any, client: str, columns: Sequence[tuple[str, str]]) -> DataTable:
    """A table, or that of a CSV file.

    Parameters
    ----------
    name : str
        What an error calls it.
    table : pandas.DataFrame, or path
        The table.
    client : str
        The column with the clients' names, which stay as they are written: 007 is not 7.
    columns : sequence of pairs
        What an error calls a column, and the column: a file that lacks one is not read.
    """
    if hasattr(table, "columns"):
        return DataTable(table)
    if not isinstance(table, (str, Path)):
        raise TypeError(f"{name}: expected a table or the path of a CSV file, got {type(table)}")
    try:
        import pandas
    except ModuleNotFoundError as error:  # pragma: no cover
        raise ModuleNotFoundError("reading a CSV file needs pandas; it is not installed") from error
    path = Path(table)
    with faults_of(path):
        _look_through(path, columns)
        # all at once: in parts, the type of a column would depend on the length of the file
        frame = pandas.read_csv(path, dtype={client: str}, compression=None, low_memory=False)
        return DataTable(frame, path)


def _look_through(path: Path, columns: Sequence[tuple[str, str]]) -> None:
    """Refuse what pandas would refuse without the file's name, or take for something else."""
    rows = even_rows(path)
    line, header = next(rows, (1, []))
    if not header:
        raise ValueError(f"{path}: expected a CSV file with a header, got an empty one")
    if len(header) > MOST_COLUMNS:
        raise ValueError(
            f"{path}, line {line}: expected at most {MOST_COLUMNS:,} columns, got {len(header):,}"
        )
    twice = [word for word, count in Counter(header).items() if count > 1 and word]
    if twice:
        raise ValueError(
            f"{path}, line {line}: expected columns of different names, got {shown(twice[0])} twice"
        )
    for what, column in columns:
        _refuse_missing(what, column, header)
    if sum(1 for _ in rows) == 0:
        raise ValueError(f"{path}: expected at least one row after the header, got none")


def _refuse_missing(what: str, name: str, columns: Sequence[Any]) -> None:
    if name not in columns:
        words = ", ".join(shown(column) for column in columns[:MOST_SHOWN])
        more = f", and {len(columns) - MOST_SHOWN:,} more" if len(columns) > MOST_SHOWN else ""
        raise ValueError(f"{what}: the table has no column {name!r}; it has {words}{more}")


def _same(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:
        return False


def _first_that_is_no_number(values: npt.NDArray[Any]) -> int:
    """The row; 0 where each could be a number, and only their type is none."""
    try:
        import pandas

        # as pandas reads a file: to Python 1_000 is a number, to pandas it is not
        numbers = pandas.to_numeric(pandas.Series(values), errors="coerce")
        wrong = np.isnan(np.asarray(numbers, dtype=np.float64))
    except (ModuleNotFoundError, TypeError, ValueError, OverflowError):  # a whole number too long
        wrong = np.array([not _is_number(value) for value in values.tolist()], dtype=np.bool_)
    return int(wrong.argmax()) if wrong.any() else 0


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True

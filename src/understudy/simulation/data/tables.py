"""Tables: of pandas, or of a CSV file whose every fault is an error with its name and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core.csv_files import csv_rows, even_rows, faults_of
from understudy.core.shown import shown

MOST_COLUMNS = 100_000  # more take minutes to be read, and are a mistake
MOST_SHOWN = 20  # columns in a message


class DataTable(NamedTuple):
    """Columns of equal length."""

    frame: Any  # pandas'
    path: Path | None = None  # of the file that it was read from

    def lines(self, rows: Collection[int]) -> dict[int, int]:
        """The lines of the file that some rows are on; none where there is no file."""
        if self.path is None or not rows:
            return {}
        every = enumerate(csv_rows(self.path), start=-1)  # the header is no row
        return {row: line for row, (line, _) in every if row in rows}

    def column(self, what: str, name: str) -> npt.NDArray[Any]:
        """The values of a column; `what` is what an error calls it."""
        refuse_unknown_column(what, name, list(self.frame.columns))
        values = np.asarray(self.frame[name])
        if values.ndim != 1:
            raise ValueError(f"{what}: the table has {values.shape[1]} columns {name!r}")
        return values


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
    import pandas

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
    missing = [column for _, column in columns if column not in header]
    if len(header) == 1 and missing and (";" in header[0] or "\t" in header[0]):
        sign = ";" if ";" in header[0] else "\t"
        raise ValueError(
            f"{path}, line {line}: expected columns separated by commas, got one column "
            f"{shown(header[0])}; give the table that pandas.read_csv(…, sep={sign!r}) reads"
        )
    twice = [word for word, count in Counter(header).items() if count > 1 and word]
    if twice:
        raise ValueError(
            f"{path}, line {line}: expected columns of different names, got {shown(twice[0])} twice"
        )
    for what, column in columns:
        refuse_unknown_column(what, column, header)
    if sum(1 for _ in rows) == 0:
        raise ValueError(f"{path}: expected at least one row after the header, got none")


def refuse_unknown_column(what: str, name: str, columns: Sequence[Any]) -> None:
    if name not in columns:
        words = ", ".join(shown(column) for column in columns[:MOST_SHOWN])
        more = f", and {len(columns) - MOST_SHOWN:,} more" if len(columns) > MOST_SHOWN else ""
        raise ValueError(f"{what}: the table has no column {name!r}; it has {words}{more}")

"""A federation from a table in a file, CSV or Parquet: what studies call ``table``."""

from __future__ import annotations

import csv
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from understudy.core import checks
from understudy.core.csv_files import even_rows, faults_of
from understudy.core.shown import shown
from understudy.core.types import Bools
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.table_columns import Column, numbers_among_words
from understudy.simulation.data.table_inputs import TableOptions, from_table
from understudy.simulation.data.tables import refuse_unknown_column

TASKS = CLASSES, REGRESSION = ("classes", "regression")
PARQUET = (".parquet", ".pq")
SHEETS = (".xls", ".xlsx", ".ods", ".numbers")
SEPARATORS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8", "cp1252")  # what spreadsheets write
LOOKED_AT = 50  # rows from which separator and decimal sign are found out


class Written(NamedTuple):
    """How a CSV file is written."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    @property
    def unusual(self) -> dict[str, str]:
        """What differs from a CSV file as one expects it."""
        usual = Written()._asdict()
        return {name: value for name, value in self._asdict().items() if value != usual[name]}


# -- the file --------------------------------------------------------------------------------------


def found(file: str | Path, expected: str = "a table in a CSV or Parquet file") -> Path:
    """The file itself, or the one of that name among the data sets."""
    roots = [Path(), Path(os.environ.get("UNDERSTUDY_DATA", "data")), Path("data")]
    place = next((root / file for root in roots if (root / file).is_file()), None)
    if place is None:
        raise FileNotFoundError(
            f"{file}: no such file, neither here nor under UNDERSTUDY_DATA nor in ./data; expected "
            f"{expected}"
        )
    return place


def digest_of_file(file: str | Path) -> str:
    """The sha256 of its content: cells are known by what is in a file, not by where it is."""
    path = found(file).resolve()
    about = path.stat()
    return _digest(path, about.st_mtime_ns, about.st_size)


@lru_cache
def _digest(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def how_written(path: Path) -> Written:
    """Separator, decimal sign and encoding of a CSV file; of another file, the usual ones."""
    if path.suffix.lower() in PARQUET:
        return Written()
    if path.suffix.lower() in SHEETS:
        raise ValueError(f"{path}: expected a CSV or Parquet file; save the sheet as CSV (UTF-8)")
    encoding = next((one for one in ENCODINGS if _decodes(path, one)), None)
    if encoding is None:
        raise ValueError(f"{path}: expected a CSV file in UTF-8; save it as CSV (UTF-8)")
    rows = {sign: _first_rows(path, sign, encoding) for sign in SEPARATORS}
    # the header's names may hold a comma; that all rows have as many fields is no chance
    separator = max(SEPARATORS, key=lambda sign: _agreement(rows[sign]))
    words = {word.strip() for row in rows[separator][1:] for word in row}
    points, commas = (any(_is_fraction(word, sign) for word in words) for sign in ".,")
    decimal = "," if separator != "," and commas and not points else "."
    return Written(separator, decimal, encoding)


def _decodes(path: Path, encoding: str) -> bool:
    try:
        with path.open(encoding=encoding) as file:
            return not any("\0" in line for line in file)
    except UnicodeDecodeError:
        return False


def _first_rows(path: Path, separator: str, encoding: str) -> list[list[str]]:
    with path.open(newline="", encoding=encoding) as file:
        try:
            rows = csv.reader(file, delimiter=separator, skipinitialspace=True)
            return list(islice((row for row in rows if row), LOOKED_AT))
        except csv.Error:
            return []


def _agreement(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """The share of rows as long as the header, where that is several fields; and how many."""
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0), width


def _is_fraction(word: str, sign: str) -> bool:
    whole, found_it, rest = word.lstrip("+-").partition(sign)
    return bool(found_it) and whole.isdigit() and rest.isdigit()


def read_table(file: str | Path, client: str, written: Written | None = None) -> Any:
    """The table in a file, a data frame of pandas; clients are text, as they are written."""
    import pandas

    path = found(file)
    written = how_written(path) if written is None else written
    with faults_of(path):
        if path.suffix.lower() in PARQUET:
            return _from_parquet(path, client)
        header = _header(path, written)
        twice = [name for name, count in Counter(header).items() if count > 1 and name]
        if twice:
            raise ValueError(f"expected columns of different names, got {shown(twice[0])} twice")
        return pandas.read_csv(
            path,
            sep=written.separator,
            decimal=written.decimal,
            encoding=written.encoding,
            dtype={client: str},
            compression=None,
            low_memory=False,  # in parts, the type of a column would depend on the file's length
            skipinitialspace=True,
        )


def _header(path: Path, written: Written) -> list[str]:
    """The names of the columns; rows that are longer or shorter are an error.

    Of rows that are all longer, pandas takes the first field for a name of the row, and moves
    the others.
    """
    encoding = "utf-8-sig" if written.encoding == "utf-8" else written.encoding
    rows = even_rows(path, written.separator, encoding)
    _, header = next(rows, (1, []))
    if not header:
        raise ValueError("expected a CSV file with a header, got an empty one")
    for _ in rows:
        pass
    return header


def _from_parquet(path: Path, client: str) -> Any:
    import pandas

    try:
        frame = pandas.read_parquet(path)
    except ImportError as error:
        raise ValueError("Parquet needs pyarrow: pip install 'understudy-fl[parquet]'") from error
    if client in frame:
        column = Column(client, np.asarray(frame[client]))
        words = column.words.astype(object)
        words[column.missing] = None
        frame[client] = words
    return frame


# -- its columns -----------------------------------------------------------------------------------


def kept_rows(frame: Any, client: str, target: str, task: str) -> Bools:
    """Rows that say whose they are, and have a target."""
    clients, targets = (Column(name, np.asarray(frame[name])) for name in (client, target))
    kept = ~clients.missing & ~targets.missing
    return kept & np.isfinite(targets.numbers) if task == REGRESSION else kept


def with_numbers(frame: Any, columns: Sequence[str], decimal: str = ".") -> Any:
    """The frame with columns of numbers among words: a word there is a gap, and so is infinity."""
    for name in columns:
        refuse_unknown_column("numbers", name, list(frame.columns))
    read = {
        name: numbers_among_words(Column(name, np.asarray(frame[name], dtype=object)), decimal)
        for name in columns
    }
    return frame.assign(**read)


def table(
    file: str,
    client: str,
    target: str,
    task: str = CLASSES,
    drop: Sequence[str] = (),
    encode: Sequence[str] = (),
    numbers: Sequence[str] = (),
    impute: str = "median",
    shift: float = 0.0,
    scale: float = 1.0,
    separator: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """A federation from a table in a file; rows without a client or a target are left out.

    Parameters
    ----------
    file : path
        A CSV or Parquet file (extra ``parquet``), looked for here, then under the environment
        variable ``UNDERSTUDY_DATA``, then in ``./data``.
    client, target : str
        The columns that say whose a row is, and what is to be predicted.
    task : {"classes", "regression"}
        What the target is. Of a regression ``(target − shift) / scale`` is learnt.
    drop, encode, impute
        As in `Federation.from_table`; inputs are standardised.
    numbers : list of str
        Columns of numbers with words among them, which are taken for gaps.
    shift, scale : float
        Of the target of a regression: errors come in units of `scale`.
    separator, decimal, encoding : str
        How a CSV file is written.
    test, validation, seed
        As in `Federation.from_arrays`: of each client's own rows.
    """
    checks.choice("task", task, TASKS)
    checks.number("scale", scale, low=0, low_open=True)
    frame = read_table(file, client, Written(separator, decimal, encoding))
    for what, name in (("client", client), ("target", target)):
        refuse_unknown_column(what, name, list(frame.columns))
    frame = with_numbers(frame[kept_rows(frame, client, target, task)], numbers, decimal)
    targets = Column(target, np.asarray(frame[target]))
    learnt = (
        (targets.numbers - shift) / scale if task == REGRESSION else targets.words.astype(object)
    )
    with faults_of(Path(file)):
        fields, _ = from_table(
            frame.assign(**{target: learnt}),
            client,
            target,
            None,
            test,
            validation,
            seed,
            TableOptions(list(drop), list(encode), impute, True),
        )
        return Federation(**fields, name=Path(file).stem)

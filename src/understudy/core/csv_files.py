"""CSV files, row by row: what cannot be read is an error with the file's name and the line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_UNDECODED = re.compile("[\udc80-\udcff]")  # what stands for bytes that are no UTF-8


def csv_rows(
    path: Path, separator: str = ",", encoding: str = "utf-8-sig"
) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of each row; blank lines are left out."""
    with path.open(newline="", encoding=encoding, errors="surrogateescape") as file:
        lines = _checked(file, path)
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        try:
            for row in reader:
                if len(row) > 1 or (row and row[0].strip()):
                    yield reader.line_num, row
        except csv.Error as error:  # such as a field that is longer than any number or name
            where = f"{path}, line {reader.line_num}"
            raise ValueError(f"{where}: expected a CSV file; {error}") from error


def even_rows(
    path: Path, separator: str = ",", encoding: str = "utf-8-sig"
) -> Iterator[tuple[int, list[str]]]:
    """The same; each row has as many fields as the first, or is an error."""
    width = 0
    for line, row in csv_rows(path, separator, encoding):
        width = width or len(row)
        if len(row) != width:
            raise ValueError(
                f"{path}, line {line}: expected {width} fields, as in the header, got {len(row)}"
            )
        yield line, row


def _checked(lines: Iterable[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.isascii() and (found := _UNDECODED.search(line)):
            byte = ord(found[0]) - 0xDC00
            raise ValueError(
                f"{path}, line {number}: expected a CSV file in UTF-8, got the byte 0x{byte:02x}; "
                "one that is compressed, or in another encoding, is not read"
            )
        if "\0" in line:
            raise ValueError(f"{path}, line {number}: expected a CSV file, got a byte 0x00 in it")
        yield line


@contextmanager
def faults_of(path: Path | None) -> Iterator[None]:
    """What is wrong with the values of a file is said with its name; None: there is no file."""
    try:
        yield
    except ValueError as error:
        if path is None or str(path) in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error

"""What a column of a table holds: numbers, categories, dates, ids, or words among numbers."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.core.types import Bools, Floats

MOST_CATEGORIES = 100  # of an encoded column: each becomes an input
MANY_ROWS = 20  # from which words that hardly come again are no categories
ROW_NUMBERS = 50  # rows from which consecutive numbers, each once, number the rows

Kind = Literal["numbers", "categories", "dates", "words", "empty"]

_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)
DECIMAL_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+")
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # 1,234 and 1,234.5
POINTS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")  # 1.234 where a comma is decimal
# "Unnamed: 0" is the index of a table that pandas wrote
_ID = re.compile(r"(.*[\W_])?(id|ids|uid|uuid|guid|index|idx|nr|no|number)|unnamed: \d+", re.I)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)")


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table, looked at once.

    Parameters
    ----------
    name : str
        What it is called.
    values : (n,) array
        As they are in the table.
    """

    name: str
    values: npt.NDArray[Any]

    @cached_property
    def missing(self) -> Bools:
        """Where there is no value: None, or what does not equal itself or cannot say."""
        if self.values.dtype.kind in "biuf":
            return np.isnan(self.numbers)
        return np.array([v is None or not _same(v) for v in self.values.tolist()], dtype=np.bool_)

    @cached_property
    def numbers(self) -> Floats:
        """As pandas reads a file: to Python 1_000 is a number, to pandas not. NaN: it is none."""
        if self.values.dtype.kind in "biuf":
            return self.values.astype(np.float64)
        import pandas

        try:
            read = pandas.to_numeric(pandas.Series(self.values, dtype=object), errors="coerce")
            return np.asarray(read, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):  # such as a whole number that is too long
            return np.array([_number(value) for value in self.values.tolist()])

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers, and nothing else."""
        return self.values.dtype.kind in "iu"

    @cached_property
    def kind(self) -> Kind:
        """What it holds; ``"words"``: numbers mostly, or numbers written as text."""
        present = self.values[~self.missing]
        if not len(present):
            return "empty"
        if self.values.dtype.kind in "biuf":
            return "numbers"
        found = ~np.isnan(self.numbers[~self.missing])
        if found.all() and all(isinstance(value, Real) for value in present.tolist()):
            return "numbers"
        if self.values.dtype.kind in "Mm" or all(_is_date(value) for value in present.tolist()):
            return "dates"
        return "words" if found.mean() >= 0.5 else "categories"

    @cached_property
    def words(self) -> npt.NDArray[np.str_]:
        """Each value as text, the same for 1, 1.0 and True; of a missing one, anything."""
        return np.array([_word(value) for value in self.values.tolist()], dtype=np.str_)

    @cached_property
    def categories(self) -> list[str]:
        """The different values as text, numbers in their order, words in that of the alphabet."""
        words = np.unique(self.words[~self.missing]).tolist()
        return sorted(words, key=float) if self.kind == "numbers" else words

    @cached_property
    def constant(self) -> bool:
        """Whether all rows that have a value have the same one, and there are several."""
        present = self.values[~self.missing].tolist()
        return len(present) > 1 and all(value == present[0] for value in present)

    @cached_property
    def decimal_commas(self) -> Bools:
        """Where a number has a comma for a point (36,6); nowhere if there is other text, too."""
        if self.kind not in ("words", "categories"):
            return np.zeros(len(self.values), dtype=np.bool_)
        words = [word.strip() for word in self.words.tolist()]
        commas = np.array([DECIMAL_COMMA.fullmatch(word) is not None for word in words])
        known = commas | self.missing | ~np.isnan(self.numbers)
        return commas & ~self.missing & known.all()

    @cached_property
    def id_like(self) -> bool:
        """Whether it tells rows apart rather than describing them."""
        n = int((~self.missing).sum())
        if self.kind == "numbers" and not self.whole:
            return False
        n_values = len(np.unique(self.values) if self.whole else self.categories)
        if _ID.fullmatch(str(self.name)) or _CAMEL_ID.fullmatch(str(self.name)):
            return n_values > n / 4
        if self.kind != "numbers":
            return n_values > MOST_CATEGORIES or (n >= MANY_ROWS and n_values > n / 2)
        span = int(self.values.max()) - int(self.values.min()) + 1
        return n >= ROW_NUMBERS and n_values == span == n

    def codes(self, categories: list[str]) -> Floats:
        """The place of each value among the categories; NaN: missing; -1: none of them."""
        places = {word: float(place) for place, word in enumerate(categories)}
        codes = np.array([places.get(word, -1.0) for word in self.words.tolist()])
        codes[self.missing] = np.nan
        return codes


def numbers_among_words(column: Column, decimal: str = ".") -> Floats:
    """The finite numbers of 32 bits of a column, whatever its commas mean; NaN: it is none.

    Parameters
    ----------
    column : Column
        The column.
    decimal : {".", ","}
        The decimal sign of the file, for commas that may mean both: as in 1,234.

    Notes
    -----
    A column has one notation. In 4,5 or 0,125 the comma is decimal, in 1,234.5 or 1,234,567 it
    stands between thousands, and the others of the column are read alike.
    """
    read = column.numbers.copy()
    if column.values.dtype.kind == "O":
        words = np.array([word.strip() for word in column.words.tolist()], dtype=object)
        read = _with_commas(words, read, decimal)
    with np.errstate(over="ignore"):
        read[~np.isfinite(read.astype(np.float32))] = np.nan
    return read


def _with_commas(words: npt.NDArray[np.object_], read: Floats, decimal: str) -> Floats:
    fractions, thousands = _match(DECIMAL_COMMA, words), _match(THOUSANDS, words)
    surely_decimal = bool((fractions & ~thousands).any())
    surely_thousands = bool((thousands & ~fractions).any())
    if surely_decimal or (decimal == "," and not surely_thousands):
        points = _match(POINTS, words)
        plain_words = np.array(["." not in word for word in words], dtype=np.bool_)
        # with 2,5 and 1.5 a column is in no notation: its points are left alone
        if surely_decimal and (points | fractions | plain_words).all():
            read[points] = [float(word.replace(".", "")) for word in words[points]]
        plain = [word.replace(".", "").replace(",", ".") for word in words[fractions]]
        read[fractions] = [float(word) for word in plain]
        return read
    read[thousands] = [float(word.replace(",", "")) for word in words[thousands]]
    return read


def _match(pattern: re.Pattern[str], words: npt.NDArray[np.object_]) -> Bools:
    return np.array(
        [pattern.fullmatch(word) is not None for word in words.tolist()], dtype=np.bool_
    )


def _same(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:
        return False


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _DATE.fullmatch(value.strip()) is not None
    return isinstance(value, datetime.date | datetime.time | np.datetime64)


def _word(value: Any) -> str:
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return str(value)

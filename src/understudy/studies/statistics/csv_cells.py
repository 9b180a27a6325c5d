"""CSV tables of words that no spreadsheet takes for a formula, and back."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.csv_files import even_rows

if TYPE_CHECKING:
    import pandas

# what spreadsheets calculate; after an apostrophe they show it as it is
_FORMULA = re.compile(r"'*[=+\-@\t\r\n|%]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n|%]")


def guarded(word: str) -> str:
    """A word with an apostrophe before it, if it begins like a formula and is no number."""
    if not _FORMULA.match(word) or _is_number(word):
        return word
    return f"'{word}"


def unguarded(word: str) -> str:
    """What `guarded` made of it, undone."""
    return word[1:] if _GUARDED.match(word) else word


def csv_text(lines: Iterable[Sequence[str]]) -> str:
    """Lines of words as a CSV file, each word guarded."""
    text = io.StringIO()
    guarded_lines = ([guarded(word) for word in line] for line in lines)
    csv.writer(text, lineterminator="\n").writerows(guarded_lines)
    return text.getvalue()


def csv_lines(path: Path) -> list[list[str]]:
    """What `csv_text` wrote to a file; each line has as many words as the first."""
    return [[unguarded(word) for word in row] for _, row in even_rows(path)]


def number_word(value: float | None) -> str:
    """A number with six significant digits, a whole one with all; nothing for None."""
    if value is None:
        return ""
    return (
        f"{value:.6g}" if not float(value).is_integer() or abs(value) >= 1e15 else str(int(value))
    )


def guarded_frame(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A frame whose words, and names of columns, are guarded; numbers are as they were."""
    made = frame.rename(columns=lambda name: guarded(str(name)))
    for place, name in enumerate(made.columns):
        if made.dtypes.iloc[place].kind not in "biufcM":
            made[name] = frame.iloc[:, place].map(_guarded_value).to_numpy()
    return made


def _guarded_value(value: Any) -> Any:
    return guarded(value) if isinstance(value, str) else value


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True

"""Words in CSV files that no spreadsheet takes for a formula, and back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

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

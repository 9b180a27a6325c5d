"""Tables whose cells are words already: numbers rounded, a sign for what is missing, notes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from understudy.studies.definition.tune_table import Edges, Picks

NOTHING = "–"
ZERO = "0"  # in every run, and so without decimals


@dataclass(frozen=True)
class TextTable:
    """A table whose cells are words already.

    Parameters
    ----------
    heads : tuple of str
        Of the columns.
    cells : tuple of tuples of str
        Row by row.
    right : frozenset of int
        Columns whose cells stand at the right.
    notes : tuple of str
        Sentences below the table.
    """

    heads: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def only(self, columns: Sequence[int]) -> TextTable:
        """Some of its columns."""
        return replace(
            self,
            heads=tuple(self.heads[place] for place in columns),
            cells=tuple(tuple(row[place] for place in columns) for row in self.cells),
            right=frozenset(at for at, place in enumerate(columns) if place in self.right),
        )

    def grouped(self, n_labels: int) -> list[tuple[str, list[int]]]:
        """Headings made of the first columns, each with the positions of its rows."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for position, row in enumerate(self.cells):
            groups.setdefault(row[:n_labels], []).append(position)
        heads = self.heads[:n_labels]
        return [(heading_of(zip(heads, at, strict=True)), own) for at, own in groups.items()]


# -- words -------------------------------------------------------------------------------------


def table_of_frame(frame: pd.DataFrame, notes: Sequence[str] = ()) -> TextTable:
    """A plain frame in words: floats to four significant digits, – for what is missing."""
    names = [str(name) for name in frame.columns]
    columns = [frame.iloc[:, place].tolist() for place in range(len(names))]
    right = frozenset(place for place, column in enumerate(columns) if _is_numeric(column))
    words = [[plain(value) for value in column] for column in columns]
    cells = tuple(zip(*words, strict=True)) if words else ()
    return TextTable(tuple(names), cells, right, tuple(notes))


def plain(value: Any) -> str:
    """A value as a word: real minus sign, yes and no, – for nothing."""
    if value is None or value is pd.NA or value is pd.NaT:
        return NOTHING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return _minus(str(value))
    if isinstance(value, float | np.floating):
        return NOTHING if math.isnan(value) else _minus(f"{float(value):.4g}")
    return str(value)


def label_word(value: Any) -> str:
    """A label of a cell as a word: all its digits, since it names something."""
    if isinstance(value, float) and math.isfinite(value):
        return _minus(str(int(value)) if value.is_integer() else repr(value))
    return plain(value)


def heading_of(labels: Iterable[tuple[str, Any]]) -> str:
    """What tells a group from others: ``alpha 0.5, availability half``."""
    return ", ".join(f"{name} {label_word(value)}" for name, value in labels)


def picks_in_words(picks: Picks) -> str:
    """What tuning picked: ``local.lr = 0.5 (stale, fedar), 0.1 (fdms)``."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, pick in picks.items():
        for key, label in pick.items():
            found.setdefault(key, {}).setdefault(label_word(label), []).append(name)
    texts = []
    for key, names in found.items():
        values = [f"{word} ({', '.join(of)})" for word, of in names.items()]
        texts.append(f"{key} = {', '.join(values)}")
    return "; ".join(texts)


def edges_in_words(edges: Edges) -> str:
    """A warning of picks at the end of what was tried; empty where there are none."""
    found: dict[str, list[str]] = {}
    for name, ends in edges.items():
        for key, (value, end) in ends.items():
            found.setdefault(f"{key} = {label_word(value)}, the {end} tried", []).append(name)
    if not found:
        return ""
    words = "; ".join(f"{pick} ({', '.join(names)})" for pick, names in found.items())
    return f"At the edge of its range, so that a better value may lie beyond: {words}."


def tuning_notes(picks: Picks, edges: Edges) -> list[str]:
    """What is said of tuning below a table."""
    if not picks:
        return []
    warning = edges_in_words(edges)
    return [f"Tuned beforehand: {picks_in_words(picks)}.", *([warning] if warning else [])]


def number(value: float, decimals: int | None, *, signed: bool = False) -> str:
    """A number with a fixed count of decimals, or (None) in scientific notation."""
    form = ".2e" if decimals is None else f".{decimals}f"
    text = f"{value:{'+' if signed else ''}{form}}"
    if not text.strip("+-0."):
        text = text.lstrip("+-")  # a zero after rounding has no sign
    return _minus(text)


def decimals_for(values: Collection[float]) -> int | None:
    """Decimals that give the largest number four digits; None: scientific is shorter."""
    finite = [abs(value) for value in values if math.isfinite(value)]
    largest = max(finite, default=0.0)
    if largest == 0:
        return 1
    exponent = math.floor(math.log10(largest))
    if exponent < -4 or exponent > 8:
        return None
    return max(3 - exponent, 0)


def p_word(p: float) -> str:
    """A p-value: three decimals, and no more zeros than that."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _is_numeric(column: Sequence[Any]) -> bool:
    known = [value for value in column if not (value is None or value is pd.NA or value != value)]
    kinds = int | float | np.integer | np.floating
    return bool(known) and all(
        isinstance(value, kinds) and not isinstance(value, bool) for value in known
    )

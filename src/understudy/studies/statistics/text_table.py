"""Tables in words: numbers rounded, units, what is missing, and notes on how to read them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.measures import Measure
from understudy.studies.statistics.paired_tests import (
    SEEDS_OF_INTERVAL,
    SEEDS_OF_T,
    SEEDS_OF_WILCOXON,
)

if TYPE_CHECKING:
    from understudy.studies.statistics.comparison import Comparison

NOTHING = "–"
TOO_FEW = "too few seeds"
NEVER = "never"
NOT_ALL = "not all reached it"


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


# -- words -------------------------------------------------------------------------------------


def sheet_of_frame(frame: pd.DataFrame, notes: Sequence[str] = ()) -> TextTable:
    """A plain frame as a sheet: floats to four significant digits, – for what is missing."""
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


# -- a comparison in words ---------------------------------------------------------------------


def sheet_of(comparison: Comparison) -> TextTable:
    """A comparison as a sheet: one row per group and strategy."""
    heads = [*comparison.labels, "strategy", "participants per round", comparison.measure.head]
    if comparison.baseline is not None:
        heads += [_difference_head(comparison), "p (t-test)", "p (Wilcoxon)"]
    heads.append("seeds")
    decimals = _decimals(comparison)
    cells = []
    for row in comparison.rows.to_dict("records"):
        words = [*(label_word(row[name]) for name in comparison.labels), str(row["strategy"])]
        words += [_participants(row), _mean(row, comparison.measure, decimals)]
        if comparison.baseline is not None:
            words += _against_baseline(row, comparison, decimals)
        cells.append((*words, _seeds(row, comparison)))
    left = len(comparison.labels) + 1
    return TextTable(
        tuple(heads), tuple(cells), frozenset(range(left, len(heads))), notes_of(comparison)
    )


def notes_of(comparison: Comparison, told: Sequence[str] = ()) -> tuple[str, ...]:
    """How to read a comparison, and what is not in it; `told` comes in between."""
    rows, measure = comparison.rows, comparison.measure
    notes = [measure.about] if measure.about else []
    if comparison.target is not None:
        notes.append(f"Target: an accuracy of {100 * comparison.target:g} %.")
    if comparison.lower_is_better:
        notes.append("Lower is better.")
    if rows[["half", "difference_half"]].notna().to_numpy().any():
        notes.append("±: half a 95 % interval over seeds.")
    else:
        notes.append(f"No intervals: they take {SEEDS_OF_INTERVAL} seeds.")
    if comparison.baseline is not None and (rows["pairs"] > 0).any():
        notes.append("Differences are taken seed by seed.")
    family, of_wilcoxon = comparison.tested
    if family:
        fewer = f" (Wilcoxon: {of_wilcoxon})" if 0 < of_wilcoxon < family else ""
        holm = f", by Holm for {family} comparisons{fewer}" if family > 1 else ""
        notes.append(f"p: two-sided{holm}.")
    notes += told
    if measure.is_price and (rows["reached"] < rows["seeds"]).any():
        notes.append(
            "Means are over the runs that reached the target; where not all did, nothing is tested."
        )
    if comparison.without_value:
        notes.append(f"Left out, having no number: {_count(comparison.without_value, 'cell')}.")
    if comparison.unfinished:
        notes.append(f"Left out, not being done: {_count(comparison.unfinished, 'cell')}.")
    return tuple(notes)


def _difference_head(comparison: Comparison) -> str:
    unit = comparison.measure.unit_of_difference
    return f"minus {comparison.baseline}" + (f", {unit}" if unit else "")


def _decimals(comparison: Comparison) -> int | None:
    measure = comparison.measure
    if measure.decimals is not None:
        return measure.decimals
    return decimals_for([*comparison.rows["mean"], *comparison.rows["difference"]])


def _participants(row: dict[Any, Any]) -> str:
    came = float(row["participants"])
    return NOTHING if math.isnan(came) else number(came, 1)


def _mean(row: dict[Any, Any], measure: Measure, decimals: int | None) -> str:
    if math.isnan(row["mean"]):
        return NEVER if measure.is_price and row["seeds"] else NOTHING
    return _plus_minus(row["mean"], row["half"], measure.scale, decimals)


def _against_baseline(
    row: dict[Any, Any], comparison: Comparison, decimals: int | None
) -> tuple[str, str, str]:
    if row["strategy"] == comparison.baseline:
        return NOTHING, NOTHING, NOTHING
    difference, scale = NOTHING, comparison.measure.scale
    if row["pairs"]:
        half = row["difference_half"]
        difference = _plus_minus(row["difference"], half, scale, decimals, signed=True)
    t_test = _p(row, "p_t_holm", SEEDS_OF_T, comparison)
    return difference, t_test, _p(row, "p_wilcoxon_holm", SEEDS_OF_WILCOXON, comparison)


def _p(row: dict[Any, Any], name: str, needed: int, comparison: Comparison) -> str:
    if not math.isnan(row[name]):
        return p_word(row[name])
    if comparison.measure.is_price and row["shared"] >= needed and row["pairs"] < row["shared"]:
        return NOT_ALL
    return TOO_FEW


def _seeds(row: dict[Any, Any], comparison: Comparison) -> str:
    text = str(row["seeds"])
    if comparison.measure.is_price and row["reached"] < row["seeds"]:
        text = f"{row['reached']} of {row['seeds']} reached it"
    rival = comparison.baseline is not None and row["strategy"] != comparison.baseline
    measured = row["reached"] if comparison.measure.is_price else row["seeds"]
    return f"{text}, {row['pairs']} paired" if rival and row["pairs"] != measured else text


def _plus_minus(
    value: float, half: float, scale: float, decimals: int | None, *, signed: bool = False
) -> str:
    text = number(value * scale, decimals, signed=signed)
    return text if math.isnan(half) else f"{text} ± {number(half * scale, decimals)}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")

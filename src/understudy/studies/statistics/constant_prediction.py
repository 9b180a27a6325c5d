"""Whether strategies are better than predicting the same for every example."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from understudy.measures import Measure, measure
from understudy.studies.statistics.groups import grouped, joined, values_of
from understudy.studies.statistics.text_table import decimals_for, number

REFERENCE = "reference"  # column of a comparison; before a metric's name, column of a run's results
_MEASURES = re.compile(r"(?:test_)?(\w+)_(?:best|last|last10|mean|tail)")
_CLASS, _MEAN = "the most frequent class", "predicting the mean"
_WORDS = {"accuracy": _CLASS, "balanced_accuracy": _CLASS, "f1": _CLASS, "auc": "a constant answer"}
_WORDS |= {"r2": _MEAN, "mae": _MEAN, "rmse": _MEAN}
SAME = 1e-9  # a mean of equal numbers is not quite equal to them


def reference_of(
    done: pd.DataFrame, metric: str, labels: Sequence[str], n_groups: int
) -> dict[tuple[Any, ...], float]:
    """Labels of a group → what a constant prediction has there; none where it is not known.

    Parameters
    ----------
    done : DataFrame
        Cells that are done, as from ``results(path, level="run")``.
    metric : str
        The measure compared.
    labels : sequence of str
        All labels but the strategy; the first `n_groups` make the groups.
    n_groups : int
        How many of them do.
    """
    told = _MEASURES.fullmatch(metric)
    column = "" if told is None else f"{REFERENCE}_{told[1]}"
    if column not in done or done[column].isna().all():
        return {}
    found = grouped(joined(values_of(done[done[column].notna()], labels, column)), n_groups)
    return {group: float(np.mean([one.value for one in own])) for group, own in found.items()}


def none_beats(rows: Sequence[Mapping[Any, Any]], lower: bool, *, clearly: bool = False) -> bool:
    """Whether no row of a group is better than the reference, by its mean or by its interval."""
    return not any(_is_better(row, lower, clearly) for row in rows)


def _is_better(row: Mapping[Any, Any], lower: bool, clearly: bool) -> bool:
    half = row["half"] if clearly and row["half"] is not None else 0.0
    ahead = (row[REFERENCE] - row["mean"]) if lower else (row["mean"] - row[REFERENCE])
    margin = (0.0 if math.isnan(half) else half) + SAME * max(1.0, abs(row[REFERENCE]))
    return bool(ahead > margin)


def in_words(metric: str, by_class: bool) -> str:
    """What the constant prediction is called for a measure."""
    told = _MEASURES.fullmatch(metric)
    name = "" if told is None else told[1]
    return _WORDS.get(name, "predicting the shares of the classes" if by_class else _MEAN)


def is_warning(told: str) -> bool:
    """Whether a sentence says that strategies do not beat the constant prediction."""
    return "o strategy " in told


def sentence(
    groups: Sequence[Sequence[Mapping[Any, Any]]], metric: str, what: str, besides: Collection[str]
) -> str | None:
    """What is said of it below a table; None where it is not known.

    Parameters
    ----------
    groups : sequence of lists of rows
        The rows of each comparison, with a column ``reference``.
    metric : str
        The measure compared.
    what : str
        What the constant prediction is called.
    besides : collection of str
        Strategies that are references themselves: whether they are better is not asked.
    """
    kept = [
        [row for row in rows if row["strategy"] not in besides and math.isfinite(row["mean"])]
        for rows in groups
    ]
    kept = [rows for rows in kept if rows and math.isfinite(rows[0].get(REFERENCE, math.nan))]
    if not kept:
        return None
    shown = measure(metric)
    lower = bool(shown.lower_is_better)
    beaten_by_none = [rows for rows in kept if none_beats(rows, lower)]
    if len(beaten_by_none) == len(kept):
        return f"No strategy beats {what} ({_values(kept, shown)})."
    if beaten_by_none:
        some = f"In {len(beaten_by_none)} of {len(kept)} comparisons"
        return f"{some} no strategy beats {what} ({_values(beaten_by_none, shown)})."
    if all(none_beats(rows, lower, clearly=True) for rows in kept):
        return f"No strategy is clearly better than {what} ({_values(kept, shown)})."
    name = what.removeprefix("the ").removeprefix("a ")
    return f"{name[:1].upper()}{name[1:]}: {_values(kept, shown)}."


def _values(groups: Sequence[Sequence[Mapping[Any, Any]]], shown: Measure) -> str:
    values = [rows[0][REFERENCE] * shown.scale for rows in groups]
    decimals = decimals_for(values) if shown.decimals is None else shown.decimals
    words = list(dict.fromkeys(number(value, decimals) for value in sorted(values)))
    span = words[0] if len(words) == 1 else f"{words[0]} to {words[-1]}"
    return f"{span} {shown.unit}" if shown.unit else span

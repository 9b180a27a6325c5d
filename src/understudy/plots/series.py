"""From data frames to what is drawn: means over seeds and their intervals."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from understudy.core.types import Floats

FEWEST_SEEDS = 3  # an interval of fewer says nothing


@dataclass(frozen=True, eq=False)
class Series:
    """One label's mean over seeds at each x."""

    label: Any
    x: Floats  # (n,)
    mean: Floats  # (n,)
    half_width: Floats  # (n,) of the 95 % interval; NaN with fewer than three seeds
    n_seeds: int

    @property
    def has_band(self) -> bool:
        return bool(np.isfinite(self.half_width).any())


def half_width(values: Floats) -> Floats:
    """Half of the 95 % t-interval of the mean over axis 0; NaN for fewer than three values."""
    n = len(values)
    if n < FEWEST_SEEDS:
        return np.full(values.shape[1:], np.nan)
    spread = values.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray(stats.t.ppf(0.975, n - 1) * spread, dtype=np.float64)


def need(frame: Any, *columns: str) -> None:
    """Refuse a frame without these columns."""
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"frame: expected a DataFrame, got {frame!r}")
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise ValueError(
            f"frame: expected a column {missing[0]!r}, got {', '.join(map(str, frame.columns))}"
        )


def labels_in(frame: pd.DataFrame, by: str) -> list[Hashable]:
    """Labels in the order of their first row."""
    return list(dict.fromkeys(frame[by].tolist()))


def one_group(frame: pd.DataFrame, by: str, *within: str) -> None:
    """Refuse a frame in which a label has several runs of one seed: they are not to be averaged."""
    need(frame, "seed", by, *within)
    twice = frame.duplicated([by, "seed", *within])
    if twice.any():
        first = frame[twice].iloc[0]
        raise ValueError(
            f"frame: {first[by]!r} has several rows for seed {first['seed']}"
            + "".join(f", {name} {first[name]}" for name in within)
            + "; select one group of cells first"
        )


def over_rounds(frame: pd.DataFrame, metric: str, by: str, scale: float) -> list[Series]:
    """One series per label over the rounds in which all of its runs have a value.

    Rounds that only some runs have reached are left out: a mean over other seeds than in the
    round before would jump for no reason.
    """
    need(frame, metric)
    one_group(frame, by, "t")
    series = []
    for label in labels_in(frame, by):
        mine = frame[frame[by] == label].dropna(subset=[metric])
        table = mine.pivot(index="seed", columns="t", values=metric).dropna(axis="columns")
        if table.empty:
            continue
        values = table.to_numpy(dtype=np.float64) * scale  # (seeds, rounds)
        x = table.columns.to_numpy(dtype=np.float64)
        series.append(Series(label, x, values.mean(axis=0), half_width(values), len(values)))
    return series

"""From data frames to what is drawn: means over seeds and their intervals."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from understudy.core.intervals import half_width
from understudy.core.types import Floats


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

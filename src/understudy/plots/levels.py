"""A run's measure over the levels of an axis, or over strategies alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.core.intervals import half_width
from understudy.core.types import Floats, Ints
from understudy.measures import evaluated_rounds, measure
from understudy.plots.runs import Runs, by_run, metric_of
from understudy.plots.seed_rows import seed_rows
from understudy.plots.series import labels_in, need, one_group
from understudy.plots.style import (
    OPEN,
    Style,
    canvas,
    legend_below,
    name_height,
    style_of,
    text,
    texts,
    titled,
    with_seeds,
    with_words,
    within_percents,
    wrapped,
)

DODGE = 0.5  # share of the room between two levels over which strategies are spread


def levels(
    frame: pd.DataFrame,
    axis: str,
    metric: str | None = None,
    by: str = "strategy",
    *,
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
) -> Figure:
    """A measure over the levels of one axis: one line per strategy, with 95 % intervals.

    Parameters
    ----------
    frame : DataFrame
        One row per run: columns ``seed``, `by`, `axis` and `metric`, as from
        ``results(path, level="run")``, of cells that differ in nothing else.
    axis : str
        The column with the levels. Runs without one (None) belong to every level: they are drawn as
        a line across.
    metric : str, optional
        A measure of a run; by default the one that the tables show first.
    by : str
        The column that tells lines apart.
    styles : mapping, optional
        Label to `Style`.
    title : str, optional
        Written above.

    Notes
    -----
    Levels stand side by side at equal distances: numbers ascending, names in their first order.
    Intervals are drawn from three seeds on. An open mark is a mean over only some of the seeds, as
    where not all runs reached a target; lines across say of how many they are.
    """
    need(frame, axis)
    metric = metric or metric_of(frame)
    need(frame, metric)
    one_group(frame, by, axis)
    if frame[metric].isna().all():
        raise ValueError(f"frame: expected values of {metric!r}, got none")
    shown = measure(metric, evaluated_rounds(frame))
    steps = ordered(frame[axis].tolist())
    if not steps:
        raise ValueError(f"frame: expected levels of {axis!r}, got none")
    labels, n_seeds = labels_in(frame, by), frame["seed"].nunique()
    lines = [_line(frame[frame[by] == label], axis, metric, steps, n_seeds) for label in labels]
    names = texts([line.named(label) for line, label in zip(lines, labels, strict=True)])
    figure, axes = canvas(legend=names)
    looks = style_of(styles, labels)
    numeric = all(isinstance(step, int | float) for step in steps)
    handles: list[Any] = []
    for place, (line, label) in enumerate(zip(lines, labels, strict=True)):
        look, mean, half = looks[label], line.mean * shown.scale, line.half * shown.scale
        if line.across:
            handles.append(axes.axhline(mean[0], color=look.colour, linestyle="--"))
            if np.isfinite(half[0]):
                low, high = mean[0] - half[0], mean[0] + half[0]
                axes.axhspan(low, high, color=look.colour, alpha=0.1, linewidth=0)
            continue
        at = line.places + DODGE * ((place + 0.5) / len(labels) - 0.5)
        handles.append(
            axes.errorbar(
                at,
                mean,
                yerr=half,
                color=look.colour,
                linestyle=look.line if numeric else "none",
                linewidth=1.2,
                marker=look.marker,
                markersize=5,
                capsize=2.5,
                elinewidth=1.2,
            )
        )
        some = line.known < n_seeds
        if some.any():
            axes.plot(
                at[some],
                mean[some],
                color=look.colour,
                linestyle="none",
                marker=look.marker,
                markersize=5,
                markerfacecolor=OPEN,
                zorder=3,  # over the filled ones
            )
    _name_levels(axes, steps)
    axes.set_xlim(-0.5, len(steps) - 0.5)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel(text(axis).replace("_", " "))
    name_height(axes, shown.axis_title)
    within_percents(axes, shown)
    legend_below(figure, handles, names)
    titled(axes, title)
    return figure


@dataclass(frozen=True, eq=False)
class _Line:
    """One label's means over seeds, at some of the levels."""

    places: Ints  # (n,) of the levels; (1,) and of no meaning for a line across
    mean: Floats  # (n,)
    half: Floats  # (n,) of the interval
    known: Ints  # (n,) seeds that have a value
    n_seeds: int  # that there are
    across: bool

    def named(self, label: Any) -> object:
        if self.across or not self.known.any():
            return with_seeds(label, int(self.known.max(initial=0)), self.n_seeds)
        if (self.known < self.n_seeds).any():
            return with_words(label, f"open: not all {self.n_seeds} seeds")
        return label


def _line(rows: pd.DataFrame, axis: str, metric: str, steps: list[Any], n_seeds: int) -> _Line:
    across = bool(rows[axis].isna().all())
    there = [] if across else [step for step in steps if (rows[axis] == step).any()]
    parts = [rows] if across else [rows[rows[axis] == step] for step in there]
    values = [part[metric].dropna().to_numpy(dtype=np.float64) for part in parts]
    return _Line(
        np.array([steps.index(step) for step in there], dtype=np.int64),
        np.array([own.mean() if len(own) else np.nan for own in values]),
        np.array([_half(own) if len(own) else np.nan for own in values]),
        np.array([len(own) for own in values], dtype=np.int64),
        n_seeds,
        across,
    )


def intervals(
    frame: pd.DataFrame | Runs,
    metric: str | None = None,
    by: str = "strategy",
    *,
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
) -> Figure:
    """A measure of each strategy side by side: every seed, their mean, its 95 % interval.

    Parameters
    ----------
    frame : DataFrame, run, or dict of runs
        One row per run: columns ``seed``, `by` and `metric`, of one group of cells. Of runs: a dict
        from label to a list of runs with different seeds; `metric` is then a measure, or any column
        of `Run.frame`, at its last evaluation.
    metric, by, styles, title
        As for `levels`.

    Notes
    -----
    An open mark is a mean over only some of the seeds, as where not all runs reached a target; the
    name of its row says of how many.
    """
    metric = metric or metric_of(frame)
    frame = by_run(frame, by, metric)
    need(frame, metric)
    one_group(frame, by)
    known = frame.dropna(subset=[metric])
    if known.empty:
        raise ValueError(f"frame: expected values of {metric!r}, got none")
    shown = measure(metric, evaluated_rounds(frame))
    labels = labels_in(frame, by)
    values = {
        label: known[known[by] == label][metric].to_numpy(dtype=np.float64) * shown.scale
        for label in labels
    }
    figure, axes = seed_rows(values, style_of(styles, labels), frame["seed"].nunique())
    axes.set_xlabel(text(shown.axis_title))
    within_percents(axes, shown, "x")
    titled(axes, title)
    return figure


def _name_levels(axes: Axes, steps: list[Any]) -> None:
    """Names of levels below the axis: broken at spaces, or slanted where that does not help."""
    width = max(6, 60 // len(steps))
    names = texts(steps, 40)
    if any(len(word) > width for name in names for word in name.split()):
        axes.set_xticks(range(len(steps)), labels=names, rotation=30, ha="right")
    else:
        axes.set_xticks(range(len(steps)), labels=wrapped(steps, width))


def ordered(values: list[Any]) -> list[Any]:
    """Distinct levels without None: numbers ascending, names in their first order."""
    distinct = list(dict.fromkeys(value for value in values if not pd.isna(value)))
    if all(isinstance(value, int | float) for value in distinct):
        return sorted(distinct)
    return distinct


def _half(values: Floats) -> float:
    return float(half_width(values[:, None])[0])

"""A run's measure over the levels of an axis, or over strategies alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.core.intervals import half_width
from understudy.core.types import Floats
from understudy.plots.measures import measure
from understudy.plots.runs import Runs, by_run
from understudy.plots.seed_rows import seed_rows
from understudy.plots.series import labels_in, need, one_group
from understudy.plots.style import (
    Style,
    canvas,
    legend_below,
    name_height,
    style_of,
    text,
    texts,
    titled,
    wrapped,
)

DODGE = 0.5  # share of the room between two levels over which strategies are spread


def levels(
    frame: pd.DataFrame,
    axis: str,
    metric: str = "accuracy_last10",
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
    metric : str
        A measure of a run.
    by : str
        The column that tells lines apart.
    styles : mapping, optional
        Label to `Style`.
    title : str, optional
        Written above.

    Notes
    -----
    Levels stand side by side at equal distances: numbers ascending, names in their first order.
    Intervals are drawn from three seeds on.
    """
    need(frame, axis, metric)
    one_group(frame, by, axis)
    known = frame.dropna(subset=[metric])
    if known.empty:
        raise ValueError(f"frame: expected values of {metric!r}, got none")
    shown = measure(metric)
    steps = ordered(known[axis].tolist())
    if not steps:
        raise ValueError(f"frame: expected levels of {axis!r}, got none")
    labels = labels_in(known, by)
    names = texts(labels)
    figure, axes = canvas(legend=names)
    looks = style_of(styles, labels)
    numeric = all(isinstance(step, int | float) for step in steps)
    handles: list[Any] = []
    for place, label in enumerate(labels):
        mine, look = known[known[by] == label], looks[label]
        everywhere = mine[mine[axis].isna()]
        own = mine[~mine[axis].isna()]
        shift = DODGE * ((place + 0.5) / len(labels) - 0.5)
        if own.empty:
            value = everywhere[metric].to_numpy(dtype=np.float64) * shown.scale
            middle, half = float(value.mean()), _half(value)
            handles.append(axes.axhline(middle, color=look.colour, linestyle="--"))
            if np.isfinite(half):
                axes.axhspan(
                    middle - half, middle + half, color=look.colour, alpha=0.1, linewidth=0
                )
            continue
        there = [step for step in steps if (own[axis] == step).any()]
        parts = [own[own[axis] == step][metric].to_numpy(dtype=np.float64) for step in there]
        handles.append(
            axes.errorbar(
                np.array([steps.index(step) for step in there]) + shift,
                np.array([part.mean() * shown.scale for part in parts]),
                yerr=np.array([_half(part * shown.scale) for part in parts]),
                color=look.colour,
                linestyle=look.line if numeric else "none",
                linewidth=1.2,
                marker=look.marker,
                markersize=5,
                capsize=2.5,
                elinewidth=1.2,
            )
        )
    _name_levels(axes, steps)
    axes.set_xlim(-0.5, len(steps) - 0.5)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel(text(axis).replace("_", " "))
    name_height(axes, shown.head)
    legend_below(figure, handles, names)
    titled(axes, title)
    return figure


def intervals(
    frame: pd.DataFrame | Runs,
    metric: str = "accuracy_last10",
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
        from label to a list of runs with different seeds; `metric` is then ``accuracy_best``,
        ``accuracy_last``, ``accuracy_last10``, ``loss_best``, ``loss_last`` or, at its last
        evaluation, any column of `Run.frame`.
    metric, by, styles, title
        As for `levels`.
    """
    frame = by_run(frame, by, metric)
    need(frame, metric)
    one_group(frame, by)
    known = frame.dropna(subset=[metric])
    if known.empty:
        raise ValueError(f"frame: expected values of {metric!r}, got none")
    shown = measure(metric)
    labels = labels_in(known, by)
    values = {
        label: known[known[by] == label][metric].to_numpy(dtype=np.float64) * shown.scale
        for label in labels
    }
    figure, axes = seed_rows(values, style_of(styles, labels))
    axes.set_xlabel(text(shown.head))
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

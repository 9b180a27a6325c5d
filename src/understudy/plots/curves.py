"""Measures over rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.measures import measure
from understudy.plots.runs import Runs, by_round
from understudy.plots.series import Series, over_rounds
from understudy.plots.style import (
    GREY,
    Style,
    canvas,
    legend_below,
    name_height,
    style_of,
    text,
    texts,
    tick_rounds,
    titled,
    within_percents,
)

FEW_POINTS = 12  # so few that each gets a marker
MANY_LINES = 6  # so many that their bands are drawn fainter
ROUNDING = 1e-9  # of the largest value: what is smaller is what rounding leaves of a zero


def convergence(
    frame: pd.DataFrame | Runs,
    metric: str = "test_accuracy",
    by: str = "strategy",
    *,
    log: bool = False,
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
    level: tuple[str, float] | None = None,
) -> Figure:
    """A measure by round: one line per strategy, the mean over seeds with its 95 % interval.

    Parameters
    ----------
    frame : DataFrame, run, or dict of runs
        One row per round: columns ``t``, ``seed``, `by` and `metric`, as from
        ``results(path, level="round")``, of one group of cells. Rounds without a value, because
        they were not evaluated, are left out, and so are those that not all seeds have reached.
        Of runs: a dict from label to a run, or to a list of runs with different seeds.
    metric : str
        What is drawn; accuracies are shown in percent.
    by : str
        The column that tells lines apart.
    log : bool
        Whether the scale is logarithmic. What is zero then has no place (and neither has what
        rounding leaves of a zero): such rounds are gaps, a label with nothing else has no line,
        and the legend says so. A band is not drawn where it would reach zero.
    styles : mapping, optional
        Label to `Style`, so that a strategy looks the same in several pictures.
    title : str, optional
        Written above.
    level : (str, float), optional
        A value of the measure to compare with, such as that of the most frequent class: a dotted
        line, with its name in the legend.

    Notes
    -----
    Bands are t-intervals of the mean over seeds, in each round by itself, and are drawn from three
    seeds on.

    Examples
    --------
    >>> from understudy import FixedDropout, plots
    >>> from understudy.simulation import clustered_digits, simulate
    >>> runs = {
    ...     name: simulate(
    ...         clustered_digits(), name, model="softmax", availability=FixedDropout(0.7), rounds=3
    ...     )
    ...     for name in ("fedavg", "fdms")
    ... }
    >>> for run in runs.values():
    ...     logs = list(run)
    >>> picture = plots.convergence(runs)
    """
    shown = measure(metric)
    lines = over_rounds(by_round(frame, by), metric, by, shown.scale)
    if level is not None:
        level = level[0], level[1] * shown.scale
    figure, axes = _lines(lines, metric, styles, log=log, level=level)
    name_height(axes, shown.axis_title)
    if not log:
        within_percents(axes, shown)
    titled(axes, title)
    return figure


def substitution_error(
    frame: pd.DataFrame | Runs,
    metric: str = "oracle_error_relative",
    by: str = "strategy",
    *,
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
) -> Figure:
    """How far each round's update was from the one of all clients: needs ``oracle`` runs.

    Parameters are those of `convergence`, on a logarithmic scale. The error of a strategy for which
    everybody comes is zero.
    """
    return convergence(frame, metric, by, log=True, styles=styles, title=title)


def _lines(
    lines: list[Series],
    metric: str,
    styles: Mapping[Any, Style] | None,
    *,
    log: bool = False,
    level: tuple[str, float] | None = None,
) -> tuple[Figure, Axes]:
    if not lines:
        raise ValueError(f"frame: expected values of {metric!r}, got none")
    names = texts([line.label for line in lines])
    if log:
        lines = _positive(lines)
        names = [
            name if np.isfinite(line.mean).any() else f"{name} (0 throughout)"
            for name, line in zip(names, lines, strict=True)
        ]
    if level is not None:
        names = [*names, text(level[0])]
    figure, axes = canvas(legend=names)
    looks = style_of(styles, [line.label for line in lines])
    handles = []
    faint = 0.15 if len(lines) <= MANY_LINES else 0.07
    floor = min(_least(line) for line in lines) / 2 if log else -np.inf
    for place, line in enumerate(lines):
        look = looks[line.label]
        few = len(line.x) <= FEW_POINTS
        handles += axes.plot(
            line.x,
            line.mean,
            look.line,
            color=look.colour,
            marker=look.marker,
            markersize=4,
            # markers tell lines apart where colours repeat; not all at the same rounds
            markevery=1 if few else (place * len(line.x) // (8 * len(lines)), len(line.x) // 8),
            linewidth=1.6,
            zorder=3,
        )
        if line.has_band:
            low, high = line.mean - line.half_width, line.mean + line.half_width
            if log:  # an interval that reaches zero goes down to the edge of the picture
                low = np.fmax(low, floor)
            axes.fill_between(line.x, low, high, color=look.colour, alpha=faint, linewidth=0)
    if level is not None:
        handles.append(axes.axhline(level[1], color=GREY, linestyle=":", linewidth=1.4, zorder=2))
    axes.set_xlabel("round")
    tick_rounds(axes.xaxis)
    if log:
        axes.set_yscale("log")
        if np.isfinite(floor):
            axes.set_ylim(bottom=floor)
    axes.margins(x=0.02)
    first, last = min(line.x[0] for line in lines), max(line.x[-1] for line in lines)
    if first == last:
        axes.set_xlim(first - 0.5, last + 0.5)
    legend_below(figure, handles, names)
    return figure, axes


def _least(line: Series) -> float:
    """The smallest mean of a line that a logarithm knows."""
    known = line.mean[line.mean > 0]
    return float(known.min()) if len(known) else np.inf


def _positive(lines: list[Series]) -> list[Series]:
    """The same with NaN in place of zeros and of what rounding leaves of them."""
    least = ROUNDING * max(float(line.mean.max()) for line in lines)
    return [
        replace(line, mean=np.where(line.mean > max(least, 0.0), line.mean, np.nan))
        for line in lines
    ]

"""Strategies against a baseline, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from understudy.measures import evaluated_rounds, measure
from understudy.plots.runs import Runs, by_run, metric_of
from understudy.plots.seed_rows import seed_rows
from understudy.plots.series import labels_in, need, one_group
from understudy.plots.style import GREY, Style, style_of, text, titled


def differences(
    frame: pd.DataFrame | Runs,
    baseline: str,
    metric: str | None = None,
    by: str = "strategy",
    *,
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
) -> Figure:
    """Each strategy minus the baseline with the same seed: every seed, the mean, its 95 % interval.

    Parameters
    ----------
    frame : DataFrame, run, or dict of runs
        As for `intervals`: one row per run, of one group of cells.
    baseline : str
        The label that is subtracted. Seeds in which it or the other has no value are left out;
        the mark is then open, and the name says of how many seeds it is.
    metric, by, styles, title
        As for `levels`.

    Notes
    -----
    An interval is that of the mean of the differences, from three seeds on. It is narrower than the
    strategies' own intervals suggest, because seeds that are hard for one are hard for all.
    """
    metric = metric or metric_of(frame)
    frame = by_run(frame, by, metric)
    need(frame, metric)
    one_group(frame, by)
    known = frame.dropna(subset=[metric])
    if not (known[by] == baseline).any():
        names = ", ".join(str(label) for label in labels_in(known, by)) or "none"
        raise ValueError(f"baseline: expected a label that has values ({names}), got {baseline!r}")
    shown = measure(metric, evaluated_rounds(frame))
    values = known.pivot(index="seed", columns=by, values=metric) * shown.scale
    labels = [label for label in labels_in(known, by) if label != baseline]
    gaps = {
        label: (values[label] - values[baseline]).dropna().to_numpy(dtype=np.float64)
        for label in labels
    }
    gaps = {label: gap for label, gap in gaps.items() if len(gap)}
    if not gaps:
        raise ValueError(f"frame: expected seeds that {baseline!r} shares with others, got none")
    looks = style_of(styles, labels_in(known, by))
    figure, axes = seed_rows(gaps, looks, frame["seed"].nunique())
    axes.axvline(0, color=GREY, linewidth=1, zorder=1)
    unit = f", {shown.unit_of_difference}" if shown.unit_of_difference else ""
    axes.set_xlabel(text(f"{shown.phrase} minus {baseline}{unit}"))
    titled(axes, title)
    return figure

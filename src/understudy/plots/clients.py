"""What a study did to its clients: how often each was picked, how well the model serves each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from understudy.core.intervals import half_width
from understudy.core.types import Floats
from understudy.measures import measure
from understudy.plots.runs import Runs, by_client
from understudy.plots.series import labels_in, need, one_group
from understudy.plots.style import (
    GREY,
    Style,
    canvas,
    legend_below,
    name_clients,
    name_height,
    name_rows,
    row_height,
    style_of,
    text,
    texts,
    tick_rounds,
    titled,
    wrapped,
)

ROW = 0.42  # inches of a strategy in a picture with one row each
NARROWEST = 1.0  # percentage points: kernels are never narrower
GRID = 401  # points at which a density is computed
CHUNK = 4096  # kernels that are summed at once
MOST_RUGS = 60  # clients that are few enough to be shown one by one


def sampling_counts(
    frame: pd.DataFrame | Runs,
    by: str = "strategy",
    *,
    column: str = "wanted",
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
) -> Figure:
    """How evenly clients are picked: counts from the most to the least picked client.

    Parameters
    ----------
    frame : DataFrame, run, or dict of runs
        One row per client: columns ``seed``, `by` and `column`, as from
        ``results(path, level="client")``, of one group of cells. Of runs: a dict from label to a
        run, or to a list of runs with different seeds.
    by : str
        The column that tells lines apart.
    column : str
        What is counted, in rounds: ``wanted``, ``came``, …
    styles : mapping, optional
        Label to `Style`.
    title : str, optional
        Written above.

    Notes
    -----
    Counts are sorted within each seed; lines are the mean over seeds of the sorted counts. The
    legend gives the variance over clients (the mean over seeds of it).
    """
    found = _by_label(frame, by, column)
    names = [
        f"{name} (variance {np.mean([values.var() for values in seeds]):.3g})"
        for name, seeds in zip(texts(list(found), 46), found.values(), strict=True)
    ]
    figure, axes = canvas(legend=names)
    looks = style_of(styles, list(found))
    handles = []
    for label, seeds in found.items():
        fewest = min(len(values) for values in seeds)
        ranked = np.array([np.sort(values)[::-1][:fewest] for values in seeds]).mean(axis=0)
        look = looks[label]
        handles += axes.plot(
            np.arange(1, fewest + 1),
            ranked,
            look.line,
            color=look.colour,
            linewidth=1.6,
            marker=look.marker if fewest <= 40 else "",
            markersize=3.5,
        )
    axes.set_xlabel(f"client, from most to least often {text(column).replace('_', ' ')}")
    axes.set_ylabel(f"times {text(column).replace('_', ' ')}, rounds")
    tick_rounds(axes.xaxis)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.02)
    legend_below(figure, handles, names)
    titled(axes, title)
    return figure


def client_accuracy(
    frame: pd.DataFrame | Runs,
    by: str = "strategy",
    *,
    column: str = "accuracy",
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
) -> Figure:
    """How the model serves the clients: the density of their accuracies, one row per strategy.

    Parameters
    ----------
    frame, by, styles, title
        As for `sampling_counts`.
    column : str
        The accuracy, in 0 .. 1; runs have it where `per_client_every` was asked for.

    Notes
    -----
    The clients of all seeds together. Densities are sums of normal curves of Silverman's width (at
    least one point), reflected at 0 and 100 %, all drawn to one scale. The bar goes from the 10th
    to the 90th percentile, the dot is the mean.
    """
    found, scale = _by_label(frame, by, column), measure("accuracy").scale
    rows = {label: np.concatenate(seeds) * scale for label, seeds in found.items()}
    names = wrapped(list(rows))
    figure, axes = canvas(0.9 + row_height(names, ROW) * max(len(rows), 3))
    looks = style_of(styles, list(rows))
    x = np.linspace(0.0, 100.0, GRID)
    densities = [density(values, x) for values in rows.values()]
    tallest = max(float(values.max()) for values in densities)
    for place, (label, height) in enumerate(zip(rows, densities, strict=True)):
        base, colour, values = float(len(rows) - 1 - place), looks[label].colour, rows[label]
        curve = base + 0.85 * height / tallest
        axes.fill_between(x, base, curve, color=colour, alpha=0.3, linewidth=0)
        axes.plot(x, curve, color=colour, linewidth=1.2)
        low, high = np.quantile(values, [0.1, 0.9])
        axes.plot([low, high], [base, base], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([values.mean()], [base], "o", color=colour, markersize=6, markeredgecolor="white")
        if len(values) <= MOST_RUGS:
            axes.plot(values, np.full(len(values), base), "|", color="black", markersize=5)
    name_rows(axes, names)
    axes.set_ylim(-0.35, len(rows) - 0.05)
    lowest = min(float(values.min()) for values in rows.values())
    axes.set_xlim(max(0.0, lowest - 8.0), 101)
    axes.set_xlabel("accuracy of the model for a client, %")
    titled(axes, title)
    return figure


def client_values(
    values: Mapping[Any, npt.ArrayLike],
    *,
    label: str = "Shapley value",
    names: Sequence[str] | None = None,
    styles: Mapping[Any, Style] | None = None,
    title: str | None = None,
) -> Figure:
    """One number per client, such as its Shapley value: the mean over seeds with its interval.

    Parameters
    ----------
    values : mapping of label to (seeds, N) array
        A row per seed.
    label : str
        What the number is.
    names : N strings, optional
        What the clients are called, instead of 0 .. N-1.
    styles, title
        As for `sampling_counts`.
    """
    tables = {who: np.atleast_2d(np.asarray(table, dtype=float)) for who, table in values.items()}
    if not tables or any(table.ndim != 2 or not table.size for table in tables.values()):
        raise ValueError("values: expected arrays of shape (seeds, N), got none or empty ones")
    labels = texts(list(tables))
    figure, axes = canvas(legend=labels)
    looks = style_of(styles, list(tables))
    handles: list[Any] = []
    axes.axhline(0, color=GREY, linewidth=0.8)
    for place, (who, table) in enumerate(tables.items()):
        shift = 0.6 * ((place + 0.5) / len(tables) - 0.5)
        handles.append(
            axes.errorbar(
                np.arange(table.shape[1]) + shift,
                table.mean(axis=0),
                yerr=half_width(table),
                color=looks[who].colour,
                linestyle="none",
                marker=looks[who].marker,
                markersize=4,
                elinewidth=1,
            )
        )
    axes.set_xlabel("client")
    name_height(axes, label)
    name_clients(axes.xaxis, names, range(max(table.shape[1] for table in tables.values())))
    legend_below(figure, handles, labels)
    titled(axes, title)
    return figure


def density(values: Floats, x: Floats) -> Floats:
    """The density at x of percentages: a kernel estimate, reflected at 0 and 100."""
    width = max(NARROWEST, 1.06 * float(values.std()) * len(values) ** -0.2)
    # reflected at both ends, and what is reflected at one end once more at the other
    copies = (values, -values, 200 - values, values - 200, values + 200)
    mirrored = np.concatenate(copies)
    total = np.zeros(len(x))
    for first in range(0, len(mirrored), CHUNK):
        steps = (x[:, None] - mirrored[None, first : first + CHUNK]) / width
        total += np.exp(-0.5 * steps**2).sum(axis=1)
    return np.asarray(total / (len(values) * width * np.sqrt(2 * np.pi)), dtype=np.float64)


def _by_label(frame: pd.DataFrame | Runs, by: str, column: str) -> dict[Hashable, list[Floats]]:
    """Of each label the values of the clients that have one, seed by seed."""
    clients = by_client(frame, by)
    need(clients, "seed", column, by)
    if "client" in clients.columns:
        one_group(clients, by, "client")
    known = clients.dropna(subset=[column])
    if known.empty:
        raise ValueError(f"frame: expected values of {column!r}, got none")
    parts = {label: known[known[by] == label] for label in labels_in(clients, by)}
    return {
        label: [one[column].to_numpy(dtype=np.float64) for _, one in part.groupby("seed")]
        for label, part in parts.items()
        if len(part)
    }

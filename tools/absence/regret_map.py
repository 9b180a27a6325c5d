"""The map of regrets: a row for each method, a column for each absence, a picture for each part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tools.absence.cells import Place, Table
from tools.absence.regret import gap, is_level
from tools.absence.words import listed
from understudy.plots.style import canvas

BOUNDS = (0, 1, 2, 4, 8, 16, 32, 100)  # points
COLOURS = ("#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#2171b5", "#08306b")
LIGHT = 5  # colours from here on take white ink
MISSING = "#d9d9d9"
BEST, LEVEL = "●", "○"
WIDE = 16  # columns from which on the legend fits into one line


def regret_map(table: Table, methods: Sequence[str], places: Sequence[Place]) -> Figure:
    """Points behind the best method of each column; who is best, and who is within noise of it."""
    behind = np.full((len(methods), len(places)), np.nan)
    marks = np.full(behind.shape, "", dtype=object)
    for column, place in enumerate(places):
        for row, method in enumerate(methods):
            if not table.has(method, place):
                continue
            behind[row, column] = max(0.0, gap(table, method, place).mean)
            if is_level(table, method, place):
                marks[row, column] = BEST if method == table.best(place) else LEVEL
    figure, axes = canvas(0.22 * len(methods) + 2.2, width=0.3 * len(places) + 1.8)
    axes.grid(visible=False)
    colours = ListedColormap(COLOURS).with_extremes(bad=MISSING)
    axes.imshow(
        np.ma.masked_invalid(behind),
        cmap=colours,
        norm=BoundaryNorm(BOUNDS, colours.N),
        aspect="auto",
    )
    for (row, column), value in np.ndenumerate(behind):
        if np.isnan(value):
            continue
        dark = value >= BOUNDS[LIGHT]
        mark = str(marks[row, column])
        told = mark if mark == BEST else f"{value:.0f}{mark}"
        axes.text(column, row, told, ha="center", va="center", fontsize=7,
                  color="#fefefe" if dark else "#010101")  # fmt: skip
    axes.set_xticks(range(len(places)), [absence for _, absence in places], rotation=90)
    axes.set_yticks(range(len(methods)), methods)
    axes.tick_params(labelsize=8, length=0)
    _name_data(axes, places)
    names = [f"{low}–{high}" for low, high in pairwise(BOUNDS[:-1])]
    names.append(f"> {BOUNDS[-2]}")
    keys = [Patch(facecolor=c, edgecolor="#808080", label=n)
            for c, n in zip(COLOURS, names, strict=True)]  # fmt: skip
    keys.append(Patch(facecolor=MISSING, label="not run"))
    n_columns = 8 if len(places) > WIDE else 4
    figure.legend(
        handles=keys, loc="outside lower center", ncols=n_columns, fontsize=7, frameon=False,
        title=f"points behind the best; {BEST} the best, {LEVEL} within noise of it",
        title_fontsize=8,
    )  # fmt: skip
    return figure


def _name_data(axes: Axes, places: Sequence[Place]) -> None:
    """The data above their columns, with a line between two of them."""
    start = 0
    for column in range(1, len(places) + 1):
        if column < len(places) and places[column][0] == places[start][0]:
            continue
        middle = (start + column - 1) / 2
        axes.text(middle, -0.8, listed([places[start][0]]), ha="center", va="bottom", fontsize=9)
        if column < len(places):
            axes.axvline(column - 0.5, color="#808080", linewidth=2)
        start = column

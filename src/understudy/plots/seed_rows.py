"""One row per label: every seed, their mean, its 95 % interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.core.intervals import half_width
from understudy.core.types import Floats
from understudy.plots.style import OPEN, Style, canvas, name_rows, row_height, with_seeds, wrapped

ROW = 0.36  # inches of a row
SEED_COLOUR = "#9AA1AB"


def seed_rows(
    values: Mapping[Any, Floats], looks: Mapping[Any, Style], n_seeds: int
) -> tuple[Figure, Axes]:
    """A figure of rows, the first label at the top; the horizontal axis is still without a name.

    `values` has one per seed that has one, `n_seeds` is how many seeds there are. A mean over fewer
    is not to be held against the others unawares: its mark is open, and its name tells of how many
    it is.
    """
    names = wrapped([with_seeds(label, len(own), n_seeds) for label, own in values.items()])
    figure, axes = canvas(0.85 + row_height(names, ROW) * max(len(values), 3))
    for place, (label, own) in enumerate(values.items()):
        row, look = len(values) - 1 - place, looks[label]
        if not len(own):
            continue
        axes.plot(own, np.full(len(own), row - 0.22), ".", color=SEED_COLOUR, markersize=4)
        axes.errorbar(
            np.array([own.mean()]),
            np.array([row]),
            xerr=np.array([float(half_width(own[:, None])[0])]),
            color=look.colour,
            marker=look.marker,
            markerfacecolor=look.colour if len(own) == n_seeds else OPEN,
            markersize=6,
            capsize=3,
            elinewidth=1.6,
        )
    name_rows(axes, names)
    axes.set_ylim(-0.6, len(values) - 0.5)
    return figure, axes

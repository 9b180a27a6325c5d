"""Client × client: who stood in for whom, and who is like whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from understudy.core.types import Floats, Ints
from understudy.plots.federation import COUNT_COLOURS
from understudy.plots.notebook_figure import NotebookFigure
from understudy.plots.runs import only_run, stood_in_counts
from understudy.plots.style import GREY, name_clients, text, tick_rounds, titled
from understudy.simulation.run import Run

CLUSTER_COLOUR = "#D55E00"
UNKNOWN = "#E3E6EA"
SIMILARITY_COLOURS = colormaps["cividis"]  # made for colour-blind readers


def stood_in(
    counts: npt.ArrayLike | Run,
    groups: npt.ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Who stood in for whom: rows are absent clients, columns the clients that stood in.

    Parameters
    ----------
    counts : (N, N) array, or a run
        Rounds in which the client of the column stood in for that of the row. A run brings its
        federation's `groups` and `names` along.
    groups : (N,) ints, optional
        Cluster of each client: clients are ordered by it, and each cluster is outlined.
    names : N strings, optional
        What the clients are called, instead of 0 .. N-1.
    title : str, optional
        Written above.
    """
    run = only_run("counts", counts)
    if run is not None:
        names = run.federation.names if names is None else names
        counts, groups = stood_in_counts(run), run.federation.groups if groups is None else groups
    table = _square("counts", counts)
    order, sizes = _order(groups, len(table))
    shown = np.ma.masked_where(~(table > 0), table)
    most = float(table.max(initial=1.0))
    figure, axes = _heat_map(shown, order, sizes, COUNT_COLOURS, 0.0, most, "rounds", names)
    tick_rounds(figure.axes[1].yaxis)
    by = " (ordered by cluster)" if groups is not None else ""
    axes.set_xlabel(f"who stood in: client{by}")
    axes.set_ylabel(f"absent client{by}")
    titled(axes, title)
    return figure


def similarity(
    matrix: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    label: str = "similarity",
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Who is like whom: a heat map ordered by cluster.

    Parameters
    ----------
    matrix : (N, N) array
        Similarity of each pair; NaN where unknown. The diagonal, a client's similarity to itself,
        is not drawn.
    groups : (N,) ints, optional
        Cluster of each client, outlined. Without it clients are ordered so that those who are alike
        stand side by side (average linkage).
    label : str
        What the colours mean.
    names, title
        As for `stood_in`.
    """
    table = _square("matrix", matrix)
    order, sizes = _order(groups, len(table))
    if groups is None:
        order = _alike(table)
    others = np.where(np.eye(len(table), dtype=np.bool_), np.nan, table)
    known = others[np.isfinite(others)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    figure, axes = _heat_map(
        np.ma.masked_invalid(others),
        order,
        sizes,
        SIMILARITY_COLOURS,
        low,
        high,
        text(label),
        names,
    )
    by = "cluster" if groups is not None else "similarity"
    axes.set_xlabel(f"client (ordered by {by})")
    axes.set_ylabel(f"client (ordered by {by})")
    titled(axes, title)
    return figure


def _heat_map(
    table: np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]],
    order: Ints,
    sizes: list[int],
    colours: Colormap,
    low: float,
    high: float,
    label: str,
    names: Sequence[str] | None,
) -> tuple[Figure, Axes]:
    figure = NotebookFigure(figsize=(5.4, 4.7), layout="constrained")
    axes = figure.add_subplot()
    # a white that dark pages leave as it is: the darkest of an image would be lost on black
    axes.set_facecolor(UNKNOWN if colours is SIMILARITY_COLOURS else "#FEFEFE")
    image = axes.imshow(
        table[np.ix_(order, order)],
        cmap=colours,
        vmin=low,
        vmax=high if high > low else low + 1,
        interpolation="nearest",
    )
    for axis in (axes.xaxis, axes.yaxis):
        name_clients(axis, names, order.tolist())
    start = 0
    for size in sizes:
        axes.add_patch(
            Rectangle(
                (start - 0.5, start - 0.5),
                size,
                size,
                fill=False,
                edgecolor=CLUSTER_COLOUR,
                linewidth=1.4,
            )
        )
        start += size
    bar = figure.colorbar(image, ax=axes, label=label, shrink=0.85)
    bar.outline.set_edgecolor(GREY)
    return figure, axes


def _square(name: str, values: Any) -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise ValueError(f"{name}: expected shape (N, N), got {table.shape}")
    return table


def _order(groups: npt.ArrayLike | None, n_clients: int) -> tuple[Ints, list[int]]:
    """Clients cluster by cluster, and the clusters' sizes (none without groups)."""
    if groups is None:
        return np.arange(n_clients), []
    members = np.asarray(groups)
    if members.shape != (n_clients,):
        raise ValueError(f"groups: expected shape ({n_clients},), got {members.shape}")
    _, sizes = np.unique(members, return_counts=True)
    return np.argsort(members, kind="stable"), [int(size) for size in sizes]


def _alike(table: Floats) -> Ints:
    if len(table) < 3:
        return np.arange(len(table))
    known = table[np.isfinite(table)]
    most, least = (float(known.max()), float(known.min())) if len(known) else (0.0, 0.0)
    apart = most - np.nan_to_num(table, nan=least, posinf=most, neginf=least)
    apart = (apart + apart.T) / 2
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform(apart, checks=False), method="average")
    return np.asarray(leaves_list(tree), dtype=np.int64)

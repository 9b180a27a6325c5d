"""Pictures of a federation: who was there, and who holds what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from understudy.core.types import Outcome
from understudy.plots.notebook_figure import NotebookFigure
from understudy.plots.runs import Runs, is_runs, labelled, only_run
from understudy.plots.runs import outcomes as outcomes_of
from understudy.plots.style import legend_below, name_clients, text, texts

# The Okabe-Ito colours, which colour-blind people can tell apart; greys for those not at work.
OUTCOME_COLOURS = {
    Outcome.CAME: "#0072B2",
    Outcome.LATE: "#56B4E9",
    Outcome.ERROR: "#D55E00",
    Outcome.UNAVAILABLE: "#BFBFBF",
    Outcome.MISSING: "#E69F00",
    Outcome.RESTARTED: "#F0E442",
    Outcome.REFUSED: "#111111",
    Outcome.NOT_WANTED: "#F2F2F2",
}
PRESENCE_COLOURS = {1: OUTCOME_COLOURS[Outcome.CAME], 0: OUTCOME_COLOURS[Outcome.UNAVAILABLE]}
PRESENCE_NAMES = {1: "there", 0: "away"}
COUNT_COLOURS = ListedColormap(colormaps["Blues"](np.linspace(0.15, 1, 256)))  # never white
MOST_TICKS = 12
MOST_WRITTEN = 400  # cells of a partition that get their number written into them


def attendance(
    outcomes: npt.ArrayLike | Runs,
    *,
    groups: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Rounds × clients: the outcome of each client in each round.

    Parameters
    ----------
    outcomes : (rounds, N) array, a run, or a dict of runs
        Of `Outcome`, such as ``[log.outcome for log in run]``, or of bool: who could be reached. A
        run brings its federation's `groups` and `names` along; of several runs, each has a panel.
    groups : (N,) ints, optional
        Cluster of each client: lines are drawn where the cluster changes.
    names : N strings, optional
        What the clients are called, instead of 0 .. N-1.
    title : str, optional
        Written above.
    """
    if not is_runs(outcomes):
        return client_map({None: (_checked(outcomes), groups, names)}, title)
    runs: Any = outcomes
    panels = {
        (label, position): (
            outcomes_of(run),
            run.federation.groups if groups is None else groups,
            run.federation.names if names is None else names,
        )
        for position, (label, run) in enumerate(labelled(runs))
    }
    if not panels:
        raise ValueError("outcomes: expected at least one run, got none")
    return client_map(panels, title)


def _checked(outcomes: Any) -> npt.NDArray[Any]:
    table = np.asarray(outcomes)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"outcomes: expected shape (rounds, N), got {table.shape}")
    return table


def client_map(
    panels: Mapping[Any, tuple[npt.NDArray[Any], Any, Any]],
    title: str | None,
    kinds: Mapping[int, tuple[str, str]] | None = None,
) -> Figure:
    """A panel for each table, rounds × clients, one below the other; one legend.

    `panels` has by label a table, the groups and the names of its clients; `kinds` the colour and
    name of each value, in the legend's order, from 0 on without a gap; by default those of
    `Outcome`, or of bool.
    """
    tables = [table for table, _, _ in panels.values()]
    if kinds is not None:
        colours = {value: colour for value, (colour, _) in kinds.items()}
        names = {value: name for value, (_, name) in kinds.items()}
    elif tables[0].dtype == np.bool_:
        colours, names = PRESENCE_COLOURS, PRESENCE_NAMES
    else:
        colours = {int(outcome): colour for outcome, colour in OUTCOME_COLOURS.items()}
        names = {int(outcome): outcome.name.lower().replace("_", " ") for outcome in Outcome}
    present = sorted({int(value) for table in tables for value in np.unique(table)})
    strange = [value for value in present if value not in colours]
    if strange:
        raise ValueError(f"outcomes: expected bool or Outcome (0 .. 7), got {strange[0]}")

    n_rounds = max(len(table) for table in tables)
    width = float(np.clip(n_rounds / 12, 5, 12))
    heights = [float(np.clip(table.shape[1] / 7 + 1, 3, 9)) for table in tables]
    figure = NotebookFigure(figsize=(width, sum(heights)), layout="constrained")
    grid = figure.subplots(len(panels), squeeze=False, height_ratios=heights)
    palette = ListedColormap([colours[value] for value in sorted(colours)])
    norm = BoundaryNorm(np.arange(len(colours) + 1) - 0.5, len(colours))
    for axes, (label, (table, groups, clients)) in zip(grid[:, 0], panels.items(), strict=True):
        axes.imshow(
            table.T.astype(np.uint8),
            cmap=palette,
            norm=norm,
            aspect="auto",
            interpolation="nearest",
            interpolation_stage="data",  # of all cells, the colours would take 32 bytes each
            # counted from 1, as warnings and the other maps do
            extent=(0.5, len(table) + 0.5, table.shape[1] - 0.5, -0.5),
        )
        axes.xaxis.get_major_locator().set_params(integer=True)
        _label(axes, "round", "client", title if len(panels) == 1 else str(label[0]))
        name_clients(axes.yaxis, clients, range(table.shape[1]))
        _cluster_lines(axes, groups, table.shape[1])
    if title is not None and len(panels) > 1:
        figure.suptitle(text(title, 200), fontsize=11, wrap=True)
    listed = sorted(present, key=list(colours).index)
    legend_below(
        figure,
        [Patch(facecolor=colours[value], edgecolor="#808080", linewidth=0.5) for value in listed],
        [names[value] for value in listed],
    )
    return figure


def partition(
    label_counts: Any,
    *,
    class_names: Sequence[str] | None = None,
    groups: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Clients × classes: how many examples of each class a client holds.

    Parameters
    ----------
    label_counts : (N, C) array, a run, or anything that has `label_counts`
        Label histograms; a `Federation`, a `Population` or a run brings its `groups` and
        `names` along.
    class_names : C strings, optional
        Instead of 0 .. C-1.
    groups, names, title
        As for `attendance`.
    """
    run = only_run("label_counts", label_counts)
    if run is not None:
        label_counts = run.federation
    if groups is None:
        groups = getattr(label_counts, "groups", None)
    if names is None:
        names = getattr(label_counts, "names", None)
    counts = np.asarray(getattr(label_counts, "label_counts", label_counts), dtype=np.float64)
    if counts.ndim != 2 or 0 in counts.shape:
        raise ValueError(f"label_counts: expected shape (N, C), got {counts.shape}")
    n_clients, n_classes = counts.shape
    if class_names is not None and len(class_names) != n_classes:
        raise ValueError(f"class_names: expected {n_classes} names, got {len(class_names)}")

    width, height = float(np.clip(n_classes / 2.2, 4, 12)), float(np.clip(n_clients / 4, 2.5, 10))
    figure = NotebookFigure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    shown = np.ma.masked_where(~(counts > 0), counts)  # nothing held: white
    most = float(np.nanmax(counts, initial=1.0))
    image = axes.imshow(
        shown, cmap=COUNT_COLOURS, vmin=0, vmax=most, aspect="auto", interpolation="nearest"
    )
    _label(axes, "class", "client", title)
    name_clients(axes.yaxis, names, range(n_clients))
    if class_names is not None:
        axes.set_xticks(range(n_classes), labels=texts(class_names), rotation=45, ha="right")
    _cluster_lines(axes, groups, n_clients)
    if counts.size <= MOST_WRITTEN:
        for client, label in np.argwhere(counts > 0):
            value = counts[client, label]
            axes.text(
                label,
                client,
                f"{value:g}",
                ha="center",
                va="center",
                fontsize=7,
                color="#FEFEFE"
                if value > most / 2
                else "#111111",  # as the image: never turned dark
            )
    figure.colorbar(image, ax=axes, label="examples")
    return figure


def _label(axes: Axes, across: str, down: str, title: str | None) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(down)
    axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(MOST_TICKS, integer=True))
    if title is not None:
        axes.set_title(text(title, 200), fontsize=11, wrap=True)


def _cluster_lines(axes: Axes, groups: npt.ArrayLike | None, n_clients: int) -> None:
    if groups is None:
        return
    members = np.asarray(groups)
    if members.shape != (n_clients,):
        raise ValueError(f"groups: expected shape ({n_clients},), got {members.shape}")
    for client in np.flatnonzero(members[1:] != members[:-1]):
        axes.axhline(client + 0.5, color="black", linewidth=0.8)

"""The papers' own figures that are no curves of accuracy, from exported files alone.

A figure whose numbers were not exported is not drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from understudy.core.intervals import half_width
from understudy.core.types import Floats
from understudy.plots import client_accuracy, convergence, sampling_counts, similarity
from understudy.plots.notebook_figure import NotebookFigure
from understudy.plots.style import COLOURS, GREY, name_height
from understudy.studies.statistics.client_files import ACCURACY, GROUP, PICKED
from understudy.studies.statistics.export import Exported, Row

AGE = "rounds_away"  # the label of FedAR's figure 1
VALUES = {  # of coalitions, by the measure that tells the client's: what it is, and its scale
    "shapley_loss_client": ("Shapley value, minus test loss", 1.0),
    "shapley_client": ("Shapley value, test accuracy, points", 100.0),
}


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper that a study repeats."""

    suffix: str  # of the name of its file
    caption: str
    draw: Callable[[Sequence[Row], Exported, str], Figure | None]  # None: no numbers for it
    whole: bool = False  # one picture for the study, in place of any other; else one for each group


# -- from the tables -------------------------------------------------------------------------------


def of_clients(rows: Sequence[Row], exported: Exported, kind: str) -> pd.DataFrame:
    """One row per client of each cell that has such a number, all cells being of one length."""
    records = [
        {"strategy": row.labels["strategy"], "seed": row.seed, "client": client, kind: number}
        for row in of_one_length([row for row in rows if kind in exported.clients.get(row.key, {})])
        for client, number in enumerate(exported.clients[row.key][kind])
    ]
    return pd.DataFrame(records, columns=["strategy", "seed", "client", kind])


def of_one_length(rows: Sequence[Row]) -> list[Row]:
    """The cells of as many rounds as most strategies have: counts of others are not comparable."""
    lengths = Counter(
        length for _, length in {(row.labels["strategy"], row.rounds) for row in rows}
    )
    most = max(lengths, key=lambda length: (lengths[length], length), default=0)
    return [row for row in rows if row.rounds == most]


def score_matrix(exported: Exported, key: str) -> tuple[Floats, list[float] | None]:
    """(N, N) R of a cell, NaN for pairs that never came together; and the clusters, if known."""
    pairs = exported.scores[key]
    groups = exported.clients.get(key, {}).get(GROUP)
    n_clients = len(groups) if groups is not None else 1 + max(j for _, j in pairs)
    table = np.full((n_clients, n_clients), np.nan)
    for (i, j), score in pairs.items():
        table[i, j] = table[j, i] = score
    return table, None if groups is None else list(groups)


def pairs_by_round(rows: Sequence[Row], exported: Exported) -> pd.DataFrame:
    """Comparisons that are needed in each exported round but the first, when everybody is there."""
    records = [
        {
            "strategy": row.labels["strategy"],
            "seed": row.seed,
            "t": point["round"] - 1,
            "comparisons_needed": point["pairs_needed"],
        }
        for row in rows
        for point in exported.curves[row.key]
        if "pairs_needed" in point and point["round"] > 1
    ]
    return pd.DataFrame(records)


def by_age(rows: Sequence[Row], measure: str) -> dict[int, Floats]:
    """The numbers of all seeds by the age of the update."""
    found: dict[int, list[float]] = {}
    for row in rows:
        age = row.labels.get(AGE)
        if isinstance(age, float) and measure in row.measures:
            found.setdefault(int(age), []).append(row.measures[measure])
    return {age: np.array(found[age]) for age in sorted(found)}


# -- pictures --------------------------------------------------------------------------------------


def _scores(rows: Sequence[Row], exported: Exported, title: str) -> Figure | None:
    known = [row for row in rows if row.key in exported.scores]
    if not known:
        return None
    first = max(known, key=lambda row: (row.rounds, -row.seed))
    table, groups = score_matrix(exported, first.key)
    return similarity(
        table, groups, label="R", title=", ".join([*filter(None, [title]), f"seed {first.seed}"])
    )


def _pairs(rows: Sequence[Row], exported: Exported, title: str) -> Figure | None:
    frame = pairs_by_round(rows, exported)
    if frame.empty or frame["t"].nunique() < 2:
        return None
    figure = convergence(frame, "comparisons_needed", title=title or None)
    figure.axes[0].set_ylim(bottom=0)
    return figure


def _counts(rows: Sequence[Row], exported: Exported, title: str) -> Figure | None:
    frame = of_clients(rows, exported, PICKED)
    return None if frame.empty else sampling_counts(frame, column=PICKED, title=title or None)


def _densities(rows: Sequence[Row], exported: Exported, title: str) -> Figure | None:
    frame = of_clients(rows, exported, ACCURACY)
    if not frame[ACCURACY].notna().any():
        return None
    return client_accuracy(frame, column=ACCURACY, title=title or None)


def _shapley(rows: Sequence[Row], exported: Exported, title: str) -> Figure | None:
    found = {measure: by_age(rows, measure) for measure in VALUES}
    shown = {measure: ages for measure, ages in found.items() if ages}
    if not shown:
        return None
    figure = NotebookFigure(figsize=(7.0, 3.0), layout="constrained")
    for axes, (measure, ages) in zip(
        figure.subplots(1, len(shown), squeeze=False)[0], shown.items(), strict=True
    ):
        words, scale = VALUES[measure]
        means = [scale * float(values.mean()) for values in ages.values()]
        halves = [scale * float(half_width(values)) for values in ages.values()]
        axes.bar(list(ages), means, color=COLOURS[0], width=0.7, zorder=2)
        axes.errorbar(
            list(ages), means, halves, color=COLOURS[1], linestyle="none", capsize=3, zorder=3
        )
        axes.axhline(0, color=GREY, linewidth=0.8, zorder=3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#E3E6EA", linewidth=0.8, axis="y")
        axes.set_axisbelow(True)
        axes.set_xticks(list(ages))
        axes.set_xlabel("age of the client's update, rounds")
        name_height(axes, words)
    return figure


FIGURES: Mapping[str, PaperFigure] = {
    "fdms-fig3": PaperFigure(
        "scores",
        "As the paper's figure 3: R, the mean similarity of two clients' updates, after the last "
        "round of one seed; squares are the clusters, which the method does not know, and grey "
        "pairs never came together.",
        _scores,
    ),
    "fdms-fig4": PaperFigure(
        "pairs",
        "As the paper's figure 4a: pairs of clients there whose updates are still to be compared, "
        "in each round but the first, in which everybody is there.",
        _pairs,
    ),
    "fedgs-fig4": PaperFigure(
        "counts",
        "As the paper's figure 4: how often each client was picked; counts are sorted in each "
        "seed, then averaged over seeds.",
        _counts,
    ),
    "fedar-fig1": PaperFigure(
        "shapley",
        "As the paper's figure 1: what the update of a client is worth that was away for the last "
        "rounds; mean over seeds with its 95 % interval.",
        _shapley,
        whole=True,
    ),
    "fedar-table3": PaperFigure(
        "clients",
        "As the paper's figure 3: how the accuracy of the last model is spread over clients, all "
        "seeds together. The dot is the mean, the bar goes from the 10th to the 90th percentile.",
        _densities,
    ),
}


def caption(study: str, name: str) -> str:
    """What is said below a picture; nothing where it is no figure of a paper's own."""
    figure = FIGURES.get(study)
    return figure.caption if figure and name.endswith(f"{figure.suffix}.svg") else ""

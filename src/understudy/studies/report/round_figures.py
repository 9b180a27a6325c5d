"""Pictures over rounds: how a study's runs went."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from understudy import plots
from understudy.measures import measure
from understudy.studies.report.figure_data import (
    LARGEST_SHARE,
    MOST_GROUPS,
    FigureData,
    Picture,
)
from understudy.studies.statistics.constant_prediction import REFERENCE, in_words

LONGEST_LEVEL = 20  # characters of a name in a legend: a longer one makes it a column
MOST_CURVES = 12  # groups that get a picture of their curves


def curves(data: FigureData) -> Iterator[Picture]:
    """Accuracy by round; the loss too where groups are few, or where there is no accuracy."""
    band = (
        "mean over seeds, with its 95 % interval in each round."
        if data.most_seeds >= 3
        else "mean over seeds; no bands, which take three."
    )
    if data.most_seeds == 1:
        band = "one seed, so differences may be chance."
    metrics = [name for name in ("test_accuracy", "test_loss") if data.measured(name)]
    if len(data.groups) > MOST_GROUPS:
        metrics = metrics[:1]
    for metric in metrics or data.other_metrics:
        section = "Convergence"
        words = measure(metric).long_words.capitalize()
        for group in data.groups[:MOST_CURVES]:
            frame = data.rounds_of(group)
            if metric not in frame or frame[metric].isna().all():
                continue
            if data.is_flat(section, group, frame[metric], metric):
                continue
            yield data.drawn(
                f"convergence-{metric}",
                section,
                group,
                partial(
                    plots.convergence,
                    frame,
                    metric,
                    styles=data.styles,
                    level=_constant(data.runs_of([group]), metric),
                ),
                f"{words}: {band}{data.unfinished}",
                most=MOST_CURVES,
            )


def _constant(runs: pd.DataFrame, metric: str) -> tuple[str, float] | None:
    """What predicting the same for every example has, with its name; None: not known."""
    column = f"{REFERENCE}_{metric.removeprefix('test_')}"
    known: list[float] = runs[column].dropna().tolist() if column in runs else []
    if not known:
        return None
    words = in_words(f"{metric}_last", f"{REFERENCE}_accuracy" in runs).removeprefix("the ")
    if len(words) > LONGEST_LEVEL:
        words = "constant prediction"
    return words, float(np.mean(known))


def errors(data: FigureData) -> Iterator[Picture]:
    """How far each round's update was from that of all clients."""
    metric = "oracle_error_relative"
    for group in data.groups[:MOST_GROUPS] if data.measured(metric) else ():
        frame = data.rounds_of(group)
        if metric in frame and (frame[metric] > 0).any():
            yield data.drawn(
                "substitution-error",
                "Substitution error",
                group,
                partial(plots.substitution_error, frame, metric, styles=data.styles),
                "Squared distance of each round's update from that of all clients, relative to the "
                "latter's squared length; mean over seeds.",
            )


def largest_shares(data: FigureData) -> Iterator[Picture]:
    """The largest share that one row had in each round's update, where runs have noted it."""
    for group in data.groups[:MOST_GROUPS] if data.measured(LARGEST_SHARE) else ():
        frame = data.rounds_of(group, pooled=False)  # one client alone has all of it
        section = "Largest share of one update"
        if LARGEST_SHARE in frame and frame[LARGEST_SHARE].notna().any():
            if data.is_flat(section, group, frame[LARGEST_SHARE], LARGEST_SHARE):
                continue
            yield data.drawn(
                "largest-share",
                section,
                group,
                partial(plots.convergence, frame, LARGEST_SHARE, styles=data.styles),
                f"Near 100 %, one client alone decides. Mean over seeds.{data.unfinished}",
            )


def sigmas(data: FigureData) -> Iterator[Picture]:
    """How far apart updates are: of any two clients, and of friends."""
    for group in data.groups[:MOST_GROUPS]:
        tables = []
        strategy = None
        for cell in data.cells_of(group):
            strategy = strategy or cell.labels["strategy"]
            arrays = data.store.arrays(cell.key) if cell.labels["strategy"] == strategy else {}
            if "sigma_t" not in arrays:
                continue
            for kind, name in (("any two clients", "sigma_p"), ("friends", "sigma_f")):
                values = {"t": arrays["sigma_t"], "sigma²": arrays[name]}
                tables.append(pd.DataFrame({"kind": kind, "seed": cell.seed, **values}))
        if tables:
            yield data.drawn(
                "sigma",
                "How far apart updates are",
                group,
                partial(plots.convergence, pd.concat(tables), "sigma²", "kind", log=True),
                f"Largest squared distance between updates of any two clients (σ_P²) and of "
                f"friends (σ_F²), under {strategy}; mean over seeds.",
            )

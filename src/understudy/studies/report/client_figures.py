"""Pictures over clients: who came, who stood in for whom, and how each is served."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from understudy import plots
from understudy.core.types import Floats, Outcome
from understudy.studies.report.client_table import tested_on
from understudy.studies.report.figure_data import (
    MOST_GROUPS,
    FigureData,
    Picture,
    file_name,
    title_of,
    titled,
)
from understudy.studies.report.stand_ins import REPRESENTED
from understudy.studies.statistics.groups import Group
from understudy.studies.statistics.text_table import label_word
from understudy.studies.store.client_names import client_names, stored_names
from understudy.studies.store.store import StoredCell

ATTENDANCE, STAND_INS = "Attendance", "Stand-ins"  # sections
MOST_PAIRED = 1000  # clients up to which a picture of all pairs says something
MOST_ROUNDS = 200  # rounds of a picture of attendance


def attendance(data: FigureData) -> Iterator[Picture]:
    """What became of each client in each round, under each availability."""
    modes: dict[str, tuple[Group, StoredCell]] = {}
    for group in data.groups:
        cells = data.cells_of(group)
        own = [cell for cell in cells if cell.labels.get("availability") is not None] or cells
        described = data.store.resolved(own[0].key).get("availability")
        modes.setdefault(json.dumps(described), (group, own[0]))
    labels = [group.labels.get("availability") for group, _ in modes.values()]
    for group, cell in list(modes.values())[:MOST_GROUPS]:
        outcomes = [log.outcome for log in data.store.logs(cell.key, 0, MOST_ROUNDS)]
        if not _even(outcomes):
            continue  # clients joined on the way
        mode = group.labels.get("availability")
        title = title_of(group)
        if mode is not None and labels.count(mode) == 1:
            title = f"availability {label_word(mode)}"
        if len(np.unique(outcomes)) < 2:
            became = Outcome(int(outcomes[0][0])).name.lower().replace("_", " ")
            where, was = f"{title}: " if title else "", "" if became == "came" else "was "
            data.tell(ATTENDANCE, f"{where}every client {was}{became} in every round.")
            continue
        rounds = f"First {MOST_ROUNDS} rounds" if cell.rounds > MOST_ROUNDS else "All rounds"
        yield Picture(
            file_name("attendance", title),
            ATTENDANCE,
            plots.attendance(
                np.array(outcomes),
                groups=_clusters(cell),
                names=names_of(cell, len(outcomes[0])),
                title=title or None,
            ),
            f"{rounds} of {cell.labels['strategy']}, seed {cell.seed}"
            + ("; lines separate clusters." if _clusters(cell) is not None else "."),
            cell.key,
        )


def represented(data: FigureData) -> Iterator[Picture]:
    """What share of the absent something stood in for, by round."""
    for group in data.groups[:MOST_GROUPS]:
        tables = [
            data.stand_ins_in(cell).assign(strategy=cell.labels["strategy"], seed=cell.seed)
            for cell in data.firsts(group)
        ]
        shown = [table for table in tables if (table[REPRESENTED] > 0).any()]
        if not shown:
            continue
        if data.is_flat(STAND_INS, group, pd.concat(shown)[REPRESENTED], REPRESENTED):
            continue
        left_out = len(shown) < sum(bool(table["absent"].any()) for table in tables)
        yield data.drawn(
            "represented",
            STAND_INS,
            group,
            partial(_whole_share, pd.concat(shown), styles=data.styles),
            "First seed."
            + (" Left out: strategies that represent no absent client." if left_out else ""),
        )


def _whole_share(frame: pd.DataFrame, **options: Any) -> Figure:
    figure = plots.convergence(frame, REPRESENTED, **options)
    figure.axes[0].set_ylim(-1.0, 101.0)
    return figure


def stand_ins(data: FigureData) -> Iterator[Picture]:
    """Who stood in for whom, for strategies that let others speak."""
    for cell in data.firsts(data.groups[0]):
        n_clients = int(cell.facts.get("n_clients", 0))
        if not 1 < n_clients <= MOST_PAIRED:
            continue
        counts, mixed = _stood_in(data, cell, n_clients)
        if not counts.any():
            continue
        groups = _clusters(cell)
        caption = f"Seed {cell.seed}."
        if groups is not None:
            caption += " Squares: clusters, unknown to the method."
        if mixed:
            caption += f" Not shown: {mixed} by a mixture."
        title = titled(title_of(data.groups[0]), cell.labels["strategy"])
        yield Picture(
            file_name("stood-in", cell.labels["strategy"]),
            STAND_INS,
            plots.stood_in(counts, groups, names=names_of(cell, n_clients), title=title),
            caption,
        )


def similarities(data: FigureData) -> Iterator[Picture]:
    """Similarities that a strategy has found, where the study asked for them."""
    for group in data.groups[:MOST_GROUPS]:
        for cell in data.firsts(group):
            arrays = data.store.arrays(cell.key)
            if "similarity" not in arrays or len(arrays["similarity"]) > MOST_PAIRED:
                continue
            groups = arrays.get("groups", _clusters(cell))
            yield data.drawn(
                f"similarity-{cell.labels['strategy']}",
                "Similarity of clients",
                group,
                partial(
                    plots.similarity,
                    arrays["similarity"],
                    groups,
                    names=names_of(cell, len(arrays["similarity"])),
                ),
                f"Mean similarity of two clients' updates as {cell.labels['strategy']} has it "
                f"after the last round, seed {cell.seed}; grey: never came together.",
                cell.labels["strategy"],
            )


def counts(data: FigureData) -> Iterator[Picture]:
    """How evenly samplers pick."""
    for group in data.groups[:MOST_GROUPS]:
        frame = data.clients_of(group)
        spread = frame.groupby("strategy")["wanted"].nunique()
        picky = [name for name in spread.index if spread[name] > 1]
        if not picky:
            continue
        everybody = len(picky) < len(spread)
        frame = frame[frame["strategy"].isin(picky)]
        yield data.drawn(
            "sampling-counts",
            "Sampling counts",
            group,
            partial(plots.sampling_counts, frame, styles=data.styles),
            "Mean over seeds."
            + (" Left out: strategies that want everybody." if everybody else ""),
        )


def client_accuracies(data: FigureData) -> Iterator[Picture]:
    """How the last model serves each client."""
    for group in data.groups[:MOST_GROUPS]:
        frame = data.clients_of(group)
        if "accuracy" not in frame or frame["accuracy"].isna().all():
            continue
        section = "Accuracy over clients"
        if data.is_flat(section, group, frame["accuracy"], "accuracy", "for every client"):
            continue
        yield data.drawn(
            "client-accuracy",
            section,
            group,
            partial(plots.client_accuracy, frame, styles=data.styles),
            f"The last model, {tested_on(frame)}; all seeds. Dot: mean; bar: 10th to 90th "
            "percentile.",
        )


def shapley_values(data: FigureData) -> Iterator[Picture]:
    """What each client's update is worth."""
    for group in data.groups[:MOST_GROUPS]:
        found: dict[Any, list[Floats]] = {}
        for cell in data.cells_of(group):
            values = data.store.arrays(cell.key).get("shapley")
            if values is not None:
                found.setdefault(cell.labels["strategy"], []).append(values)
        tables = {who: np.array(rows) for who, rows in found.items() if _even(rows)}
        if tables:
            yield data.drawn(
                "shapley",
                "Shapley values",
                group,
                partial(
                    plots.client_values,
                    tables,
                    label="Shapley value, test accuracy",
                    names=names_of(
                        data.cells_of(group)[0], max(rows.shape[1] for rows in tables.values())
                    ),
                    styles=data.styles,
                ),
                "What each client's last update adds; mean over seeds.",
            )


def _stood_in(data: FigureData, cell: StoredCell, n_clients: int) -> tuple[Floats, int]:
    """(N, N) rounds in which the column spoke for the row, and how often a mixture did."""
    counts = np.zeros((n_clients, n_clients))
    mixed = 0
    for log in data.store.logs(cell.key):
        spoken = {(absent, source) for absent, source, coef in log.stand_ins if coef != 0}
        for absent, source in spoken:
            if source < 0:
                mixed += 1
            else:
                counts[absent, source] += 1
    return counts, mixed


def _clusters(cell: StoredCell) -> list[int] | None:
    groups = cell.facts.get("groups")
    return list(groups) if groups is not None else None


def names_of(cell: StoredCell, n_clients: int) -> list[str] | None:
    """What a cell's clients are called; None where they are numbers."""
    return client_names(cell.facts, n_clients) if stored_names(cell.facts) else None


def _even(rows: Sequence[npt.NDArray[Any]]) -> bool:
    return len({len(row) for row in rows}) == 1

"""The pictures of a study: those that its results have numbers for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from understudy import plots
from understudy.core.files import write_file
from understudy.core.types import Floats
from understudy.plots.measures import measure
from understudy.studies.definition.cell import Label
from understudy.studies.statistics.frames import results, rows_of_clients
from understudy.studies.statistics.groups import Group, groups_of
from understudy.studies.statistics.main_metric import main_metric
from understudy.studies.statistics.text_table import label_word
from understudy.studies.store.store import Store, StoredCell

__all__ = ["Gallery", "Picture", "figures", "main_metric", "pictures", "save"]

MOST_CURVES = 12  # groups that get a picture of their curves
MOST_GROUPS = 4  # groups, or strategies, that get one of the other pictures
MOST_PAIRED = 1000  # clients up to which a picture of all pairs says something
MOST_ROUNDS = 200  # rounds of a picture of attendance


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its place in a report.

    Parameters
    ----------
    name : str
        Of its files.
    section : str
        What pictures of its kind are about.
    figure : Figure
        The picture itself.
    caption : str
        How to read it.
    """

    name: str
    section: str
    figure: Figure
    caption: str


def figures(folder: str | Path, study: str) -> dict[str, Figure]:
    """The figures of a study, by the names of their files.

    Parameters
    ----------
    folder : path
        The runs folder.
    study : str
        Which study of it.
    """
    return {picture.name: picture.figure for picture in pictures(folder, study)}


def pictures(folder: str | Path, study: str) -> list[Picture]:
    """The figures of a study with their captions, in the order of a report.

    Pictures are of cells that are done; where none is, of those that have begun.
    """
    with Store.open(folder) as store:
        gallery = Gallery(store, study, results(folder, level="run", study=study))
        return list(gallery.pictures())


def save(figures: Mapping[str, Figure], folder: str | Path) -> list[Path]:
    """Write each figure as PNG and as SVG; return the paths."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        for ending, content in ((".png", plots.png(figure)), (".svg", plots.svg(figure))):
            path = place / f"{name}{ending}"
            write_file(path, content)
            written.append(path)
    return written


class Gallery:
    """Draws the pictures of one study.

    Parameters
    ----------
    store : Store
        Where rounds and arrays are.
    study : str
        Which study of it.
    runs : DataFrame
        Its results, one row per cell in the study's order.
    """

    def __init__(self, store: Store, study: str, runs: pd.DataFrame) -> None:
        cells = store.cells(study)
        done = [cell.status == "done" for cell in cells]
        chosen = [
            place
            for place, cell in enumerate(cells)
            if (done[place] if any(done) else cell.rounds > 0)
        ]
        self.store, self.about = store, store.study(study).about
        self.cells = [cells[place] for place in chosen]
        self.runs = runs.iloc[chosen].reset_index(drop=True)
        self.groups = groups_of(self.cells)
        self.styles = plots.styles([cell.labels["strategy"] for cell in cells])
        self.unfinished = "" if any(done) else " No cell is done yet: these are rounds so far."
        self._rounds: dict[str, pd.DataFrame] = {}

    def pictures(self) -> Iterator[Picture]:
        """All that there is something to show of."""
        if not self.cells:
            return
        yield from self.curves()
        yield from self.levels()
        yield from self.errors()
        yield from self.attendance()
        yield from self.stand_ins()
        yield from self.similarities()
        yield from self.counts()
        yield from self.client_accuracies()
        yield from self.shapley_values()
        yield from self.sigmas()

    # -- over rounds ---------------------------------------------------------------------------

    def curves(self) -> Iterator[Picture]:
        """Accuracy by round; the loss too where groups are few, or where there is no accuracy."""
        band = (
            "Mean over seeds; bands: 95 % interval of that mean, in each round by itself."
            if self._most_seeds >= 3
            else "Mean over seeds; no bands, which take three seeds."
        )
        if self._most_seeds == 1:
            band = "One seed: differences may be chance."
        metrics = [name for name in ("test_accuracy", "test_loss") if self._measured(name)]
        if len(self.groups) > MOST_GROUPS:
            metrics = metrics[:1]
        for metric in metrics or self._other_metrics:
            section = "Convergence"
            words = measure(metric).words.capitalize()
            for group in self.groups[:MOST_CURVES]:
                frame = self._rounds_of(group)
                if metric not in frame or frame[metric].isna().all():
                    continue
                yield self._picture(
                    f"convergence-{metric}",
                    section,
                    group,
                    partial(plots.convergence, frame, metric, styles=self.styles),
                    f"{words} by round. {band}{self.unfinished}{self._beyond(MOST_CURVES)}",
                )

    def errors(self) -> Iterator[Picture]:
        """How far each round's update was from that of all clients."""
        metric = "oracle_error_relative"
        for group in self.groups[:MOST_GROUPS] if self._measured(metric) else ():
            frame = self._rounds_of(group)
            if metric in frame and (frame[metric] > 0).any():
                yield self._picture(
                    "substitution-error",
                    "Substitution error",
                    group,
                    partial(plots.substitution_error, frame, metric, styles=self.styles),
                    "Squared distance of each round's update from the one that all clients "
                    "together would have given, divided by the latter's squared length. Mean over "
                    f"seeds.{self._beyond(MOST_GROUPS)}",
                )

    def sigmas(self) -> Iterator[Picture]:
        """How far apart updates are: of any two clients, and of friends."""
        for group in self.groups[:MOST_GROUPS]:
            tables = []
            strategy = None
            for cell in self._cells_of(group):
                strategy = strategy or cell.labels["strategy"]
                arrays = self.store.arrays(cell.key) if cell.labels["strategy"] == strategy else {}
                if "sigma_t" not in arrays:
                    continue
                for kind, name in (("any two clients", "sigma_p"), ("friends", "sigma_f")):
                    values = {"t": arrays["sigma_t"], "sigma²": arrays[name]}
                    tables.append(pd.DataFrame({"kind": kind, "seed": cell.seed, **values}))
            if tables:
                yield self._picture(
                    "sigma",
                    "How far apart updates are",
                    group,
                    partial(plots.convergence, pd.concat(tables), "sigma²", "kind", log=True),
                    f"Largest squared distance between the updates of any two clients (σ_P²) and "
                    f"of friends (σ_F²), under {strategy}. Mean over seeds.",
                )

    # -- over runs -----------------------------------------------------------------------------

    def levels(self) -> Iterator[Picture]:
        """The main measure over the levels of each axis, or of each strategy."""
        metric = main_metric(self.runs, self.about.get("metric"))
        if metric is None:
            return
        section = "At the end"
        told = self.groups[0].varying
        if not told:
            frame = self._runs_of(self.groups[:1])
            figure = plots.intervals(frame, metric, styles=self.styles)
            caption = "Grey dots: single seeds. Mark: their mean"
            caption += " with its 95 % interval." if self._most_seeds >= 3 else "."
            yield Picture("at-the-end", section, figure, caption)
        for axis in told:
            others = [name for name in told if name != axis]
            slices: dict[tuple[Any, ...], list[Group]] = {}
            for group in self.groups:
                slices.setdefault(tuple(group.labels[name] for name in others), []).append(group)
            for members in list(slices.values())[:MOST_GROUPS]:
                if len({group.labels[axis] for group in members}) < 2:
                    continue
                frame = self._runs_of(members)
                one = Group(members[0].labels, tuple(others))
                yield self._picture(
                    f"levels-{axis}",
                    section,
                    one,
                    partial(plots.levels, frame, axis, metric, styles=self.styles),
                    f"Over {axis}: {measure(metric).words}. Mean over seeds"
                    + (" with its 95 % interval." if self._most_seeds >= 3 else "."),
                )

    # -- over clients --------------------------------------------------------------------------

    def attendance(self) -> Iterator[Picture]:
        """What became of each client in each round, under each availability."""
        modes: dict[str, tuple[Group, StoredCell]] = {}
        for group in self.groups:
            cells = self._cells_of(group)
            own = [cell for cell in cells if cell.labels.get("availability") is not None] or cells
            described = self.store.resolved(own[0].key).get("availability")
            modes.setdefault(json.dumps(described), (group, own[0]))
        labels = [group.labels.get("availability") for group, _ in modes.values()]
        for group, cell in list(modes.values())[:MOST_GROUPS]:
            outcomes = [log.outcome for log in self.store.logs(cell.key, 0, MOST_ROUNDS)]
            if not _even(outcomes) or len(np.unique(outcomes)) < 2:
                continue  # clients joined on the way; or there is nothing to see
            mode = group.labels.get("availability")
            title = title_of(group)
            if mode is not None and labels.count(mode) == 1:
                title = f"availability {label_word(mode)}"
            rounds = f"First {MOST_ROUNDS} rounds" if cell.rounds > MOST_ROUNDS else "All rounds"
            yield Picture(
                _name("attendance", title),
                "Attendance",
                plots.attendance(np.array(outcomes), groups=_clusters(cell), title=title or None),
                f"{rounds} of {cell.labels['strategy']}, seed {cell.seed}"
                + ("; lines part clusters." if _clusters(cell) is not None else "."),
            )

    def stand_ins(self) -> Iterator[Picture]:
        """Who stood in for whom, for strategies that let others speak."""
        for cell in self._firsts(self.groups[0]):
            n_clients = int(cell.facts.get("n_clients", 0))
            if not 1 < n_clients <= MOST_PAIRED:
                continue
            counts, mixed = self._stood_in(cell, n_clients)
            if not counts.any():
                continue
            groups = _clusters(cell)
            caption = f"{cell.labels['strategy']}, seed {cell.seed}: how many rounds the client of "
            caption += "the column stood in for the absent client of the row."
            if groups is not None:
                caption += " Squares are the clusters, which the method is not told."
            if mixed:
                caption += f" A mixture of updates did so {mixed} times, which is not shown."
            title = _titled(title_of(self.groups[0]), cell.labels["strategy"])
            yield Picture(
                _name("stood-in", cell.labels["strategy"]),
                "Who stood in for whom",
                plots.stood_in(counts, groups, title=title),
                caption,
            )

    def similarities(self) -> Iterator[Picture]:
        """Similarities that a strategy has found, where the study asked for them."""
        for group in self.groups[:MOST_GROUPS]:
            for cell in self._firsts(group):
                arrays = self.store.arrays(cell.key)
                if "similarity" not in arrays or len(arrays["similarity"]) > MOST_PAIRED:
                    continue
                groups = arrays.get("groups", _clusters(cell))
                yield self._picture(
                    f"similarity-{cell.labels['strategy']}",
                    "Similarity of clients",
                    group,
                    partial(plots.similarity, arrays["similarity"], groups),
                    f"Mean similarity of the updates of two clients as {cell.labels['strategy']} "
                    f"has it after the last round, seed {cell.seed}; grey: never came together.",
                    cell.labels["strategy"],
                )

    def counts(self) -> Iterator[Picture]:
        """How evenly samplers pick."""
        for group in self.groups[:MOST_GROUPS]:
            frame = self._clients_of(group)
            spread = frame.groupby("strategy")["wanted"].nunique()
            picky = [name for name in spread.index if spread[name] > 1]
            if not picky:
                continue
            everybody = len(picky) < len(spread)
            frame = frame[frame["strategy"].isin(picky)]
            yield self._picture(
                "sampling-counts",
                "Sampling counts",
                group,
                partial(plots.sampling_counts, frame, styles=self.styles),
                "In how many rounds each client was wanted, sorted; mean over seeds. The flatter, "
                "the fairer."
                + (" Strategies that want everybody are left out." if everybody else "")
                + self._beyond(MOST_GROUPS),
            )

    def client_accuracies(self) -> Iterator[Picture]:
        """How the last model serves each client."""
        for group in self.groups[:MOST_GROUPS]:
            frame = self._clients_of(group)
            if "accuracy" not in frame or frame["accuracy"].isna().all():
                continue
            yield self._picture(
                "client-accuracy",
                "Accuracy over clients",
                group,
                partial(plots.client_accuracy, frame, styles=self.styles),
                "Density of the model's accuracy on each client's own data, all seeds together. "
                f"Dot: mean; bar: from the 10th to the 90th percentile.{self._beyond(MOST_GROUPS)}",
            )

    def shapley_values(self) -> Iterator[Picture]:
        """What each client's update is worth."""
        for group in self.groups[:MOST_GROUPS]:
            found: dict[Any, list[Floats]] = {}
            for cell in self._cells_of(group):
                values = self.store.arrays(cell.key).get("shapley")
                if values is not None:
                    found.setdefault(cell.labels["strategy"], []).append(values)
            tables = {who: np.array(rows) for who, rows in found.items() if _even(rows)}
            if tables:
                yield self._picture(
                    "shapley",
                    "Shapley values",
                    group,
                    partial(
                        plots.client_values,
                        tables,
                        label="Shapley value, test accuracy",
                        styles=self.styles,
                    ),
                    "What each client's last update adds to the model's test accuracy; mean over "
                    "seeds.",
                )

    # -- what is drawn -------------------------------------------------------------------------

    @cached_property
    def _most_seeds(self) -> int:
        """Seeds of the strategy that has most, within one group."""
        counts = [
            sum(self.cells[place].labels["strategy"] == strategy for place in group.cells)
            for group in self.groups
            for strategy in {self.cells[place].labels["strategy"] for place in group.cells}
        ]
        return max(counts, default=0)

    @cached_property
    def _other_metrics(self) -> list[str]:
        """Of a study without accuracy or loss: its own first metric."""
        frame = self._rounds_of(self.groups[0])
        own = [str(name) for name in frame.columns if str(name).startswith("test_")]
        return [name for name in own if frame[name].notna().any()][:1]

    def _measured(self, metric: str) -> bool:
        return any(
            metric in rounds and bool(rounds[metric].notna().any())
            for rounds in (self._rounds_in(cell) for cell in self.cells)
        )

    def _rounds_in(self, cell: StoredCell) -> pd.DataFrame:
        if cell.key not in self._rounds:
            frame = self.store.rounds(cell.key)
            kept = [
                name
                for name in frame.columns
                if name in ("t", "oracle_error_relative") or str(name).startswith("test_")
            ]
            self._rounds[cell.key] = frame[kept]
        return self._rounds[cell.key]

    def _cells_of(self, group: Group) -> list[StoredCell]:
        return [self.cells[place] for place in group.cells]

    def _firsts(self, group: Group) -> list[StoredCell]:
        """The first seed of each strategy, of a few."""
        firsts: dict[Any, StoredCell] = {}
        for cell in self._cells_of(group):
            firsts.setdefault(cell.labels["strategy"], cell)
        return list(firsts.values())

    def _rounds_of(self, group: Group) -> pd.DataFrame:
        return pd.concat(
            [
                self._rounds_in(cell).assign(strategy=cell.labels["strategy"], seed=cell.seed)
                for cell in self._cells_of(group)
            ],
            ignore_index=True,
        )

    def _clients_of(self, group: Group) -> pd.DataFrame:
        return pd.concat(
            [
                rows_of_clients(self.store, cell).assign(
                    strategy=cell.labels["strategy"], seed=cell.seed
                )
                for cell in self._cells_of(group)
            ],
            ignore_index=True,
        )

    def _runs_of(self, members: list[Group]) -> pd.DataFrame:
        """Rows of the runs of some groups, each once."""
        places = sorted({place for group in members for place in group.cells})
        return self.runs.iloc[places]

    def _stood_in(self, cell: StoredCell, n_clients: int) -> tuple[Floats, int]:
        """(N, N) rounds in which the column spoke for the row, and how often a mixture did."""
        counts = np.zeros((n_clients, n_clients))
        mixed = 0
        for log in self.store.logs(cell.key):
            spoken = {(absent, source) for absent, source, coef in log.stand_ins if coef != 0}
            for absent, source in spoken:
                if source < 0:
                    mixed += 1
                else:
                    counts[absent, source] += 1
        return counts, mixed

    def _beyond(self, most: int) -> str:
        left = len(self.groups) - most
        return f" {left} more groups are not shown." if left > 0 else ""

    def _picture(
        self,
        kind: str,
        section: str,
        group: Group,
        draw: partial[Figure],
        caption: str,
        strategy: Label = None,
    ) -> Picture:
        values = [group.labels[name] for name in group.varying]
        title = title_of(group) if strategy is None else _titled(title_of(group), strategy)
        return Picture(_name(kind, *values), section, draw(title=title or None), caption)


def title_of(group: Group) -> str:
    """What tells a group from the others, in words; empty where it is the only one."""
    return ", ".join(f"{name} {label_word(group.labels[name])}" for name in group.varying)


def _clusters(cell: StoredCell) -> list[int] | None:
    groups = cell.facts.get("groups")
    return list(groups) if groups is not None else None


def _even(rows: Sequence[npt.NDArray[Any]]) -> bool:
    return len({len(row) for row in rows}) == 1


def _titled(title: str | None, strategy: Any) -> str:
    return f"{strategy}, {title}" if title else str(strategy)


def _name(*words: Any) -> str:
    """The name of a file: letters, digits, dots and dashes."""
    text = "-".join(label_word(word) for word in words if word is not None)
    return re.sub(r"[^\w.−]+", "-", text).replace("−", "-").strip("-.")

"""The pictures of a study: those that its results have numbers for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from understudy import plots
from understudy.core.files import write_file
from understudy.measures import main_metric, measure
from understudy.plots.saving import FORMATS
from understudy.studies.report import client_figures, round_figures
from understudy.studies.report.figure_data import (
    MOST_GROUPS,
    FigureData,
    Picture,
    title_of,
    with_own_names,
)
from understudy.studies.report.round_figures import MOST_CURVES
from understudy.studies.report.shared_range import shared_range
from understudy.studies.statistics.frames import results
from understudy.studies.statistics.groups import Group
from understudy.studies.statistics.paired_tests import SEEDS_OF_INTERVAL
from understudy.studies.store.store import Store

__all__ = ["Picture", "figures", "pictures", "pictures_of", "save"]


def figures(folder: str | Path, study: str, runs: pd.DataFrame | None = None) -> dict[str, Figure]:
    """The figures of a study, by the names of their files; as in `pictures`."""
    return {picture.name: picture.figure for picture in pictures(folder, study, runs)}


def pictures(folder: str | Path, study: str, runs: pd.DataFrame | None = None) -> list[Picture]:
    """The figures of a study with their captions, in the order of a report.

    Pictures are of cells that are done; where none is, of those that have begun.

    Parameters
    ----------
    folder : path
        The runs folder.
    study : str
        Which study of it.
    runs : DataFrame, optional
        Its results, one row per cell, where somebody has them already.
    """
    if runs is None:
        runs = results(folder, level="run", study=study)
    with Store.open(folder) as store:
        return pictures_of(FigureData(store, study, runs))


def pictures_of(data: FigureData) -> list[Picture]:
    """The figures of what is shown of a study; while its store is open."""
    return list(with_own_names(_all(data))) if data.cells else []


def _all(data: FigureData) -> Iterator[Picture]:
    yield from shared_range(differences(data), "x")
    yield from shared_range(levels(data))
    yield from shared_range(round_figures.curves(data), by_caption=True)
    yield from shared_range(round_figures.errors(data))
    yield from client_figures.attendance(data)
    yield from shared_range(client_figures.represented(data))
    yield from shared_range(client_figures.stand_ins(data), "colour")
    yield from shared_range(round_figures.largest_shares(data))
    yield from shared_range(client_figures.similarities(data), "colour", by_caption=True)
    yield from shared_range(client_figures.counts(data))
    yield from shared_range(client_figures.client_accuracies(data), "x")
    yield from shared_range(client_figures.shapley_values(data))
    yield from shared_range(round_figures.sigmas(data))


def differences(data: FigureData) -> Iterator[Picture]:
    """Each strategy against the baseline, seed by seed."""
    metric, baseline = main_metric(data.runs, data.about.get("metric")), data.about.get("baseline")
    if metric is None or baseline is None:
        return
    for group in data.groups[:MOST_CURVES]:
        frame = data.runs_of([group])
        if _not_all_reached(frame, metric):
            continue
        known = frame[frame[metric].notna()]
        own = set(known.loc[known["strategy"] == baseline, "seed"])
        if not own & set(known.loc[known["strategy"] != baseline, "seed"]):
            continue
        section = "Differences"
        if known.groupby("seed")[metric].nunique().max() == 1:
            title = title_of(group)
            data.tell(
                section,
                f"{title}{': ' * bool(title)}each strategy comes to the same as {baseline} with "
                "every seed.",
            )
            continue
        yield data.drawn(
            "differences",
            section,
            group,
            partial(plots.differences, frame, baseline, metric, styles=data.styles),
            f"Dots: seeds. Mark: mean{_with_interval(data)} Not corrected for the number of "
            f"comparisons, as the table's p is.",
            most=MOST_CURVES,
        )


def _not_all_reached(frame: pd.DataFrame, metric: str) -> bool:
    """Whether a picture would show the price of a target without the runs that never reached it.

    Two fast seeds of five would look best; the table says how many reached it.
    """
    return measure(metric).is_price and bool(frame[metric].isna().any())


def _is_flat(
    data: FigureData, section: str, group: Group, frame: pd.DataFrame, metric: str
) -> bool:
    """Whether all of several runs came to the same number, which a sentence then tells."""
    if len(frame) < 2 or measure(metric).is_price:
        return False
    return data.is_flat(section, group, frame[metric], metric, "in every run")


def _with_interval(data: FigureData) -> str:
    return " with its 95 % interval." if data.most_seeds >= SEEDS_OF_INTERVAL else "."


def levels(data: FigureData) -> Iterator[Picture]:
    """The main measure over the levels of each axis, or of each strategy."""
    metric = main_metric(data.runs, data.about.get("metric"))
    if metric is None:
        return
    section = "Final results"
    told = data.groups[0].varying
    if not told:
        frame = data.runs_of(data.groups[:1])
        if _not_all_reached(frame, metric):
            return
        if _is_flat(data, section, data.groups[0], frame, metric):
            return
        figure = plots.intervals(frame, metric, styles=data.styles)
        caption = f"Dots: seeds. Mark: mean{_with_interval(data)}"
        yield Picture("at-the-end", section, figure, caption)
    for axis in told:
        others = [name for name in told if name != axis]
        slices: dict[tuple[Any, ...], list[Group]] = {}
        for group in data.groups:
            slices.setdefault(tuple(group.labels[name] for name in others), []).append(group)
        for members in list(slices.values())[:MOST_GROUPS]:
            if len({group.labels[axis] for group in members}) < 2:
                continue
            frame = data.runs_of(members)
            if _not_all_reached(frame, metric):
                continue
            one = Group(members[0].labels, tuple(others))
            if _is_flat(data, section, one, frame, metric):
                continue
            yield data.drawn(
                f"levels-{axis}",
                section,
                one,
                partial(plots.levels, frame, axis, metric, styles=data.styles),
                f"Mean over seeds{_with_interval(data)}",
            )


def save(
    figures: Mapping[str, Figure], folder: str | Path, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write each figure in some formats of ``png``, ``svg`` and ``pdf``; return the paths."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        for ending in formats:
            path = place / f"{name}.{ending}"
            write_file(path, FORMATS[ending](figure))
            written.append(path)
    return written

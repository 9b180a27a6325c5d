"""The pictures of the page of results, from exported files alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tools.claims.paper_figures import FIGURES
from tools.claims.paper_numbers import Curve, PaperNumbers
from tools.claims.results_book import Book, row_groups
from tools.claims.verdicts import (
    IN_PART,
    MIXED,
    NOT_REPRODUCED,
    NOT_RUN,
    OPEN,
    REPRODUCED,
    WITHDRAWN,
)
from understudy.plots import convergence, svg
from understudy.plots.style import Style, canvas, legend_below, styles
from understudy.studies.statistics.export import Exported, Row

COLOURS = {
    REPRODUCED: "#1b7837",
    IN_PART: "#a6dba0",
    MIXED: "#fdb863",
    NOT_REPRODUCED: "#b2182b",
    OPEN: "#d9d9d9",
    NOT_RUN: "#f0f0f0",
    WITHDRAWN: "#ffffff",
}
DARK = (REPRODUCED, NOT_REPRODUCED)  # colours on which black cannot be read
# On a dark page white and black change places (plots.saving.DARK), bars of other colours do not:
# neither may the ink on them.
ALL = "all"  # the name of a group that is the only one
Key = tuple[str, str]  # study, file name


def pictures(book: Book, papers: PaperNumbers | None = None) -> dict[Key, bytes]:
    """All pictures as SVG, in a fixed order; a paper's own curves are dashed behind ours."""
    papers = papers or PaperNumbers()
    drawn: dict[Key, bytes] = {}
    for study in sorted(book.studies):
        exported, own = book.studies[study], FIGURES.get(study)
        if own is not None and own.whole:
            picture = own.draw(exported.rows, exported, "")
            drawn |= {} if picture is None else {(study, f"{own.suffix}.svg"): svg(picture)}
            continue
        for words, rows in groups(exported.rows).items():
            picture = None if own is None else own.draw(rows, exported, title_of(words))
            if own is not None and picture is not None:
                drawn[study, f"{words}-{own.suffix}.svg"] = svg(picture)
            behind = {
                str(row.labels["strategy"]): curve
                for row in rows
                if (curve := papers.curve(study, _known(row.labels))) is not None
            }
            for name, content in _of_group(words, rows, exported, behind).items():
                drawn[study, name] = content
    return drawn


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Cells that differ in strategy and seed only, by the name of their picture."""
    made = {}
    for group in row_groups(rows):
        own = _block_first(group.labels)
        words = "-".join(_word(name, value) for name, value in own.items())
        made[words or ALL] = list(group.rows)
    return made


def title_of(words: str) -> str:
    """What is written above the pictures of a group."""
    return "" if words == ALL else words.replace("-", ", ")


def _block_first(own: Mapping[str, object]) -> dict[str, object]:
    return {name: own[name] for name in sorted(own, key=lambda name: name != "block")}


def _word(name: str, value: object) -> str:
    word = f"{value:g}" if isinstance(value, float) else str(value)
    plain = re.sub(r"[^A-Za-z0-9.]+", "_", word)
    return plain if name in ("block", "availability") else f"{name}{plain}"


def _known(labels: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in labels.items() if value is not None}


def overview(counts: Mapping[str, Sequence[int]], kinds: Sequence[str]) -> bytes:
    """How many claims of each paper have which verdict: one bar for each paper."""
    figure, axes = canvas(legend=list(kinds))
    papers = list(counts)
    left = np.zeros(len(papers))
    handles = []
    for kind, column in zip(kinds, np.array([counts[paper] for paper in papers]).T, strict=True):
        bars = axes.barh(
            papers, column, left=left, color=COLOURS[kind], edgecolor="#b0b0b0", linewidth=0.5
        )
        handles.append(bars[0])
        ink = "#fefefe" if kind in DARK else "black" if kind == WITHDRAWN else "#111111"
        axes.bar_label(bars, [str(n) if n else "" for n in column], label_type="center", color=ink)
        left += column
    axes.invert_yaxis()
    axes.set_xlabel("claims")
    legend_below(figure, handles, list(kinds))
    return svg(figure)


def _of_group(
    words: str, rows: Sequence[Row], exported: Exported, behind: Mapping[str, Curve]
) -> dict[str, bytes]:
    frame = _frame(rows, exported)
    made = {}
    metric = "test_loss" if _judged_by_loss(rows) else "test_accuracy"
    if metric in frame and is_curve(frame, metric):
        looks = styles(dict.fromkeys(frame["strategy"]))
        figure = convergence(frame, metric, styles=looks, title=title_of(words) or None)
        if metric == "test_accuracy":
            _draw_behind(figure, behind, looks, int(frame["t"].max()) + 1)
        made[f"{words}.svg"] = svg(figure)
    if "sigma_p" in frame and is_curve(frame, "sigma_p"):
        made[f"{words}-sigma.svg"] = svg(_sigmas(frame))
    return made


def is_curve(frame: pd.DataFrame, metric: str) -> bool:
    """Whether a measure was taken in more than one round: a dot for each strategy is no picture."""
    return frame.dropna(subset=[metric])["t"].nunique() > 1


def _draw_behind(
    figure: Figure, behind: Mapping[str, Curve], looks: Mapping[Any, Style], rounds: int
) -> None:
    """The paper's own curves, dashed, as far as ours go."""
    for strategy, curve in behind.items():
        shown = [at for at in sorted(curve) if at <= rounds]
        figure.axes[0].plot(
            shown,
            [100 * curve[at] for at in shown],
            "--",
            color=looks[strategy].colour,
            linewidth=1.0,
            alpha=0.7,
            zorder=2,
        )


def _judged_by_loss(rows: Sequence[Row]) -> bool:
    """FedGS's tables are of losses."""
    return any(str(row.labels["strategy"]).startswith("fedgs") for row in rows)


def _frame(rows: Sequence[Row], exported: Exported) -> pd.DataFrame:
    """One row per exported round, as `plots` wants them."""
    records = [
        {"strategy": row.labels["strategy"], "seed": row.seed, "t": point["round"] - 1, **point}
        for row in rows
        for point in exported.curves[row.key]
    ]
    return pd.DataFrame(records)


def _sigmas(frame: pd.DataFrame) -> Figure:
    """How far apart friends and any two clients are, with everybody present where that was run."""
    chosen = "full" if "full" in set(frame["strategy"]) else frame["strategy"].iloc[0]
    mine = frame[frame["strategy"] == chosen]
    lines = [
        mine[["seed", "t"]].assign(strategy=words, squared_difference_of_updates=mine[name])
        for name, words in (("sigma_p", "σ_P², any two clients"), ("sigma_f", "σ_F², friends"))
    ]
    return convergence(pd.concat(lines), "squared_difference_of_updates", log=True, title=chosen)

"""Colours, lines and legends that all pictures share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from typing import Any, Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from understudy.core.printable import printable
from understudy.measures import Measure
from understudy.plots.notebook_figure import NotebookFigure

# Okabe and Ito's colours, which colour-blind people can tell apart (without yellow, which is lost
# on white), and a wine red; then the same again with other lines and markers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#882255")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
WIDTH = 5.8  # inches; the text stays readable when a telephone shrinks it
LONGEST_LABEL = 62  # letters of a label that fit into a line of a legend
MOST_NAMED, LONGEST_NAME = 40, 18  # clients that get a tick each; letters of their names
ROUND_STEPS = (1, 2, 5, 10)  # of ticks that people can count in
GREY = "#6B7280"
OPEN = "white"  # face of a mark that stands for only some of the seeds


@dataclass(frozen=True)
class Style:
    """How one strategy is drawn, in every picture of a study."""

    colour: str
    line: str = "-"
    marker: str = "o"


REFERENCES = {"full": Style("#000000", "--", "*"), "dropout": Style("#6A6A6A", "-", "o")}


def styles(labels: Iterable[Hashable]) -> dict[Hashable, Style]:
    """A style for each label, in order; ``full`` and ``dropout`` are drawn as references."""
    chosen: dict[Hashable, Style] = {}
    count = 0
    for label in labels:
        if label in chosen:
            continue
        if label in REFERENCES:
            chosen[label] = REFERENCES[str(label)]
            continue
        lap, position = divmod(count, len(COLOURS))
        marker = MARKERS[(position + lap) % len(MARKERS)]
        chosen[label] = Style(COLOURS[position], LINES[lap % len(LINES)], marker)
        count += 1
    return chosen


def text(label: object, longest: int = LONGEST_LABEL) -> str:
    """A label as matplotlib should show it: no formula where there is a $, never endless."""
    words = _whole(label)
    if len(words) > longest:
        kept = longest - 1
        words = words[: kept - kept // 3] + "…" + words[len(words) - kept // 3 :]
    words = str(printable(words)).replace("$", r"\$")
    return f" {words}" if words.startswith("_") else words  # legends leave out what begins with _


def texts(labels: Sequence[object], longest: int = LONGEST_LABEL) -> list[str]:
    """Labels as `text` gives them; where several are too long, what they share is cut.

    Different labels stay different wherever what tells them apart is short enough.
    """
    whole = [_whole(label) for label in labels]
    long = [label for label in whole if len(label) > longest]
    begin = longest // 4
    shared = _n_shared(long) if len(set(long)) > 1 else 0

    def cut(label: str, start: int) -> str:
        if label not in long or start <= begin:
            return text(label, longest)
        return text(f"{label[:begin]}…{label[start:]}", longest)

    # some letters before the difference, to say what it is, unless their room is needed
    tries = [[cut(label, start) for label in whole] for start in (shared - 8, 0, shared)]
    return next((short for short in tries if len(set(short)) == len(set(whole))), tries[0])


def with_seeds(label: object, known: int, n_seeds: int) -> object:
    """A label that tells of how many seeds its mean is, where it is not of all."""
    return label if known == n_seeds else with_words(label, f"{known} of {n_seeds} seeds")


def with_words(label: object, words: str) -> str:
    """A label with words in brackets."""
    return f"{_whole(label)} ({words})"


def _whole(label: object) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


def _n_shared(labels: Sequence[str]) -> int:
    """Letters with which all of them begin."""
    first, last = min(labels), max(labels)
    return next((place for place, letter in enumerate(first) if last[place] != letter), len(first))


def wrapped(labels: Sequence[object], width: int = 26, lines: int = 3) -> list[str]:
    """Labels for the rows of a picture: broken at spaces into a few short lines."""
    return ["\n".join(wrap(label, width)) for label in texts(labels, width * lines - 8)]


def row_height(labels: Sequence[str], least: float) -> float:
    """Inches of a row that holds the longest of these (wrapped) labels."""
    return max(least, 0.08 + 0.155 * max(label.count("\n") + 1 for label in labels))


def tick_rounds(axis: Axis) -> None:
    """Ticks at whole numbers."""
    axis.set_major_locator(MaxNLocator(10, steps=list(ROUND_STEPS), integer=True))


def name_clients(axis: Axis, names: Sequence[str] | None, order: Sequence[int]) -> None:
    """Ticks for clients that stand in this order: their names, or their numbers.

    A few get a tick each, of many only some, as on other axes.
    """
    if names is not None and len(names) != len(order):
        raise ValueError(f"names: expected {len(order)} of them, got {len(names)}")
    known = [str(who) for who in range(len(order))] if names is None else texts(names, LONGEST_NAME)
    placed = [known[who] for who in order]
    turned = 90 if isinstance(axis, XAxis) and names is not None else 0
    if names is not None and len(order) <= MOST_NAMED:
        axis.set_ticks(range(len(order)), labels=placed, fontsize=8, rotation=turned)
        return
    tick_rounds(axis)
    axis.set_major_formatter(FuncFormatter(partial(_placed_name, placed)))
    if names is not None:
        axis.set_tick_params(labelsize=8, labelrotation=turned)


def _placed_name(placed: Sequence[str], at: float, _: int | None = None) -> str:
    return placed[round(at)] if 0 <= round(at) < len(placed) else ""


def canvas(
    height: float = 3.5,
    *,
    width: float = WIDTH,
    legend: Sequence[str] = (),
) -> tuple[Figure, Axes]:
    """An empty figure with one panel, tall enough for a legend of these labels below it."""
    if legend:
        height += 0.2 * math.ceil(len(legend) / _columns(legend, width))
    figure = NotebookFigure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(color="#E3E6EA", linewidth=0.8)
    return figure, axes


def legend_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """A legend below the panel, in as many columns as its longest label allows."""
    figure.legend(
        list(handles),
        list(labels),
        loc="outside lower center",
        ncols=_columns(labels, figure.get_figwidth()),
        frameon=False,
        fontsize=9,
        handlelength=2.6,
        columnspacing=1.4,
    )


def titled(axes: Axes, title: str | None) -> None:
    """A title that is broken into lines rather than cut off."""
    if title is not None:
        axes.set_title(text(title, 200), fontsize=11, loc="left", wrap=True)


def name_height(axes: Axes, words: str) -> None:
    """Name the vertical axis, in two lines where one would be longer than the axis."""
    axes.set_ylabel("\n".join(wrap(text(words, 80), 32)))
    if axes.get_yscale() == "linear":
        axes.ticklabel_format(axis="y", useOffset=False)  # 2.3041, not 4.1e-3 + 2.3


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a picture, the first at the top; nothing else is drawn across."""
    axes.set_yticks(range(len(names)), labels=names[::-1], fontsize=9)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def within_percents(axes: Axes, shown: Measure, axis: Literal["x", "y"] = "y") -> None:
    """Let an axis of percents end at 0 and 100: intervals may go beyond, accuracies do not."""
    if shown.unit == "%":
        low, high = axes.get_xlim() if axis == "x" else axes.get_ylim()
        (axes.set_xlim if axis == "x" else axes.set_ylim)(max(low, -1.0), min(high, 101.0))


def style_of(chosen: Mapping[Any, Style] | None, labels: Sequence[Hashable]) -> dict[Any, Style]:
    """The given styles, completed for labels that they do not have."""
    given = dict(chosen or {})
    return {**styles([*given, *labels]), **given}


def _columns(labels: Sequence[str], width: float) -> int:
    longest = max(len(label) for label in labels)
    fitting = int((width - 0.2) / (0.078 * longest + 0.65))  # inches of a letter, of a line
    # columns that are filled evenly: 4 labels as 2 + 2, not 3 + 1
    rows = math.ceil(len(labels) / max(1, min(fitting, len(labels))))
    return math.ceil(len(labels) / rows)

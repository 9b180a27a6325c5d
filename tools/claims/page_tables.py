"""Measured means of a study, as a table of the results page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tools.claims import verdicts
from tools.claims.results_book import RowGroup, row_groups
from understudy.core.intervals import half_width
from understudy.measures import Measure, measure
from understudy.studies.statistics.export import Row
from understudy.studies.statistics.text_table import ZERO

OF_ALL = ("accuracy_best", "accuracy_last", "accuracy_last10", "loss_best", "loss_last")


def table(metric: str, rows: Sequence[Row]) -> Iterator[str]:
    """Means and 95 % intervals: a row for each strategy, a column for each group."""
    known = [row for row in rows if metric in row.measures]
    if not known:
        return
    rows = list(rows) if metric in OF_ALL else [row for row in rows if _has(row, metric, known)]
    shown = measure(metric)
    groups = row_groups(rows)
    head = f"{shown.head[0].upper()}{shown.head[1:]}{_over(shown)}"
    yield f"{head}: mean over seeds ± half of its 95 % interval."
    yield ""
    yield f"| strategy | {' | '.join(_group_words(group) for group in groups)} |"
    yield "| --- |" + " ---: |" * len(groups)
    for strategy in dict.fromkeys(str(row.labels["strategy"]) for row in rows):
        cells = [
            _mean([row for row in group.rows if row.labels["strategy"] == strategy], metric, shown)
            for group in groups
        ]
        yield f"| {strategy} | {' | '.join(cells)} |"
    yield ""


def _over(shown: Measure) -> str:
    """What tells measures of the same name apart: of which rounds, and about what."""
    words = shown.about.partition(": ")[2].rstrip(".")
    return f" ({words})" if shown.over is not None and words else ""


def _has(row: Row, metric: str, known: Sequence[Row]) -> bool:
    """Whether a row was asked for a measure: it has it, or the same with another seed has."""
    return any(row.labels == other.labels for other in known)


def _group_words(group: RowGroup) -> str:
    words = [
        str(value) if name in ("block", "availability") else f"{name} {value:g}"
        if isinstance(value, float) else f"{name} {value}"
        for name, value in group.labels.items()
    ]  # fmt: skip
    return ", ".join(words) or "all"


def _mean(rows: Sequence[Row], metric: str, shown: Measure) -> str:
    if not rows:
        return ""
    values = np.array([row.measures.get(metric, math.nan) * shown.scale for row in rows])
    known = values[np.isfinite(values)]
    diverged = len(values) - len(known)
    if not len(known):
        return "diverged"
    words = number_words(float(known.mean()), shown)
    if len(known) >= verdicts.FEWEST_SEEDS:
        half = number_words(float(half_width(known)), shown)
        # zero but for rounding: "± 0.00" would look like a measured interval
        words = f"{words} ± {half}" if set(words + half) - set("−0.") else ZERO
    return f"{words} ({diverged} diverged)" if diverged else words


def number_words(value: float, shown: Measure, *, sign: bool = False) -> str:
    """Two decimals for percents and points, else three significant digits."""
    if not math.isfinite(value):
        return "–"
    decimals = 2
    if shown.scale == 1:
        size = math.floor(math.log10(abs(value))) if value else 0
        decimals = min(max(0, 2 - size), 6)
    return f"{value:{'+' if sign else ''}.{decimals}f}".replace("-", "−")

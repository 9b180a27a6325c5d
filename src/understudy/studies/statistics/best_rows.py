"""Which rows of a comparison are the best of their group, or not told from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import pandas as pd

from understudy.measures import Measure
from understudy.studies.statistics.paired_tests import SEEDS_OF_T, SIGNIFICANT

if TYPE_CHECKING:
    from understudy.studies.statistics.comparison_table import Comparison


def best_rows(
    rows: pd.DataFrame,
    measure: Measure,
    references: Collection[str],
    against: Callable[[str], Comparison] | None,
) -> tuple[list[int], list[str]]:
    """Positions of the best rows, and what is said of them below the table.

    Parameters
    ----------
    rows : DataFrame
        Of a comparison.
    measure : Measure
        What its means are of; where neither way is better, no row is the best.
    references : collection of str
        Strategies that are never the best, since they do not face the same absences.
    against : function
        The same comparison with another baseline.
    """
    lower = measure.lower_is_better
    if lower is None or against is None or rows.empty:
        return [], []
    if measure.is_price and (rows["reached"] < rows["seeds"]).any():
        return [], []  # means over different seeds are not compared
    best: list[int] = []
    compared = 0
    labels = list(rows.columns[: list(rows.columns).index("strategy")])
    spots = [tuple(row) for row in rows[labels].itertuples(index=False)]
    for spot in dict.fromkeys(spots):
        rivals = [
            place
            for place, other in enumerate(spots)
            if other == spot
            and rows["strategy"][place] not in references
            and not math.isnan(rows["mean"][place])
        ]
        if len(rivals) < 2:
            continue
        compared += 1
        first = (min if lower else max)(rivals, key=lambda place: rows["mean"][place])
        p_values = against(rows["strategy"][first]).rows["p_t_holm"]
        others = [place for place in rivals if place != first]
        if not any(math.isnan(p_values[place]) for place in others):
            best += [first, *(place for place in others if p_values[place] >= SIGNIFICANT)]
    if not compared:
        return [], []
    if not best:
        return [], [f"Nothing is bold: to tell the best from others takes {SEEDS_OF_T} seeds."]
    apart = ", of those with the same availability" if set(references) & {*rows["strategy"]} else ""
    words = f"Bold: the best mean{apart}, and those not shown to differ from it"
    return best, [f"{words} (t-test, Holm, p at least {SIGNIFICANT})."]

"""What came out of a study: one sentence for each comparison, made from its statistics."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from understudy.studies.statistics.comparison import compare
from understudy.studies.statistics.comparison_table import Comparison, value_word
from understudy.studies.statistics.constant_prediction import (
    REFERENCE,
    in_words,
    none_beats,
    sentence,
)
from understudy.studies.statistics.paired_tests import SEEDS_OF_T, SIGNIFICANT
from understudy.studies.statistics.text_table import NOTHING, heading_of

Row = Mapping[Any, Any]
HOW = (
    f"Better, worse: p < {SIGNIFICANT} (t-test, Holm); no difference shown does not mean none. The "
    "best is chosen and tested on the same seeds, which favours it."
)


@dataclass(frozen=True)
class Conclusions:
    """The sentences of a study.

    Parameters
    ----------
    overview : tuple of str
        What to bear in mind.
    groups : tuple of pairs of str
        For each comparison what tells it from the others (empty where it is the only one), and
        what came out of it.
    how : str
        When a strategy is said to be better or worse.
    """

    overview: tuple[str, ...] = ()
    groups: tuple[tuple[str, str], ...] = ()
    how: str = ""


def conclusions(runs: pd.DataFrame, metric: str, references: Collection[str] = ()) -> Conclusions:
    """What a study's results say, and what they do not.

    Parameters
    ----------
    runs : DataFrame
        As from ``results(path, level="run")``.
    metric : str
        The measure compared.
    references : collection of str
        Strategies with an availability of their own: never called the best, since they do not
        face the same absences.
    """
    comparison = compare(runs, metric)
    found = _by_heading(comparison)
    what = in_words(metric, f"{REFERENCE}_accuracy" in runs)

    @cache  # most groups of a study have the same best strategy
    def against(best: str) -> dict[str, list[Row]]:
        return _by_heading(compare(runs, metric, best))

    groups, tested = [], False
    for heading, rows in found.items():
        rivals = [row for row in rows if row["strategy"] not in references]
        words = _without_a_best(comparison, rows, rivals, what)
        if words is None:
            best = _best(comparison, rivals)
            others = against(best[0]).get(heading, [])
            tested |= any(_is_tested(row) for row in others)
            words = _best_in_words(comparison, best, others, rivals)
        tested |= any(_is_tested(row) for row in rivals)
        groups.append((heading, words))
    overview = []
    if comparison.unfinished:
        done = len(runs) - comparison.unfinished
        overview.append(f"Preliminary: {done} of {len(runs)} cells are done.")
    if comparison.differences is not None:
        overview.append(comparison.differences)
    return Conclusions(tuple(overview), tuple(groups), HOW if tested else "")


def _by_heading(comparison: Comparison) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in comparison.rows.to_dict("records"):
        heading = heading_of((name, row[name]) for name in comparison.labels)
        groups.setdefault(heading, []).append(row)
    return groups


def _without_a_best(
    comparison: Comparison, rows: Sequence[Row], rivals: Sequence[Row], what: str
) -> str | None:
    """Why no strategy of a group is called the best; None where one is."""
    known = [row for row in rows if not math.isnan(row["mean"])]
    if len(known) < 2:
        return f"Only {known[0]['strategy']} has a result." if known else "No result."
    if comparison.measure.is_price and any(row["reached"] < row["seeds"] for row in rows):
        reached = ", ".join(f"{row['strategy']} {row['reached']} of {row['seeds']}" for row in rows)
        return f"Not ranked: not every run reached the target ({reached})."
    ranked = [row for row in rivals if not math.isnan(row["mean"])]
    lower = comparison.lower_is_better
    if not ranked:
        return "Only references have a result."
    if len(ranked) == 1 and len(known) > 1:
        return f"Only {ranked[0]['strategy']} is compared, with references, which are not tested."
    if lower is None:
        return "Neither way is better, so none is called the best."
    if not math.isnan(ranked[0].get(REFERENCE, math.nan)) and none_beats(ranked, lower):
        told = sentence([ranked], comparison.metric, what, ()) or ""
        return f"{told.removesuffix('.')}, so none is called the best."
    return None


def _best(comparison: Comparison, rivals: Sequence[Row]) -> list[str]:
    """Those with the best mean."""
    means = {str(row["strategy"]): row["mean"] for row in rivals if not math.isnan(row["mean"])}
    best = (min if comparison.lower_is_better else max)(means.values())
    return [name for name, mean in means.items() if mean == best]


def _best_in_words(
    comparison: Comparison, best: Sequence[str], others: Sequence[Row], rivals: Sequence[Row]
) -> str:
    """Which are the best, and who cannot be distinguished from the first of them."""
    first = next(row for row in rivals if row["strategy"] == best[0])
    adjective = "lowest" if comparison.lower_is_better else "highest"
    head = comparison.measure.words.partition(", ")[0]
    if head.startswith(("best ", "lowest ")):
        head = f"value of “{head}”"
    words = f"{_names(best)} {'has' if len(best) == 1 else 'have'} the {adjective} {head}"
    words += f", {value_word(comparison, first['mean'])}"
    behind = {row["strategy"] for row in rivals} - {*best}
    compared = [row for row in others if row["strategy"] in behind]
    if not any(_is_tested(row) for row in [*compared, *rivals]):
        n = max(row["seeds"] for row in rivals)
        seeds = "one seed" if n == 1 else f"{n} seeds"
        return f"{words}: with {seeds} this may be chance (a test takes {SEEDS_OF_T})."
    close = [str(row["strategy"]) for row in compared if _is_tested(row) and not _holds(row)]
    untested = [str(row["strategy"]) for row in compared if not _is_tested(row)]
    words += f"; {_names(close)} cannot be distinguished from it" if close else ""
    words += f"; not tested: {_names(untested)}" if untested else ""
    ahead = compared and not close and not untested
    return f"{words}; the lead over every other strategy holds." if ahead else f"{words}."


def verdict(comparison: Comparison, row: Row) -> str:
    """What holds of a row against the study's baseline."""
    if row["strategy"] == comparison.baseline or row["strategy"] in comparison.references:
        return NOTHING
    if _holds(row):
        lower = comparison.lower_is_better
        words = ("lower", "higher") if lower is None else ("worse", "better")
        return words[bool(row["difference"] > 0) != bool(lower)]
    if row["difference"] == row["difference_half"] == 0:
        return "the same"
    return "no difference shown" if _is_tested(row) else "not tested"


def _is_tested(row: Row) -> bool:
    return not math.isnan(row["p_t_holm"])


def _holds(row: Row) -> bool:
    return _is_tested(row) and bool(row["p_t_holm"] < SIGNIFICANT)


def _names(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last

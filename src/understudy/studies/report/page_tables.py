"""The tables of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pandas as pd

from understudy.measures import MEASURES, evaluated_rounds, is_metric, measure
from understudy.studies.report.conclusions import verdict
from understudy.studies.report.figure_data import MOST_GROUPS, FigureData, title_of
from understudy.studies.statistics.comparison import compare
from understudy.studies.statistics.comparison_table import (
    REACHED,
    columns_worth_showing,
    mean_head,
    not_all_reached_note,
    table_of_comparison,
    target_note,
    value_word,
)
from understudy.studies.statistics.constant_prediction import REFERENCE, is_warning
from understudy.studies.statistics.text_table import (
    NOTHING,
    ZERO,
    TextTable,
    heading_of,
    label_word,
    number,
    plain,
)
from understudy.studies.store.store import StoredCell, StoredStudy

OFTEN_ZERO = (  # without delays, without a sampler, without a race: nobody would miss them
    "clock_to_target",
    "count_variance",
    "evaluations_spared",
)
LAST_ROUND = "accuracy_last"
METRICS = "Other metrics"  # those that the study asks for
MOST_METRICS = 12  # columns of them; recalls are one for each class
FOUND = "Results of the analyses"
CONSTANT = "(constant prediction)"
STAND_INS = {  # columns of a table of stand-ins, and their heads
    "absent": "did not come",
    "own": "own last update",
    "other": "another client's update",
    "mixture": "mixture or model",
    "unrepresented": "not represented",
}


@dataclass(frozen=True)
class Table:
    """A table of the page: rows under the title of their group."""

    title: str
    heads: tuple[tuple[str, bool], ...]  # words, and whether the column stands at the right
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    notes: tuple[str, ...] = ()


def main_table(runs: pd.DataFrame, metric: str) -> Table:
    # what rows differ in stands above the table, what was tuned in a section of its own
    comparison = replace(compare(runs, metric), differences=None, picks={}, edges={})
    table, shown = table_of_comparison(comparison), comparison.measure
    if comparison.tested[0]:
        rows = comparison.rows.to_dict("records")
        words = [verdict(comparison, row) for row in rows]
        last_p = max(place for place, head in enumerate(table.heads) if head.startswith("p ("))
        table = _with_column(table, last_p + 1, f"against {comparison.baseline}", words)
    if beside(runs, metric):
        last = compare(runs, LAST_ROUND)
        other = table_of_comparison(last)
        at, place = other.heads.index(mean_head(last)), table.heads.index(mean_head(comparison))
        words = [row[at] for row in other.cells]
        table = _with_column(table, place + 1, mean_head(last), words)
    if ", " in shown.words:  # the head tells over how many rounds
        table = replace(table, notes=tuple(note for note in table.notes if note != shown.about))
    return _grouped(shown.words, table, len(comparison.labels))


def beside(runs: pd.DataFrame, metric: str) -> bool:
    """Whether the last round's accuracy is told beside the main measure: it is another number."""
    over = measure(metric).rounds_averaged(evaluated_rounds(runs))
    return metric == "accuracy_tail" and over is not None and over[1] > 1


def _with_column(table: TextTable, place: int, head: str, words: Sequence[str]) -> TextTable:
    return replace(
        table,
        heads=(*table.heads[:place], head, *table.heads[place:]),
        cells=tuple(
            (*row[:place], word, *row[place:]) for row, word in zip(table.cells, words, strict=True)
        ),
        right=table.right | {len(table.heads)},  # all columns from the first number on
    )


def more_tables(runs: pd.DataFrame, cells: Sequence[StoredCell], metric: str) -> list[Table]:
    """Tables beside the main one."""
    tables = []
    found = dict.fromkeys(name for cell in cells for name in cell.findings_metrics)
    told = [one for one in MEASURES.values() if one.table]
    # with a tail of one round, the last round's is the same number
    shown_first = {metric, LAST_ROUND} if metric == "accuracy_tail" else {metric}
    others = [name for name in map(str, runs.columns) if name not in {*found, *shown_first}]
    asked = [name for name in others if is_metric(name) and not measure(name).table]
    kinds: dict[str, list[str]] = {told[0].table: [], METRICS: asked[:MOST_METRICS]}
    for one in told:
        kinds.setdefault(one.table, []).append(one.name)
    kinds[FOUND] = [name for name in found if not measure(name).table]
    for title, names in kinds.items():
        taken = [name for name in names if name not in shown_first and _worth_showing(runs, name)]
        # of a metric 0 is a result: a class that no model ever recognises
        zero = [name for name in taken if title != METRICS and _is_zero(runs, name)]
        shown = [name for name in taken if name not in zero]
        if shown:
            table = _side_by_side(title, runs, shown)
            words = ", ".join(measure(name).words for name in zero if name not in OFTEN_ZERO)
            note = (f"0 in every run: {words}.",) if words else ()
            if title == METRICS and len(asked) > MOST_METRICS:
                left = len(asked) - MOST_METRICS
                note = (*note, f"{left} more are not shown; results(…) has all.")
            tables.append(replace(table, notes=(*table.notes, *note)))
    return tables


def _worth_showing(runs: pd.DataFrame, name: str) -> bool:
    if name not in runs:
        return False
    if measure(name).is_price and name != "clock_to_target":
        return True  # that a target was never reached is told, too
    return bool(runs.loc[runs["status"] == "done", name].notna().any())


def _is_zero(runs: pd.DataFrame, name: str) -> bool:
    """Of all runs: without delays, without a sampler, without a race."""
    known = runs[name].dropna()
    return len(known) > 0 and bool(known.eq(0).all())


def _grouped(title: str, table: TextTable, n_labels: int) -> Table:
    """A comparison with the labels of its groups as headings."""
    kept, told = columns_worth_showing(table)
    shown = table.only([place for place in kept if place >= n_labels])
    return Table(
        title[:1].upper() + title[1:],
        tuple((head, place in shown.right) for place, head in enumerate(shown.heads)),
        tuple(
            (heading, tuple(shown.cells[position] for position in members))
            for heading, members in table.grouped(n_labels)
        ),
        (*table.notes, *told),
    )


def _side_by_side(title: str, runs: pd.DataFrame, names: Sequence[str]) -> Table:
    """Means of several measures, one column each; what the first table says is not repeated."""
    without_baseline = runs.copy()
    without_baseline.attrs = {
        name: value for name, value in runs.attrs.items() if name != "baseline"
    }
    heads: list[tuple[str, bool]] = [("strategy", False)]
    rows: dict[tuple[str, str], list[str]] = {}
    constants: dict[str, dict[int, str]] = {}  # group → column → what a constant prediction has
    notes: dict[str, None] = {}
    for name in names:
        comparison = compare(without_baseline, name)
        shown = comparison.measure
        table, n_labels = table_of_comparison(comparison), len(comparison.labels)
        columns = [table.heads.index(mean_head(comparison))]
        if REACHED in table.heads and (REACHED, True) not in heads:  # the same for all its costs
            columns.insert(0, table.heads.index(REACHED))
        heads += [(table.heads[place], True) for place in columns]
        for row, found in zip(table.cells, comparison.rows.to_dict("records"), strict=True):
            group = heading_of(zip(comparison.labels, row, strict=False))
            own = rows.setdefault((group, row[n_labels]), [])
            own += [ZERO if _only_zeros(row[place]) else row[place] for place in columns]
            if not math.isnan(found.get(REFERENCE, math.nan)):
                word = value_word(comparison, found[REFERENCE]).removesuffix(f" {shown.unit}")
                constants.setdefault(group, {})[len(heads) - 2] = word
        told = [shown.about] if shown.about and ", " not in shown.words else []
        if comparison.reference is not None and is_warning(comparison.reference):
            told.append(f"{comparison.reference.removesuffix('.')} in {shown.phrase}.")
        told += [*target_note(comparison), *not_all_reached_note(comparison)]
        notes |= dict.fromkeys(told)
    nothing = [who for who, cells in rows.items() if set(cells) <= {NOTHING, ZERO}]
    if any(ZERO in rows[who] for who in nothing):
        notes["Not listed: 0 in all columns."] = None
    words = [(who[0], (who[1], *cells)) for who, cells in rows.items() if who not in nothing]
    grouped = []
    for group, members in _by_heading(words):
        known = constants.get(group, {})
        constant = [known.get(place, NOTHING) for place in range(len(heads) - 1)]
        grouped.append((group, (*members, (CONSTANT, *constant)) if known else members))
    return Table(title, tuple(heads), tuple(grouped), tuple(notes))


def _only_zeros(word: str) -> bool:
    """Whether a mean with its interval says nothing but zeros."""
    return bool(word) and not word.strip("0.± ")


def _by_heading(
    rows: Sequence[tuple[str, tuple[str, ...]]],
) -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
    return tuple(
        (heading, tuple(cells for _, cells in members))
        for heading, members in groupby(rows, key=lambda row: row[0])
    )


def cells_table(cells: Sequence[StoredCell], runs: pd.DataFrame, metric: str | None) -> Table:
    names = list(dict.fromkeys(name for cell in cells for name in cell.labels))
    heads = [(name, False) for name in names]
    heads += [("seed", True), ("status", False), ("rounds", True)]
    values: list[str] = []
    if metric is not None:
        shown = measure(metric, evaluated_rounds(runs))
        heads.append((shown.head, True))
        scaled = [float("nan") if one is None else one * shown.scale for one in runs[metric]]
        values = [
            plain(one) if shown.decimals is None or math.isnan(one) else number(one, shown.decimals)
            for one in scaled
        ]
    heads += [("version", False), ("key", False)]
    rows = []
    for position, cell in enumerate(cells):
        words = [label_word(cell.labels.get(name)) for name in names]
        words += [str(cell.seed), cell.status, str(cell.rounds)]
        words += [values[position]] if values else []
        rows.append((*words, cell.version or NOTHING, cell.key))
    return Table("Cells", tuple(heads), (("", tuple(rows)),))


def tuning_table(study: StoredStudy) -> Table | None:
    """The values that tuning picked, per strategy; None where nothing was tuned."""
    picks = study.picks
    if not picks:
        return None
    keys = list(dict.fromkeys(key for pick in picks.values() for key in pick))
    tune = study.about.get("tune") or {}
    tried = tune.get("values", {})
    rows = []
    for name, pick in picks.items():
        at_edge = [f"{key}: the {end} tried" for key, (_, end) in study.edges.get(name, {}).items()]
        words = [label_word(pick.get(key)) for key in keys]
        rows.append(("", (name, *words, "; ".join(at_edge) or NOTHING)))
    heads = ("strategy", *keys, "at the edge of its range")
    counts = [f"{len(tried[key])} values of {key}" for key in keys if key in tried]
    notes = [f"Tried: {' × '.join(counts)}."] if isinstance(tried, Mapping) and counts else []
    if "metric" in tune:
        seeds = ", ".join(str(seed) for seed in tune["seeds"])
        notes.append(f"Picked by {tune['metric']}, mean over the seeds {seeds}.")
    if study.edges:
        notes.append("A better value may lie beyond the edge of a range.")
    columns = tuple((head, False) for head in heads)
    return Table("Tuning", columns, _by_heading(rows), tuple(notes))


def stand_ins_table(data: FigureData) -> Table | None:
    """What represented the clients that did not come, per strategy; None where all came."""
    rows = []
    for group in data.groups[:MOST_GROUPS]:
        for cell in data.firsts(group):
            frame = data.stand_ins_in(cell)
            if frame.empty or not frame["absent"].any():
                continue
            means = [float(frame[name].mean()) for name in STAND_INS]
            words = [NOTHING if value == 0 else number(value, 1) for value in means]
            rows.append((title_of(group), (str(cell.labels["strategy"]), *words)))
    if not rows:
        return None
    heads = (("strategy", False), *((head, True) for head in STAND_INS.values()))
    note = "Clients per round, first seed; one represented in several ways counts in each."
    return Table("What represented absent clients", heads, _by_heading(rows), (note,))

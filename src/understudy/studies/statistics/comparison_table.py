"""What a comparison of strategies found, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from understudy.core.printable import one_line
from understudy.measures import Counts, Measure, measure, span
from understudy.studies.definition.tune_table import Edges, Picks
from understudy.studies.statistics import tables
from understudy.studies.statistics.best_rows import best_rows
from understudy.studies.statistics.paired_tests import (
    SEEDS_OF_INTERVAL,
    SEEDS_OF_T,
    SEEDS_OF_WILCOXON,
)
from understudy.studies.statistics.text_table import (
    NOTHING,
    ZERO,
    TextTable,
    decimals_for,
    label_word,
    number,
    p_word,
    tuning_notes,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

TOO_FEW = "too few seeds"
NEVER = "never"
NOT_ALL = "not all reached it"
REACHED = "reached"
PAIRS = "both reached"


@dataclass(frozen=True, eq=False)
class Comparison:
    """A table of strategies: what `compare` found.

    Parameters
    ----------
    metric : str
        The measure compared.
    baseline : str or None
        The strategy the others are compared with.
    labels : tuple of str
        The labels in which the groups differ.
    rows : DataFrame
        One row per group and strategy, numbers as they are: the labels, strategy, participants,
        seeds (with a value), mean, half, difference (to the baseline, as it is: its sign knows no
        better), difference_half, pairs (seeds in which both have a value), p_t, p_t_holm,
        p_wilcoxon, p_wilcoxon_holm, better (whether the difference is for the better; missing
        where there is none or where that is not known). The price of a target also has reached
        (how many of the seeds did) and shared (seeds that both have).
    unfinished : int
        Cells that were left out because they are not done.
    without_value : int
        Done cells that were left out because they have no finite number.
    tested : tuple of int
        How many t-tests and how many of Wilcoxon's there are: what Holm counts. Where the same
        cells are compared in several groups, being references, that is one test.
    target : float, optional
        The accuracy that the study aims at, where `metric` is its price.
    picks : mapping
        What tuning picked beforehand: strategy, or ``block/strategy``, → key → label of the value.
        `rows` then has a column ``picked``.
    edges : mapping
        Picks at the end of the range that was tried: strategy → key → (value, which end).
    differences : str, optional
        What rows differ in besides their method, in a sentence, where they do.
    engines : str, optional
        Which engines trained the cells, in a sentence, where they are several.
    evaluated : pair of int, optional
        Evaluated rounds of the runs, fewest and most, where that is known.
    references : frozenset of str
        Strategies with an availability of their own: never called the best, and not tested.
    reference : str, optional
        What a constant prediction has, and whether any strategy beats it, in a sentence (`rows`
        then has a column ``reference``).
    beside : str, optional
        Which rows are references, and what they are, in a sentence.
    study : str, optional
        Whose table it is.
    against : function, optional
        The same comparison with another baseline.
    """

    metric: str
    baseline: str | None
    labels: tuple[str, ...]
    rows: pd.DataFrame
    unfinished: int = 0
    without_value: int = 0
    tested: tuple[int, int] = (0, 0)
    target: float | None = None
    picks: Picks = field(default_factory=dict)
    edges: Edges = field(default_factory=dict)
    differences: str | None = None
    engines: str | None = None
    evaluated: Counts | None = None
    references: frozenset[str] = frozenset()
    reference: str | None = None
    beside: str | None = None
    study: str | None = None
    against: Callable[[str], Comparison] | None = None

    @property
    def measure(self) -> Measure:
        """How the metric is shown."""
        return measure(self.metric, self.evaluated)

    @property
    def lower_is_better(self) -> bool | None:
        """None: neither way is better, or it is not known."""
        return self.measure.lower_is_better

    def to_markdown(self) -> str:
        """A table in Markdown, with notes below it."""
        return tables.markdown(_for_a_page(self))

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """A table in LaTeX, which needs the package booktabs.

        In each group the best mean is bold, and those that the t-test does not tell from it (Holm,
        p ≥ 0.05), from 5 seeds on. Groups have headings, as in the terminal.
        Notes stand below the tabular, one on each line.

        Parameters
        ----------
        caption : str, optional
            By default the measure, of which study and over how many seeds.
        label : str, optional
            For ``\\ref``; by default ``tab:`` with the name of the study, or of the measure.
        """
        best, told = best_rows(self.rows, self.measure, self.references, self.against)
        page, head = _for_a_page(self, told), mean_head(self)
        bold = [(row, page.heads.index(head)) for row in best]
        name = label or f"tab:{self.study or self.metric}"
        return tables.latex(page, caption or _caption(self), name, bold, len(self.labels))

    def to_csv(self) -> str:
        """`rows` as they are, in full precision."""
        return tables.csv(self.rows)

    def to_rich(self) -> RenderableType:
        """A table for the terminal, at most 80 columns wide, one section per group."""
        return _for_terminal(self)

    def to_text(self) -> str:
        """The table of the terminal as plain text."""
        return tables.text(self.to_rich())

    def __repr__(self) -> str:
        """The table, as a terminal shows it."""
        if self.rows.empty:
            return f"<Comparison of {self.metric}: no cell is done (of {self.unfinished})>"
        return self.to_text().rstrip("\n")

    def _repr_html_(self) -> str:
        """The table, as a notebook shows it."""
        return tables.html(_for_a_page(self))


# -- in words ----------------------------------------------------------------------------------


def table_of_comparison(comparison: Comparison) -> TextTable:
    """A comparison in words: one row per group and strategy."""
    price = comparison.measure.is_price
    heads = [*comparison.labels, "strategy", "participants per round", mean_head(comparison)]
    heads += [REACHED] if price else []
    if comparison.baseline is not None:
        heads += [_difference_head(comparison), "p (t-test)", "p (Wilcoxon)"]
    pairs_differ = price and _censored(comparison)
    heads += [] if price else ["seeds"]
    heads += [PAIRS] if pairs_differ else []
    decimals = _decimals(comparison)
    cells = []
    for row in comparison.rows.to_dict("records"):
        words = [*(label_word(row[name]) for name in comparison.labels), str(row["strategy"])]
        words += [_participants(row), _mean(row, comparison.measure, decimals)]
        words += [f"{row['reached']} of {row['seeds']}"] if price else []
        if comparison.baseline is not None:
            words += _against_baseline(row, comparison, decimals)
        words += [] if price else [_seeds(row, comparison)]
        if pairs_differ:
            is_rival = row["strategy"] != comparison.baseline
            words.append(f"{row['pairs']} of {row['shared']}" if is_rival else NOTHING)
        cells.append(tuple(words))
    left = len(comparison.labels) + 1
    return TextTable(
        tuple(heads), tuple(cells), frozenset(range(left, len(heads))), notes_of(comparison)
    )


def notes_of(comparison: Comparison, told: Sequence[str] = ()) -> tuple[str, ...]:
    """How to read a comparison, and what is not in it; `told` comes in between."""
    rows, measure = comparison.rows, comparison.measure
    notes = [measure.about] if measure.about else []
    if comparison.reference is not None:
        notes.append(comparison.reference)
    if comparison.beside is not None:
        notes.append(comparison.beside)
    notes += target_note(comparison)
    notes += tuning_notes(comparison.picks, comparison.edges)
    if comparison.differences is not None:
        notes.append(comparison.differences)
    if comparison.engines is not None:
        notes.append(comparison.engines)
    if comparison.lower_is_better:
        notes.append("Lower is better.")
    if rows[["half", "difference_half"]].notna().to_numpy().any():
        notes.append("±: half a 95 % interval over seeds.")
    else:
        notes.append(f"No intervals: they take {SEEDS_OF_INTERVAL} seeds.")
    if comparison.baseline is not None and (rows["pairs"] > 0).any():
        censored = measure.is_price and _censored(comparison)
        both = ", where both reached the target" if censored else ""
        notes.append(f"Differences are taken seed by seed{both}.")
    family, of_wilcoxon = comparison.tested
    if family:
        fewer = f" (Wilcoxon: {of_wilcoxon})" if 0 < of_wilcoxon < family else ""
        holm = f", by Holm for {family} comparisons{fewer}" if family > 1 else ""
        again = int(rows["p_t"].notna().sum()) > family
        once = "; identical rows count once" if again else ""
        notes.append(f"p: two-sided{holm}{once}.")
    notes += told
    notes += not_all_reached_note(comparison)
    if comparison.without_value:
        notes.append(f"Not included, without a value: {_count(comparison.without_value, 'cell')}.")
    if comparison.unfinished:
        notes.append(f"Not included: {_count(comparison.unfinished, 'unfinished cell')}.")
    return tuple(notes)


def target_note(comparison: Comparison) -> list[str]:
    """The accuracy whose price a table is about."""
    target = comparison.target
    return [] if target is None else [f"Target: an accuracy of {100 * target:g} %."]


def not_all_reached_note(comparison: Comparison) -> list[str]:
    """Over which seeds the means of a price are, where some never reached the target."""
    rows = comparison.rows
    if not comparison.measure.is_price or not (rows["reached"] < rows["seeds"]).any():
        return []
    told = "Means: over the seeds that reached the target; where not all did, over different seeds"
    return [f"{told}, so not compared, and nothing is tested."]


def mean_head(comparison: Comparison) -> str:
    """Head of the column of means, which says so where they are not over all seeds."""
    head, rows = comparison.measure.head, comparison.rows
    if comparison.measure.is_price and (rows["reached"] < rows["seeds"]).any():
        return f"{head}, where reached"
    return head


def _censored(comparison: Comparison) -> bool:
    """Whether some difference leaves seeds out, since one of the two never reached the target."""
    rows = comparison.rows
    return comparison.baseline is not None and bool((rows["pairs"] < rows["shared"]).any())


def _difference_head(comparison: Comparison) -> str:
    unit = comparison.measure.unit_of_difference
    return f"minus {comparison.baseline}" + (f", {unit}" if unit else "")


def _decimals(comparison: Comparison) -> int | None:
    measure = comparison.measure
    if measure.decimals is not None:
        return measure.decimals
    return decimals_for([*comparison.rows["mean"], *comparison.rows["difference"]])


def value_word(comparison: Comparison, value: float) -> str:
    """A mean of the comparison, with its unit."""
    word = number(value * comparison.measure.scale, _decimals(comparison))
    return f"{word} {comparison.measure.unit}".rstrip()


def _participants(row: dict[Any, Any]) -> str:
    came = float(row["participants"])
    return NOTHING if math.isnan(came) else number(came, 1)


def _mean(row: dict[Any, Any], measure: Measure, decimals: int | None) -> str:
    if math.isnan(row["mean"]):
        return NEVER if measure.is_price and row["seeds"] else NOTHING
    return _plus_minus(row["mean"], row["half"], measure.scale, decimals)


def _against_baseline(
    row: dict[Any, Any], comparison: Comparison, decimals: int | None
) -> tuple[str, str, str]:
    if row["strategy"] == comparison.baseline:
        return NOTHING, NOTHING, NOTHING
    difference, scale = NOTHING, comparison.measure.scale
    if row["pairs"]:
        half = row["difference_half"]
        difference = _plus_minus(row["difference"], half, scale, decimals, signed=True)
    if row["strategy"] in comparison.references:
        return difference, NOTHING, NOTHING
    t_test = _p(row, "p_t_holm", SEEDS_OF_T, comparison)
    return difference, t_test, _p(row, "p_wilcoxon_holm", SEEDS_OF_WILCOXON, comparison)


def _p(row: dict[Any, Any], name: str, needed: int, comparison: Comparison) -> str:
    if not math.isnan(row[name]):
        return p_word(row[name])
    if comparison.measure.is_price and row["shared"] >= needed and row["pairs"] < row["shared"]:
        return NOT_ALL
    return TOO_FEW


def _seeds(row: dict[Any, Any], comparison: Comparison) -> str:
    text = str(row["seeds"])
    rival = comparison.baseline is not None and row["strategy"] != comparison.baseline
    return f"{text}, {row['pairs']} paired" if rival and row["pairs"] != row["seeds"] else text


def _plus_minus(
    value: float, half: float, scale: float, decimals: int | None, *, signed: bool = False
) -> str:
    if value == 0 and half == 0:  # in every run: "± 0.00" would look like a measured interval
        return ZERO
    text = number(value * scale, decimals, signed=signed)
    return text if math.isnan(half) else f"{text} ± {number(half * scale, decimals)}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


# -- for the terminal --------------------------------------------------------------------------


def _for_terminal(comparison: Comparison) -> RenderableType:
    """A comparison for the terminal: one section per group, at most 80 columns wide.

    A test for which every row has too few seeds is told in a sentence instead of a column.
    """
    from rich.console import Group

    table, first = table_of_comparison(comparison), len(comparison.labels)
    shown, told = columns_worth_showing(table)
    narrow = table.only([place for place in shown if place >= first])
    heads = {"participants per round": "came", "p (t-test)": "p\nt-test"}
    heads |= {"p (Wilcoxon)": "p\nWilcoxon", PAIRS: "both\nreached"}
    narrow = replace(
        narrow,
        heads=tuple(heads.get(head, head) for head in narrow.heads),
        cells=tuple(
            tuple(word.removesuffix(" reached it") for word in row) for row in narrow.cells
        ),
    )
    parts: list[RenderableType] = []
    widths = tables.widths_of(narrow)
    for title, members in table.grouped(first):
        if title:
            parts.append(tables.plain(one_line(title), style="bold"))
        rows = tuple(narrow.cells[position] for position in members)
        parts += [tables.rich_grid(replace(narrow, cells=rows), widths), tables.plain()]
    notes = ["came: participants per round.", *notes_of(comparison, told)]
    return Group(*parts, tables.plain(tables.paragraph(notes)))


def _caption(comparison: Comparison) -> str:
    """What is shown, over how many seeds, and of which study."""
    measure, seeds = comparison.measure, comparison.rows["seeds"]
    what = f"{measure.phrase} in {measure.unit}" if measure.unit else measure.phrase
    of = f" of the study {comparison.study}" if comparison.study else ""
    n = span((int(seeds.min()), int(seeds.max()))) if len(seeds) else "0"
    return f"{what[:1].upper()}{what[1:]}{of}, mean over {n} seed{'s' * (n != '1')}."


def _for_a_page(comparison: Comparison, more: Sequence[str] = ()) -> TextTable:
    """A comparison as one table; tests that no row has the seeds for are told in a sentence."""
    table = table_of_comparison(comparison)
    shown, told = columns_worth_showing(table)
    return replace(table.only(shown), notes=notes_of(comparison, [*told, *more]))


def columns_worth_showing(table: TextTable) -> tuple[list[int], list[str]]:
    """Columns with something in them, and what is said instead of the others."""
    shown, told = [], []
    needed = {"p (t-test)": ("t-test", SEEDS_OF_T), "p (Wilcoxon)": ("Wilcoxon", SEEDS_OF_WILCOXON)}
    for place, head in enumerate(table.heads):
        words = {row[place] for row in table.cells} - {NOTHING}
        if head in needed and words <= {TOO_FEW}:
            if words:
                told.append(f"{needed[head][0]}: {TOO_FEW}, it takes {needed[head][1]}.")
        else:
            shown.append(place)
    return shown, told

"""Everything that is wrong with a table: one error, each column with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from understudy.core.shown import shown
from understudy.core.types import Bools
from understudy.simulation.data.table_columns import MOST_CATEGORIES, Column
from understudy.simulation.data.tables import MOST_SHOWN, DataTable

FEWEST_CLASSES = 10  # from which labels that hardly ever come again are no classes

Remedy = Literal["drop", "encode", "median", "most_frequent", "none"]


class Problem(NamedTuple):
    """What is wrong with a column."""

    what: str  # the argument that names the column
    column: str
    words: str
    row: int | None  # an example
    advice: str
    remedy: Remedy = "none"  # the option of `from_table` that settles it

    def told(self) -> str:
        """In one line."""
        return f"{self.what}: column {shown(self.column)}{self.words}; {self.advice}"


def input_problems(column: Column, encoded: bool, imputed: bool, named: bool) -> list[Problem]:
    """What keeps a column from being an input.

    Parameters
    ----------
    column : Column
        The column.
    encoded, imputed : bool
        Whether it is to be encoded, and whether its gaps are to be filled.
    named : bool
        Whether the user named it as an input: an id or a constant may then be meant.
    """
    problem = _unfit(column, encoded, named)
    problems = [] if problem is None else [problem]
    if column.missing.any() and not imputed and (problem is None or problem.remedy != "drop"):
        problems.append(_gaps("features", column, encoded or column.kind == "categories"))
    return problems


def test_problems(column: Column, encoded: bool, imputed: bool) -> list[Problem]:
    """What keeps a column of a table to test with from being the same input."""
    problem = None
    if not encoded and column.kind not in ("numbers", "empty"):
        problem = _no_numbers("test", column)
    elif not encoded:
        problem = _not_finite("test", column)
    problems = [] if problem is None else [problem]
    if column.missing.any() and not imputed:
        problems.append(_gaps("test", column, encoded))
    return problems


def gap_problems(what: str, column: Column) -> list[Problem]:
    """A label or a client that is missing."""
    if not column.missing.any():
        return []
    gap = _gaps(what, column, False)
    return [gap._replace(advice="fill them in, or remove these rows", remedy="none")]


def client_problems(column: Column) -> list[Problem]:
    """Clients that are missing, or numbers of a floating type: no ids."""
    problems = gap_problems("client", column)
    if column.values.dtype.kind != "f" or problems:
        return problems
    words = " holds numbers of a floating type, which are no ids"
    advice = "turn them into whole numbers, with astype(int), or into text, with astype(str)"
    return [_like("client", column, words, ~column.missing, advice)]


def label_problems(column: Column) -> list[Problem]:
    """Labels that are missing, or that hardly ever come again: no classes."""
    problems = gap_problems("label", column)
    if problems or column.kind not in ("numbers", "words", "categories", "dates"):
        return problems
    if column.whole and (column.values < 0).any():
        words, below = " holds whole numbers below 0, and classes count from 0", column.values < 0
        advice = "number them from 0, write them as text, or as a floating type to be predicted"
        return [_like("label", column, words, below, advice)]
    _, counts = np.unique(column.words, return_counts=True)
    single = int((counts == 1).sum())
    if column.values.dtype.kind == "f" or len(counts) < FEWEST_CLASSES or single <= len(counts) / 2:
        return []
    words = (
        f" holds {len(counts):,} different values, {single:,} of them in one row only: no classes"
    )
    advice = "a number to be predicted is of a floating type (12.0), and an id is no label"
    return [_like("label", column, words, ~column.missing, advice)]


def refuse(
    table: DataTable, problems: Sequence[Problem], drop: Sequence[str], encode: Sequence[str]
) -> None:
    """Raise one error with all problems, and the options that settle them; none: do nothing.

    Parameters
    ----------
    table : DataTable
        Where they are.
    problems : sequence of Problem
        What is wrong.
    drop, encode : sequences of str
        What the user asked for already: the options named contain it.
    """
    if not problems:
        return
    told = problems[:MOST_SHOWN]
    lines = table.lines({one.row for one in told if one.row is not None})
    places = [f"line {lines[one.row]}: " if one.row in lines else "" for one in told]
    if len(problems) == 1:
        place = f"{table.path}, {places[0]}" if places[0] else ""
        raise ValueError(f"{place}{problems[0].told()}")
    handled = sum(one.remedy != "none" for one in problems)
    head = f"{len(problems):,} problems"
    if handled:
        share = "all" if handled == len(problems) else f"{handled:,} of them"
        head += f"; {share} settled by {_options(problems, drop, encode)}"
    lines_told = [one.told().removeprefix("features: ") for one in told]
    body = [f"  {place}{line}" for place, line in zip(places, lines_told, strict=True)]
    more = len(problems) - MOST_SHOWN
    raise ValueError("\n".join([head, *body, *([f"  and {more:,} more"] if more > 0 else [])]))


def _options(problems: Sequence[Problem], drop: Sequence[str], encode: Sequence[str]) -> str:
    """What to give to `from_table`, as it is written there."""
    names = {"drop": dict.fromkeys(drop), "encode": dict.fromkeys(encode)}
    for one in problems:
        names.setdefault(one.remedy, {})[one.column] = None
    options = [
        f"{option}=[{', '.join(shown(name) for name in list(names[option])[:MOST_SHOWN])}]"
        for option in ("drop", "encode")
        if names[option]
    ]
    rules = [rule for rule in ("median", "most_frequent") if rule in names]
    return ", ".join([*options, *(f'impute="{rule}"' for rule in rules[:1])])


def _unfit(column: Column, encoded: bool, named: bool) -> Problem | None:
    what, there, drop = "features", ~column.missing, f"drop=[{shown(column.name)}]"
    if column.kind == "empty":
        return Problem(what, column.name, " is empty in every row", None, drop, "drop")
    if column.constant and not (named and column.kind == "numbers"):
        words = " holds the same value in every row"
        return _like(what, column, words, there, drop, "drop")
    if encoded:
        if len(column.categories) <= MOST_CATEGORIES:
            return None
        words = f"{_variety(column)}, more than the {MOST_CATEGORIES} that encode takes"
        return _like(what, column, words, there, drop, "drop")
    if column.kind == "dates":
        advice = f"{drop}, or turn it into a number first, such as an age or a count of days"
        return _like(what, column, " holds dates", there, advice, "drop")
    if column.decimal_commas.any():
        words = " holds numbers with a decimal comma"
        advice = 'write a point, or give the table that pandas.read_csv(…, decimal=",") reads'
        return _like(what, column, words, column.decimal_commas, advice)
    if column.kind == "words":
        return _no_numbers(what, column)
    if column.kind == "categories" and not column.id_like:
        words = f" does not hold numbers but {len(column.categories)} categories"
        advice = f"encode=[{shown(column.name)}], or {drop}"
        return _like(what, column, words, there, advice, "encode")
    if column.id_like and (column.kind == "categories" or not named):
        words = _variety(column) + (
            ": an id" if column.kind == "numbers" else ": an id, or free text"
        )
        return _like(what, column, words, there, drop, "drop")
    return _not_finite(what, column)


def _variety(column: Column) -> str:
    n_rows = int((~column.missing).sum())
    return f" holds {len(column.categories):,} different values in {n_rows:,} rows"


def _no_numbers(what: str, column: Column) -> Problem:
    """Words where numbers are expected; all of it may be numbers that are written as text."""
    wrong = np.isnan(column.numbers) & ~column.missing
    if not wrong.any():
        words, wrong = " does not hold numbers but text that looks like them", ~column.missing
        advice = "turn it into numbers first, for example with pandas.to_numeric, or encode it"
    else:
        words = f" does not hold numbers in {int(wrong.sum()):,} of {len(wrong):,} rows"
        advice = "correct them, or leave them empty for impute to fill"
    return _like(what, column, words, wrong, advice)


def _not_finite(what: str, column: Column) -> Problem | None:
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(column.numbers.astype(np.float32)) & ~column.missing
    if not wrong.any():
        return None
    row = int(wrong.argmax())
    words = f": expected finite numbers of 32 bits, got {column.values[row]} in row {row}"
    advice = "correct it, or leave it empty for impute to fill"
    return Problem(what, column.name, words, row, advice)


def _gaps(what: str, column: Column, of_words: bool) -> Problem:
    n, row = int(column.missing.sum()), int(column.missing.argmax())
    rule: Remedy = "most_frequent" if of_words else "median"
    words = f" has {n:,} missing value{'s' if n > 1 else ''}"
    return Problem(what, column.name, words, row, f'impute="{rule}"', rule)


def _like(
    what: str, column: Column, words: str, where: Bools, advice: str, remedy: Remedy = "none"
) -> Problem:
    """With the first of the rows in question as an example."""
    row = int(where.argmax())
    example = column.values[row : row + 1].tolist()[0]
    return Problem(what, column.name, f"{words} (such as {shown(example)})", row, advice, remedy)

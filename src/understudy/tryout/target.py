"""What is to be predicted: classes or numbers, and by which measure a model is judged."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.core.shown import shown
from understudy.simulation.data.table_columns import MOST_CATEGORIES, Column, numbers_among_words
from understudy.simulation.data.table_file import CLASSES, REGRESSION
from understudy.tryout.trouble import CannotTry, listed

FEW = 10  # different whole numbers up to which they are taken for classes
MOSTLY = 0.9  # share of numbers from which words among them are mistakes
UNEQUAL = 0.7  # share of the largest class from which accuracy hides what is learnt
DIGITS = 3  # of the unit in which a target is learnt


@dataclass(frozen=True)
class Target:
    """The target of a table.

    Parameters
    ----------
    name, task : str
        Its column, and ``"classes"`` or ``"regression"``.
    metric : str
        What models are judged by: ``"accuracy"``, ``"auc"``, ``"balanced_accuracy"`` or ``"r2"``.
    shift, scale : float
        Of a regression: what is learnt is ``(target - shift) / scale``.
    told : tuple of str
        How it was understood, and what to bear in mind.
    """

    name: str
    task: str
    metric: str
    shift: float = 0.0
    scale: float = 1.0
    told: tuple[str, ...] = ()


def task_of(column: Column, asked: str | None) -> str:
    """Classes or a regression; what the column cannot be is an error.

    Parameters
    ----------
    column : Column
        All rows of the table.
    asked : str, optional
        What the user says it is.
    """
    place = f"target: column {shown(column.name)}"
    if column.kind == "empty":
        raise CannotTry(f"{place} is empty in every row")
    if column.kind == "dates":
        raise CannotTry(
            f"{place} holds dates; turn it into a number first, such as a count of days"
        )
    values = column.numbers[~column.missing]
    known = values[np.isfinite(values)]
    if asked == CLASSES:
        return CLASSES
    commas = ~np.isnan(numbers_among_words(column)) & np.isnan(column.numbers)
    if commas.any() and commas.sum() + len(known) >= MOSTLY * len(values):
        example = shown(str(column.words[int(commas.argmax())]))
        raise CannotTry(
            f"{place} holds numbers with a comma (such as {example}); write a point for decimals, "
            "and nothing between thousands"
        )
    if asked == REGRESSION:
        if not len(known):
            raise CannotTry(f"{place} holds no numbers, so it is no regression; --task classes")
        return REGRESSION
    if column.kind == "numbers" or len(known) >= MOSTLY * len(values):
        different = np.unique(known)
        whole = bool((different == different.round()).all())
        few = len(different) <= 2 or (whole and len(different) <= FEW)
        return CLASSES if few else REGRESSION
    return CLASSES


def target_of(column: Column, task: str, asked: bool) -> Target:
    """The target, from the rows that have one."""
    return (_classes if task == CLASSES else _regression)(column, asked)


def _classes(column: Column, asked: bool) -> Target:
    place = f"target: column {shown(column.name)}"
    names, counts = np.unique(column.words, return_counts=True)
    n, shares = len(names), counts / counts.sum()
    if n == 1:
        raise CannotTry(
            f"{place} has one class: {shown(str(names[0]))} in every row; there is nothing to learn"
        )
    many = n > MOST_CATEGORIES or (n > FEW and (counts == 1).sum() > n / 2)
    if many and column.kind == "numbers":
        raise CannotTry(f"{place} holds {n:,} different numbers: no classes; --task regression")
    if many:
        raise CannotTry(
            f"{place} holds {n:,} different texts in {len(column.words):,} rows: an id or free "
            "text, no classes"
        )
    order = np.argsort(-counts, kind="stable")
    words = [f"{shown(str(names[k]))[1:-1]} {100 * shares[k]:.0f} %" for k in order.tolist()]
    other = "" if asked or column.kind != "numbers" else "; --task regression predicts the number"
    told = [f"target {column.name}: {n} classes ({listed(words)}): a classification{other}"]
    if (counts < 5).any():
        rare = [str(name) for name in names[counts < 5]]
        told.append(f"target {column.name}: fewer than 5 rows of {listed(rare)}: hardly learnt")
    metric = "accuracy"
    if shares.max() >= UNEQUAL:
        metric = "auc" if n == 2 else "balanced_accuracy"
        told.append(
            f"judged by {'AUC' if n == 2 else 'balanced accuracy'}: always saying "
            f"{shown(str(names[order[0]]))[1:-1]} is right in {100 * shares.max():.0f} % of rows"
        )
    return Target(column.name, CLASSES, metric, told=tuple(told))


def _regression(column: Column, asked: bool) -> Target:
    numbers = column.numbers
    if np.ptp(numbers) == 0:
        raise CannotTry(
            f"target: column {shown(column.name)} is {numbers[0]:g} in every row; there is nothing "
            "to learn"
        )
    different = len(np.unique(numbers))
    other = "" if asked else "; --task classes takes each for a class"
    told = (
        f"target {column.name}: {different:,} different numbers, {numbers.min():g} to "
        f"{numbers.max():g}: a regression{other}"
    )
    # a unit, and no estimate: the same whichever rows are held out
    shift, scale = (_rounded(float(value)) for value in (numbers.mean(), numbers.std()))
    return Target(column.name, REGRESSION, "r2", shift, scale, (told,))


def _rounded(value: float) -> float:
    if value == 0 or not math.isfinite(value):
        return value
    return float(f"{value:.{DIGITS}g}")

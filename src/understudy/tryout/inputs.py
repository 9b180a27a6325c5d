"""Which columns of a table become inputs, and how: what cannot be one is left out, and told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.core.shown import shown
from understudy.core.types import Bools
from understudy.simulation.data.table_columns import MOST_CATEGORIES, Column, numbers_among_words
from understudy.tryout.trouble import listed

FEWEST_KNOWN = 10  # rows with a value, below which nothing is learnt of a column
MOSTLY = 0.5  # share of numbers from which words among them are gaps
SMALLEST_SHARE = 0.05  # of rows with a value, likewise
MOST_VALUES = 20  # of an input that may be the target in other words


@dataclass
class Inputs:
    """What becomes of the columns."""

    drop: list[str] = field(default_factory=list)
    encode: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)  # with words among them
    plain: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def used(self) -> list[str]:
        return [*self.plain, *self.numbers, *self.encode]


def inputs_of(
    columns: Sequence[Column], dropped: Sequence[str], targets: Column, decimal: str = "."
) -> Inputs:
    """Sort the columns; rows without a client or a target are left out of them already."""
    made = Inputs(drop=list(dropped))
    gaps: dict[str, float] = {}
    for column in columns:
        why = _unfit(column, decimal)
        if why is not None:
            made.drop.append(column.name)
            made.told.append(f"{column.name}: {why}; left out")
            continue
        missing = _place(made, column, decimal)
        if missing.any():
            gaps[column.name] = float(missing.mean())
    if made.encode:
        made.told.append(f"words: {listed(made.encode)}: each category becomes an input of 0 or 1")
    if gaps:
        worst = sorted(gaps, key=lambda name: -gaps[name])
        words = [f"{name} {100 * gaps[name]:.2g} %" for name in worst]
        made.told.append(
            f"missing values: {listed(words)}: filled with the median of the rows that are trained "
            "on, of words with the most frequent"
        )
    for column in columns:
        if column.name in made.used and _tells(column, targets):
            made.told.append(
                f"{column.name} tells {targets.name} exactly. Is it known beforehand? If not: "
                f"--drop {column.name}"
            )
    return made


def _unfit(column: Column, decimal: str) -> str | None:
    """Why a column is no input."""
    n_known, n = int((~column.missing).sum()), len(column.values)
    if column.kind == "empty":
        return "empty"
    if column.constant:
        return "the same value in every row"
    if n_known < min(FEWEST_KNOWN, n) or n_known < SMALLEST_SHARE * n:
        return f"a value in {n_known:,} of {n:,} rows only"
    if column.kind == "dates":
        return "dates (an age or a count of days would do)"
    if _with_words(column, decimal):
        return None
    if column.kind == "numbers":
        return "an id, or the number of the row" if column.id_like else None
    if column.kind == "categories" and (column.id_like or len(column.categories) > MOST_CATEGORIES):
        return f"{len(column.categories):,} different texts in {n_known:,} rows"
    return None


def _with_words(column: Column, decimal: str) -> bool:
    """Whether it holds numbers, and words or decimal commas among them."""
    if column.kind == "dates":
        return False
    read = ~np.isnan(numbers_among_words(column, decimal))
    if column.kind == "numbers":
        return bool((~read & ~column.missing).any())
    return bool(read.sum() >= MOSTLY * (~column.missing).sum())


def _place(made: Inputs, column: Column, decimal: str) -> Bools:
    """Put a column where it belongs; where it has no value."""
    if _with_words(column, decimal):
        made.numbers.append(column.name)
        read = numbers_among_words(column, decimal)
        odd = np.isnan(read) & ~column.missing
        commas = ~np.isnan(read) & np.isnan(column.numbers)
        if commas.any():
            row = int(commas.argmax())
            made.told.append(f"{column.name}: {column.words[row]} is read as {read[row]:.10g}")
        if odd.any():
            example = shown(str(column.words[int(odd.argmax())]))
            made.told.append(
                f"{column.name}: no number in {int(odd.sum()):,} of {len(odd):,} rows (such as "
                f"{example}); taken for missing"
            )
        return np.isnan(read)
    if column.kind == "numbers":
        made.plain.append(column.name)
        return column.missing
    made.encode.append(column.name)
    similar = alike(column.categories)
    if similar:
        first, second = similar
        made.told.append(f"{column.name}: {first} and {second} are taken for different categories")
    return column.missing


def alike(names: Sequence[str]) -> tuple[str, str] | None:
    """Two names that differ in spaces or capitals alone."""
    seen: dict[str, str] = {}
    for name in names:
        plain = " ".join(name.split()).casefold()
        if plain in seen:
            return shown(seen[plain]), shown(name)
        seen[plain] = name
    return None


def _tells(column: Column, targets: Column) -> bool:
    """Whether each value of a column goes with one value of the target, and there are few."""
    known = ~column.missing
    if len(column.categories) > MOST_VALUES or not known.all():
        return False
    pairs = set(zip(column.words.tolist(), targets.words.tolist(), strict=True))
    several = len(set(targets.words.tolist())) > 1
    return several and len(pairs) == len(column.categories)

"""`Measure`: a measure as one value, with its words, its unit and how it is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from understudy.measures.run_numbers import STEADY, RunNumbers

TO_TARGET = "_to_target"

Counts = tuple[int, int]  # of evaluated rounds: in the run with fewest, in the one with most


@dataclass(frozen=True)
class Measure:
    """What is known of a measure: all that tables, axes, summaries and reports need of it."""

    name: str
    words: str  # the head of its column
    axis: str = ""  # longer words, for the axis of a picture; empty: the words
    unit: str = ""  # of the printed mean; empty: none
    unit_of_difference: str = ""  # a difference of percents is in points
    scale: float = 1.0  # the printed number is the measure × this
    lower_is_better: bool | None = None  # None: neither way is better, or it is not known
    about: str = ""  # a sentence, where the words do not say it all
    over: Callable[[int], int] | None = None  # over the last evaluated rounds: how many of n
    of: Callable[[RunNumbers], float | None] | None = None  # None: the run does not tell it
    table: str = ""  # of a report, that has a column for it; empty: none

    @property
    def head(self) -> str:
        """The words with the unit."""
        return f"{self.words}, {self.unit}" if self.unit else self.words

    @property
    def long_words(self) -> str:
        """The words of an axis."""
        return self.axis or self.words

    @property
    def axis_title(self) -> str:
        """The words of an axis with the unit."""
        return f"{self.long_words}, {self.unit}" if self.unit else self.long_words

    @property
    def phrase(self) -> str:
        """The words inside a sentence: what follows a comma in brackets."""
        first, _, rest = self.words.partition(", ")
        return f"{first} ({rest})" if rest else first

    @property
    def is_price(self) -> bool:
        """Whether it is the price of a target, which a run may never reach."""
        return self.name.endswith(TO_TARGET)

    @property
    def decimals(self) -> int | None:
        """Fixed for percents and points; None: by the size of the numbers."""
        return None if self.scale == 1 else 2

    def rounds_averaged(self, evaluated: Counts | None) -> Counts | None:
        """Over how many of the last evaluated rounds it is taken, at least and at most.

        None for a measure that is not of that kind, or where the number of rounds is not known.
        """
        if evaluated is None or self.over is None:
            return None
        return self.over(evaluated[0]), self.over(evaluated[1])

    def told_over(self, evaluated: Counts | None) -> Measure:
        """The same measure, whose words tell how many of the evaluated rounds are averaged."""
        over = self.rounds_averaged(evaluated)
        if over is None:
            return self
        n = span(over)
        if not self.name.startswith("accuracy"):
            about, axis = (
                words.replace(f"last {STEADY}", f"last {n}") for words in (self.about, self.axis)
            )
            return replace(self, about=about, axis=axis)
        how, about = f"mean of last {n}", f"Accuracy: mean of the last {n} evaluated rounds."
        if over[1] == 1:
            how, about = "last round", "Accuracy: of the last evaluated round."
        words = f"{self.words.partition(', ')[0]}, {how}"
        return replace(self, words=words, axis=f"test {words}", about=about)


def span(counts: Counts) -> str:
    """One number, or ``3 to 5``."""
    return str(counts[1]) if counts[0] == counts[1] else f"{counts[0]} to {counts[1]}"

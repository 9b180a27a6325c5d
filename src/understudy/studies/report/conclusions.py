"""What came out of a study, in sentences made from its statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from understudy.measures import Measure
from understudy.studies.statistics.comparison import compare
from understudy.studies.statistics.comparison_table import Comparison
from understudy.studies.statistics.constant_prediction import REFERENCE, none_beats
from understudy.studies.statistics.constant_prediction import in_words as constant_in_words
from understudy.studies.statistics.paired_tests import SEEDS_OF_T, SIGNIFICANT
from understudy.studies.statistics.text_table import decimals_for, label_word, number

Row = Mapping[Any, Any]
NONE_SHOWN, SAME = "No difference shown", "The same"  # verdicts; those of the same runs are no test


@dataclass(frozen=True)
class Conclusions:
    """The sentences of a study.

    Parameters
    ----------
    overview : tuple of str
        What the sentences below amount to, and what to bear in mind.
    groups : tuple of pairs of str
        For each comparison what tells it from the others (empty where it is the only one), and
        what came out of it.
    how : str
        When a difference is said to hold.
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
    writer = _Writer(runs, metric, compare(runs, metric), frozenset(references))
    sentences = tuple(writer.group(heading, rows) for heading, rows in writer.grouped())
    return Conclusions(writer.overview(len(sentences)), sentences, writer.how())


@dataclass
class _Writer:
    runs: pd.DataFrame
    metric: str
    comparison: Comparison
    references: frozenset[str]
    best: Counter[str] = field(default_factory=Counter)  # in how many groups each is the best
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)  # against the baseline
    against: dict[str, Comparison] = field(default_factory=dict)  # each best as the baseline

    def grouped(self) -> list[tuple[str, list[Row]]]:
        groups: dict[str, list[Row]] = {}
        for row in self.comparison.rows.to_dict("records"):
            groups.setdefault(_heading(self.comparison, row), []).append(row)
        return list(groups.items())

    # -- one comparison ------------------------------------------------------------------------

    def group(self, heading: str, rows: Sequence[Row]) -> tuple[str, str]:
        known = [row for row in rows if not math.isnan(row["mean"])]
        rivals = [row for row in known if row["strategy"] not in self.references]
        if len(known) < 2:
            only = f"Only {known[0]['strategy']} has a result" if known else "No result"
            return heading, f"{only}: nothing to compare."
        incomplete = [
            row for row in rows if self.measure.is_price and row["reached"] < row["seeds"]
        ]
        if incomplete:
            return heading, f"{self._not_all_reached(rows)} {self._against_baseline(rows)}".strip()
        if self.comparison.lower_is_better is None or not rivals:
            return heading, f"{self._range(known)} {self._against_baseline(known)}".strip()
        lower = bool(self.comparison.lower_is_better)
        if self._reference_of(rivals) is not None and none_beats(rivals, lower):
            return heading, f"{self._none_is_best(rivals)} {self._against_baseline(known)}".strip()
        best, tied = self._best(rivals)
        self.best.update(str(row["strategy"]) for row in tied)
        against_best = self._compared_with(best["strategy"], heading)
        if not any(_is_tested(row) for row in [*known, *against_best]):
            return heading, self._too_few(tied, known)
        against_baseline = self._against_baseline(known)  # is counted for the overview too
        sentences = [self._best_in_words(best, tied, against_best)]
        if best["strategy"] != self.comparison.baseline:
            sentences.append(against_baseline)
        sentences += self._references(against_best)
        return heading, " ".join(sentence for sentence in sentences if sentence)

    def _reference_of(self, rows: Sequence[Row]) -> float | None:
        """What a constant prediction has in a group, where it is known."""
        value = rows[0].get(REFERENCE, math.nan)
        return None if math.isnan(value) else float(value)

    def _none_is_best(self, rows: Sequence[Row]) -> str:
        what = constant_in_words(self.metric, f"{REFERENCE}_accuracy" in self.runs)
        value = self._value(rows[0][REFERENCE])
        return f"No strategy beats {what} ({value}), so none is called the best."

    def _best(self, rows: Sequence[Row]) -> tuple[Row, list[Row]]:
        """The first with the best mean, and all that share it."""
        sign = 1 if self.comparison.lower_is_better else -1
        best = min(rows, key=lambda row: sign * row["mean"])
        return best, [row for row in rows if row["mean"] == best["mean"]]

    def _compared_with(self, best: str, heading: str) -> list[Row]:
        """The same group, with the best strategy as the baseline."""
        if best not in self.against:
            self.against[best] = compare(self.runs, self.metric, best)
        comparison = self.against[best]
        return [
            row
            for row in comparison.rows.to_dict("records")
            if _heading(comparison, row) == heading and row["strategy"] != best
        ]

    def _too_few(self, tied: Sequence[Row], known: Sequence[Row]) -> str:
        n = max(row["seeds"] for row in known)
        seeds = "one seed" if n == 1 else f"{n} seeds"
        return (
            f"{self._superlative(tied)}, but with {seeds} nothing can be said about the "
            f"differences, which may be chance: a test takes {SEEDS_OF_T} seeds."
        )

    def _best_in_words(self, best: Row, tied: Sequence[Row], others: Sequence[Row]) -> str:
        ahead = self.references | {row["strategy"] for row in tied}
        rivals = [row for row in others if row["strategy"] not in ahead]
        close = [row for row in rivals if _is_tested(row) and not _holds(row)]
        untested = [row for row in rivals if not _is_tested(row)]
        behind = [row for row in rivals if _holds(row)]
        words = f"{self._superlative(tied)} (mean over {best['seeds']} seeds)"
        if close:
            words += f"; {_names(close)} cannot be distinguished from it"
        if untested:
            words += f"; {_names(untested)} {_have(untested)} too few seeds to be compared with it"
        if behind and best["strategy"] == self.comparison.baseline:
            words += f"; worse than it: {self._with_differences(behind)}"
        elif behind and len(behind) == len(rivals):
            words += ", and its lead over every other strategy holds"
        return words + "."

    def _against_baseline(self, rows: Sequence[Row]) -> str:
        """What holds against the study's baseline, and what does not."""
        baseline = self.comparison.baseline
        others = [
            row
            for row in rows
            if row["strategy"] != baseline and row["strategy"] not in self.references
        ]
        if baseline is None or not others or baseline not in {row["strategy"] for row in rows}:
            return ""
        better, worse = ("Better", "Worse") if self._directed else ("Higher", "Lower")
        parts: dict[str, list[Row]] = {
            better: [],
            worse: [],
            NONE_SHOWN: [],
            SAME: [],
            "Not tested": [],
        }
        for row in others:
            up = row["better"] if self._directed else row["difference"] > 0
            verdict = "Not tested" if not _is_tested(row) else NONE_SHOWN
            if _holds(row):
                verdict = better if up else worse
            elif row["difference"] == row["difference_half"] == 0:
                verdict = SAME
            parts[verdict].append(row)
            self.outcomes.setdefault(str(row["strategy"]), Counter())[verdict] += 1
        told = []
        for verdict, members in parts.items():
            if not members:
                continue
            first = f"{verdict} than {baseline}" if verdict in (better, worse) else verdict
            if verdict == NONE_SHOWN:
                first = f"No difference from {baseline} shown"
            elif verdict == SAME:
                first = f"The same as {baseline} in every seed"
            by_name = verdict in (SAME, "Not tested")
            words = _names(members) if by_name else self._with_differences(members)
            told.append(f"{first}: {words}.")
        return " ".join(told)

    def _references(self, against_best: Sequence[Row]) -> list[str]:
        """Where the references stand, seen from the best."""
        return [
            f"For reference, {row['strategy']} has {self._value(row['mean'])}: "
            f"{self._difference(row)} from the best."
            for row in against_best
            if row["strategy"] in self.references and row["pairs"]
        ]

    def _not_all_reached(self, rows: Sequence[Row]) -> str:
        reached = ", ".join(f"{row['strategy']} {row['reached']} of {row['seeds']}" for row in rows)
        return f"Not every run reached the target ({reached}), so strategies are not ranked."

    def _range(self, known: Sequence[Row]) -> str:
        low = min(known, key=lambda row: row["mean"])
        high = max(known, key=lambda row: row["mean"])
        words = self.measure.phrase
        return (
            f"{words[:1].upper()}{words[1:]} lies between {self._value(low['mean'])} "
            f"({low['strategy']}) and {self._value(high['mean'])} ({high['strategy']})."
        )

    # -- all of them ---------------------------------------------------------------------------

    def overview(self, n_groups: int) -> tuple[str, ...]:
        told = []
        done = len(self.runs) - self.comparison.unfinished
        if self.comparison.unfinished:
            told.append(f"Preliminary: {done} of {len(self.runs)} cells are done.")
        if n_groups > 1 and self.best:
            ranked = self.best.most_common()
            places = [f"{name} in {count}" for name, count in ranked]
            told.append(
                f"Of {n_groups} comparisons, {self._adjective} {self.measure.phrase}, by the mean "
                f"alone: {', '.join(places)}."
            )
        if n_groups > 1 and any(set(found) - {"Not tested"} for found in self.outcomes.values()):
            words = [f"{name} {_counted(found)}" for name, found in self.outcomes.items() if found]
            told.append(f"Against {self.comparison.baseline}: {'; '.join(words)}.")
        if self.comparison.differences is not None:
            told.append(self.comparison.differences)
        return tuple(told)

    def how(self) -> str:
        made = [self.comparison, *self.against.values()]
        if not any(comparison.tested[0] for comparison in made):
            return ""
        return (
            f"A difference holds where p < {SIGNIFICANT} in the paired t-test over seeds, adjusted "
            "by Holm for all comparisons with the same strategy. That none is shown does not mean "
            "that there is none. The best strategy is chosen and tested on the same seeds, which "
            "favours it slightly."
        )

    # -- words ---------------------------------------------------------------------------------

    @property
    def measure(self) -> Measure:
        return self.comparison.measure

    @property
    def _directed(self) -> bool:
        return self.comparison.lower_is_better is not None

    @property
    def _adjective(self) -> str:
        return "lowest" if self.comparison.lower_is_better else "highest"

    def _superlative(self, tied: Sequence[Row]) -> str:
        words = f"{self._adjective} {self.measure.phrase}"
        if self.measure.words.startswith(("best ", "lowest ")):
            words = f"{self._adjective} value of “{self.measure.words}”"
        return f"{_names(tied)} {_have(tied)} the {words}, {self._value(tied[0]['mean'])}"

    def _with_differences(self, rows: Sequence[Row]) -> str:
        sign = 1 if self.comparison.lower_is_better else -1
        ordered = sorted(rows, key=lambda row: sign * row["difference"])
        words = [f"{row['strategy']} ({self._difference(row)})" for row in ordered]
        return ", ".join(words)

    def _difference(self, row: Row) -> str:
        unit = self.measure.unit_of_difference
        word = number(row["difference"] * self.measure.scale, self._decimals, signed=True)
        return f"{word} {unit}" if unit else word

    def _value(self, value: float) -> str:
        word = number(value * self.measure.scale, self._decimals)
        return f"{word} {self.measure.unit}" if self.measure.unit else word

    @property
    def _decimals(self) -> int | None:
        if self.measure.decimals is not None:
            return self.measure.decimals
        rows = self.comparison.rows
        return decimals_for([*rows["mean"], *rows["difference"]])


def _heading(comparison: Comparison, row: Row) -> str:
    return ", ".join(f"{name} {label_word(row[name])}" for name in comparison.labels)


def _is_tested(row: Row) -> bool:
    return not math.isnan(row["p_t_holm"])


def _holds(row: Row) -> bool:
    return _is_tested(row) and bool(row["p_t_holm"] < SIGNIFICANT)


def _names(rows: Sequence[Row]) -> str:
    *most, last = [str(row["strategy"]) for row in rows]
    return f"{', '.join(most)} and {last}" if most else last


def _have(rows: Sequence[Row]) -> str:
    return "has" if len(rows) == 1 else "have"


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{verdict.lower()} in {count}" for verdict, count in found.most_common())

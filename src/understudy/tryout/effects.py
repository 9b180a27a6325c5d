"""Differences between runs, paired by seed, and whether they are more than noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from understudy.studies.statistics.paired_tests import (
    SEEDS_OF_T,
    SIGNIFICANT,
    holm,
    interval,
    paired_t,
)

BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Effect:
    """A mean difference over seeds, positive where it is a gain.

    Parameters
    ----------
    mean : float
        Of the differences.
    half : float, optional
        Half of their 95 % interval; None with fewer than 3 seeds.
    p : float, optional
        Of the paired t-test, adjusted for the comparisons made beside it; None with fewer than 5
        seeds.
    n : int
        Seeds.
    """

    mean: float
    half: float | None
    p: float | None
    n: int

    @property
    def holds(self) -> bool:
        """Whether it is more than noise."""
        return self.p is not None and self.p < SIGNIFICANT

    @property
    def verdict(self) -> str:
        """In words."""
        if self.p is None:
            return f"not tested (a test takes {SEEDS_OF_T} seeds)"
        return f"{'more than' if self.holds else 'may be'} noise, {p_word(self.p)}"


def p_number(p: float | None) -> str:
    """For a table."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def p_word(p: float) -> str:
    """In a sentence."""
    return f"p {'' if p < 0.001 else '= '}{p_number(p)}"


def effect(own: BySeed, other: BySeed, lower: bool) -> Effect:
    """`own` against `other`, over the seeds that both have; `lower`: less is better."""
    seeds = [s for s in own if s in other and math.isfinite(own[s]) and math.isfinite(other[s])]
    sign = -1.0 if lower else 1.0
    a, b = [sign * own[s] for s in seeds], [sign * other[s] for s in seeds]
    found = interval([x - y for x, y in zip(a, b, strict=True)])
    return Effect(found.mean, found.half, paired_t(a, b), found.n)


def adjusted(effects: Sequence[Effect]) -> list[Effect]:
    """The same, their p-values adjusted by Holm for all of them being looked at.

    Equal effects are those of equal runs, and one test.
    """
    tested = {one: one.p for one in effects if one.p is not None}
    raised = dict(zip(tested, holm(list(tested.values())), strict=True))
    return [replace(one, p=raised[one]) if one in raised else one for one in effects]


def mean(values: BySeed) -> float:
    known = [value for value in values.values() if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan


def by_seed(rows: pd.DataFrame, column: str) -> dict[int, float]:
    """Seed → value."""
    return dict(zip(rows["seed"].astype(int).tolist(), rows[column].tolist(), strict=True))

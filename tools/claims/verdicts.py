"""Whether runs support a claim: one rule for all claims.

A contrast is one number per seed, positive = the claim. It holds when the mean is significantly
above 0, is contradicted when it is significantly below 0, and is open otherwise. *Significantly*: a
one-sided t-test at 5 % (the 90 % t-interval lies on one side), and from five seeds on also an exact
sign-flip test at 5 %; within a claim the t-tests are corrected by Holm. A contrast of kind *value*
holds when the interval of the mean of our numbers lies within the paper's value ± tolerance, and is
contradicted when it lies outside. A claim is

* reproduced, when all its contrasts hold ("most": over half of them, and none is contradicted);
* mixed, when some hold and some are contradicted;
* reproduced in part, when some hold and none is contradicted;
* not reproduced, when none holds and one is contradicted;
* open, when none is decided, with the seeds for a power of 80 %: (2.5 s/d̄)² + 2;
* not run, when cells are missing;
* withdrawn, when the paper's own numbers do not support it.

Where the two sides of *near* are equal in every seed it holds: nothing is left to chance. A run
that diverged has no number, and a contrast in which it takes part is open. Equal numbers are no
certainty: where all are the same, the sign-flip test alone decides, and so five are needed.
Where no run of a seed reaches the target that a claim names, the contrast of that seed is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from tools.claims.paper_claims import Claim, Contrast, Pick, Side
from understudy.core.intervals import FEWEST, half_width
from understudy.studies.statistics.paired_tests import holm

CONFIDENCE = 0.90
LEVEL = 0.05  # one-sided: what lies beyond one end of the interval
FEWEST_SEEDS = FEWEST
FEWEST_FLIPPED = 5  # 2^-5 is the first power of a half below the level
MOST_FLIPPED = 20  # a million sums; with more seeds the t-test alone decides
POWER = 2.5  # z(0.95) + z(0.80) = 2.49
HOLDS, CONTRADICTED, OPEN, NOT_RUN = "holds", "contradicted", "open", "not run"
REPRODUCED, MIXED, IN_PART, NOT_REPRODUCED = "reproduced", "mixed", "in part", "not reproduced"
WITHDRAWN = "withdrawn"
VERDICTS = (REPRODUCED, IN_PART, MIXED, NOT_REPRODUCED, OPEN, NOT_RUN, WITHDRAWN)

Numbers = Mapping[int, float]  # by seed
Look = Callable[[Pick], Numbers]  # the measure of the picked cells
Never = Callable[[Contrast], float | None]  # the rounds of a run that does not reach its target
Array = npt.NDArray[np.float64]


# -- the four kinds --------------------------------------------------------------------------------


def order(
    a: float, b: float, *, factor: float = 1.0, margin: float = 0.0, sign: float = 1.0
) -> float:
    """A − factor·B − margin; with sign −1, where less is better, factor·B − A − margin."""
    return sign * (a - factor * b) - margin


def trend(a: float, b: float, c: float, d: float, *, sign: float = 1.0) -> float:
    """(A − B) − (C − D): the gain of A over B at one end, minus that at the other."""
    return sign * ((a - b) - (c - d))


def near(a: float, b: float, *, within: float, sign: float = 1.0) -> float:
    """A − B + within: A is not worse than B by more than `within`."""
    return sign * (a - b) + within


def value(ours: float, paper: float, tolerance: float) -> float:
    """The tolerance minus the distance of ours to the paper's."""
    return tolerance - abs(ours - paper)


def number(contrast: Contrast, sides: Sequence[float], sign: float) -> float:
    """The contrast of one seed, from the measures of its sides."""
    if contrast.kind == "order":
        return order(*sides, factor=contrast.factor, margin=contrast.margin, sign=sign)
    if contrast.kind == "trend":
        return trend(*sides, sign=sign)
    if contrast.kind == "near":
        return near(*sides, within=contrast.within, sign=sign)
    return value(compared_value(contrast, sides), contrast.paper, contrast.tolerance)


def compared_value(contrast: Contrast, sides: Sequence[float]) -> float:
    """What is compared with the paper's value: A, A − B or A/B − 1."""
    if not contrast.told_as:
        return sides[0]
    if contrast.told_as == "difference":
        return sides[0] - sides[1]
    return sides[0] / sides[1] - 1 if sides[1] else math.nan


# -- chance ----------------------------------------------------------------------------------------


def sign_flip(numbers: Sequence[float]) -> float:
    """One-sided p of the exact sign-flip test that the mean is above 0.

    The share of all 2^n ways to give the numbers signs whose sum is at least the one seen.
    """
    values: Array = np.asarray(numbers, dtype=np.float64)
    sums = np.zeros(1)
    for size in np.abs(values):
        sums = np.concatenate([sums + size, sums - size])
    # sums of the same numbers in another order differ in their last bits
    slack = 1e-9 * float(np.abs(values).sum())
    return float((sums >= values.sum() - slack).mean())


def student_p(numbers: Sequence[float]) -> float:
    """One-sided p of the t-test that the mean is above 0; of equal numbers the sign-flip's."""
    values: Array = np.asarray(numbers, dtype=np.float64)
    spread = _spread(values)
    if not spread:  # all signs as they are: one way of 2^n
        return 0.5 ** len(values) if values[0] > 0 else 1.0
    statistic = float(values.mean()) / (spread / math.sqrt(len(values)))
    return float(student.sf(statistic, len(values) - 1))


def _spread(numbers: Sequence[float] | Array) -> float:
    """The standard deviation; 0 where numbers differ in their last bits only."""
    values: Array = np.asarray(numbers, dtype=np.float64)
    spread = float(values.std(ddof=1))
    return 0.0 if spread <= 1e-12 * float(np.abs(values).max(initial=0.0)) else spread


@dataclass(frozen=True)
class Chance:
    """One-sided p-values of a contrast, for the claim and against it."""

    for_it: float = 1.0
    against: float = 1.0
    flips_for: float = 0.0  # of the sign-flip test; 0 where it is not asked
    flips_against: float = 0.0

    @property
    def smaller(self) -> float:
        return min(self.for_it, self.against)

    def status(self, adjusted: float) -> str:
        """With the smaller p-value of the t-test as it is after correction."""
        if adjusted > LEVEL:
            return OPEN
        if self.for_it <= self.against:
            return HOLDS if self.flips_for <= LEVEL else OPEN
        return CONTRADICTED if self.flips_against <= LEVEL else OPEN


SAME = Chance(0.0, 1.0)  # of runs that are equal in every seed: nothing is left to chance


def chance_of(contrast: Contrast, numbers: Sequence[float], ours: Sequence[float]) -> Chance:
    """How likely such numbers are if the claim is just wrong, and if it is just right."""
    if contrast.kind != "value":
        return _chance(numbers)
    above = _chance([one - (contrast.paper - contrast.tolerance) for one in ours])
    below = _chance([contrast.paper + contrast.tolerance - one for one in ours])
    return Chance(  # inside: above the lower end and below the upper; outside: beyond one of them
        max(above.for_it, below.for_it),
        min(above.against, below.against),
        max(above.flips_for, below.flips_for),
        min(above.flips_against, below.flips_against),
    )


def _chance(numbers: Sequence[float]) -> Chance:
    turned = [-one for one in numbers]
    few = not FEWEST_FLIPPED <= len(numbers) <= MOST_FLIPPED
    return Chance(
        student_p(numbers),
        student_p(turned),
        0.0 if few else sign_flip(numbers),
        0.0 if few else sign_flip(turned),
    )


# -- one contrast ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A contrast over all seeds."""

    contrast: Contrast
    numbers: Numbers
    ours: Numbers  # of a value: what is compared with the paper's
    status: str
    mean: float  # of the contrast; of a value: of our numbers
    low: float  # of the 90 % interval
    high: float
    chance: Chance = Chance()

    @property
    def seeds_needed(self) -> float:
        """For a power of 80 %; NaN: no effect seen, or a run without a number."""
        if self.contrast.kind != "value":
            return seeds_for_power(list(self.numbers.values()))
        edge = self.contrast.tolerance - abs(self.mean - self.contrast.paper)
        centred = [one - self.mean + edge for one in self.ours.values()]
        return seeds_for_power(centred)

    @property
    def equal(self) -> bool:
        """Whether all its numbers are the same: what is tested are signs only."""
        values = list(self.numbers.values())
        return len(values) > 1 and not _spread(values)

    @property
    def diverged(self) -> bool:
        """Whether a run that takes part has no number."""
        return not all(math.isfinite(value) for value in self.numbers.values())


def interval(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Mean, and the ends of its 90 % t-interval; NaN for fewer than three numbers."""
    values: Array = np.asarray(numbers, dtype=np.float64)
    mean, half = float(values.mean()), float(half_width(values, CONFIDENCE))
    return mean, mean - half, mean + half


def status_of(numbers: Sequence[float]) -> str:
    """Whether a contrast that is alone holds, is contradicted, is open, or has too few seeds."""
    if len(numbers) < FEWEST_SEEDS:
        return NOT_RUN
    if not all(math.isfinite(value) for value in numbers):
        return OPEN
    chance = _chance(numbers)
    return chance.status(chance.smaller)


def seeds_for_power(numbers: Sequence[float]) -> float:
    """(2.5 s/d̄)² + 2, rounded up, and more than there are, which did not decide.

    NaN where no effect is seen, the mean being below its standard error, or a seed has no number.
    """
    values: Array = np.asarray(numbers, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all():
        return math.nan
    mean, deviation = abs(float(values.mean())), float(values.std(ddof=1))
    if mean == 0 or mean < deviation / math.sqrt(len(values)):
        return math.nan
    needed = math.ceil((POWER * deviation / mean) ** 2 + 2)
    return float(max(FEWEST_SEEDS, len(values) + 1, needed))


def judge_contrast(
    contrast: Contrast, sign: float, look: Look, never: float | None = None
) -> Judged:
    """A contrast by itself, paired by the seeds that all its sides have.

    `never` is the number of a run that does not reach its target: where all sides have it, nothing
    can be told of that seed.
    """
    measured: list[Numbers | float] = [_measured(side, look) for side in contrast.sides]
    known = [set(numbers) for numbers in measured if not isinstance(numbers, float)]
    seeds = sorted(set.intersection(*known)) if known else []
    numbers, ours = {}, {}
    for seed in seeds:
        sides = [side if isinstance(side, float) else side[seed] for side in measured]
        told = never is None or any(side != never for side in sides)
        numbers[seed] = number(contrast, sides, sign) if told else 0.0
        if contrast.kind == "value":
            ours[seed] = compared_value(contrast, sides)
    found = list(numbers.values())
    if len(found) < FEWEST_SEEDS:
        return Judged(contrast, numbers, ours, NOT_RUN, *_interval_of(found, ours))
    if contrast.kind == "near" and set(found) == {contrast.within}:  # the same to the bit
        return Judged(contrast, numbers, ours, HOLDS, *_interval_of(found, ours), SAME)
    if not all(math.isfinite(one) for one in found):
        return Judged(contrast, numbers, ours, OPEN, math.nan, math.nan, math.nan)
    chance = chance_of(contrast, found, list(ours.values()))
    status = chance.status(chance.smaller)
    return Judged(contrast, numbers, ours, status, *_interval_of(found, ours), chance)


def _interval_of(numbers: Sequence[float], ours: Numbers) -> tuple[float, float, float]:
    shown = list(ours.values()) or list(numbers)
    whole = bool(shown) and all(math.isfinite(one) for one in shown)
    return interval(shown) if whole else (math.nan, math.nan, math.nan)


def _measured(side: Side, look: Look) -> Numbers | float:
    return side if isinstance(side, float) else look(side)


# -- a claim ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What runs say to a claim."""

    claim: Claim
    verdict: str
    contrasts: tuple[Judged, ...]
    beside: Verdict | None = None  # of the other measure: the mean over the rounds, or their end

    def count(self, status: str) -> int:
        """Contrasts of this status."""
        return sum(judged.status == status for judged in self.contrasts)

    @property
    def n_seeds(self) -> int:
        """The fewest seeds of any contrast."""
        return min(len(judged.numbers) for judged in self.contrasts)

    @property
    def seeds_needed(self) -> dict[int, float]:
        """For a power of 80 %, by the place of each open contrast; NaN: no effect is seen."""
        return {
            at: self._seeds_of_signs if judged.equal and judged.mean else judged.seeds_needed
            for at, judged in enumerate(self.contrasts)
            if judged.status == OPEN
        }

    @property
    def _seeds_of_signs(self) -> float:
        """With which signs alone pass, all being the same: Holm's m · 2^−n within the level."""
        return float(math.ceil(math.log2(len(self.contrasts) / LEVEL)))

    @property
    def n_diverged(self) -> int:
        """Contrasts in which a run has no number."""
        return sum(judged.diverged for judged in self.contrasts)


def verdict_of(statuses: Sequence[str], quantifier: str) -> str:
    """The verdict of a claim from the statuses of its contrasts."""
    n_holding, n_against = statuses.count(HOLDS), statuses.count(CONTRADICTED)
    if NOT_RUN in statuses or not statuses:
        return NOT_RUN
    if n_holding == len(statuses):
        return REPRODUCED
    if quantifier == "most" and 2 * n_holding > len(statuses) and not n_against:
        return REPRODUCED
    if n_holding:
        return MIXED if n_against else IN_PART
    return NOT_REPRODUCED if n_against else OPEN


def judge(claim: Claim, look: Look, never: Never = lambda contrast: None) -> Verdict:
    """The verdict on a claim; `look` gives the measure of picked cells, by seed."""
    judged = [
        judge_contrast(contrast, claim.sign, look, never(contrast)) for contrast in claim.contrasts
    ]
    decidable = [one for one in judged if one.status != NOT_RUN and not one.diverged]
    adjusted = holm([one.chance.smaller for one in decidable])
    corrected = {
        id(one): replace(one, status=one.chance.status(p))
        for one, p in zip(decidable, adjusted, strict=True)
    }
    whole = tuple(corrected.get(id(one), one) for one in judged)
    verdict = verdict_of([one.status for one in whole], claim.quantifier)
    return Verdict(claim, WITHDRAWN if claim.withdrawn else verdict, whole)

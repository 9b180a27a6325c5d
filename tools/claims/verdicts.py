"""Whether runs bear a claim out: one rule for all claims.

A contrast is one number per seed, positive = the claim. Its mean and 90 % t-interval over at least
three seeds say whether it holds (above 0), is contradicted (below 0) or is open. A claim is

* reproduced, when all its contrasts hold ("most": over half of them, and none is contradicted);
* reproduced in part, when some hold;
* not reproduced, when none holds and one is contradicted;
* open, when neither, with the seeds it would take: (2s/d̄)²;
* not run, when cells are missing.

A run that diverged has no number, and a contrast in which it takes part is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tools.claims.paper_claims import Claim, Contrast, Pick, Side
from understudy.core.intervals import FEWEST, half_width

CONFIDENCE = 0.90
FEWEST_SEEDS = FEWEST
HOLDS, CONTRADICTED, OPEN, NOT_RUN = "holds", "contradicted", "open", "not run"
REPRODUCED, IN_PART, NOT_REPRODUCED = "reproduced", "in part", "not reproduced"
VERDICTS = (REPRODUCED, IN_PART, NOT_REPRODUCED, OPEN, NOT_RUN)

Numbers = Mapping[int, float]  # by seed
Look = Callable[[Pick], Numbers]  # the measure of the picked cells


# -- the four kinds --------------------------------------------------------------------------------


def order(
    a: float, b: float, *, factor: float = 1.0, margin: float = 0.0, sign: float = 1.0
) -> float:
    """A − factor·B − margin; with sign −1, where less is better, factor·B − A − margin."""
    return sign * (a - factor * b) - margin


def trend(a: float, b: float, c: float, d: float, *, sign: float = 1.0) -> float:
    """(A − B) − (C − D): the gain of A over B at one end, minus that at the other."""
    return sign * ((a - b) - (c - d))


def near(a: float, b: float, c: float, *, sign: float = 1.0) -> float:
    """(A − B) − ½(C − B): A is more than half of the way from B to C."""
    return sign * ((a - b) - 0.5 * (c - b))


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
        return near(*sides, sign=sign)
    return value(compared_value(contrast, sides), contrast.paper, contrast.tolerance)


def compared_value(contrast: Contrast, sides: Sequence[float]) -> float:
    """What is compared with the paper's value: A, A − B or A/B − 1."""
    if not contrast.told_as:
        return sides[0]
    if contrast.told_as == "difference":
        return sides[0] - sides[1]
    return sides[0] / sides[1] - 1 if sides[1] else math.nan


# -- one contrast ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A contrast over all seeds."""

    contrast: Contrast
    numbers: Numbers
    ours: Numbers  # of a value: what is compared with the paper's
    status: str
    mean: float
    low: float  # of the 90 % interval
    high: float

    @property
    def seeds_needed(self) -> float:
        """(2s/d̄)², rounded up: the seeds it would take to decide."""
        return seeds_to_decide(list(self.numbers.values()))

    @property
    def diverged(self) -> bool:
        """Whether a run that takes part has no number."""
        return not all(math.isfinite(value) for value in self.numbers.values())


def interval(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Mean, and the ends of its 90 % t-interval; NaN for fewer than three numbers."""
    values: npt.NDArray[np.float64] = np.asarray(numbers, dtype=np.float64)
    mean, half = float(values.mean()), float(half_width(values, CONFIDENCE))
    return mean, mean - half, mean + half


def status_of(numbers: Sequence[float]) -> str:
    """Whether a contrast holds, is contradicted, is open, or has too few seeds."""
    if len(numbers) < FEWEST_SEEDS:
        return NOT_RUN
    if not all(math.isfinite(value) for value in numbers):
        return OPEN
    _, low, high = interval(numbers)
    if low > 0:
        return HOLDS
    return CONTRADICTED if high < 0 else OPEN


def seeds_to_decide(numbers: Sequence[float]) -> float:
    """(2s/d̄)², rounded up, and more than there are, which did not decide.

    Infinite where the mean is 0, NaN where a seed has no number.
    """
    values: npt.NDArray[np.float64] = np.asarray(numbers, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all():
        return math.nan
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    if mean == 0:
        return math.inf
    return float(max(FEWEST_SEEDS, len(values) + 1, math.ceil((2 * deviation / mean) ** 2)))


def judge_contrast(contrast: Contrast, sign: float, look: Look) -> Judged:
    """A contrast, paired by the seeds that all its sides have."""
    measured: list[Numbers | float] = [_measured(side, look) for side in contrast.sides]
    known = [set(numbers) for numbers in measured if not isinstance(numbers, float)]
    seeds = sorted(set.intersection(*known)) if known else []
    numbers, ours = {}, {}
    for seed in seeds:
        sides = [side if isinstance(side, float) else side[seed] for side in measured]
        numbers[seed] = number(contrast, sides, sign)
        if contrast.kind == "value":
            ours[seed] = compared_value(contrast, sides)
    status = status_of(list(numbers.values()))
    whole = bool(numbers) and all(math.isfinite(value) for value in numbers.values())
    mean, low, high = interval(list(numbers.values())) if whole else (math.nan,) * 3
    return Judged(contrast, numbers, ours, status, mean, low, high)


def _measured(side: Side, look: Look) -> Numbers | float:
    return side if isinstance(side, float) else look(side)


# -- a claim ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What runs say to a claim."""

    claim: Claim
    verdict: str
    contrasts: tuple[Judged, ...]

    def count(self, status: str) -> int:
        """Contrasts of this status."""
        return sum(judged.status == status for judged in self.contrasts)

    @property
    def n_seeds(self) -> int:
        """The fewest seeds of any contrast."""
        return min(len(judged.numbers) for judged in self.contrasts)

    @property
    def seeds_needed(self) -> float:
        """The seeds that would decide all open contrasts; NaN where a run diverged."""
        needed = [judged.seeds_needed for judged in self.contrasts if judged.status == OPEN]
        return math.nan if any(map(math.isnan, needed)) else max(needed, default=math.nan)

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
        return IN_PART
    return NOT_REPRODUCED if n_against else OPEN


def judge(claim: Claim, look: Look) -> Verdict:
    """The verdict on a claim; `look` gives the measure of picked cells, by seed."""
    judged = tuple(judge_contrast(contrast, claim.sign, look) for contrast in claim.contrasts)
    return Verdict(claim, verdict_of([one.status for one in judged], claim.quantifier), judged)

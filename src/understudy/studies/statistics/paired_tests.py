"""Intervals and tests over seeds; too few seeds give no number, never a doubtful one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from understudy.core.intervals import FEWEST, half_width
from understudy.core.types import Floats

SEEDS_OF_INTERVAL = FEWEST
SEEDS_OF_T = 5
SEEDS_OF_WILCOXON = 8  # below, its smallest possible p is 2/2⁷ ≈ 0.016 before Holm
SIGNIFICANT = 0.05  # adjusted p below which a difference is said to hold
RESOLUTION = 1e-12  # relative; what is closer is equal: differences of decimals are not exact


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and half the width of its t-interval, None with fewer than 3 seeds."""

    mean: float
    half: float | None
    n: int


def interval(values: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Mean and half width of its two-sided t-interval.

    Parameters
    ----------
    values : (n,) finite numbers
        One per seed.
    level : float
        In (0, 1).
    """
    array = _finite("values", values)
    n = len(array)
    if n == 0:
        return Interval(math.nan, None, 0)
    mean = float(array.mean())
    half = float(half_width(array, level))
    return Interval(mean, None if math.isnan(half) else half, n)


def paired_t(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Two-sided p-value of the paired t-test; None with fewer than 5 pairs.

    Notes
    -----
    Pairs that are all equal give 1. Of differences that are all the same, and not zero, a t-test
    knows no spread; they give the exact probability of the sign-flip test, 2 of 2ⁿ ways.
    """
    differences, resolution = _differences(a, b)
    n = len(differences)
    if n < SEEDS_OF_T:
        return None
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread <= resolution:
        return 1.0 if abs(mean) <= resolution else 2.0 ** (1 - n)
    return float(2 * stats.t.sf(abs(mean) / (spread / math.sqrt(n)), n - 1))


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Two-sided exact p-value of Wilcoxon's signed-rank test; None with fewer than 8 pairs.

    Notes
    -----
    Pairs without a difference are dropped and ties share their mean rank; the distribution over
    all signs is then counted out, whatever the number of pairs.
    """
    differences, resolution = _differences(a, b)
    if len(differences) < SEEDS_OF_WILCOXON:
        return None
    # on a grid as fine as the resolution, so that equal sizes are ties
    steps = np.rint(differences / resolution) if resolution > 0 else differences
    steps = steps[steps != 0]
    if not len(steps):
        return 1.0
    ranks = np.rint(2 * stats.rankdata(np.abs(steps))).astype(np.int64)  # doubled: whole numbers
    positive = int(ranks[steps > 0].sum())
    extreme = min(positive, int(ranks.sum()) - positive)
    ways = np.zeros(int(ranks.sum()) + 1)  # probability of each sum of positive ranks
    ways[0] = 1.0
    for rank in ranks.tolist():
        ways[rank:] = (ways[rank:] + ways[:-rank]) / 2
        ways[:rank] /= 2
    return min(1.0, 2 * float(ways[: extreme + 1].sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for all of them being looked at.

    The smallest of m is multiplied by m, the next by m − 1, and so on; none is below a smaller
    one's, none above 1.

    References
    ----------
    Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.
    """
    plain = _finite("p_values", p_values)
    order = np.argsort(plain, kind="stable")
    raised = plain[order] * np.arange(len(plain), 0, -1)
    adjusted = np.zeros(len(plain))
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return [float(p) for p in adjusted]


def _differences(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Floats, float]:
    """a − b, and the size below which a difference is none."""
    first, second = _finite("a", a), _finite("b", b)
    if len(first) != len(second):
        raise ValueError(
            f"b: expected {len(first)} numbers, one for each of a's, got {len(second)}"
        )
    largest = float(max(np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0)))
    return first - second, largest * RESOLUTION


def _finite(name: str, values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers, one per seed, got {values!r}")
    return array

"""What a number of examples is worth that nobody but its client reports.

A size that the `Population` gives is confirmed: whoever runs the federation vouches for it. All
others are claims, and stay claims however long they are remembered: they are never written over
what the population says, and what they count is computed in each round.
"""

from __future__ import annotations

import numpy as np

from understudy.core.types import Bools, Floats, Population


def believed(
    population: Population, n_examples: Floats, active: Bools, *, factor: float, ignored: bool
) -> Floats:
    """(N,) what each client's number of examples counts, NaN where it is unknown.

    `n_examples` is as known by now, given or reported. A claim counts at most `factor` times the
    median of all known sizes of the `active`; where claims are `ignored` it counts as unknown, and
    a confirmed size is at most what the population says.
    """
    confirmed = population.confirmed
    if ignored:
        given = np.nan if population.n_examples is None else population.n_examples
        return np.asarray(np.where(confirmed, np.minimum(n_examples, given), np.nan))
    claimed = ~confirmed & ~np.isnan(n_examples)
    if not claimed.any():
        return n_examples
    most = factor * lower_median(n_examples[active & ~np.isnan(n_examples)])
    return np.where(claimed, np.fmin(n_examples, most), n_examples)


def lower_median(values: Floats) -> float:
    """The middle value, the lower of the two where their number is even; NaN where there is none.

    Of two values the ordinary median lies halfway to the larger one, however large it claims to be.
    """
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else float("nan")


def without_gaps(n_examples: Floats, claimed: Bools | None, *, one_vote: bool = False) -> Floats:
    """(N,) the sizes, a usual one where one is unknown, 1 where none is known.

    Usual is the mean; or the median where some of the known are claims, one of which must not
    decide what the others' clients weigh; or the lower median where a claim is one vote: the mean
    of confirmed sizes may be far more than most, and whoever is not confirmed would have it.
    """
    known = ~np.isnan(n_examples)
    if known.all():
        return n_examples
    if not known.any():
        return np.ones(len(n_examples))
    sizes = n_examples[known]
    has_claims = claimed is not None and bool(claimed[known].any())
    if one_vote:
        usual = lower_median(sizes)
    else:
        usual = float(np.median(sizes)) if has_claims else float(sizes.mean())
    return np.where(known, n_examples, usual)

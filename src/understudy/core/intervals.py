"""Student's t-interval of a mean."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Floats

FEWEST = 3  # values that an interval takes: one of fewer says nothing


def half_width(values: Floats, level: float = 0.95) -> Floats:
    """Half of the two-sided t-interval of the mean over axis 0; NaN for fewer than three values.

    `values` has an entry per seed on that axis.
    """
    from scipy import stats  # here: it takes a second, and 30 MB

    n = len(values)
    if n < FEWEST:
        return np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray(stats.t.ppf((1 + level) / 2, n - 1) * error, dtype=np.float64)

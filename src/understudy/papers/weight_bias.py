"""By how much FedGS's weights are off where clients have unequal data (eqs. 19 to 23)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.core import checks
from understudy.core.types import Floats


def gamma(n_examples: npt.ArrayLike, m: int) -> Floats:
    """(N,) γ_k = 1/(1 + (N−M)/(M(N−1)) · (n_k − n̄)/n̄): what n_k/n is multiplied by (eq. 23).

    The picked are weighed by their examples (eq. 18). Where all are picked equally often, client k
    then counts, in expectation, (n_k/n)·γ_k instead of n_k/n: above 1 for those with few examples,
    1 where all have as many or all are picked.

    Parameters
    ----------
    n_examples : (N,) array
        n_k > 0.
    m : int
        M, how many of the N are picked.

    Notes
    -----
    The paper puts the mean number of the others' examples into the denominator (eq. 20). The mean
    of the fractions themselves is never below that: the true factor is γ_k or more.

    References
    ----------
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, 2023.
    """
    sizes = checks.array("n_examples", n_examples, (None,), float)
    n = len(sizes)
    if not n or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ValueError("n_examples: expected at least one number, all finite and above 0")
    checks.integer("m", m, low=1, high=n)
    if n == 1:
        return np.ones(1)
    mean = sizes.mean()
    return np.asarray(1 / (1 + (n - m) / (m * (n - 1)) * (sizes - mean) / mean))

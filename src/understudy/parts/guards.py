"""`NormGuard`: scales down an arrival whose norm is far above what is usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Arrivals, Floats, Setup

WINDOW = 5  # rounds in which someone came


@dataclass
class NormGuardState:
    n_parameters: int
    norms: Floats  # (WINDOW, N) norms after scaling, NaN where a client did not come
    rounds: int  # how many rounds in which someone came


@dataclass(frozen=True)
class NormGuard:
    """Scale an arrival whose norm is far above what is usual.

    The bound is `factor` × the median of the norms (after scaling) of the last five rounds in
    which someone came; the first such round uses its own. Late arrivals get the same bound and do
    not count. An update that once exploded is otherwise replayed by a memory for as long as its
    client is away, and multiplied by whoever it stands in for.

    Parameters
    ----------
    factor : float
        At least 1.
    """

    factor: float = 2.5

    def __post_init__(self) -> None:
        checks.number("factor", self.factor, low=1)

    def init(self, setup: Setup) -> NormGuardState:
        norms = np.full((WINDOW, setup.population.n_clients), np.nan)
        return NormGuardState(setup.n_parameters, norms, rounds=0)

    def guard(
        self, state: NormGuardState, arrivals: Arrivals, late: Arrivals
    ) -> tuple[Arrivals, Arrivals, Mapping[str, float]]:
        if not len(arrivals) and not len(late):
            return arrivals, late, {}
        norms = _norms(arrivals, state.n_parameters)
        usual = state.norms[~np.isnan(state.norms)] if state.rounds else norms
        # late ones alone, before anyone ever came, have nothing to be compared with
        bound = self.factor * float(np.median(usual)) if len(usual) else np.inf
        if bound == 0:
            bound = np.inf  # nobody moved yet: zero is no measure of what is usual
        if len(arrivals):
            row = np.full(state.norms.shape[1], np.nan)
            row[np.asarray(arrivals.ids, dtype=np.int64)] = np.minimum(norms, bound)
            state.norms[state.rounds % WINDOW] = row
            state.rounds += 1
        arrivals, scaled = _scaled(arrivals, norms, bound)
        late, scaled_late = _scaled(late, _norms(late, state.n_parameters), bound)
        return arrivals, late, {"guard_scaled": float(scaled + scaled_late), "guard_bound": bound}


def _norms(arrivals: Arrivals, n_parameters: int) -> Floats:
    return np.array(
        [float(torch.linalg.vector_norm(delta[:n_parameters].double())) for _, delta in arrivals]
    )


def _scaled(arrivals: Arrivals, norms: Floats, bound: float) -> tuple[Arrivals, int]:
    """Arrivals with those above the bound replaced by scaled copies; the others are not touched."""
    over = np.flatnonzero(norms > bound)
    if not len(over):
        return arrivals, 0
    deltas = [delta for _, delta in arrivals]
    for position in over:
        deltas[position] = deltas[position] * (bound / norms[position])
    return replace(arrivals, deltas=deltas), len(over)

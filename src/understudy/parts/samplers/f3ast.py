"""`F3AST` (Ribero et al., 2023): those whose share of the data exceeds their rate of picks most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Floats, Ints, Population, RoundEnd, RoundStart, Setup
from understudy.parts.samplers.uniform import check_m, count_of, known_sizes

SMALLEST = 1e-300  # a rate that decays for ever stays above 0


@dataclass
class Rates:
    rate: Floats  # (N,) r_i, moving average of the picks


@dataclass(frozen=True)
class F3AST:
    """F3AST: the m reachable clients with the largest p_i²/r_i², each weighted by 1/r_i.

    p_i is the client's share of the examples and r_i its rate of picks, a moving average: r_i ←
    (1 − β) r_i + β [i is picked]. The picks so reduce Σ p_i²/r_i, the variance of an update
    weighted by p_i/r_i, as far as the availability of clients allows.

    Parameters
    ----------
    m : int, float or None
        As in `Uniform`.
    beta : float
        β in (0, 1).

    Notes
    -----
    The weight takes r_i after this round's pick, as in the authors' code: it is at most 1/β. With
    `HorvitzThompson`, the update is the paper's Σ p_i/r_i Δ_i; `Ignore` makes it a weighted mean.

    r_i starts at m p_i, so that it sums to m, as it does ever after, and everyone's first weight is
    1/m of the total. The authors' code starts at p_i, and divides by m instead, in every round: a
    start that sums to 1 and rates that come to sum to m.

    A pick counts whether the client comes or not, or one that always fails would be picked in every
    round. Ties are broken by chance.

    References
    ----------
    Ribero, Vikalo and de Veciana, Federated Learning Under Intermittent Client Availability and
    Time-Varying Communication Constraints, IEEE Journal of Selected Topics in Signal Processing,
    2023 (algorithm 1).
    """

    m: int | float | None = None
    beta: float = 0.01

    def __post_init__(self) -> None:
        check_m("m", self.m)
        checks.number("beta", self.beta, low=0, high=1, low_open=True, high_open=True)

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> Rates:
        n = setup.population.n_clients
        return Rates(self.count(n) * _shares(setup.population, np.ones(n, dtype=np.bool_)))

    def pick(self, state: Rates, start: RoundStart) -> tuple[Ints, Floats]:
        shuffled = start.rng.permutation(np.flatnonzero(start.available))
        m = min(self.count(int(start.active.sum())), len(shuffled))
        gain = _shares(start.population, start.active) / np.maximum(state.rate, SMALLEST)
        ids = shuffled[np.argsort(-gain[shuffled], kind="stable")][:m]
        return ids, 1 / self._after(state.rate, ids)[ids]

    def _after(self, rate: Floats, picked: Ints) -> Floats:
        """(N,) the rates after a round."""
        after = (1 - self.beta) * rate
        after[picked] += self.beta
        return after

    def learn(self, state: Rates, end: RoundEnd) -> None:
        state.rate = self._after(state.rate, end.cohort.wanted)


def _shares(population: Population, active: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """(N,) p_i, 0 for the retired."""
    size = np.where(active, known_sizes(population), 0.0)
    return np.asarray(size / max(float(size.sum()), SMALLEST))

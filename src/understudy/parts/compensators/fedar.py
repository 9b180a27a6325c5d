"""`FedAR` (Jiang et al., 2024): everyone's latest update; older ones get larger weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Contributions, Floats, RoundEnd, Setup
from understudy.memory.precision import PRECISIONS
from understudy.parts.compensators.memory import Memory


@dataclass(frozen=True)
class LinearCutoff:
    """g(t) = t₀ + t/b, b > 2: FedAR's choice for convex losses.

    The paper gives no numbers; the defaults keep the absences of 5 to 20 rounds it mentions.
    """

    t0: float = 10.0
    b: float = 3.0

    def __post_init__(self) -> None:
        checks.number("t0", self.t0, low=0)
        checks.number("b", self.b, low=2, low_open=True)

    def __call__(self, t: int) -> float:
        return self.t0 + t / self.b


@dataclass(frozen=True)
class SqrtCutoff:
    """g(t) = c · max(√t, √T₀): FedAR's choice for non-convex losses.

    The paper gives no numbers; the defaults keep absences of up to 10 rounds from the start.
    """

    c: float = 2.0
    t0: float = 25.0

    def __post_init__(self) -> None:
        checks.number("c", self.c, low=0, low_open=True)
        checks.number("t0", self.t0, low=0)

    def __call__(self, t: int) -> float:
        return self.c * max(math.sqrt(t), math.sqrt(self.t0))


@dataclass(frozen=True)
class FedAR:
    """FedAR: (1/N_t) Σ_i ψ_i Δ_i η_t/η_s over all clients ever seen.

    The longer a client is away, the larger the weight of its last update, up to twice:
    ψ_i = min((τ_i + 1)^ρ, 2), and 0 once τ_i, the rounds since it came, exceeds g(t). A client
    that comes this round has τ_i = 0. N_t counts the clients seen with ψ_i > 0: the server need
    not know how many there are.

    Parameters
    ----------
    rho : float
        ρ ≥ 0.
    cutoff : None, number or function of the round
        g(t); None never cuts. `LinearCutoff` and `SqrtCutoff` are the paper's two.
    psi : {"power", "linear"}
        Linear is the other reading, min(1 + ρ τ_i, 2).
    step_when_empty : bool
        Step on memory alone in a round in which nobody came, as the paper does. By default such a
        round takes no step, as with every other method.
    precision : {"full", "float16", "bfloat16", "int8"}
        How updates are remembered: as the model is, in half of the room, or in a quarter.

    Notes
    -----
    The exponent of ψ is lost in the scan that was to be had; the power is our best reading. t₀ is
    not given, so nothing is cut by default.

    References
    ----------
    Jiang et al., FedAR: Addressing Client Unavailability in Federated Learning with Local Update
    Approximation and Rectification, 2024.
    """

    rho: float = 0.1
    cutoff: float | Callable[[int], float] | None = None
    psi: str = "power"
    step_when_empty: bool = added("0.2", False)
    precision: str = added("0.2", "full")
    signed = False
    normalised = False

    def __post_init__(self) -> None:
        checks.number("rho", self.rho, low=0)
        checks.choice("psi", self.psi, ("power", "linear"))
        checks.choice("step_when_empty", self.step_when_empty, (True, False))
        checks.choice("precision", self.precision, PRECISIONS)
        if self.cutoff is not None and not callable(self.cutoff):
            checks.number("cutoff", self.cutoff, low=0)

    @property
    def fills_without_arrivals(self) -> bool:
        return self.step_when_empty

    def init(self, setup: Setup) -> Memory:
        return Memory.empty(setup, self.precision)

    def fill(self, state: Memory, end: RoundEnd) -> Contributions:
        psi = self._psi(state, end)
        if not psi.any():  # nobody was seen yet, or all that is remembered is too old
            return Contributions.none()
        return state.sum(end, psi * end.base / end.base[psi > 0].sum())

    def stand_ins(self, state: Memory, end: RoundEnd) -> Contributions:
        """Those of a client seen are ψ Δ η_t/η_s."""
        psi = self._psi(state, end)
        share = np.where(psi > 0, end.base, 0.0)
        return self.fill(state, end).with_shares(share / (share.sum() or 1.0))

    def _psi(self, state: Memory, end: RoundEnd) -> Floats:
        age = np.where(state.last_seen < 0, np.inf, end.t - state.last_seen)  # τ
        age[end.came] = 0
        return rectification(age, self.rho, self.limit(end.t), self.psi) * state.seen(end)

    def limit(self, t: int) -> float:
        """g(t)."""
        if self.cutoff is None:
            return math.inf
        return float(self.cutoff(t) if callable(self.cutoff) else self.cutoff)

    def learn(self, state: Memory, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        state.store(end)
        return {}


def rectification(age: Floats, rho: float, limit: float, psi: str) -> Floats:
    """ψ of each age τ; 0 for those never seen (τ infinite) or beyond the limit g(t)."""
    known = np.where(np.isfinite(age), age, 0.0)
    grown = (known + 1) ** rho if psi == "power" else 1 + rho * known
    kept = np.isfinite(age) & (age <= limit)
    return np.asarray(np.where(kept, np.minimum(grown, 2.0), 0.0), dtype=np.float64)

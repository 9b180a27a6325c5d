"""Memories: the last update of each client speaks for it until the next one comes (MIFA, FedAR).

Both sum over everyone they remember, wanted this round or not. A remembered update carries the
local step η_s it was made with; both papers rescale it to the current one, by η_t/η_s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy import checks
from understudy.rows import RowStore
from understudy.types import Contributions, Floats, Ints, RoundEnd, Setup


@dataclass
class Memory:
    """The last update of each client seen, the round it started from, and its local step."""

    rows: RowStore
    last_seen: Ints  # (N,) start round, -1 never
    made_with: Floats  # (N,) η_s

    @classmethod
    def empty(cls, setup: Setup) -> Memory:
        n = setup.population.n_clients
        return cls(setup.rows(), np.full(n, -1, dtype=np.int64), np.ones(n))

    def store(self, end: RoundEnd) -> None:
        """Take in the round: a late update where it is newer than what is known, then the fresh."""
        if len(end.late):
            assert end.late.start_round is not None
            for (client, delta), start in zip(end.late, end.late.start_round, strict=True):
                if start > self.last_seen[client]:
                    self._keep(client, delta, int(start), end)
        for client, delta in end.arrivals:
            self._keep(client, delta, end.t, end)

    def _keep(self, client: int, delta: torch.Tensor, start: int, end: RoundEnd) -> None:
        self.rows.put(client, delta)
        self.last_seen[client] = start
        self.made_with[client] = end.lr(start)

    def sum(self, end: RoundEnd, coef: Floats) -> Contributions:
        """Σ coef_i × (this round's update of i if it came, else the remembered one).

        coef (N,) is per unit of the update at the current step; clients with 0 are left out.
        """
        came = end.came
        others = np.setdiff1d(np.flatnonzero(self.rows.known & (coef != 0)), came)
        rescaled = coef[others] * end.lr(end.t) / self.made_with[others]
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), coef[came]),
            (others, self.rows.block(), self.rows.slot[others], rescaled),
        )

    def seen(self, end: RoundEnd) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(N,) active clients seen at least once, counting this round."""
        seen = self.rows.known.copy()
        seen[end.came] = True
        return seen & end.active


@dataclass
class MIFAState:
    memory: Memory
    complete: bool  # everyone was seen once: never waits again


@dataclass(frozen=True)
class MIFA:
    """MIFA: the mean of everyone's latest update, (η_t/N) Σ_i G_i with G_i = Δ_i/η_s.

    Parameters
    ----------
    wait : bool
        Take no step until every client was seen once, as the paper's analysis asks; a client that
        joins later does not stall it again. Without it, the unseen count as zero.

    Notes
    -----
    Weights by examples take the place of 1/N where the strategy says so. In a round in which
    nobody came the paper would step on memory; here such a round takes no step.

    References
    ----------
    Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, 2021
    (algorithm 1).
    """

    wait: bool = True
    signed = False
    normalised = True

    def __post_init__(self) -> None:
        checks.choice("wait", self.wait, (True, False))

    def init(self, setup: Setup) -> MIFAState:
        return MIFAState(Memory.empty(setup), complete=False)

    def fill(self, state: MIFAState, end: RoundEnd) -> Contributions:
        seen = state.memory.seen(end)
        waits = self.wait and not state.complete and not seen[end.active].all()
        if waits:
            return Contributions.none({"mifa_unseen": float((end.active & ~seen).sum())})
        return state.memory.sum(end, end.base / end.base.sum() * seen)

    def learn(
        self, state: MIFAState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        state.memory.store(end)
        state.complete = state.complete or bool(state.memory.seen(end)[end.active].all())
        return {}


@dataclass(frozen=True)
class LinearCutoff:
    """g(t) = t₀ + t/b, b > 2: FedAR's choice for convex losses.

    The paper gives no numbers; the defaults keep the absences of 5 to 20 rounds it speaks of.
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

    The longer a client is away, the louder its last update speaks, up to twice:
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

    Notes
    -----
    The exponent of ψ is lost in the scan that was to be had; the power is our best reading. t₀ is
    not given, so nothing is cut by default. In a round in which nobody came the paper would step
    on memory; here such a round takes no step.

    References
    ----------
    Jiang et al., FedAR: Addressing Client Unavailability in Federated Learning with Local Update
    Approximation and Rectification, 2024.
    """

    rho: float = 0.1
    cutoff: float | Callable[[int], float] | None = None
    psi: str = "power"
    signed = False
    normalised = False

    def __post_init__(self) -> None:
        checks.number("rho", self.rho, low=0)
        checks.choice("psi", self.psi, ("power", "linear"))
        if self.cutoff is not None and not callable(self.cutoff):
            checks.number("cutoff", self.cutoff, low=0)

    def init(self, setup: Setup) -> Memory:
        return Memory.empty(setup)

    def fill(self, state: Memory, end: RoundEnd) -> Contributions:
        age = np.where(state.last_seen < 0, np.inf, end.t - state.last_seen)  # τ
        age[end.came] = 0
        psi = rectification(age, self.rho, self.limit(end.t), self.psi) * state.seen(end)
        return state.sum(end, psi * end.base / end.base[psi > 0].sum())

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

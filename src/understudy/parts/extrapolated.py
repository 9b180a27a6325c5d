"""`Extrapolated` (FedExP, Jhunjhunwala et al., 2023): a longer step the more updates disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, log
from typing import TYPE_CHECKING, Any

import torch

from understudy.core import checks
from understudy.core.roles import Server, check_with
from understudy.core.types import RowSpread, Setup
from understudy.parts.servers import Sgd

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass
class ExtrapolatedState:
    inner: Any
    n_parameters: int
    log_factor: float  # decayed sum of log η over the steps
    weight: float  # decayed number of steps in it
    factor: float  # of the last step


@dataclass(frozen=True)
class Extrapolated:
    """The inner server's step, from an update that is multiplied by η = max(1, η_raw).

    η_raw = scale · Σ p_i ‖Δ_i‖² / (‖Σ p_i Δ_i‖² + ε): 1/2 where all updates are the same, and the
    larger the more of them cancels in the mean. Norms are of the parameters alone; buffers take
    their aggregated value as it is.

    Parameters
    ----------
    inner : Server
        What steps; with ``Sgd(1)`` the step is η.
    rows : {"fresh", "all"}
        Which updates: those that came, with the weights q; or all rows that the round's sum is made
        of, remembered ones too, with the absolute values of their coefficients as p.
    scale : float
        1/2 as in FedExP; 1 is the form of FedExProx-GraDS.
    epsilon : float
        ε ≥ 0, which ends extrapolation where updates are small.
    damping : float
        In [0, 1). Above 0 the factor is exp of a mean of log η, in which a step counts `damping`
        times as much as the one after it.

    Notes
    -----
    ``rows="all"`` is the published rule wherever coefficients are p: in the paper all rows are
    fresh ones, so that the two are the same with `Ignore`. Where rows are remembered it grows with
    their number, since old updates are nearly orthogonal to each other, and
    the steps become too long: on clustered digits Stale falls behind its best fixed step by .31.
    Nor do fresh rows alone spare the tuning of a step: a fixed one of 1 was within .05 of the best
    in more of our cells (the study ``server-step``). Where a row has a negative coefficient
    (FedVARP) the published rule has no meaning; p is then its absolute value. The paper evaluates
    the mean of the last two models: ``simulate(…, evaluate_mean_of=2)``.

    The note ``server_factor`` of a round is η. A step without rows, as on late updates alone, has
    η = 1, or the damped mean so far.

    References
    ----------
    Jhunjhunwala, Wang & Joshi, FedExP: Speeding Up Federated Averaging via Extrapolation, 2023
    (eq. 8). Li, Acharya & Richtárik, The Power of Extrapolation in Federated Learning, 2024
    (FedExProx-GraDS).
    """

    inner: Server = field(default_factory=lambda: Sgd(1.0))
    rows: str = "fresh"
    scale: float = 0.5
    epsilon: float = 1e-3
    damping: float = 0.0

    def __post_init__(self) -> None:
        checks.part("inner", self.inner, "init", "step")
        if getattr(self.inner, "needs_rows", None) is not None:
            raise ValueError(f"inner: expected a server that needs no rows, got {self.inner!r}")
        checks.choice("rows", self.rows, ("fresh", "all"))
        checks.number("scale", self.scale, low=0, low_open=True)
        checks.number("epsilon", self.epsilon, low=0)
        checks.number("damping", self.damping, low=0, high=1, high_open=True)

    @property
    def needs_rows(self) -> str:
        return self.rows

    @property
    def needs_round(self) -> bool:
        return bool(getattr(self.inner, "needs_round", False))

    def check(self, strategy: Strategy) -> None:
        check_with(self.inner, strategy)

    def init(self, setup: Setup) -> ExtrapolatedState:
        return ExtrapolatedState(self.inner.init(setup), setup.n_parameters, 0.0, 0.0, 1.0)

    def step(
        self,
        state: ExtrapolatedState,
        params: torch.Tensor,
        update: torch.Tensor,
        t: int,
        rows: RowSpread | None = None,
        **this_round: int,  # where the inner server needs it
    ) -> torch.Tensor:
        state.factor = self._factor(state, rows)
        longer = update.clone()
        longer[: state.n_parameters] *= state.factor
        return self.inner.step(state.inner, params, longer, t, **this_round)

    def notes(self, state: ExtrapolatedState) -> Mapping[str, float]:
        tell = getattr(self.inner, "notes", None)
        return {**(tell(state.inner) if tell else {}), "server_factor": state.factor}

    def _factor(self, state: ExtrapolatedState, rows: RowSpread | None) -> float:
        if rows is not None:
            factor = extrapolation(rows, self.scale, self.epsilon)
            state.log_factor = self.damping * state.log_factor + log(factor)
            state.weight = self.damping * state.weight + 1
            if not self.damping:
                return factor
        if not self.damping or not state.weight:
            return 1.0
        return exp(state.log_factor / state.weight)


def extrapolation(rows: RowSpread, scale: float, epsilon: float) -> float:
    """η = max(1, scale · Σ p ‖Δ‖² / (‖Σ p Δ‖² + ε)) (FedExP, eq. 8); 1 where no update moved."""
    below = rows.square_mean + epsilon
    return max(1.0, scale * rows.mean_square / below) if below > 0 else 1.0

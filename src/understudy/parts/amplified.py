"""`GeneralizedFedAvg`, `AmplifiedScaffold`: steps that are amplified once in every period.

For clients that come in turns: what a period adds up to is about everyone, what a round does is
not.

References
----------
Wang & Ji, A Unified Analysis of Federated Learning with Arbitrary Client Participation, 2022
(algorithm 1). Crawshaw & Liu, Federated Learning under Periodic Client Participation and
Heterogeneous Data, 2024 (algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.core import checks
from understudy.core.roles import Server, also_for, check_with
from understudy.core.types import Floats, Ints, RoundEnd, Setup
from understudy.memory.rows import RowStore
from understudy.parts.local import refuse_unless_plain_steps
from understudy.parts.servers import Sgd

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass
class GeneralizedState:
    inner: Any
    anchor: torch.Tensor  # (n_parameters,) the model after the last amplification
    period: int  # in which it is, counted from 0


@dataclass(frozen=True)
class GeneralizedFedAvg:
    """The inner server's steps; every P rounds x ← x₀ + η (x − x₀), x₀ the model P rounds before.

    Parameters
    ----------
    period : int
        P, the length of a cycle of attendance, in rounds.
    factor : float
        η > 0: how many times the displacement of a period counts; 1 is the inner server alone.
    inner : Server
        What steps in every round.

    Notes
    -----
    Rounds in which nobody came count, or a period would lose its place in the cycle. Such a round
    takes no step: where a period ends with it, the next step of the model begins with the
    amplification, as x ← x₀ + η (x − x₀), and then the inner step. Buffers are not amplified.

    The defaults are those of the public code of Amplified SCAFFOLD (P = 10, η = 1.5), which divides
    the local step by η; here the local step is as it is given.
    """

    period: int = 10
    factor: float = 1.5
    inner: Server = field(default_factory=lambda: Sgd(1.0))
    needs_round = True

    def __post_init__(self) -> None:
        checks.integer("period", self.period, low=1)
        checks.number("factor", self.factor, low=0, low_open=True)
        checks.part("inner", self.inner, "init", "step")
        if getattr(self.inner, "needs_rows", None) is not None:
            raise ValueError(f"inner: expected a server that needs no rows, got {self.inner!r}")

    def check(self, strategy: Strategy) -> None:
        check_with(self.inner, strategy)

    def init(self, setup: Setup) -> GeneralizedState:
        start = setup.params[: setup.n_parameters].clone()
        return GeneralizedState(self.inner.init(setup), start, setup.t // self.period)

    def step(
        self,
        state: GeneralizedState,
        params: torch.Tensor,
        update: torch.Tensor,
        t: int,
        *,
        this_round: int | None = None,  # as if every round made a step
    ) -> torch.Tensor:
        this_round = t if this_round is None else this_round
        params = self._at_end_of_period(state, params, this_round)  # where that was an empty round
        more = also_for(self.inner, this_round)
        moved = self.inner.step(state.inner, params, update, t, **more)
        return self._at_end_of_period(state, moved, this_round + 1)

    def _at_end_of_period(
        self, state: GeneralizedState, params: torch.Tensor, next_round: int
    ) -> torch.Tensor:
        """The model before `next_round`, amplified if a period is over that was not yet."""
        period = next_round // self.period
        if period == state.period:
            return params
        params = params.clone()
        displaced = params[: len(state.anchor)]
        displaced.add_(displaced - state.anchor, alpha=self.factor - 1)
        state.anchor, state.period = displaced.clone(), period
        return params

    def notes(self, state: GeneralizedState) -> Mapping[str, float]:
        tell = getattr(self.inner, "notes", None)
        return {} if tell is None else tell(state.inner)


@dataclass
class AmplifiedScaffoldState:
    common: torch.Tensor  # (d,) G
    own: RowStore  # G_i, zero where there is no row
    total: RowStore  # sum of i's gradients in this period
    steps: Floats  # (N,) how many they are


@dataclass(frozen=True)
class AmplifiedScaffold:
    """SCAFFOLD whose variates are gradients averaged over P rounds, and stay as long.

    A client adds G − G_i to each gradient. At the end of a period G_i becomes the mean of all
    gradients that i computed in it, without corrections, if it came; G the mean of all G_i.

    Parameters
    ----------
    period : int
        P; `amplified_scaffold` gives the server, a `GeneralizedFedAvg`, the same.

    Notes
    -----
    The sum of a client's gradients is −Δ_i/η + K_i (G_i − G), so that only Δ_i and the number of
    steps K_i travel. Rounds in which nobody came count. A late update is dropped. Momentum and
    optimizers other than SGD are refused, as by `Scaffold`. Buffers have no variate.
    """

    period: int = 10
    mu = 0.0
    needs_steps = True

    def __post_init__(self) -> None:
        checks.integer("period", self.period, low=1)

    def check(self, strategy: Strategy) -> None:
        refuse_unless_plain_steps(self, strategy)

    def init(self, setup: Setup) -> AmplifiedScaffoldState:
        steps = np.zeros(setup.population.n_clients)
        common = torch.zeros_like(setup.params)
        return AmplifiedScaffoldState(common, setup.rows(), setup.rows(), steps)

    def correction(self, state: AmplifiedScaffoldState, ids: Ints) -> Callable[[int], torch.Tensor]:
        device = state.common.device  # rows in a file are on the CPU, wherever the model is
        return lambda client: state.common - state.own.get(client).to(device)

    def learn(self, state: AmplifiedScaffoldState, end: RoundEnd) -> None:
        if len(end.arrivals):
            self._add(state, end)
        if (end.t + 1) % self.period == 0:
            _renew(state, int(end.active.sum()))

    def _add(self, state: AmplifiedScaffoldState, end: RoundEnd) -> None:
        assert end.arrivals.n_steps is not None  # refused before it comes here
        eta, correction = end.lr(end.t), self.correction(state, end.came)
        for (client, delta), n_steps in zip(end.arrivals, end.arrivals.n_steps, strict=True):
            total = state.total.get(client).to(delta.device)
            total = total - delta / eta - float(n_steps) * correction(client)
            total[end.n_parameters :] = 0
            state.total.put(client, total)
            state.steps[client] += float(n_steps)


def _renew(state: AmplifiedScaffoldState, n_active: int) -> None:
    """The end of a period: those who came in it have new variates."""
    change = torch.zeros_like(state.common)
    for client in np.flatnonzero(state.steps > 0).tolist():
        mean = (state.total.get(client) / float(state.steps[client])).to(change.device)
        change += mean - state.own.get(client).to(change.device)  # first: a row is borrowed
        state.own.put(client, mean)
        state.total.drop(client)
    state.steps[:] = 0
    state.common += change / n_active

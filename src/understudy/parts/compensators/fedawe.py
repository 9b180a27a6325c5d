"""`FedAWE` (Xiang et al., 2024): clients resume from their own model, steps grow with absence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Block, Bools, Contributions, Floats, Ints, RoundEnd, Setup
from understudy.memory.rows import RowStore


@dataclass
class FedAWEState:
    rows: RowStore  # x_i, the last model each client received
    last: Ints  # (N,) τ_i, the round it came last; before its first, the one before it joined
    joined_later: Bools  # (N,)
    first: torch.Tensor  # (d,) w_0
    current: torch.Tensor  # (d,) w_t


@dataclass(frozen=True)
class FedAWE:
    """FedAWE: w ← mean over A of x_i + η_g (t − τ_i) Δ_i; only A receives w, as its x_i.

    A client starts from x_i, the last model it received (w_0 before its first visit), and its
    update counts as often as there were rounds since τ_i, the round it came last (−1 before its
    first). The server keeps every x_i, as it is to send it.

    Parameters
    ----------
    eta : float
        η_g > 0, the factor on the updates. The server's own step also scales the way from w to the
        mean of the x_i: leave it at 1.
    clip : float, optional
        The mean of (t − τ_i) Δ_i has at most this norm, before η_g; the note ``fedawe_clipped`` is
        the factor that this takes.

    Notes
    -----
    The authors' code clips that mean to a norm of 0.5, and clips none of the methods it compares
    with; the paper does not say so. Here nothing is clipped unless `clip` asks for it.

    A client that joins later starts from the model of the round it is first asked in, and τ_i is
    the round before it joined: w_0 would pull the model back to the start. A late update is
    dropped: what it started from has changed. In a round without a step nobody receives anything.

    References
    ----------
    Xiang, Ioannidis, Yeh, Joe-Wong and Su, Efficient Federated Learning against Heterogeneous and
    Non-stationary Client Unavailability, NeurIPS 2024 (algorithm 1).
    """

    eta: float = 1.0
    clip: float | None = None
    signed = True
    normalised = False

    def __post_init__(self) -> None:
        checks.number("eta", self.eta, low=0, low_open=True)
        if self.clip is not None:
            checks.number("clip", self.clip, low=0, low_open=True)

    def init(self, setup: Setup) -> FedAWEState:
        n = setup.population.n_clients
        return FedAWEState(
            rows=setup.rows(),
            last=np.full(n, setup.t - 1, dtype=np.int64),
            joined_later=np.full(n, setup.t > 0),
            first=setup.params.clone(),
            current=setup.params.clone(),
        )

    def starts(self, state: FedAWEState, ids: Ints) -> Callable[[int], torch.Tensor]:
        def start(client: int) -> torch.Tensor:
            if state.rows.known[client]:
                return state.rows.get(client).to(state.current.device)
            return state.current if state.joined_later[client] else state.first

        return start

    def fill(self, state: FedAWEState, end: RoundEnd) -> Contributions:
        came = end.came
        share = np.zeros(len(end.q))
        share[came] = end.q[came] / end.q[came].sum()
        innovation = share[came] * (end.t - state.last[came])
        factor = self._factor(end, innovation)
        seen = came[state.rows.known[came]]
        unseen = came[~(state.rows.known | state.joined_later)[came]]  # still at w_0
        elsewhere = np.concatenate([seen, unseen])  # x_i is not w
        first, current = (
            Block(owner=np.array([-1]), data=model[None]) for model in (state.first, end.params)
        )
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), self.eta * factor * innovation),
            (seen, state.rows.block(), state.rows.slot[seen], share[seen]),
            (unseen, first, 0, share[unseen]),
            (elsewhere, current, 0, -share[elsewhere]),
            notes={} if self.clip is None else {"fedawe_clipped": factor},
        )

    def _factor(self, end: RoundEnd, coef: Floats) -> float:
        """What clipping leaves of the mean innovation."""
        if self.clip is None:
            return 1.0
        mean = torch.zeros_like(end.params[: end.n_parameters])
        for (_, delta), one in zip(end.arrivals, coef, strict=True):
            mean.add_(delta[: end.n_parameters], alpha=float(one))
        norm = float(torch.linalg.vector_norm(mean.double()))
        return 1.0 if norm <= self.clip else self.clip / norm

    def learn(
        self, state: FedAWEState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        if step is None:
            return {}
        state.current = end.params + step
        for client in end.came.tolist():
            state.rows.put(client, state.current)
        state.last[end.came] = end.t
        return {}

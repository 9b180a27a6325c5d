"""`FedAWE` (Xiang et al., 2024): clients resume from their own model, steps grow with absence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import (
    Block,
    Bools,
    Contributions,
    Floats,
    Ints,
    RoundEnd,
    Setup,
    Term,
)
from understudy.memory.rows import RowStore
from understudy.parts.aggregators import Linear


@dataclass
class FedAWEState:
    rows: RowStore  # x_i, the last model each client received
    last: Ints  # (N,) τ_i, the round it came last; before its first, the one before it joined
    joined_later: Bools  # (N,)
    first: torch.Tensor  # (d,) w_0
    current: torch.Tensor  # (d,) the server's model


@dataclass(frozen=True)
class FedAWE:
    """FedAWE: w = mean over A of x_i + η_g (t − τ_i) Δ_i; only A receives w, as its x_i.

    A client starts from x_i, the last model it received (w_0 before its first visit), and its
    update counts as often as there were rounds since τ_i, the round it came last (−1 before its
    first). The server keeps every x_i, as it is to send it.

    Parameters
    ----------
    eta : float
        η_g > 0, the factor on the updates. With the mean as the server's model, a step of `Sgd` is
        the same, and other server optimizers make of the updates' sum what they do.
    clip : float, optional
        The mean of (t − τ_i) Δ_i has at most this norm, before η_g; the note ``fedawe_clipped`` is
        the factor that this takes.
    model : {"mean", "last"}
        Which model is the server's, and is measured: the mean of all x_i, or the w of the last
        round. The clients' models are the same with both.

    Notes
    -----
    The authors' code measures the mean of all clients' models, which their analysis is about too,
    and the models of other methods as they are. That mean moves by Σ_{i∈A} α_i η_g (t − τ_i) Δ_i,
    α_i being i's share of the objective. w itself is what those who came made of one round.

    The code also clips the mean of (t − τ_i) Δ_i to a norm of 0.5, and nothing of the methods it
    compares with; the paper does not say so. Here nothing is clipped unless `clip` asks for it.

    A client that joins later starts from the server's model of the round it is first asked in, and
    τ_i is the round before it joined: w_0 would pull the model back to the start. A late update is
    dropped: what it started from has changed. In a round without a step nobody receives anything.

    References
    ----------
    Xiang, Ioannidis, Yeh, Joe-Wong and Su, Efficient Federated Learning against Heterogeneous and
    Non-stationary Client Unavailability, NeurIPS 2024 (algorithm 1).
    """

    eta: float = 1.0
    clip: float | None = None
    model: str = "mean"
    signed = True  # what clients receive is a linear sum: an aggregator makes no other of it
    normalised = False

    def __post_init__(self) -> None:
        checks.number("eta", self.eta, low=0, low_open=True)
        if self.clip is not None:
            checks.number("clip", self.clip, low=0, low_open=True)
        checks.choice("model", self.model, ("mean", "last"))

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
        came, among = end.came, _among(end)
        coef, factor = self._innovation(state, end)
        notes = {} if self.clip is None else {"fedawe_clipped": factor}
        if self.model == "mean":
            coef *= end.base[came].sum() / end.base.sum()  # the others' models stay
            return Contributions.of((came, end.fresh(), np.arange(len(came)), coef), notes=notes)
        current = Block(owner=np.array([-1]), data=end.params[None])
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), coef),
            *self._models(state, end),
            (came, current, 0, -among),
            notes=notes,
        )

    def _models(self, state: FedAWEState, end: RoundEnd) -> list[Term]:
        """The terms of the mean of x_i over those who came."""
        came, among, known = end.came, _among(end), state.rows.known[end.came]
        new = state.joined_later[came] & ~known
        first, current = (
            Block(owner=np.array([-1]), data=model[None]) for model in (state.first, end.params)
        )
        return [
            (came[known], state.rows.block(), state.rows.slot[came[known]], among[known]),
            (came[~known & ~new], first, 0, among[~known & ~new]),
            (came[new], current, 0, among[new]),
        ]

    def _innovation(self, state: FedAWEState, end: RoundEnd) -> tuple[Floats, float]:
        """(k,) coefficients of the updates in w, and what clipping leaves of their sum."""
        coef = _among(end) * (end.t - state.last[end.came])
        if self.clip is None:
            return self.eta * coef, 1.0
        mean = torch.zeros_like(end.params[: end.n_parameters])
        for (_, delta), one in zip(end.arrivals, coef, strict=True):
            mean.add_(delta[: end.n_parameters], alpha=float(one))
        norm = float(torch.linalg.vector_norm(mean.double()))
        factor = 1.0 if norm <= self.clip else self.clip / norm
        return self.eta * factor * coef, factor

    def learn(
        self, state: FedAWEState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        if step is None:
            return {}
        state.current = end.params + step
        received = state.current
        if self.model == "mean":
            # so that the mean of all x_i is the server's model, whatever optimizer it has
            met = float(end.base[end.came].sum() / end.base.sum())
            received = Linear().aggregate(Contributions.of(*self._models(state, end))) + step / met
        for client in end.came.tolist():
            state.rows.put(client, received)
        state.last[end.came] = end.t
        return {}


def _among(end: RoundEnd) -> Floats:
    """(k,) the shares of those who came; a model of many rounds has no weight of one round."""
    weight = end.base[end.came]
    return np.asarray(weight / weight.sum())

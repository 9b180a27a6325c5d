"""`MimiC` (Sun et al., 2024): each update, corrected by what it lacked of the common one before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Contributions, Floats, RoundEnd, Setup
from understudy.memory.rows import RowStore
from understudy.parts.aggregators import Linear


@dataclass
class MimiCState:
    rows: RowStore  # Δ_i − U of the last round in which i came
    made_with: Floats  # (N,) η_s of that round


@dataclass(frozen=True)
class MimiC:
    """MimiC: ``(1/|A|) Σ_{i∈A} (Δ_i − (Δ_i^last − U_i^last))``.

    U_i^last is the update that the server made of the last round in which i came, Δ_i^last what i
    sent then. So each update mimics the common one, and whoever is away takes no direction along
    with it. A client that comes for the first time is not corrected.

    Notes
    -----
    The difference is one row a client; it is a step, so it is rescaled by η_t/η_s. A late update is
    dropped: the common update of its round is no longer known.

    U is what the coefficients sum to, before the server's optimizer: the same at a server step of
    1, as in the paper. To mimic a step that the server has made η times as large would be no fixed
    point: with everybody there, the updates would grow by η in every round.

    The authors published no code. The paper's means over those who came are weighted by examples
    where the strategy says so.

    References
    ----------
    Sun, Mao and Zhang, MimiC: Combating Client Dropouts in Federated Learning by Mimicking Central
    Updates, IEEE Transactions on Mobile Computing, 2024.
    """

    signed = True
    normalised = False

    def init(self, setup: Setup) -> MimiCState:
        return MimiCState(setup.rows(), np.ones(setup.population.n_clients))

    def fill(self, state: MimiCState, end: RoundEnd) -> Contributions:
        came = end.came
        share = end.q[came] / end.q[came].sum()
        before = state.rows.known[came]  # (k,) who came in an earlier round
        again = came[before]
        rescale = end.lr(end.t) / state.made_with[again]
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), share),
            (again, state.rows.block(), state.rows.slot[again], -share[before] * rescale),
        )

    def stand_ins(self, state: MimiCState, end: RoundEnd) -> Contributions:
        """Those who came, as corrected."""
        share = np.zeros(len(end.q))
        share[end.came] = end.q[end.came] / end.q[end.came].sum()
        return self.fill(state, end).with_shares(share)

    def learn(
        self, state: MimiCState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        if step is None:
            return {}
        common = Linear().aggregate(self.fill(state, end))  # U, before any row is written
        for client, delta in end.arrivals:
            state.rows.put(client, delta - common)
            state.made_with[client] = end.lr(end.t)
        return {}

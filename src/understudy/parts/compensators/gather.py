"""No step until all have come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Contributions, Floats, RoundEnd, Setup
from understudy.memory.rows import RowStore


@dataclass
class GatherState:
    rows: RowStore  # updates since the last step
    weight: Floats  # (N,) q of the round in which each came


@dataclass(frozen=True)
class Gather:
    """The model waits until every wanted client has come; then one mean of all who came meanwhile.

    With `KeepAsking` the wanted are those who are still missing. The model stands still while it
    waits, so all updates of a mean started from the same one.

    Notes
    -----
    Means are weighted by q of the round in which a client came. Who comes twice counts once, with
    its last update. A late update is dropped: its client is asked again.

    References
    ----------
    Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, 2021
    (their baseline, FedAvg with sampled devices).
    """

    signed = False
    normalised = True

    def init(self, setup: Setup) -> GatherState:
        return GatherState(setup.rows(), np.zeros(setup.population.n_clients))

    def fill(self, state: GatherState, end: RoundEnd) -> Contributions:
        gathered = state.rows.known & end.active
        missing = end.absent[~gathered[end.absent]]
        if len(missing):
            return Contributions.none({"gather_missing": float(len(missing))})
        came = end.came
        others = np.setdiff1d(np.flatnonzero(gathered), came)
        total = end.q[came].sum() + state.weight[others].sum()
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), end.q[came] / total),
            (others, state.rows.block(), state.rows.slot[others], state.weight[others] / total),
        )

    def learn(
        self, state: GatherState, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float]:
        if step is not None:
            for known in np.flatnonzero(state.rows.known):
                state.rows.drop(int(known))
            return {}
        for client, delta in end.arrivals:
            state.rows.put(client, delta)
            state.weight[client] = end.q[client]
        return {}

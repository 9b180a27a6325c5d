"""`Gather` (a baseline of MIFA's paper): no step until every wanted client has come."""

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
    base_when_came: Floats  # (N,) base weight of that round, NaN where it was not noted


@dataclass(frozen=True)
class Gather:
    """The model waits until every wanted client has come; then one mean of all who came meanwhile.

    With `KeepAsking` the wanted are those who are still missing. The model stands still while it
    waits, so all updates of a mean started from the same one.

    Notes
    -----
    Means are weighted by q of the round in which a client came, or less where its number of
    examples counts less by now (the cap of a claim comes down as others are heard of). Who comes
    twice counts once, with its last update. A late update is dropped: its client is asked again.

    References
    ----------
    Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, 2021
    (their baseline, FedAvg with sampled devices).
    """

    signed = False
    normalised = True

    def init(self, setup: Setup) -> GatherState:
        n = setup.population.n_clients
        return GatherState(setup.rows(), np.zeros(n), np.full(n, np.nan))

    def fill(self, state: GatherState, end: RoundEnd) -> Contributions:
        gathered = state.rows.known & end.active
        missing = end.absent[~gathered[end.absent]]
        if len(missing):
            return Contributions.none({"gather_missing": float(len(missing))})
        came = end.came
        others = np.setdiff1d(np.flatnonzero(gathered), came)
        less = end.base[others] / state.base_when_came[others]
        weight = state.weight[others] * np.fmin(less, 1.0)  # NaN: counts as it did
        total = end.q[came].sum() + weight.sum()
        return Contributions.of(
            (came, end.fresh(), np.arange(len(came)), end.q[came] / total),
            (others, state.rows.block(), state.rows.slot[others], weight / total),
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
            state.weight[client], state.base_when_came[client] = end.q[client], end.base[client]
        return {}

"""The same number of clients missing in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Bools, Floats, Ints, Population


@dataclass
class FixedDropoutState:
    groups: Ints  # (N,) 0 .. n_groups-1; all 0 where no group is kept
    n_groups: int  # 0 where no group is kept
    n_present: int


@dataclass(frozen=True)
class FixedDropout:
    """Exactly round(α N) clients are missing, others in every round.

    Parameters
    ----------
    alpha : float
        α, the share of clients that are missing, in [0, 1]; FL-FDMS uses 0.3, 0.5 and 0.7.
    keep_one_per_group : bool
        Whether at least one client of each of the population's `groups` is present, so that every
        absent client has a friend present. Without groups in the population it has no effect.
    first_round_full : bool
        Whether nobody is missing in round 0.

    Notes
    -----
    One client of each group is drawn first, then the others uniformly from the rest. A client of a
    group of s is therefore present with probability 1/s + (1 − 1/s)(P − G)/(N − G), for P clients
    present and G groups: the smaller the group, the more often.

    References
    ----------
    Wang & Xu, Friends to Help: Saving Federated Learning from Client Dropout, 2022.
    """

    alpha: float = 0.5
    keep_one_per_group: bool = True
    first_round_full: bool = True

    def __post_init__(self) -> None:
        checks.number("alpha", self.alpha, low=0, high=1)
        checks.choice("keep_one_per_group", self.keep_one_per_group, (True, False))
        checks.choice("first_round_full", self.first_round_full, (True, False))

    def init(self, population: Population) -> FixedDropoutState:
        n_clients = int(population.n_clients)
        n_missing = round(self.alpha * n_clients)
        groups, n_groups = np.zeros(n_clients, dtype=np.int64), 0
        if self.keep_one_per_group and population.groups is not None:
            names, groups = np.unique(population.groups, return_inverse=True)
            n_groups = len(names)
            if n_clients - n_missing < n_groups:
                raise ValueError(
                    f"alpha: with {n_missing} of {n_clients} clients missing (alpha={self.alpha}), "
                    f"{n_clients - n_missing} present cannot hold one of each of the {n_groups} "
                    f"groups {names.tolist()}; expected alpha <= {1 - n_groups / n_clients:g}, "
                    "or keep_one_per_group=False"
                )
        return FixedDropoutState(groups, n_groups, n_clients - n_missing)

    def draw(self, state: FixedDropoutState, t: int, rng: np.random.Generator) -> Bools:
        n_clients = len(state.groups)
        present = np.zeros(n_clients, dtype=np.bool_)
        if t == 0 and self.first_round_full:
            return ~present
        order = rng.permutation(n_clients)
        if state.n_groups:
            # the first of each group in a random order is a uniform draw from that group; the
            # rest is shuffled anew, because in this order small groups' second clients come late
            _, first = np.unique(state.groups[order], return_index=True)
            order = np.concatenate([order[first], rng.permutation(np.delete(order, first))])
        present[order[: state.n_present]] = True
        return present

    def rates(self, state: FixedDropoutState, t: int) -> Floats:
        n_clients, n_groups, n_present = len(state.groups), state.n_groups, state.n_present
        if t == 0 and self.first_round_full:
            return np.ones(n_clients)
        if not n_groups:
            return np.full(n_clients, n_present / n_clients)
        alone = 1.0 / np.bincount(state.groups)[state.groups]  # (N,) 1/s
        # N = G: everyone is the only one of its group, and nobody is drawn after that
        after = (n_present - n_groups) / max(n_clients - n_groups, 1)
        return alone + (1 - alone) * after

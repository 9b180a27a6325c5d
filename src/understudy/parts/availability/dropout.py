"""`FixedDropout` (as in FL-FDMS): the same number of clients is missing in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Bools, Floats, Ints, Population
from understudy.parts.availability.compositions import Compositions

COUNTS = ("compositions", "clients")


@dataclass
class FixedDropoutState:
    groups: Ints  # (N,) 0 .. n_groups-1; all 0 where no group is kept
    n_groups: int  # 0 where no group is kept
    n_present: int
    _compositions: Compositions | None = None


@dataclass(frozen=True)
class FixedDropout:
    """Exactly round(α N) clients are missing, redrawn in every round; any may be among them.

    The two options are the protocol of FL-FDMS's experiments, and both help the methods that
    substitute or remember; `fdms_dropout` has both on.

    Parameters
    ----------
    alpha : float
        α, the share of clients that are missing, in [0, 1]; FL-FDMS uses 0.3, 0.5 and 0.7.
    keep_one_per_group : bool
        Whether at least one client of each of the population's `groups` is present, so that every
        absent client has a friend present. Without groups in the population it has no effect.
    first_round_full : bool
        Whether nobody is missing in round 0.
    counts : {"compositions", "clients"}
        How many clients of each group are present, where one of each is kept. With "compositions"
        all vectors of counts n_c, 1 <= n_c <= s_c, that sum to the number present are equally
        likely, as in FL-FDMS's authors' code. With "clients" one client of each group is drawn
        first, then the others uniformly from the rest. Without groups both are the same.

    Notes
    -----
    With "compositions" groups are more unevenly present: for 20 clients in 5 groups of 4, 10 of
    them present, the mean of Σ_c (n_c/10 − 1/5)² is 0.0495, and 0.0285 with "clients". A client of
    a group of s is present with probability E[n_c]/s, which is exact: compositions are counted.
    With "clients" it is 1/s + (1 − 1/s)(P − G)/(N − G), for P clients present and G groups. Either
    way, the smaller the group, the more often.

    References
    ----------
    Wang & Xu, Friends to Help: Saving Federated Learning from Client Dropout, 2022.
    """

    alpha: float = 0.5
    keep_one_per_group: bool = False
    first_round_full: bool = False
    counts: str = added("0.2", "compositions", before="clients")

    def __post_init__(self) -> None:
        checks.number("alpha", self.alpha, low=0, high=1)
        checks.choice("keep_one_per_group", self.keep_one_per_group, (True, False))
        checks.choice("first_round_full", self.first_round_full, (True, False))
        checks.choice("counts", self.counts, COUNTS)

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
        if not state.n_groups:
            present[order[: state.n_present]] = True
        elif self.counts == "compositions":
            counts = _compositions(state).draw(rng)
            present[_first_of_groups(order, state.groups, counts)] = True
        else:
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
        size = np.bincount(state.groups)
        if self.counts == "compositions":
            return np.asarray((_compositions(state).means / size)[state.groups])
        alone = 1.0 / size[state.groups]  # (N,) 1/s
        # N = G: everyone is the only one of its group, and nobody is drawn after that
        after = (n_present - n_groups) / max(n_clients - n_groups, 1)
        return alone + (1 - alone) * after


def fdms_dropout(
    alpha: float = 0.5,
    keep_one_per_group: bool = True,
    first_round_full: bool = True,
    counts: str = "compositions",
) -> FixedDropout:
    """A `FixedDropout` as in FL-FDMS's experiments: one of each group stays, round 0 is full.

    Parameters
    ----------
    alpha : float
        α, the share of clients that are missing from round 1 on, in [0, 1].
    keep_one_per_group : bool
        Whether at least one client of each of the population's `groups` is always present.
    first_round_full : bool
        Whether nobody is missing in round 0.
    counts : {"compositions", "clients"}
        How many clients of each group are present, as in `FixedDropout`.
    """
    return FixedDropout(alpha, keep_one_per_group, first_round_full, counts)


def _compositions(state: FixedDropoutState) -> Compositions:
    if state._compositions is None:
        state._compositions = Compositions.count(np.bincount(state.groups), state.n_present)
    return state._compositions


def _first_of_groups(order: Ints, groups: Ints, counts: Ints) -> Ints:
    """The first counts[c] clients of each group c, in the given order of clients."""
    by_group = order[np.argsort(groups[order], kind="stable")]
    size = np.bincount(groups)
    rank = np.arange(len(order)) - np.repeat(size.cumsum() - size, size)
    return by_group[rank < np.repeat(counts, size)]

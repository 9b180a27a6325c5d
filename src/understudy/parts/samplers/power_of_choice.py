"""`PowerOfChoice` (Cho et al., 2022): the clients whose loss is largest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Floats, Ints, RoundEnd, RoundStart, Setup
from understudy.parts.samplers.uniform import check_m, count_of, known_sizes


@dataclass
class LastLosses:
    loss: Floats  # (N,) last reported, infinite where never


@dataclass(frozen=True)
class PowerOfChoice:
    """Power-of-Choice: of some candidates, the m on whose data the current model does worst.

    Parameters
    ----------
    m : int, float or None
        As in `Uniform`.
    candidates : int, float or None
        How many candidates are drawn among the reachable, in proportion to their examples,
        without replacement; None: all reachable, as in FedGS's experiments.
    losses : {"asked", "last"}
        "asked" calls the function given to ``select(…, losses=…)``; "last" uses what each client
        reported last, and takes those who never did first.

    References
    ----------
    Cho et al., Towards Understanding Biased Client Selection in Federated Learning, 2022.
    """

    m: int | float | None = None
    candidates: int | float | None = None
    losses: str = "asked"

    def __post_init__(self) -> None:
        check_m("m", self.m)
        check_m("candidates", self.candidates)
        checks.choice("losses", self.losses, ("asked", "last"))

    @property
    def draws_by_examples(self) -> bool:
        return self.candidates is not None

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> LastLosses:
        return LastLosses(np.full(setup.population.n_clients, np.inf))

    def pick(self, state: LastLosses, start: RoundStart) -> tuple[Ints, Floats]:
        n_active = int(start.active.sum())
        ids = self._candidates(start, n_active)
        m = min(self.count(n_active), len(ids))
        order = np.argsort(-self._losses(state, start, ids), kind="stable")
        return ids[order][:m], np.ones(m)

    def _candidates(self, start: RoundStart, n_active: int) -> Ints:
        """Candidates in an order of chance, which then breaks ties."""
        reachable = np.flatnonzero(start.available)
        if self.candidates is None:
            return start.rng.permutation(reachable)
        size = known_sizes(start.population)[reachable]
        wanted = max(count_of(self.candidates, n_active), self.count(n_active))
        k = min(wanted, len(reachable))
        p = size / size.sum() if len(size) else None
        return start.rng.choice(reachable, size=k, replace=False, p=p, shuffle=True)

    def _losses(self, state: LastLosses, start: RoundStart, ids: Ints) -> Floats:
        if self.losses == "last" or not len(ids):
            return state.loss[ids]
        return asked_losses("PowerOfChoice", start, ids)

    def learn(self, state: LastLosses, end: RoundEnd) -> None:
        for ids, losses in reported(end):
            state.loss[ids] = losses


def asked_losses(part: str, start: RoundStart, ids: Ints) -> Floats:
    """(len(ids),) losses of the present model there, for a part whose clients can be asked."""
    if start.losses is None:
        raise ValueError(
            f"losses: {part}(losses='asked') needs select(..., losses=function of ids); "
            f"where clients cannot be asked, use {part}(losses='last')"
        )
    asked = checks.array("losses", start.losses(ids), (len(ids),), float)
    return np.where(np.isnan(asked), np.inf, asked)  # a diverged client does worst of all


def reported(end: RoundEnd) -> Iterator[tuple[Ints, Floats]]:
    """Ids and losses that a round's arrivals tell, the late ones first."""
    for arrivals in (end.late, end.arrivals):
        if arrivals.losses is not None and len(arrivals):
            losses = np.asarray(arrivals.losses, dtype=np.float64)
            told = ~np.isnan(losses)
            yield np.asarray(arrivals.ids, dtype=np.int64)[told], losses[told]

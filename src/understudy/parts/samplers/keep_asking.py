"""`KeepAsking` (a baseline of MIFA's paper): the same clients until each of them has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.core import checks
from understudy.core.roles import Sampler, check_with
from understudy.core.types import Bools, Floats, RoundEnd, RoundStart, Setup
from understudy.parts.samplers.blind import Blind

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass
class KeepAskingState:
    inner: Any
    missing: Bools  # (N,) of the last pick, has not come yet
    weight: Floats  # (N,) of the last pick


@dataclass(frozen=True)
class KeepAsking:
    """What `inner` picked is wanted, less those who came, until all have; then it picks again.

    With `Gather`, which takes no step meanwhile, and ``Blind(Uniform(m))``, this is FedAvg with S
    devices as MIFA's authors run it.

    Parameters
    ----------
    inner : Sampler
        Any sampler; it picks, and learns, only when nobody is missing any more.

    References
    ----------
    Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, 2021.
    """

    inner: Sampler = field(default_factory=Blind)

    def __post_init__(self) -> None:
        checks.part("inner", self.inner, "init", "pick", "learn")

    @property
    def draws_by_examples(self) -> bool:
        return bool(getattr(self.inner, "draws_by_examples", False))

    def check(self, strategy: Strategy) -> None:
        check_with(self.inner, strategy)

    def count(self, n_active: int) -> int:
        count = getattr(self.inner, "count", None)
        return n_active if count is None else int(count(n_active))

    def init(self, setup: Setup) -> KeepAskingState:
        n = setup.population.n_clients
        return KeepAskingState(self.inner.init(setup), np.zeros(n, dtype=np.bool_), np.ones(n))

    def pick(
        self, state: KeepAskingState, start: RoundStart
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        missing = np.flatnonzero(state.missing & start.active)
        if len(missing):
            return missing, state.weight[missing]
        return self.inner.pick(state.inner, start)

    def learn(self, state: KeepAskingState, end: RoundEnd) -> Mapping[str, float] | None:
        notes = None
        if not (state.missing & end.active).any():  # this round's was a new pick
            notes = self.inner.learn(state.inner, end)
        state.missing[:] = False
        state.missing[end.absent] = True
        state.weight[end.cohort.wanted] = end.cohort.weight
        return notes

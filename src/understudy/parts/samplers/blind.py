"""`Blind`: a sampler that picks among all clients, whether they can be reached or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from understudy.core import checks
from understudy.core.roles import Sampler, check_with
from understudy.core.types import RoundEnd, RoundStart, Setup
from understudy.parts.samplers.uniform import Uniform

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass(frozen=True)
class Blind:
    """Let `inner` pick as if all were reachable; a compensator covers those who are not.

    Parameters
    ----------
    inner : Sampler
        Any sampler; its own state and hyper-parameters are untouched.
    """

    inner: Sampler = field(default_factory=Uniform)

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

    def init(self, setup: Setup) -> Any:
        return self.inner.init(setup)

    def pick(self, state: Any, start: RoundStart) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        return self.inner.pick(state, replace(start, available=start.active))

    def learn(self, state: Any, end: RoundEnd) -> Mapping[str, float] | None:
        return self.inner.learn(state, end)

"""The roles a part can play: protocols, never base classes.

A part is a frozen dataclass of hyper-parameters; calling it never changes it. What changes lives
in the state that its `init` returns (a dataclass of arrays, numbers and RowStores), which is
passed to every call and written only by its owner. Fields whose name starts with an underscore
are derived: neither saved nor grown.

Any part may also have ``check(strategy)``, called when a `Strategy` is built: it raises where the
part does not fit the others. Wrappers pass it on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from understudy.core.types import (
    Arrivals,
    Bools,
    Cohort,
    Contributions,
    Floats,
    Ints,
    Population,
    RoundEnd,
    RoundStart,
    Setup,
)

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

Schedule = Callable[[int], float]


@runtime_checkable
class Availability(Protocol):
    """Who can be reached in a round."""

    def init(self, population: Population) -> Any: ...

    def draw(self, state: Any, t: int, rng: np.random.Generator) -> Bools:
        """(N,) who is reachable in round `t`."""
        ...

    def rates(self, state: Any, t: int) -> Floats | None:
        """(N,) probability of being reachable in round `t`, or None where it is not known."""
        ...


@runtime_checkable
class Sampler(Protocol):
    """Who is wanted in a round.

    It may have ``draws_by_examples = True``, where clients with more examples are picked more
    often in proportion: a strategy then by default does not weigh them by their examples again.
    """

    def init(self, setup: Setup) -> Any: ...

    def pick(self, state: Any, start: RoundStart) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Distinct ids and their weights; reads only."""
        ...

    def learn(self, state: Any, end: RoundEnd) -> None:
        """Count all that were picked, whether they came or not."""
        ...


@runtime_checkable
class Compensator(Protocol):
    """What stands in for those who did not come.

    It may have ``fills_without_arrivals = True``: `fill` is then called also where only late
    updates came, or none, and the round may take a step. Without it no client came means no step.
    """

    @property
    def signed(self) -> bool:
        """Whether coefficients may be negative."""
        ...

    @property
    def normalised(self) -> bool:
        """Whether coefficients sum to one, once every client was seen, at a constant local step."""
        ...

    def init(self, setup: Setup) -> Any: ...

    def fill(self, state: Any, end: RoundEnd) -> Contributions:
        """Pointers and coefficients; reads only."""
        ...

    def learn(
        self, state: Any, end: RoundEnd, step: torch.Tensor | None
    ) -> Mapping[str, float] | None:
        """Take in the round, writing only the state; `step` is None when none was taken.

        What it returns are notes for the log: numbers by name, or None.
        """
        ...


@runtime_checkable
class LocalRule(Protocol):
    """How a client's gradient is altered while it trains."""

    @property
    def mu(self) -> float:
        """Weight of the proximal term, 0 for none."""
        ...

    @property
    def needs_steps(self) -> bool:
        """Whether an arrival must say how many local steps were made."""
        ...

    def init(self, setup: Setup) -> Any: ...

    def correction(self, state: Any, ids: Ints) -> Callable[[int], torch.Tensor] | None:
        """A function of one id: the (d,) vector added to each of its gradients, or None."""
        ...

    def learn(self, state: Any, end: RoundEnd) -> None: ...


@runtime_checkable
class Guard(Protocol):
    """What happens to arrivals before anyone uses them."""

    def init(self, setup: Setup) -> Any: ...

    def guard(
        self, state: Any, arrivals: Arrivals, late: Arrivals
    ) -> tuple[Arrivals, Arrivals, Mapping[str, float]]: ...


@runtime_checkable
class Aggregator(Protocol):
    """From contributions to one update.

    It may have ``notes(contributions)``, numbers by name for the log; ``min_rows``, the number of
    clients' rows below which no step is taken; and ``ignores_claims = True`` (a compensator too),
    where a client's own word for its number of examples must not be a weight.
    """

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        """The (d,) update; contributions are never empty."""
        ...


@runtime_checkable
class Server(Protocol):
    """The server's optimizer."""

    def init(self, setup: Setup) -> Any: ...

    def step(self, state: Any, params: torch.Tensor, update: torch.Tensor, t: int) -> torch.Tensor:
        """New parameters after `t` earlier steps; `params` and `update` are not changed."""
        ...


@runtime_checkable
class Trainer(Protocol):
    """Who does the local training: a simulator's engine, or a live federation."""

    def train(self, params: torch.Tensor, cohort: Cohort, t: int) -> Arrivals: ...

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats: ...


def check_with(part: object, strategy: Strategy) -> None:
    """Let a part look at the strategy it is in, where it wants to."""
    check = getattr(part, "check", None)
    if check is not None:
        check(strategy)

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
class Chances(Protocol):
    """How often each client can be reached, for availabilities that ask for it."""

    def of(self, population: Population) -> Floats:
        """(N,) probability of each client, in [0, 1]; the same at every call."""
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

    def learn(self, state: Any, end: RoundEnd) -> Mapping[str, float] | None:
        """Count all that were picked, whether they came or not; it may return notes for the log."""
        ...


@runtime_checkable
class Compensator(Protocol):
    """What stands in for those who did not come.

    It may have ``fills_without_arrivals = True``: `fill` is then called also where only late
    updates came, or none, and the round may take a step. Without it no client came means no step.

    It may have ``stand_ins(state, end) -> Contributions``, called in place of `fill` where the
    aggregator reweighs: the same sum told client by client, each entry with its client's share.
    Without it, a client's share is the sum of its coefficients, which must not be negative.
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
    """How a client's gradient is altered while it trains.

    It may have ``reply = "last_gradient"``: a client then sends −η times the gradient of its last
    step, as altered, in place of its displacement (buffers: the displacement). With
    ``decoded(state, arrivals, lr) -> Arrivals`` it makes of such replies what the other parts see;
    late ones are dropped.
    """

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

    It may have ``reweigh(contributions, end) -> Contributions``, called before `aggregate`: the
    same entries with other coefficients, which then are those of the round, in logs and everywhere.
    `understudy.parts.aggregators.stand_ins` has what such a part needs.
    """

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        """The (d,) update; contributions are never empty."""
        ...


@runtime_checkable
class Server(Protocol):
    """The server's optimizer.

    It may have ``needs_rows = "fresh"`` or ``"all"``: `step` then gets a fifth argument, the
    `RowSpread` of the updates that came (weights q), or of all rows that contributions point to
    (weights: sizes of coefficients); None where there are none. It may have ``needs_round = True``:
    `step` then gets the number of the round as the keyword `this_round`; rounds without a step
    count in it. It may have ``notes(state)``, called after a step: numbers by name for the log.
    """

    def init(self, setup: Setup) -> Any: ...

    def step(self, state: Any, params: torch.Tensor, update: torch.Tensor, t: int) -> torch.Tensor:
        """New parameters after `t` earlier steps; `params` and `update` are not changed."""
        ...


@runtime_checkable
class Trainer(Protocol):
    """What trains and evaluates for a simulation: threads, processes, a cluster.

    It is made from a `understudy.simulation.TrainingTask`, which holds the data, the model and how
    clients train, and is called by one thread at a time. A client's update depends on the task,
    the model and correction it is given, the round and its id alone. So a run has the same bits
    whichever trainer it has, and its description does not name one.

    An error that a trainer raises ends the round, and the server's state stays that before the
    round. A trainer whose worker dies trains again what that one had; where this fails too, it
    raises. A client that it cannot train has an update of NaN, which the server refuses: that
    client is absent.
    """

    def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
        """Train the clients `cohort.asked`, distinct ids, at least one, in round `cohort.t`.

        Each starts from ``cohort.start(id)``, or `params` where that is None, adds
        ``cohort.correction(id)`` to each of its gradients if there is one, and makes steps of
        `cohort.lr` (None: ``local.lr_at(t)``). Both functions can be called in this process only;
        `params` is not changed.

        Returns the arrivals of exactly these ids, in this order, with `n_examples`, `n_steps` and
        `losses` (means over the examples of all steps). Rows have the type and the device of
        `params`, and stay as they are until the next call with the same name `into`; whoever
        returns new tensors needs not look at it.
        """
        ...

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats:
        """(k,) mean loss of a model on each client's validation (else training) examples."""
        ...

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """(n, …) what a model in evaluation mode says to examples of the task's data."""
        ...

    def close(self) -> None:
        """Let go of workers and memory: the run is at its end, or was left."""
        ...


def also_for(server: Server, this_round: int) -> dict[str, int]:
    """What `step` gets besides, where a server asks for it."""
    return {"this_round": this_round} if getattr(server, "needs_round", False) else {}


def check_with(part: object, strategy: Strategy) -> None:
    """Let a part look at the strategy it is in, where it wants to."""
    check = getattr(part, "check", None)
    if check is not None:
        check(strategy)

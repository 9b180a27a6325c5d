"""Shapley values: what each client's update is worth to the global model.

References
----------
Shapley, A Value for n-Person Games, 1953. Castro et al., Polynomial Calculation of the Shapley
Value Based on Sampling, 2009. Jiang et al., FedAR, 2024 (fig. 1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import compress
from math import factorial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from understudy.analysis.findings import Findings
from understudy.analysis.part_state import state_of
from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.roles import Compensator
from understudy.core.types import Floats, Ints
from understudy.parts.aggregators.linear import Linear
from understudy.parts.availability.scripted import LastRoundsAway
from understudy.parts.compensators.capped import Capped
from understudy.parts.compensators.fedar import FedAR
from understudy.parts.compensators.memory import Memory
from understudy.parts.compensators.mifa import MIFA
from understudy.parts.compensators.stale import Stale
from understudy.parts.servers import Sgd
from understudy.server.weights import base_weights

if TYPE_CHECKING:
    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Task

MOST_EXACT = 10  # players whose 2^n coalitions are all valued
EVALUATIONS = 2**MOST_EXACT  # about as many coalitions are valued where players are more
PERMUTATIONS = 100

Player = TypeVar("Player", bound=Hashable)


@dataclass(frozen=True, eq=False)
class ShapleyValues:
    """Values in the order of the players."""

    values: Floats  # (n,)
    errors: Floats  # (n,) standard errors; 0 where exact
    total: float  # v(all) − v(nobody): what the values sum to
    exact: bool


def shapley_values(
    value: Callable[[frozenset[Player]], float],
    players: Sequence[Player],
    *,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
) -> ShapleyValues:
    """The Shapley value of each player of a cooperative game.

    φ_i is the mean, over all orders in which the players may join, of what i adds by joining.

    Parameters
    ----------
    value : function
        v: what a coalition (a frozenset of players, the empty one too) is worth. Asked once for
        each coalition.
    players : sequence
        n different players.
    samples : int, optional
        Orders to draw, at least 2. None: exact for up to ten players, by all 2^n coalitions, else
        100 orders.
    rng : Generator, optional
        Draws the orders; needed where there is something to draw.

    Returns
    -------
    ShapleyValues
        Sampled values are unbiased, and sum to the total as exact ones do.

    Examples
    --------
    Three musicians are paid 6 once the singer has at least one of the others with her.

    >>> def paid(who):
    ...     return 6.0 if "singer" in who and len(who) > 1 else 0.0
    >>> shapley_values(paid, ["singer", "drums", "bass"]).values.tolist()
    [4.0, 1.0, 1.0]
    """
    if len(set(players)) != len(players):
        raise ValueError(f"players: expected different ones, got {list(players)!r}")
    known: dict[frozenset[Player], float] = {}

    def worth(coalition: frozenset[Player]) -> float:
        if coalition not in known:
            known[coalition] = float(value(coalition))
        return known[coalition]

    total = worth(frozenset(players)) - worth(frozenset())
    if samples is None and len(players) <= MOST_EXACT:
        values = _exact(worth, players)
        return ShapleyValues(values, np.zeros(len(players)), total, exact=True)
    samples = PERMUTATIONS if samples is None else samples
    checks.integer("samples", samples, low=2)
    if rng is None:
        raise ValueError("rng: expected a generator to draw orders with, got None")
    gains = _sampled(worth, players, samples, rng)
    errors = gains.std(axis=0, ddof=1) / np.sqrt(samples)
    return ShapleyValues(gains.mean(axis=0), errors, total, exact=False)


def _exact(worth: Callable[[frozenset[Player]], float], players: Sequence[Player]) -> Floats:
    """Σ over S without i of |S|! (n−|S|−1)!/n! (v(S ∪ i) − v(S))."""
    n = len(players)
    masks = np.arange(2**n)
    member = (masks[:, None] >> np.arange(n)) & 1 == 1  # (2^n, n)
    coalitions = [frozenset(compress(players, row)) for row in member]
    table = np.array([worth(coalition) for coalition in coalitions])
    size = member.sum(axis=1)
    share = np.array([factorial(s) * factorial(n - s - 1) / factorial(n) for s in range(n)])
    values = np.zeros(n)
    for i in range(n):
        without = masks[~member[:, i]]
        values[i] = (share[size[without]] * (table[without | (1 << i)] - table[without])).sum()
    return values


def _sampled(
    worth: Callable[[frozenset[Player]], float],
    players: Sequence[Player],
    samples: int,
    rng: np.random.Generator,
) -> Floats:
    """(samples, n) what each player added in each drawn order."""
    gains = np.zeros((samples, len(players)))
    for sample in range(samples):
        joined: frozenset[Player] = frozenset()
        before = worth(joined)
        for i in rng.permutation(len(players)):
            joined = joined | {players[i]}
            after = worth(joined)
            gains[sample, i] = after - before
            before = after
    return gains


# -- of clients ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UpdateGame:
    """A model, and updates that a coalition of clients adds to it."""

    base: torch.Tensor  # (d,) the model nobody contributed to
    ids: Ints  # (c,) clients that contribute
    steps: torch.Tensor  # (c, d) what the model moves by per unit of coefficient
    coef: Floats  # (c,) when all contribute
    share: Floats  # (c,) weights > 0 by which fewer clients fill the place of all

    def model(self, coalition: frozenset[int]) -> torch.Tensor:
        """(d,) the model when only these clients contribute, each with what it has of the rest."""
        inside = [row for row, client in enumerate(self.ids.tolist()) if client in coalition]
        params = self.base.clone()
        scale = self.share.sum() / self.share[inside].sum() if inside else 0.0
        for row in inside:
            params.add_(self.steps[row], alpha=float(self.coef[row] * scale))
        return params


def shapley(run: Run, task: Task) -> Findings:
    """Shapley values of all clients, by test accuracy and by test loss (FedAR, fig. 1).

    A coalition is worth the accuracy of the model that its updates alone would have made; the
    empty one that of the model before. Where the strategy remembers everyone's update (Stale of
    updates, MIFA, FedAR; a plain server step, no delay), it is the game of the last round: the
    updates it was made of, fresh or remembered. For all other strategies it is the game of a round
    after the last, in which everybody is trained.

    Returns
    -------
    Findings
        ``shapley_total``, what all values sum to, and ``shapley_efficiency_gap``, by how much they
        do not; with `LastRoundsAway`, ``shapley_client`` of the client that went away,
        ``shapley_client_share`` of the total (where that is not 0) and ``shapley_mean_others``.
        The same as ``shapley_loss_…`` with the negative test loss for the accuracy. Arrays
        ``shapley``, ``shapley_error`` (standard errors), ``shapley_loss``, ``shapley_loss_error``,
        each (N,).

    Notes
    -----
    Fewer clients fill the place of all: their weights are scaled up to the same sum, so that one
    client alone is worth the model of FedAvg with that client alone. A client that contributes
    nothing is worth nothing.
    """
    game = last_round(run, task) if remembers(task) else next_round(run, task)
    scores: dict[frozenset[int], dict[str, float]] = {}

    def scored(coalition: frozenset[int]) -> dict[str, float]:
        if coalition not in scores:
            scores[coalition] = run.scores(game.model(coalition))
        return scores[coalition]

    found = [_findings("shapley_loss", lambda who: -scored(who)["test_loss"], game, run, task)]
    if "test_accuracy" in scored(frozenset()):
        by_accuracy = _findings(
            "shapley", lambda who: scored(who)["test_accuracy"], game, run, task
        )
        found.insert(0, by_accuracy)
    return Findings.together(found)


def _findings(
    name: str, value: Callable[[frozenset[int]], float], game: UpdateGame, run: Run, task: Task
) -> Findings:
    players = game.ids.tolist()
    samples = None if len(players) <= MOST_EXACT else max(2, EVALUATIONS // len(players))
    rng = generator(task.seed, "analysis/shapley")
    result = shapley_values(value, players, samples=samples, rng=rng)
    values, errors = np.zeros(run.state.n_clients), np.zeros(run.state.n_clients)
    values[game.ids], errors[game.ids] = result.values, result.errors
    gap = abs(float(values.sum()) - result.total)
    metrics = {f"{name}_total": result.total, f"{name}_efficiency_gap": gap}
    if isinstance(task.availability, LastRoundsAway):
        client = task.availability.client
        metrics[f"{name}_client"] = float(values[client])
        if result.total != 0:
            metrics[f"{name}_client_share"] = float(values[client]) / result.total
        if len(values) > 1:
            metrics[f"{name}_mean_others"] = float(np.delete(values, client).mean())
    return Findings(metrics, {name: values, f"{name}_error": errors})


def remembers(task: Task) -> bool:
    """Whether the updates of the last round can be had from the strategy's memory."""
    strategy, compensator = task.strategy, _innermost(task.strategy.compensator)
    of_updates = isinstance(compensator, MIFA | FedAR) or (
        isinstance(compensator, Stale) and compensator.kind == "update"
    )
    # a late update takes the place of the one that was used; other steps cannot be taken back
    plain = isinstance(strategy.server, Sgd) and isinstance(strategy.aggregator, Linear)
    return of_updates and plain and task.delay is None


def _innermost(compensator: Compensator) -> Compensator:
    while isinstance(compensator, Capped):
        compensator = compensator.inner
    return compensator


def last_round(run: Run, task: Task) -> UpdateGame:
    """The round that was played last, taken back: w before it, and the updates it was made of."""
    memory, log = state_of(run.state.compensator, Memory), run.last
    if memory is None or log is None or not isinstance(task.strategy.server, Sgd):
        raise ValueError("shapley: expected a run with a memory and at least one round, got none")
    if log.totals is not None:
        raise ValueError(f"shapley: round {log.t} has more contributions than its log keeps")
    server, d = task.strategy.server, run.state.n_parameters
    lr = server.lr * server.schedule(run.state.updates_before(log.t))
    steps = memory.gather(log.ids).to(run.state.params.device)
    steps[:, :d] *= lr  # buffers are moved by the update as it is
    moved = torch.zeros_like(run.state.params, dtype=torch.float64)
    for row, coef in zip(steps, log.coef.tolist(), strict=True):
        moved.add_(row.double(), alpha=coef)
    base = (run.state.params.double() - moved).to(run.state.params.dtype)
    # Stale gives each its share of the cohort; a memory spans all rounds, and knows no cohort
    share = base_weights(run.state, task.strategy.weighting)[log.ids]
    if isinstance(_innermost(task.strategy.compensator), Stale):
        share = log.coef / _rescaled(run, task, memory.last_seen[log.ids])
    return UpdateGame(base, log.ids, steps, log.coef, share)


def _rescaled(run: Run, task: Task, made_in: Ints) -> Floats:
    """η_t/η_s of updates made in rounds s, in the last round t: what their coefficients carry."""
    state, local = run.state, task.strategy.local
    steps = np.array([local.lr_at(state.updates_before(int(s))) for s in made_in])
    return local.lr_at(state.updates_before(state.t - 1)) / steps


def next_round(run: Run, task: Task) -> UpdateGame:
    """A round after the last, in which everybody is trained and averaged."""
    ids = np.flatnonzero(run.state.active)
    trained = run.train(run.state.params, ids, run.state.t)
    assert isinstance(trained.deltas, torch.Tensor)
    weight = base_weights(run.state, task.strategy.weighting)[ids]
    coef = weight / weight.sum()
    return UpdateGame(run.state.params, ids, trained.deltas, coef, coef)

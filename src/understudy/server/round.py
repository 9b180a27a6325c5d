"""One round, as the parts of a strategy make it: who is wanted, who represents whom, the step.

`Strategy.select`, `fill` and `finish` are these functions. All three compute on one thread, so
that the bits of a round do not depend on the number of cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.core import answers, checks
from understudy.core.describe import describe, differences
from understudy.core.rng import generator
from understudy.core.roles import Aggregator, also_for
from understudy.core.threads import one_thread
from understudy.core.types import (
    Applied,
    Arrivals,
    Cohort,
    Contributions,
    Floats,
    Ints,
    Population,
    RoundEnd,
    RoundStart,
)
from understudy.server import checkpoint
from understudy.server.admission import Admitted, Bounds, admit, outcomes
from understudy.server.row_spread import spread
from understudy.server.state import (
    ServerState,
    learn_facts,
    leaves,
    part_copy,
    restore_part,
    still_pending,
)
from understudy.server.weights import base_weights, claim_notes

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass(frozen=True, eq=False)
class Filled:
    """A round between its two halves: rows are borrowed until `finish`."""

    end: RoundEnd
    contributions: Contributions
    stand_ins: Contributions  # the same entries as the compensator weighed them
    update: torch.Tensor | None  # (d,) what the aggregator made of them; None: no step
    admitted: Admitted
    notes: Mapping[str, float]
    timings: Mapping[str, float]


def refuse_unless_ready(strategy: Strategy, state: ServerState) -> None:
    """Raise where a state is another strategy's, or in the middle of a round."""
    if state.made_by is not strategy:
        found = differences(describe(strategy), describe(state.made_by))
        if found:
            raise ValueError(f"state: made by another strategy: {'; '.join(found)}")
    state.refuse_half_a_round()


def select_cohort(
    strategy: Strategy,
    state: ServerState,
    available: npt.ArrayLike,
    p: npt.ArrayLike | None,
    losses: Callable[[Ints], npt.ArrayLike] | None,
) -> Cohort:
    """Whom the sampler wants, and whom of these the server asks."""
    refuse_unless_ready(strategy, state)
    n, t = state.n_clients, state.t
    reachable = checks.mask("available", available, n) & state.active
    rates = state.population.p if p is None else checks.probabilities("p", p, n)
    start = RoundStart(
        t=t,
        population=state.known_population(),
        active=state.active.copy(),
        available=reachable,
        params=state.params,
        p=rates,
        losses=losses,
        rng=generator(state.seed, "sampler", t),
    )
    with one_thread():
        picked, weights = strategy.sampler.pick(state.sampler, start)
        wanted, weight = checks.pick(strategy.sampler, picked, weights, state.active)
        asked = wanted[reachable[wanted]]
        starts = getattr(strategy.compensator, "starts", None)
        return Cohort(
            t=t,
            wanted=wanted,
            weight=weight,
            asked=asked,
            pending=state.pending.copy(),
            p=rates,
            start=None if starts is None else starts(state.compensator, asked),
            correction=strategy.local.rule.correction(state.local, asked),
            lr=strategy.local.lr_at(state.updates),
            available=reachable,
        )


def fill_round(
    strategy: Strategy, state: ServerState, cohort: Cohort, arrivals: Arrivals
) -> Filled:
    """Admit and guard the arrivals, let the compensator fill, aggregate."""
    refuse_unless_ready(strategy, state)
    if cohort.t != state.t:
        raise ValueError(f"cohort: of round {cohort.t}, but the state is in round {state.t}")
    clock = _Stopwatch()
    with one_thread(), torch.no_grad():
        admitted = admit(
            arrivals,
            cohort,
            state.active,
            state.params,
            needs_steps=strategy.local.rule.needs_steps,
            n_classes=None if state.label_counts is None else state.label_counts.shape[1],
            bounds=Bounds.of(
                state.params,
                state.n_parameters,
                state.n_clients,
                _given_examples(state.population),
                strategy.max_norm,
                strategy.max_examples,
            ),
        )
        state._open = True
        learn_facts(state, admitted.late)
        learn_facts(state, admitted.fresh)
        clock.lap("admit")
        fresh, late = decoded_by(strategy, state, cohort, admitted.fresh, admitted.late)
        notes: dict[str, float] = {}
        if strategy.guard is not None:
            fresh, late, said = strategy.guard.guard(state.guard, fresh, late)
            notes.update(answers.notes(strategy.guard, "guard", said))
            clock.lap("guard")
        end = round_end(strategy, state, cohort, fresh, late)
        notes.update(claim_notes(state, end.came, strategy.weighting))
        stand_ins, update = Contributions.none(), None
        if len(fresh) or getattr(strategy.compensator, "fills_without_arrivals", False):
            stand_ins = filled_by(strategy, state, end)
            notes.update(answers.notes(strategy.compensator, "fill", stand_ins.notes))
        clock.lap("fill")
        contributions = stand_ins
        if len(contributions):
            contributions = reweighed_by(strategy.aggregator, stand_ins, end)
            if contributions is not stand_ins:
                notes.update(answers.notes(strategy.aggregator, "reweigh", contributions.notes))
            update, said = _aggregated(strategy.aggregator, contributions, state.params)
            notes.update(said)
            clock.lap("aggregate")
            notes.update(_largest_share(contributions))
    return Filled(end, contributions, stand_ins, update, admitted, notes, clock.laps)


def finish_round(strategy: Strategy, state: ServerState, filled: Filled) -> Applied:
    """Step, let everyone learn from it, count the round, commit where that is due."""
    end, admitted, notes = filled.end, filled.admitted, dict(filled.notes)
    clock = _Stopwatch(filled.timings)
    params, step = state.params, None
    with one_thread(), torch.no_grad():
        if filled.update is not None:
            moved = _stepped(strategy, state, filled)
            if moved is None:
                notes["step_not_finite"] = 1.0
            else:
                params, step = moved, moved - state.params
                tell = getattr(strategy.server, "notes", None)
                said = None if tell is None else tell(state.server)
                notes.update(answers.notes(strategy.server, "notes", said))
            clock.lap("step")
        said = strategy.compensator.learn(state.compensator, end, step)
        notes.update(answers.notes(strategy.compensator, "learn", said))
        said = strategy.sampler.learn(state.sampler, end)
        notes.update(answers.notes(strategy.sampler, "learn", said))
        strategy.local.rule.learn(state.local, end)
        clock.lap("learn")
    cohort = end.cohort
    outcome = outcomes(state.n_clients, cohort, admitted)
    state.params = params
    state.pending = still_pending(
        state.pending, cohort.asked, state.t, admitted.answered, state.active
    )
    if step is None:
        state.idle = np.append(state.idle, state.t)
    state.t += 1
    state._open = False
    if state.commit_every is not None:
        checkpoint.commit(state, every=state.commit_every)
        clock.lap("commit")
    return Applied(
        t=cohort.t,
        contributions=filled.contributions,
        outcome=outcome,
        refusals=admitted.refusals,
        notes=notes,
        stepped=step is not None,
        timings=clock.laps,
    )


def decoded_by(
    strategy: Strategy, state: ServerState, cohort: Cohort, fresh: Arrivals, late: Arrivals
) -> tuple[Arrivals, Arrivals]:
    """Arrivals as all parts see them; a rule whose clients do not send updates makes these."""
    decode = getattr(strategy.local.rule, "decoded", None)
    if decode is None:
        return fresh, late
    return decode(state.local, fresh, strategy.local.lr_at(state.updates)), Arrivals.none()


def filled_by(strategy: Strategy, state: ServerState, end: RoundEnd) -> Contributions:
    """What the compensator fills in; client by client, where the aggregator is to reweigh it."""
    part, verb = strategy.compensator, "fill"
    if hasattr(strategy.aggregator, "reweigh") and hasattr(part, "stand_ins"):
        verb = "stand_ins"
    return answers.contributions(part, getattr(part, verb)(state.compensator, end), verb)


def reweighed_by(aggregator: Aggregator, stand_ins: Contributions, end: RoundEnd) -> Contributions:
    """The same entries with the aggregator's own coefficients, where it has any."""
    reweigh = getattr(aggregator, "reweigh", None)
    if reweigh is None:
        return stand_ins
    return answers.reweighed(aggregator, reweigh(stand_ins, end), stand_ins)


def _aggregated(
    aggregator: Aggregator, contributions: Contributions, params: torch.Tensor
) -> tuple[torch.Tensor | None, Mapping[str, float]]:
    """The update, None where there are too few rows for one; and what there is to tell of it."""
    min_rows = getattr(aggregator, "min_rows", 1)
    if min_rows > 1:
        n_rows = len(np.unique(contributions.row[contributions.source >= 0]))
        if n_rows < min_rows:
            return None, {"too_few_rows": float(n_rows)}
    update = answers.vector(aggregator, "aggregate", aggregator.aggregate(contributions), params)
    tell = getattr(aggregator, "notes", None)
    said = None if tell is None else tell(contributions)
    return update, answers.notes(aggregator, "notes", said)


def _given_examples(population: Population) -> Floats | None:
    """(N,) what the population itself vouches for, NaN elsewhere: the bound of what is reported."""
    sizes = population.n_examples
    return None if sizes is None else np.where(population.confirmed, sizes, np.nan)


def _largest_share(contributions: Contributions) -> dict[str, float]:
    """The largest share of all coefficients (by absolute value) that one client's row carries.

    Mixtures and models are nobody's. A client that speaks for many is heard by this number.
    """
    rows, total = contributions.by_row()  # in the order of mention: slots would change the bits
    owner = np.concatenate([block.owner for block in contributions.rows])[rows]
    carried = np.abs(total)
    everything = carried.sum()
    if not np.isfinite(everything):
        return {}
    largest = carried[owner >= 0].max(initial=0.0)
    return {"largest_share": float(largest / everything) if everything else 0.0}


def _stepped(strategy: Strategy, state: ServerState, filled: Filled) -> torch.Tensor | None:
    """The model after the server's step; None, and all as before, where that is not finite.

    Each update was small enough by itself; coefficients and the optimizer's own memory may still
    make too much of them. No client is to blame for that.
    """
    update = filled.update
    if update is None or not _finite(update):
        return None
    before = part_copy(state.server)
    which = getattr(strategy.server, "needs_rows", None)
    rows = () if which is None else (spread(which, filled.end, filled.contributions),)
    step: Callable[..., torch.Tensor] = strategy.server.step
    more = also_for(strategy.server, state.t)
    answer = step(state.server, state.params, update, state.updates, *rows, **more)
    params = answers.vector(strategy.server, "step", answer, state.params)
    broken = (
        path
        for path, value in leaves(state.server)
        if not _finite(value) and _finite(before.get(path))  # a part may hold infinity on purpose
    )
    if _finite(params) and next(broken, None) is None:
        return params
    restore_part(state.server, before)
    return None


def _finite(values: Any) -> bool:
    """Whether a tensor's entries all are; a finite sum proves it in one pass."""
    if not isinstance(values, torch.Tensor) or not values.is_floating_point():
        return True
    return bool(torch.isfinite(values.sum()) or torch.isfinite(values).all())


def round_end(
    strategy: Strategy, state: ServerState, cohort: Cohort, fresh: Arrivals, late: Arrivals
) -> RoundEnd:
    """What a round's end looks like to the parts that fill and learn."""
    base = base_weights(state, strategy.weighting)
    weight = np.ones(state.n_clients)
    weight[cohort.wanted] = cohort.weight
    return RoundEnd(
        t=state.t,
        population=state.known_population(),
        active=state.active.copy(),
        cohort=cohort,
        arrivals=fresh,
        late=late,
        params=state.params,
        q=base * weight,
        base=base,
        lr=lambda s: strategy.local.lr_at(state.updates_before(s)),
        p=cohort.p,
        n_parameters=state.n_parameters,
        rng=generator(state.seed, "compensator", state.t),
    )


class _Stopwatch:
    """Seconds of each phase: part of the log, never of a decision."""

    def __init__(self, laps: Mapping[str, float] | None = None) -> None:
        self.laps = dict(laps or {})
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now

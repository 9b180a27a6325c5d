"""Does a part keep its role's contract? For the parts here and for other people's.

Each ``check_*`` runs a number of rounds with a part and raises a `ContractBroken` that says which
promise was not kept. They need no test framework::

    from understudy.testing import check_compensator
    check_compensator(MyCompensator())
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.core.describe import describe
from understudy.core.rng import generator
from understudy.core.roles import Aggregator, Availability, Compensator, Sampler
from understudy.core.types import (
    Applied,
    Arrivals,
    Bools,
    Cohort,
    Floats,
    Ints,
    Outcome,
    Population,
)
from understudy.memory.rows import RowStore
from understudy.memory.tensor_stream import raw_bytes
from understudy.parts.aggregators.linear import linear_sum
from understudy.parts.compensators.fedvarp import FedVARP
from understudy.parts.compensators.ignore import Ignore
from understudy.parts.compensators.stale import Stale
from understudy.server.checkpoint import load_state, save_state
from understudy.server.round import round_end
from understudy.server.state import ServerState, leaves
from understudy.server.strategy import Strategy

N_CLIENTS, WIDTH, ROUNDS = 8, 6, 12


class ContractBroken(AssertionError):
    """A part does not do what its role promises."""


def check_sampler(sampler: Sampler, population: Population | None = None) -> None:
    """Play rounds with a sampler: distinct ids, deterministic, saved, grown, retired."""
    strategy = Strategy(sampler=sampler, weighting="clients")
    _check_part(sampler, strategy, population or example_population())


def check_compensator(compensator: Compensator, population: Population | None = None) -> None:
    """Play rounds with a compensator, among them empty ones and late arrivals."""
    strategy = Strategy(compensator=compensator)
    population = population or example_population()
    _check_part(compensator, strategy, population)
    state = _start(strategy, population)
    seen = np.zeros(population.n_clients, dtype=np.bool_)
    for t in range(ROUNDS):
        _, applied = play(strategy, state, t)
        _check_coefficients(compensator, applied, everyone_seen=bool(seen.all()))
        seen[applied.outcome == Outcome.CAME] = True


def check_aggregator(aggregator: Aggregator, population: Population | None = None) -> None:
    """Play rounds with an aggregator, over substitutions and, where it takes them, signed rows."""
    population = population or example_population()
    for compensator in (Ignore(), Stale(), FedVARP()):
        if _signed_is_refused(aggregator, compensator):
            continue
        strategy = Strategy(compensator=compensator, aggregator=aggregator)
        _check_part(aggregator, strategy, population)
        state = _start(strategy, population, n_buffers=2)
        for t in range(ROUNDS):
            _check_aggregation(strategy, state, t)


def check_availability(availability: Availability, population: Population | None = None) -> None:
    """Draw attendance: right shape, addressed, as frequent as it says."""
    population = population or example_population()
    before = describe(availability)
    n = population.n_clients
    surplus, variance, draws = np.zeros(n), np.zeros(n), 400
    first, second = availability.init(population), availability.init(population)
    for t in range(draws):
        rates = availability.rates(first, t)
        on = np.asarray(availability.draw(first, t, generator(0, "availability", t)))
        again = np.asarray(availability.draw(second, t, generator(0, "availability", t)))
        _promise(on.shape == (n,) and on.dtype == np.bool_, f"draw gives ({n},) bool, got {on!r}")
        _promise(bool((on == again).all()), "the same address draws the same attendance")
        if rates is not None:
            _promise(rates.shape == (n,), f"rates gives ({n},), got shape {rates.shape}")
            _promise(bool(((rates >= 0) & (rates <= 1)).all()), f"rates lie in [0, 1], got {rates}")
            surplus += on - rates
            variance += rates * (1 - rates)
    # six standard deviations, and 2 % for modes that repeat a draw in which nobody is there
    _promise(
        bool((np.abs(surplus) <= 6 * np.sqrt(variance) + 0.02 * draws).all()),
        f"clients come as often as rates says; surplus over {draws} rounds {surplus}",
    )
    _promise(describe(availability) == before, "calling a part never changes it")


def draw_availability(
    availability: Availability, population: Population, rounds: Iterable[int], seeds: int
) -> Floats:
    """(len(rounds), N) how often each client was there, over seeds 0 .. seeds-1.

    The state is carried through the rounds between those asked for.
    """
    wanted = list(rounds)
    frequency = np.zeros((len(wanted), population.n_clients))
    last = max(wanted, default=-1)
    for seed in range(seeds):
        state = availability.init(population)
        drawn = [
            availability.draw(state, t, generator(seed, "availability", t)) for t in range(last + 1)
        ]
        for position, t in enumerate(wanted):
            frequency[position] += drawn[t]
    return frequency / seeds


# -- playing rounds --------------------------------------------------------------------------------


def example_population(n_clients: int = N_CLIENTS) -> Population:
    """A small population of which everything is known."""
    rng = generator(0, "testing/population")
    features = rng.normal(size=(n_clients, 4))
    return Population(
        n_clients,
        n_examples=rng.integers(5, 50, n_clients).astype(float),
        label_counts=rng.integers(1, 20, (n_clients, 3)).astype(float),
        features=features,
        similarity=np.atleast_2d(np.corrcoef(features)),
        p=np.linspace(0.4, 0.9, n_clients),
        groups=np.arange(n_clients) % 2,
        claimed=np.zeros(n_clients, dtype=np.bool_),
    )


def play(
    strategy: Strategy,
    state: ServerState,
    seed: int,
    *,
    available: Bools | None = None,
    late: bool = True,
) -> tuple[Cohort, Applied]:
    """One random round at an address: some are away, some asked fail, some old updates arrive."""
    rng = generator(seed, "testing/round", state.t)
    here = rng.random(state.n_clients) < 0.7 if available is None else available
    cohort = strategy.select(state, here, losses=lambda ids: np.cos(ids * 1.7 + state.t))
    came = cohort.asked[rng.random(len(cohort.asked)) < 0.85]
    requests = [(int(client), state.t) for client in came]
    if late and len(cohort.pending):
        overdue = cohort.pending[rng.random(len(cohort.pending)) < 0.2]
        requests += [(int(client), int(start)) for client, start in overdue]
    return cohort, strategy.apply(state, cohort, updates_for(requests, state.params))


def updates_for(requests: list[tuple[int, int]], params: torch.Tensor) -> Arrivals:
    """Made-up updates, each drawn at the address of its client and round."""
    deltas = torch.zeros((len(requests), len(params)), dtype=params.dtype)
    for row, (client, start) in enumerate(requests):
        drawn = generator(1, "testing/update", start, client).normal(size=len(params))
        deltas[row] = torch.from_numpy(drawn + client % 2)  # two kinds of clients
    return Arrivals(
        ids=[client for client, _ in requests],
        deltas=deltas,
        n_examples=[10 + client for client, _ in requests],
        n_steps=[3] * len(requests),
        losses=[1.0 / (1 + client) for client, _ in requests],
        start_round=[start for _, start in requests],
    )


def _start(strategy: Strategy, population: Population, n_buffers: int = 0) -> ServerState:
    params = torch.zeros(WIDTH, dtype=torch.float64)
    return strategy.init(population, params, seed=3, n_parameters=WIDTH - n_buffers)


# -- promises --------------------------------------------------------------------------------------


def _promise(kept: bool, what: str) -> None:
    if not kept:
        raise ContractBroken(f"broken: {what}")


def _check_part(part: object, strategy: Strategy, population: Population) -> None:
    _promise(dataclasses.is_dataclass(part), "a part is a dataclass of hyper-parameters")
    _promise(type(part).__dataclass_params__.frozen, "a part is frozen")  # type: ignore[attr-defined]
    before = describe(part)
    global_before = _global_generators()
    state = _start(strategy, population)
    for t in range(ROUNDS):
        _check_reads_only(strategy, state, population)
        _check_round(strategy, state, t)
    _check_saved(strategy, state)
    _check_empty_round(strategy, state)
    _check_growth_and_retirement(strategy, population)
    alone = example_population(1)
    lonely = _start(strategy, alone)
    for t in range(3):
        play(strategy, lonely, t)
    _promise(describe(part) == before, "calling a part never changes it")
    _promise(_global_generators() == global_before, "no global random generator is used")


def _global_generators() -> tuple[str, str, bytes]:
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002  (to see that nobody uses it)
    return repr(numpy_state), repr(random.getstate()), torch.get_rng_state().numpy().tobytes()


def _check_round(strategy: Strategy, state: ServerState, seed: int) -> None:
    t = state.t
    _, applied = play(strategy, state, seed)
    filled, came = applied.contributions, np.flatnonzero(applied.outcome == Outcome.CAME)
    _promise(state.t == t + 1, "each round is counted")
    _promise(bool(torch.isfinite(state.params).all()), "the model stays finite")
    n_rows = sum(len(block) for block in filled.rows)
    valid = (filled.row >= 0) & (filled.row < n_rows)
    _promise(bool(valid.all()), "each contribution points to a row")
    _promise(bool(np.isfinite(filled.coef).all()), "coefficients are finite")
    _promise(bool(state.active[filled.ids].all()), "only active clients are represented")
    own = np.isin(filled.ids, came)
    speaks_for_itself = (filled.source == filled.ids) | (filled.source == -1)
    _promise(bool(speaks_for_itself[own].all()), "a client that came is represented by its own row")


def _signed_is_refused(aggregator: Aggregator, compensator: Compensator) -> bool:
    try:
        Strategy(compensator=compensator, aggregator=aggregator)
    except ValueError:
        _promise(compensator.signed, "an aggregator takes coefficients that are not negative")
        return True
    return False


def _check_aggregation(strategy: Strategy, state: ServerState, seed: int) -> None:
    """One round, seen between its halves."""
    rng = generator(seed, "testing/aggregation", state.t)
    cohort = strategy.select(state, rng.random(state.n_clients) < 0.6)
    requests = [(int(client), state.t) for client in cohort.asked]
    filled = strategy.fill(state, cohort, updates_for(requests, state.params))
    weighed, told = filled.contributions, filled.stand_ins
    if filled.update is not None:
        again = strategy.aggregator.aggregate(weighed)
        _promise(torch.equal(filled.update, again), "aggregate only reads, and repeats itself")
    if filled.update is not None and hasattr(strategy.aggregator, "reweigh"):
        before = told.coef.copy()
        once = strategy.aggregator.reweigh(told, filled.end)
        _promise(np.array_equal(before, told.coef), "reweigh only reads")
        _promise(np.array_equal(once.coef, weighed.coef), "reweigh repeats itself")
        of_buffers = weighed.coef if weighed.buffer_coef is None else weighed.buffer_coef
        kept = told.coef if told.buffer_coef is None else told.buffer_coef
        close = bool(np.isclose(of_buffers.sum(), kept.sum()))
        _promise(close, "buffers keep coefficients that sum to what the compensator's did")
        taken = linear_sum(weighed)
        _promise(torch.allclose(filled.update, taken), "what was reweighed is summed as it says")
    strategy.finish(state, filled)


def _check_coefficients(part: Compensator, applied: Applied, *, everyone_seen: bool) -> None:
    coef = applied.contributions.coef
    if not part.signed:
        _promise(bool((coef >= 0).all()), "coefficients of an unsigned part are not negative")
    if part.normalised and everyone_seen and len(coef):
        close = bool(np.isclose(coef.sum(), 1.0))
        _promise(close, f"coefficients of a normalised part sum to one, got {coef.sum()}")


def _check_reads_only(strategy: Strategy, state: ServerState, population: Population) -> None:
    before = snapshot(state)
    here = np.ones(state.n_clients, dtype=np.bool_)
    losses: Callable[[Ints], Floats] = lambda ids: np.sin(ids * 1.0)  # noqa: E731
    first = strategy.select(state, here, losses=losses)
    second = strategy.select(state, here, losses=losses)
    told = [(cohort.wanted.tolist(), cohort.weight.tolist()) for cohort in (first, second)]
    _promise(told[0] == told[1], "select says the same when called twice")
    requests = [(int(client), state.t) for client in first.asked]
    came = updates_for(requests, state.params)
    assert isinstance(came.deltas, torch.Tensor)
    untouched = came.deltas.clone()
    end = round_end(strategy, state, first, came, Arrivals.none())
    if requests:
        filled = strategy.compensator.fill(state.compensator, end)
        stand_ins = getattr(strategy.compensator, "stand_ins", None)
        if stand_ins is not None and len(filled):
            by_client = linear_sum(stand_ins(state.compensator, end))
            close = torch.allclose(by_client, linear_sum(filled))
            _promise(close, "stand_ins sums to what fill sums to")
    only_read = snapshot(state) == before and torch.equal(came.deltas, untouched)
    _promise(only_read, "pick and fill only read")


def _check_saved(strategy: Strategy, state: ServerState) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        save_state(state, path)
        again = load_state(path, strategy)
    _promise(snapshot(again) == snapshot(state), "a saved state is the state")
    for t in range(3):
        play(strategy, state, 100 + t)
        play(strategy, again, 100 + t)
    _promise(snapshot(again) == snapshot(state), "a saved state resumes to the same bits")


def _check_empty_round(strategy: Strategy, state: ServerState) -> None:
    params = state.params.clone()
    nobody = np.zeros(state.n_clients, dtype=np.bool_)
    _, applied = play(strategy, state, 0, available=nobody, late=False)
    if getattr(strategy.compensator, "fills_without_arrivals", False):
        moved = bool(torch.isfinite(state.params).all())
        _promise(moved, "no client came: the model is finite after a step on memory")
        return
    _promise(not applied.stepped, "no client came: no step")
    _promise(torch.equal(params, state.params), "no client came: the model is unchanged")


def _check_growth_and_retirement(strategy: Strategy, population: Population) -> None:
    state = _start(strategy, population)
    for t in range(4):
        play(strategy, state, t)
    before = {path: _rows(value) for path, value in leaves(state) if isinstance(value, RowStore)}
    n = population.n_clients
    strategy.grow(state, _larger(population, 3))
    for path, value in leaves(state):
        if isinstance(value, RowStore):
            kept = {client: row for client, row in _rows(value).items() if client < n}
            same = kept.keys() == before[path].keys() and all(
                torch.equal(kept[client][: len(row)], row) for client, row in before[path].items()
            )
            _promise(same, f"growing keeps the old clients' rows ({path})")
    strategy.retire(state, 1)
    for t in range(4):
        cohort, applied = play(strategy, state, 50 + t)
        _promise(1 not in cohort.wanted, "a retired client is wanted no more")
        _promise(1 not in applied.contributions.ids, "a retired client is represented no more")


def _larger(population: Population, more: int) -> Population:
    n = population.n_clients + more
    larger = example_population(n)
    fields: dict[str, Any] = {}
    for item in dataclasses.fields(Population)[1:]:
        old, new = getattr(population, item.name), getattr(larger, item.name)
        if not isinstance(old, np.ndarray):
            continue
        if item.name in ("label_counts", "features"):
            new = np.ones((n, old.shape[1]))
        corner = tuple(slice(0, size) for size in old.shape)
        new[corner] = old
        fields[item.name] = new
    return Population(n, **fields)


def _rows(store: RowStore) -> dict[int, torch.Tensor]:
    return {int(client): store.get(int(client)).clone() for client in np.flatnonzero(store.known)}


def snapshot(state: ServerState) -> str:
    """A hash of all of a state's bits, wherever its rows lie, to be compared."""
    digest = hashlib.sha256()
    for path, value in leaves(state):
        digest.update(path.encode())
        if isinstance(value, RowStore):
            for client, row in sorted(_rows(value).items()):
                digest.update(str(client).encode() + bytes(raw_bytes(row)))
        elif isinstance(value, torch.Tensor | np.ndarray):
            content = raw_bytes(value) if isinstance(value, torch.Tensor) else value.tobytes()
            digest.update(f"{tuple(value.shape)} {value.dtype}".encode() + bytes(content))
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


__all__ = [
    "ContractBroken",
    "check_aggregator",
    "check_availability",
    "check_compensator",
    "check_sampler",
    "draw_availability",
    "example_population",
    "play",
    "snapshot",
    "updates_for",
]

"""What holds for any attendance, in any round: the promises that all parts share.

Updates are drawn at random at the address of their client and round, in double precision, so that
no two similarities are equal; Hypothesis chooses who comes, and when clients join or leave.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from understudy import (
    F3AST,
    FDMS,
    MIFA,
    Adam,
    Arrivals,
    Blind,
    ByData,
    Capped,
    Everyone,
    Exponential,
    FedAR,
    FedAU,
    FedAvgIS,
    FedAWE,
    FedGS,
    FedStale,
    FedVARP,
    HoeffdingRace,
    Ignore,
    LateUpdates,
    LeastAvailableFirst,
    Linear,
    LinearCutoff,
    Local,
    Median,
    MimiC,
    Momentum,
    NormGuard,
    OldestFirst,
    Oort,
    Outcome,
    Population,
    PowerOfChoice,
    Scaffold,
    Setup,
    SqrtCutoff,
    Stale,
    Strategy,
    TrimmedMean,
    Uniform,
    Yogi,
    load_state,
    save_state,
)
from understudy.core.rng import generator
from understudy.memory.rows import RowStore
from understudy.server.state import leaves
from understudy.testing import snapshot

N, D = 6, 5
QUICK = HoeffdingRace("code", scale=0.05, n_clients=N, beta=1.0, delta_f=0.0)
COMPENSATORS = [
    Ignore(),
    Stale(),
    Stale("model"),
    FDMS(),
    FDMS("distance"),
    FDMS(race=QUICK),
    Capped(FDMS(), 0.05),
    Capped(Stale()),
    MIFA(),
    MIFA(wait=False),
    FedAR(),
    FedAR(rho=0.5, psi="linear", cutoff=3),
    FedAR(cutoff=LinearCutoff(t0=1)),
    FedAR(cutoff=SqrtCutoff(c=0.5, t0=1)),
    FedVARP(),
    FedAvgIS(),
    FedAU(),
    FedStale(),
    MimiC(),
    FedAWE(),
    FedAWE(model="last"),
    LateUpdates(),
]
SUBSTITUTIONS = COMPENSATORS[:8]  # the others are memories, or weigh by p
SAMPLERS = [
    Everyone(),
    Uniform(3),
    ByData(4),
    OldestFirst(2),
    PowerOfChoice(2, losses="last"),
    FedGS(3, graph="updates"),
    FedGS(2, alpha=0),
    Blind(Uniform(4)),
    Blind(FedGS(3, graph="updates")),
    F3AST(2),
    LeastAvailableFirst(2),
    Oort(2),
]

compensators = st.sampled_from(COMPENSATORS)
samplers = st.sampled_from(SAMPLERS)
seeds = st.integers(0, 2**16)


def attendances(n: int = N, *, least: int = 1, most: int = 6):
    """Rounds × clients: who comes."""
    return st.lists(
        st.lists(st.booleans(), min_size=n, max_size=n), min_size=least, max_size=most
    ).map(lambda rows: np.array(rows, dtype=bool).reshape(-1, n))


def update(seed: int, t: int, client: int, d: int = D) -> torch.Tensor:
    return torch.from_numpy(generator(seed, "update", t, client).normal(size=d))


def sizes(seed: int, n: int = N) -> np.ndarray:
    """Examples of each client; those of a client do not depend on how many there are."""
    return np.array([generator(seed, "sizes", 0, i).integers(1, 30) for i in range(n)], dtype=float)


def people(seed: int, n: int = N, *, p: float = 1.0) -> Population:
    return Population(n, n_examples=sizes(seed, n), p=np.full(n, p))


def start(strategy: Strategy, seed: int, population: Population | None = None, **options):
    """A state before round 0, from a model that is not zero."""
    params = torch.from_numpy(generator(seed, "model").normal(size=D))
    return strategy.init(population or people(seed), params, seed=seed, **options)


def arrivals_of(requests, seed: int) -> Arrivals:
    """The updates of (client, start round), as a matrix."""
    rows = [update(seed, t, client) for client, t in requests]
    return Arrivals(
        ids=[client for client, _ in requests],
        deltas=torch.stack(rows) if rows else torch.zeros(0, D, dtype=torch.float64),
        n_steps=[2 + client % 3 for client, _ in requests],
        losses=[float(generator(seed, "loss", t, client).random()) for client, t in requests],
        start_round=[t for _, t in requests],
    )


def play(strategy: Strategy, state, came, seed: int, *, late: bool = False):
    """A round: those of `came` (N,) who are asked do come; with `late`, one old update arrives."""
    cohort = strategy.select(state, np.ones(state.n_clients, dtype=bool))
    requests = [(int(i), state.t) for i in cohort.asked if i < len(came) and came[i]]
    if late and len(cohort.pending):
        client, t = cohort.pending[state.t % len(cohort.pending)]
        requests.append((int(client), int(t)))
    return strategy.apply(state, cohort, arrivals_of(requests, seed))


def who_came(applied) -> np.ndarray:
    return np.flatnonzero(applied.outcome == Outcome.CAME)


# -- when all come there is nothing to compensate ------------------------------------------------


BY_HISTORY = (FedAU, FedStale, MimiC, FedAWE)  # those who come weigh by when they came before


@given(
    compensator=st.sampled_from([c for c in COMPENSATORS if not isinstance(c, BY_HISTORY)]),
    history=attendances(least=0, most=5),
    seed=seeds,
    weighting=st.sampled_from(["clients", "examples"]),
    retired=st.none() | st.integers(0, N - 1),
)
@settings(max_examples=80)
def test_all_came_is_fedavg(compensator, history, seed, weighting, retired) -> None:
    """Whatever was remembered: Σ n_i Δ_i / Σ n_i over all (FedAvgIS: known p = 1)."""
    strategy = Strategy(compensator=compensator, weighting=weighting)
    state = start(strategy, seed)
    for came in history:
        play(strategy, state, came, seed, late=True)
    if retired is not None:
        strategy.retire(state, retired)
    before, t = state.params.clone(), state.t
    applied = play(strategy, state, np.ones(N, dtype=bool), seed)
    ids = [i for i in range(N) if i != retired]
    weight = sizes(seed)[ids] if weighting == "examples" else np.ones(len(ids))
    updates = np.stack([update(seed, t, i).numpy() for i in ids])
    assert applied.stepped
    np.testing.assert_allclose(
        (state.params - before).numpy(), np.average(updates, axis=0, weights=weight), atol=1e-12
    )


@given(
    compensator=st.sampled_from(SUBSTITUTIONS),
    sampler=samplers,
    history=attendances(least=0, most=5),
    seed=seeds,
)
@settings(max_examples=50)
def test_all_wanted_came_is_the_mean_of_the_wanted(compensator, sampler, history, seed) -> None:
    """A substitution speaks for the absent among the wanted: with none absent it says nothing."""
    ours, plain = Strategy(sampler, compensator), Strategy(sampler, Ignore())
    states = [start(ours, seed), start(plain, seed)]
    for came in history:
        for strategy, state in zip((ours, plain), states, strict=True):
            play(strategy, state, came, seed)
    before = [state.params.clone() for state in states]
    for strategy, state in zip((ours, plain), states, strict=True):
        assert play(strategy, state, np.ones(N, dtype=bool), seed).stepped
    steps = [(state.params - old).numpy() for state, old in zip(states, before, strict=True)]
    np.testing.assert_allclose(steps[0], steps[1], atol=1e-12)


# -- clients are numbers, and any numbering will do ----------------------------------------------


@given(
    compensator=compensators,
    aggregator=st.sampled_from([Linear(), Median(), TrimmedMean(0.2)]),
    guard=st.sampled_from([None, NormGuard(1.1)]),
    local=st.sampled_from([Local(), Local(rule=Scaffold()), Local(schedule=Exponential(0.9))]),
    weighting=st.sampled_from(["clients", "examples"]),
    history=attendances(least=2),
    order=st.permutations(range(N)),
    seed=seeds,
)
@settings(max_examples=60)
def test_relabelling_clients_permutes_the_result(
    compensator, aggregator, guard, local, weighting, history, order, seed
) -> None:
    """Client i of the one run is client new[i] of the other: the same model, the same rows."""
    if compensator.signed:
        aggregator = Linear()
    strategy = Strategy(
        compensator=compensator,
        aggregator=aggregator,
        guard=guard,
        local=local,
        weighting=weighting,
    )
    new = np.array(order)
    population = replace(people(seed), p=np.linspace(0.5, 1, N))
    relabelled = replace(
        population,
        n_examples=population.n_examples[np.argsort(new)],
        p=population.p[np.argsort(new)],
    )
    one, other = start(strategy, seed, population), start(strategy, seed, relabelled)
    for t, came in enumerate(history):
        ids = np.flatnonzero(came)
        said = []
        for state, names in ((one, ids), (other, new[ids])):
            deltas = [update(seed, t, int(i)) for i in ids]
            steps = [2 + int(i) % 3 for i in ids]
            cohort = strategy.select(state, np.ones(N, dtype=bool))
            arrivals = Arrivals(ids=names, deltas=deltas, n_steps=steps)
            said.append(strategy.apply(state, cohort, arrivals).contributions)
        np.testing.assert_allclose(other.params.numpy(), one.params.numpy(), atol=1e-10)
        assert _spoken(said[1]) == pytest.approx(_spoken(said[0], new), abs=1e-12)


def _spoken(contributions, new=None) -> dict[tuple[int, int], float]:
    """(client, who spoke for it) → coefficient."""
    names = dict(enumerate(range(N) if new is None else new.tolist())) | {-1: -1}
    spoken: dict[tuple[int, int], float] = {}
    for client, source, coef in zip(
        contributions.ids, contributions.source, contributions.coef, strict=True
    ):
        key = names[int(client)], names[int(source)]
        spoken[key] = spoken.get(key, 0.0) + coef
    return spoken


# -- coefficients --------------------------------------------------------------------------------


@given(
    compensator=st.sampled_from([c for c in COMPENSATORS if c.normalised]),
    sampler=samplers,
    history=attendances(least=4, most=8),
    seed=seeds,
    weighting=st.sampled_from(["clients", "examples"]),
)
@settings(max_examples=60)
def test_normalised_coefficients_sum_to_one_once_everyone_was_seen(
    compensator, sampler, history, seed, weighting
) -> None:
    if isinstance(sampler, ByData):
        weighting = "clients"
    strategy = Strategy(sampler, compensator, weighting=weighting, local=Local(lr=0.3))
    state = start(strategy, seed)
    everyone = replace(strategy, sampler=Everyone())
    # the first round is not the sampler's: everyone is wanted, and comes
    state.sampler, own = None, state.sampler
    state.made_by = everyone
    play(everyone, state, np.ones(N, dtype=bool), seed)
    state.made_by, state.sampler = strategy, own
    for came in history:
        coef = play(strategy, state, came, seed, late=True).contributions.coef
        if len(coef):
            assert coef.sum() == pytest.approx(1, abs=1e-12)


@given(
    compensator=st.sampled_from([c for c in COMPENSATORS if not c.signed]),
    sampler=samplers,
    history=attendances(),
    seed=seeds,
)
@settings(max_examples=50)
def test_unsigned_coefficients_are_not_negative(compensator, sampler, history, seed) -> None:
    strategy = Strategy(sampler, compensator)
    state = start(strategy, seed)
    for came in history:
        assert (play(strategy, state, came, seed, late=True).contributions.coef >= 0).all()


@given(compensator=compensators, sampler=samplers, history=attendances(), seed=seeds)
@settings(max_examples=60)
def test_who_came_speaks_for_itself(compensator, sampler, history, seed) -> None:
    strategy = Strategy(sampler, compensator)
    state = start(strategy, seed)
    for came in history:
        applied = play(strategy, state, came, seed, late=True)
        filled = applied.contributions
        own = np.isin(filled.ids, who_came(applied))
        assert ((filled.source == filled.ids) | (filled.source == -1))[own].all()


# -- what is saved is all there is ---------------------------------------------------------------

STRATEGIES = st.builds(
    Strategy,
    sampler=samplers,
    compensator=compensators,
    server=st.sampled_from([Momentum(), Adam(), Yogi()]),
    local=st.sampled_from([Local(), Local(rule=Scaffold()), Local(schedule=Exponential(0.5))]),
    guard=st.sampled_from([None, NormGuard(1.2)]),
)


def _events(strategy, state, t, came, seed, grows, retires) -> None:
    """Round `t` of a run in which clients join before one round and one leaves before another."""
    if t == grows:
        strategy.grow(state, people(seed, N + 2))
    if t == retires:
        strategy.retire(state, 2)
    play(strategy, state, came, seed, late=True)


@given(
    strategy=STRATEGIES,
    history=attendances(N + 2, least=6),
    seed=seeds,
    stop=st.integers(0, 5),
    grows=st.integers(0, 6),
    retires=st.integers(0, 6),
)
@settings(max_examples=40)
def test_a_saved_state_goes_on_to_the_same_bits(
    strategy, history, seed, stop, grows, retires
) -> None:
    state = again = start(strategy, seed)
    for t, came in enumerate(history):
        if t == stop:
            with tempfile.TemporaryDirectory() as folder:
                save_state(state, Path(folder) / "state")
                again = load_state(Path(folder) / "state", strategy)
            assert snapshot(again) == snapshot(state)
        _events(strategy, state, t, came, seed, grows, retires)
        if again is not state:
            _events(strategy, again, t, came, seed, grows, retires)
            assert torch.equal(again.params, state.params)
    assert again is not state
    assert snapshot(again) == snapshot(state)


@given(
    strategy=STRATEGIES,
    history=attendances(N + 2, least=6),
    seed=seeds,
    stop=st.integers(0, 5),
    lost=st.integers(0, 3),
    grows=st.integers(0, 6),
    retires=st.integers(0, 6),
)
@settings(max_examples=25)
def test_a_resumed_run_goes_on_to_the_same_bits(
    strategy, history, seed, stop, lost, grows, retires
) -> None:
    """Committed before round `stop`; the `lost` rounds after it are gone, and are played again.
    A run in memory, one in a folder, and the resumed one end in the same bits.

    Growing and retiring commit by themselves: what comes after is played after the resume only.
    """
    in_memory = start(strategy, seed)
    for t, came in enumerate(history):
        _events(strategy, in_memory, t, came, seed, grows, retires)
    with tempfile.TemporaryDirectory() as folder:
        state = start(strategy, seed, folder=folder)
        state.commit_every = None  # no commit by the clock
        for t, came in enumerate(history[:stop]):
            _events(strategy, state, t, came, seed, grows, retires)
        strategy.commit(state)
        committed = snapshot(state)
        for t in range(stop, min(stop + lost, len(history))):
            if t in (grows, retires):
                break
            _events(strategy, state, t, history[t], seed, grows, retires)
        state.close()
        state = Strategy.resume(folder, strategy)
        state.commit_every = None
        assert state.t == stop
        assert snapshot(state) == committed
        for t in range(stop, len(history)):
            _events(strategy, state, t, history[t], seed, grows, retires)
        assert snapshot(state) == snapshot(in_memory)
        strategy.commit(state)
        state.close()
        state = Strategy.resume(folder, strategy)
        assert snapshot(state) == snapshot(in_memory)
        state.close()


# -- growing -------------------------------------------------------------------------------------


@given(
    strategy=STRATEGIES,
    history=attendances(most=5),
    seed=seeds,
    more=st.integers(1, 4),
    in_folder=st.booleans(),
)
@settings(max_examples=40)
def test_growing_keeps_all_that_is_known_of_the_old_clients(
    strategy, history, seed, more, in_folder
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = start(strategy, seed, folder=folder if in_folder else None)
        for came in history:
            play(strategy, state, came, seed, late=True)
        before = dict(_all_of(state))
        strategy.grow(state, people(seed, N + more))
        after = dict(_all_of(state))
        state.close()
    assert after.keys() == before.keys()
    for place, old in before.items():
        new = after[place]
        if isinstance(old, np.ndarray):
            assert new.dtype == old.dtype, place
            corner = new[tuple(slice(0, size) for size in old.shape)]
            np.testing.assert_array_equal(corner, old, err_msg=place)
        else:
            assert new == old, place
    assert after["active"].shape == (N + more,)


def _all_of(state):
    for place, value in leaves(state):
        if isinstance(value, RowStore):
            yield f"{place}.known", value.known.copy()
            yield f"{place}.rows", value.gather(np.arange(value.n_rows)).numpy()
        elif isinstance(value, torch.Tensor | np.ndarray):
            yield place, (value.numpy() if isinstance(value, torch.Tensor) else value).copy()
        else:
            yield place, value


@given(
    compensator=st.sampled_from([FDMS(), FDMS("distance"), FDMS(race=QUICK), Stale(), Ignore()]),
    history=attendances(least=3, most=8),
    seed=seeds,
    grows=st.integers(0, 7),
    more=st.integers(1, 5),
)
@settings(max_examples=50)
def test_newcomers_who_never_show_up_leave_the_friends_alone(
    compensator, history, seed, grows, more
) -> None:
    strategy = Strategy(compensator=compensator)
    alone, together = start(strategy, seed), start(strategy, seed)
    for t, came in enumerate(history):
        if t == grows:
            strategy.grow(together, people(seed, N + more))
        first = play(strategy, alone, came, seed).contributions
        second = play(strategy, together, came, seed).contributions
        old = second.ids < N
        pairs = zip(second.ids[old].tolist(), second.source[old].tolist(), strict=True)
        assert dict(pairs) == dict(zip(first.ids.tolist(), first.source.tolist(), strict=True))


# -- how updates are handed over does not matter -------------------------------------------------


@given(
    strategy=STRATEGIES,
    history=attendances(),
    seed=seeds,
    data=st.data(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    d=st.integers(1, 70),
)
@settings(max_examples=40)
def test_the_order_and_the_form_of_arrivals_do_not_matter(
    strategy, history, seed, data, dtype, d
) -> None:
    """A matrix; a list; a list in another order; a matrix stored by columns: the same bits."""

    def fresh():
        params = torch.from_numpy(generator(seed, "model").normal(size=d)).to(dtype)
        return strategy.init(people(seed), params, seed=seed)

    states = [fresh() for _ in range(4)]
    for t, came in enumerate(history):
        cohort = strategy.select(states[0], np.ones(N, dtype=bool))
        requests = [(int(i), t) for i in cohort.asked if came[i]]
        if len(cohort.pending):
            requests += [(int(i), int(s)) for i, s in cohort.pending[:: t + 1]]
        rows = [update(seed, s, i, d).to(dtype) for i, s in requests]
        matrix = torch.stack(rows) if rows else torch.zeros(0, d, dtype=dtype)
        by_columns = torch.zeros(d, len(rows), dtype=dtype).T.copy_(matrix)
        shuffled = data.draw(st.permutations(range(len(requests))))
        forms = [
            (matrix, range(len(requests))),
            ([row.clone() for row in rows], range(len(requests))),
            ([rows[i] for i in shuffled], shuffled),
            (by_columns[list(shuffled)], shuffled),
        ]
        for state, (deltas, order) in zip(states, forms, strict=True):
            cohort = strategy.select(state, np.ones(N, dtype=bool))
            arrivals = Arrivals(
                ids=[requests[i][0] for i in order],
                deltas=deltas,
                n_examples=[3 + requests[i][0] + requests[i][1] for i in order],
                n_steps=[2 + requests[i][0] for i in order],
                losses=[requests[i][0] / 7 for i in order],
                start_round=[requests[i][1] for i in order],
            )
            applied = strategy.apply(state, cohort, arrivals)
            assert applied.refusals == ()
        assert all(torch.equal(state.params, states[0].params) for state in states)
    assert len({snapshot(state) for state in states}) == 1


# -- nobody speaks too loudly --------------------------------------------------------------------


@given(
    n=st.integers(2, 12),
    share=st.floats(0.01, 1),
    present=st.lists(st.booleans(), min_size=12, max_size=12),
    seed=seeds,
    weighting=st.sampled_from(["clients", "examples"]),
)
@settings(max_examples=80)
def test_capped(n, share, present, seed, weighting) -> None:
    """No row above the cap, the total kept, everyone's own weight and everyone's share kept."""
    present = np.array(present[:n])
    present[0] = True
    said = []
    for compensator in (FDMS(), Capped(FDMS(), share)):
        strategy = Strategy(compensator=compensator, weighting=weighting)
        state = start(strategy, seed, people(seed, n))
        play(strategy, state, np.ones(n, dtype=bool), seed)
        said.append(play(strategy, state, present, seed).contributions)
    plain, capped = said
    cap = max(share, 1 / present.sum()) * plain.coef.sum()
    assert _carried_for_others(capped).max() <= cap * (1 + 1e-9)
    assert capped.coef.sum() == pytest.approx(plain.coef.sum(), rel=1e-12)
    assert (capped.coef >= 0).all()
    for client in range(n):
        own = [c.coef[(c.ids == client) & (c.source == client)].sum() for c in said]
        whole = [c.coef[c.ids == client].sum() for c in said]
        assert own[1] == own[0]
        assert whole[1] == pytest.approx(whole[0], rel=1e-12)
    if _carried_for_others(plain).max() <= cap * (1 + 1e-9):
        assert np.array_equal(capped.coef, plain.coef)
        assert np.array_equal(capped.row, plain.row)
    else:
        assert capped.notes["capped_rows"] >= 1
        # who gets a part of what was cut gets it in proportion to q, unless its own cap is reached
        gained = _carried_for_others(capped) - _carried_for_others(plain)
        loads = _carried_for_others(capped)
        q = sizes(seed, n) if weighting == "examples" else np.ones(n)
        came = np.flatnonzero(present)
        rates = gained[came] / q[came]
        for i in range(len(came)):
            if loads[came[i]] < cap * (1 - 1e-9):  # not full: nobody got more for its weight
                assert rates[i] >= rates.max() - 1e-9


def _carried_for_others(contributions, n: int = 12) -> np.ndarray:
    load = np.zeros(n)
    others = (contributions.source >= 0) & (contributions.source != contributions.ids)
    np.add.at(load, contributions.source[others], contributions.coef[others])
    return load


NORMS = st.floats(0, 1e6).map(lambda x: x if x > 1e-3 else 0.0)


@given(
    factor=st.floats(1, 5),
    rounds=st.lists(
        st.tuples(
            st.lists(NORMS, min_size=0, max_size=N),  # of those who come
            st.lists(NORMS, min_size=0, max_size=2),  # of late ones
        ),
        min_size=1,
        max_size=9,
    ),
    seed=seeds,
)
@settings(max_examples=100)
@example(2.5, [([1.0, 1.0, 100.0], [50.0])], 0)
@example(1.0, [([], [5.0]), ([1.0], []), ([0.0, 9.0], [3.0])], 0)
def test_norm_guard_lets_no_norm_above_its_bound(factor, rounds, seed) -> None:
    """The bound is factor × the median of the norms let through in the last five rounds in which
    someone came; a first round's own. Late ones get it too and never count."""
    guard = NormGuard(factor)
    d, n_parameters = D, D - 1  # the last entry is a buffer: it is scaled, and not measured
    setup = Setup(
        Population(N), torch.zeros(d), n_parameters, 0, generator(0, "test"), lambda: None
    )
    state = guard.init(setup)
    window: list[list[float]] = []

    def arrivals(norms, t, first) -> Arrivals:
        deltas = []
        for i, norm in enumerate(norms):
            direction = update(seed, t, first + i, d)
            scale = norm / direction[:n_parameters].norm()
            deltas.append(direction * scale)
        return Arrivals(ids=np.arange(len(norms)), deltas=deltas)

    for t, (norms, late_norms) in enumerate(rounds):
        fresh, late = arrivals(norms, t, 0), arrivals(late_norms, t, 100)
        given_before = [delta.clone() for _, delta in fresh] + [delta.clone() for _, delta in late]
        measured = [float(delta[:n_parameters].norm()) for _, delta in fresh]
        usual = [norm for once in window for norm in once] if window else measured
        median = float(np.median(usual)) if usual else 0.0
        bound = factor * median if median > 0 else np.inf
        passed, late_passed, notes = guard.guard(state, fresh, late)
        if len(norms):
            window = [*window, [min(norm, bound) for norm in measured]][-5:]
        scaled = 0
        pairs = [*zip(fresh, passed, strict=True), *zip(late, late_passed, strict=True)]
        for (_, before), (_, after) in pairs:
            norm = float(before[:n_parameters].norm())
            if norm > bound * (1 + 1e-9):
                scaled += 1
                np.testing.assert_allclose(
                    after.numpy(), (before * (bound / norm)).numpy(), rtol=1e-9
                )
            elif norm <= bound * (1 - 1e-9):
                assert torch.equal(after, before)
            assert float(after[:n_parameters].norm()) <= bound * (1 + 1e-9)
        if norms or late_norms:
            assert notes["guard_scaled"] >= scaled
            assert notes["guard_bound"] == pytest.approx(bound)
        given_after = [delta for _, delta in fresh] + [delta for _, delta in late]
        assert all(torch.equal(a, b) for a, b in zip(given_after, given_before, strict=True))


# -- Theorem 2 -----------------------------------------------------------------------------------

PAPER = HoeffdingRace(n_clients=20, horizon=500, max_friends=3, beta=0.5, p=0.01, delta_f=0.01)


def test_theorem_2_threshold_by_hand() -> None:
    """K=20, T=500, B=3, β=.5, p=.01, δ_f=.01.

    2 ln(2·400·500·3) − 2 ln .01 = 2 ln 1,200,000 + 2 ln 100 = 2 ln 120,000,000 = 37.2060.
    Θ_t = √(37.2060 / (.5 t)) + .01 = √(74.4120 / t) + .01. Scores lie in [0, 1], so a gap is at
    most 1: √(74.4120 / t) ≤ .99 from t = 74.4120 / .9801 = 75.92 on, so nobody leaves before
    t = 76. A gap of .5: √(74.4120 / t) ≤ .49 from t = 74.4120 / .2401 = 309.92 on, so t = 310.
    """
    assert PAPER == HoeffdingRace(n_clients=20)
    bound = PAPER.bound(np.arange(1, 501), 20)
    assert bound[0] == pytest.approx(np.sqrt(74.4120) + 0.01, rel=1e-5)
    assert bound[0] == pytest.approx(8.6362, rel=1e-4)
    assert np.argmax(bound <= 1) + 1 == 76
    assert np.argmax(bound <= 0.5) + 1 == 310
    assert bound[99] == pytest.approx(0.862624 + 0.01, rel=1e-5)


def test_theorem_2_case_2_and_the_authors_form() -> None:
    """Case 2 is half of Θ_t, δ_f too. The authors' code has 2βt under the root, and its factor
    acts on the root only: at t = 100, √(37.2060 / 100) = .609967."""
    t = np.arange(1, 501)
    half = replace(PAPER, scale=0.5)
    np.testing.assert_allclose(half.bound(t, 20), PAPER.bound(t, 20) / 2, rtol=1e-12)
    code = replace(PAPER, threshold="code")
    assert code.bound(100, 20) == pytest.approx(0.609967 + 0.01, rel=1e-5)
    assert replace(code, scale=0.5).bound(100, 20) == pytest.approx(0.304984 + 0.01, rel=1e-5)


@given(
    clients=st.integers(2, 1000),
    horizon=st.integers(1, 5000),
    batches=st.integers(1, 100),
    beta=st.floats(0.01, 1),
    p=st.floats(1e-6, 0.5),
    delta_f=st.floats(0, 0.1),
    t=st.integers(1, 5000),
    threshold=st.sampled_from(["theorem", "code"]),
)
def test_the_threshold_decays_as_one_over_the_root(
    clients, horizon, batches, beta, p, delta_f, t, threshold
) -> None:
    """Θ_{4t} − δ_f is half of Θ_t − δ_f; more clients, rounds or certainty raise it."""
    race = HoeffdingRace(threshold, 1.0, None, horizon, batches, beta, p, delta_f)
    here, later = float(race.bound(t, clients)), float(race.bound(4 * t, clients))
    assert later - delta_f == pytest.approx((here - delta_f) / 2, rel=1e-9)
    assert here > later > delta_f
    assert race.bound(t, clients + 1) > here
    assert replace(race, horizon=horizon + 1).bound(t, clients) > here
    assert replace(race, p=p / 2).bound(t, clients) > here
    assert replace(race, n_clients=clients).bound(t, 5) == here


def test_nobody_leaves_before_round_76_and_a_lagging_one_leaves_in_it() -> None:
    """Clients 0 and 1 send the same update, client 2 the opposite: R_01 = 1, R_02 = R_12 = 0. The
    gap of client 2 is 1. Round numbers of the theorem start at 1: t = 76 is the 76th round."""
    strategy = Strategy(compensator=FDMS(race=PAPER))
    state = strategy.init(Population(3), torch.zeros(2, dtype=torch.float64), seed=0)
    deltas = torch.tensor([[1.0, 2.0], [1.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    for t in range(1, 78):
        cohort = strategy.select(state, np.ones(3, dtype=bool))
        notes = strategy.apply(state, cohort, Arrivals([0, 1, 2], deltas)).notes
        removed = state.compensator.removed.gather(np.arange(3)).numpy()
        expected = np.zeros((3, 3))
        if t >= 76:
            expected[0, 2] = expected[1, 2] = 1
        np.testing.assert_array_equal(removed, expected, err_msg=f"round {t}")
        # client 2 still needs both: its own two gaps are 0
        assert notes["pairs_needed"] == 3


@given(
    history=attendances(least=5, most=14),
    seed=seeds,
    race=st.sampled_from([QUICK, replace(QUICK, threshold="theorem", scale=0.02)]),
    grows=st.integers(0, 14),
)
@settings(max_examples=30)
@example(np.ones((14, N), dtype=bool), 1, QUICK, 5)
def test_elimination_is_permanent(history, seed, race, grows) -> None:
    """Who has left the candidates never comes back; a pair that nobody needs is not counted on;
    a pair not seen together is never removed; and someone is always left."""
    strategy = Strategy(compensator=FDMS(race=race))
    state = start(strategy, seed)
    before, count_before = np.zeros((N, N), dtype=bool), np.zeros((N, N))
    for t, came in enumerate(history):
        if t == grows:
            strategy.grow(state, people(seed, N + 2))
            came = np.append(came, [True, False])
            before, count_before = np.pad(before, (0, 2)), np.pad(count_before, (0, 2))
        elif t > grows:
            came = np.append(came, [True, True])
        applied = play(strategy, state, came, seed, late=True)
        everyone = np.arange(state.n_clients)
        removed = state.compensator.removed.gather(everyone).numpy() != 0
        count = state.compensator.count.gather(everyone).numpy()
        assert (removed >= before).all()
        assert not removed[count == 0].any()
        together = np.outer(came, came) & ~np.eye(len(came), dtype=bool)
        needed = together & ~(before & before.T)
        np.testing.assert_array_equal(count - count_before, needed)
        if came.any():
            assert applied.notes["pairs_needed"] == needed.sum() / 2
            k = int(needed.any(axis=1).sum())
            computed = applied.notes["pairs_computed"]
            assert needed.sum() / 2 <= computed <= k * (k - 1) / 2
        seen = count > 0
        assert (seen & ~removed)[seen.any(axis=1)].any(axis=1).all()
        before, count_before = removed, count


def test_the_race_does_eliminate() -> None:
    """So that the property above is about something: in 14 full rounds most pairs are dropped."""
    strategy = Strategy(compensator=FDMS(race=QUICK))
    state = start(strategy, 1)
    notes = [play(strategy, state, np.ones(N), 1).notes for _ in range(14)]
    needed = [said["pairs_needed"] for said in notes]
    assert needed[0] == N * (N - 1) / 2
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] <= N


def test_a_client_that_has_left_eliminates_nobody() -> None:
    """The candidates of 0 are compared with those that can still stand in for it.

    Round 1: 0 and 1 come, with D0 = D1 = (1, 0): R_01 = 1. Then 1 retires. Round 2: D0 = (1, 0),
    D2 = (.6, .8), D3 = (−1, 0): R_02 = .8, R_03 = 0. With Θ = .15 client 3 leaves, being .8 behind
    2; client 2 is .2 behind the retired one only, and stays.
    """
    race = HoeffdingRace(scale=1e-9, delta_f=0.15e9)  # Θ = .15 in every round
    strategy = Strategy(compensator=FDMS(race=race))
    state = strategy.init(Population(4), torch.zeros(2, dtype=torch.float64), seed=0)
    cohort = strategy.select(state, np.ones(4, dtype=bool))
    deltas = torch.tensor([[1, 0], [1, 0], [0.6, 0.8], [-1, 0]], dtype=torch.float64)
    strategy.apply(state, cohort, Arrivals([0, 1], deltas[[0, 1]]))
    strategy.retire(state, 1)
    cohort = strategy.select(state, np.ones(4, dtype=bool))
    strategy.apply(state, cohort, Arrivals([0, 2, 3], deltas[[0, 2, 3]]))
    removed = state.compensator.removed.gather(np.array([0])).numpy()[0]
    assert removed[3] == 1
    assert removed[2] == 0


@given(
    history=st.lists(st.none() | st.integers(0, N - 1), min_size=0, max_size=6),
    last=st.lists(st.booleans(), min_size=N, max_size=N),
    compensator=st.sampled_from([FDMS(), FDMS("distance"), FDMS(race=QUICK), Capped(FDMS())]),
    weighting=st.sampled_from(["clients", "examples"]),
    seed=seeds,
)
@settings(max_examples=60)
def test_fdms_that_has_learnt_nothing_is_ignore(
    history, last, compensator, weighting, seed
) -> None:
    """No two ever came together: nobody has a friend, and the mean of those who came speaks."""
    ours = Strategy(compensator=compensator, weighting=weighting)
    plain = Strategy(weighting=weighting)
    states = [start(ours, seed), start(plain, seed)]
    rounds = [np.arange(N) == (-1 if i is None else i) for i in history] + [np.array(last)]
    for came in rounds:
        for strategy, state in zip((ours, plain), states, strict=True):
            play(strategy, state, came, seed)
        np.testing.assert_allclose(states[0].params.numpy(), states[1].params.numpy(), atol=1e-12)


# -- how many m is -------------------------------------------------------------------------------

WITH_M = [Uniform, OldestFirst, FedGS, lambda m=None: PowerOfChoice(m, losses="last")]


@given(
    make=st.sampled_from(WITH_M),
    n=st.integers(1, 25),
    m=st.none() | st.integers(1, 30) | st.floats(0.01, 1),
    retired=st.sets(st.integers(0, 24), max_size=10),
    seed=seeds,
    data=st.data(),
)
@example(Uniform, 10, 1, set(), 0, None)
@example(Uniform, 10, 1.0, set(), 0, None)
@example(Uniform, 30, 0.1, set(), 0, None)
@example(FedGS, 10, np.int64(3), set(), 0, None)
def test_m_clients_are_picked(make, n, m, retired, seed, data) -> None:
    """1 is one, 1.0 is all, None is 20 %, a float a fraction of the active; never more than can be
    reached, never fewer than one of them."""
    strategy = Strategy(sampler=make(m))
    state = strategy.init(Population(n), torch.zeros(2), seed=seed)
    retired = {client for client in retired if client < n}
    for client in retired:
        strategy.retire(state, client)
    active = n - len(retired)
    if isinstance(m, int | np.integer):
        expected = int(m)
    else:
        expected = max(1, int(np.floor((0.2 if m is None else m) * active + 1e-9)))
    here = np.ones(n, dtype=bool)
    if data is not None:
        here = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    here[list(retired)] = False
    cohort = strategy.select(state, here)
    assert len(cohort.wanted) == min(expected, here.sum())
    assert here[cohort.wanted].all()
    blind = Strategy(sampler=Blind(make(m)))
    state.made_by = blind
    assert len(blind.select(state, here).wanted) == min(expected, active)


def test_m_by_hand() -> None:
    for make in WITH_M:
        assert make(1).count(10) == 1
        assert make(1.0).count(10) == 10
        assert make().count(10) == 2
        assert make().count(3) == 1
        assert make(0.3).count(10) == 3
        assert make(0.1).count(30) == 3
        assert make(0.29).count(100) == 29  # though 0.29 * 100 < 29 in floats
        assert make(50).count(10) == 50
    assert ByData(np.int64(3)).count(10) == 3

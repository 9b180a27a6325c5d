"""Bad input: the one arrival is refused with a reason, its client is absent, the round goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import (
    FDMS,
    MIFA,
    Adam,
    Applied,
    Arrivals,
    Capped,
    Cohort,
    FedGS,
    FedVARP,
    Local,
    Momentum,
    NormGuard,
    Outcome,
    Population,
    Reason,
    Scaffold,
    ServerState,
    Stale,
    Strategy,
    Uniform,
    mdsample,
    scaffold,
)
from understudy.memory.rows import RowStore
from understudy.server import admission
from understudy.server.admission import admit, largest_entry, outcomes
from understudy.server.state import MOST_PENDING, leaves, still_pending
from understudy.testing import updates_for

N, D = 6, 8
EVERYONE = np.ones(N, dtype=bool)


@dataclass
class Letters:
    """A round's arrivals, written one by one; what was not said of an update is left out."""

    ids: list[Any]
    deltas: list[Any]
    n_examples: list[Any]
    n_steps: list[Any]
    start_round: list[Any]

    @classmethod
    def of(cls, requests: Iterable[tuple[int, int]], params: torch.Tensor) -> Letters:
        made = updates_for(list(requests), params)
        return cls(
            list(made.ids),
            list(made.deltas),
            list(made.n_examples),  # type: ignore[arg-type]
            list(made.n_steps),  # type: ignore[arg-type]
            list(made.start_round),  # type: ignore[arg-type]
        )

    def set(self, position: int, **fields: Any) -> Letters:
        for name, value in fields.items():
            getattr(self, {"delta": "deltas", "id": "ids"}.get(name, name))[position] = value
        return self

    def add(self, other: Letters) -> Letters:
        for name, values in vars(other).items():
            getattr(self, name).extend(values)
        return self

    def arrivals(self) -> Arrivals:
        return Arrivals(**vars(self))


def begun(strategy: Strategy, dtype: torch.dtype = torch.float32, rounds: int = 3) -> ServerState:
    """Some rounds in, so that there are memories, friends, moments and pending requests.

    Client 5 was asked in each of them and never answered; client 4 came in round 0 only.
    """
    state = strategy.init(Population(N), torch.linspace(-1, 1, D, dtype=dtype), seed=2)
    for t in range(rounds):
        cohort = strategy.select(state, EVERYONE)
        came = [(int(i), t) for i in cohort.asked if i < 4 or (i == 4 and t == 0)]
        strategy.apply(state, cohort, updates_for(came, state.params))
    return state


def contents(state: ServerState, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """All of a state as plain bytes and numbers, by field."""
    found: dict[str, Any] = {}
    for path, value in leaves(state):
        if path in but:
            continue
        if isinstance(value, RowStore):
            found[path] = {int(i): value.get(int(i)).tolist() for i in np.flatnonzero(value.known)}
        elif isinstance(value, torch.Tensor | np.ndarray):
            found[path] = (tuple(value.shape), np.asarray(value).tobytes())
        else:
            found[path] = value
    return found


def assert_refused(
    strategy: Strategy,
    bad: Letters,
    reasons: list[tuple[Any, Reason]],
    without: Letters,
    *,
    outcome: dict[int, Outcome] | None = None,
    dtype: torch.dtype = torch.float32,
    available: np.ndarray = EVERYONE,
) -> Applied:
    """`bad` is refused for these reasons, and the round equals, to the bit, the one in which only
    `without` arrived. A request that was answered badly is settled: of the pending ones only."""
    state, twin = begun(strategy, dtype), begun(strategy, dtype)
    cohort = strategy.select(state, available)
    applied = strategy.apply(state, cohort, bad.arrivals())
    expected = strategy.apply(twin, strategy.select(twin, available), without.arrivals())
    assert [(refusal.id, refusal.reason) for refusal in applied.refusals] == reasons
    for refusal in applied.refusals:
        assert refusal.detail
        assert str(refusal.reason) in str(refusal)
    assert expected.refusals == ()
    assert contents(state, but=("pending",)) == contents(twin, but=("pending",))
    assert applied.contributions.ids.tolist() == expected.contributions.ids.tolist()
    assert applied.contributions.source.tolist() == expected.contributions.source.tolist()
    assert applied.contributions.coef.tolist() == expected.contributions.coef.tolist()
    assert applied.stepped == expected.stepped
    outcome = outcome or {}
    for client in range(N):
        assert applied.outcome[client] == outcome.get(client, expected.outcome[client]), client
    assert state.t == twin.t
    return applied


PLAIN = Strategy(compensator=FDMS(), server=Momentum())
CAME = [(0, 3), (1, 3), (2, 3), (4, 3)]


def letters(requests: Iterable[tuple[int, int]] = CAME, dtype: torch.dtype = torch.float32) -> Any:
    return Letters.of(requests, torch.zeros(D, dtype=dtype))


def without_client_1(dtype: torch.dtype = torch.float32) -> Letters:
    return letters([request for request in CAME if request[0] != 1], dtype)


ones = torch.ones(D)
nan_last, inf_first = ones.clone(), ones.clone()
nan_last[-1], inf_first[0] = float("nan"), float("-inf")
both = ones.clone()
both[0], both[1] = float("inf"), float("-inf")

huge = ones.clone()
huge[2] = 3.4e38

BAD_DELTAS: dict[str, tuple[Any, Reason]] = {
    "NaN": (nan_last, Reason.NOT_FINITE),
    "infinity": (inf_first, Reason.NOT_FINITE),
    "both infinities": (both, Reason.NOT_FINITE),
    "all NaN": (ones * float("nan"), Reason.NOT_FINITE),
    "NaN in numpy": (nan_last.numpy(), Reason.NOT_FINITE),
    "the largest float32": (huge, Reason.TOO_LARGE),
    "the largest float32 in numpy": (-huge.numpy(), Reason.TOO_LARGE),
    "too large for Adam": (ones * 1e30, Reason.TOO_LARGE),
    "too short": (torch.ones(D - 1), Reason.WRONG_LENGTH),
    "too long": (torch.ones(D + 1), Reason.WRONG_LENGTH),
    "empty": (torch.ones(0), Reason.WRONG_LENGTH),
    "a number": (torch.tensor(1.0), Reason.WRONG_LENGTH),
    "a row": (torch.ones(1, D), Reason.WRONG_LENGTH),
    "a column": (torch.ones(D, 1), Reason.WRONG_LENGTH),
    "too short in numpy": (np.ones(D - 1, dtype=np.float32), Reason.WRONG_LENGTH),
    "float64": (ones.double(), Reason.WRONG_TYPE),
    "float16": (ones.half(), Reason.WRONG_TYPE),
    "bfloat16": (ones.bfloat16(), Reason.WRONG_TYPE),
    "integers": (ones.int(), Reason.WRONG_TYPE),
    "booleans": (ones.bool(), Reason.WRONG_TYPE),
    "complex": (ones.to(torch.complex64), Reason.WRONG_TYPE),
    "sparse": (ones.to_sparse(), Reason.WRONG_TYPE),
    "no storage": (torch.ones(D, device="meta"), Reason.WRONG_TYPE),
    "float64 in numpy": (np.ones(D), Reason.WRONG_TYPE),
    "long double in numpy": (np.ones(D, dtype=np.longdouble), Reason.WRONG_TYPE),
    "complex in numpy": (np.ones(D, dtype=np.complex64), Reason.WRONG_TYPE),
    "words in numpy": (np.array(["1"] * D), Reason.WRONG_TYPE),
    "objects in numpy": (np.array([None] * D), Reason.WRONG_TYPE),
    "a list": ([1.0] * D, Reason.WRONG_TYPE),
    "None": (None, Reason.WRONG_TYPE),
    "text": ("update", Reason.WRONG_TYPE),
    "bytes": (ones.numpy().tobytes(), Reason.WRONG_TYPE),
}


@pytest.mark.parametrize("kind", BAD_DELTAS)
def test_a_bad_update_is_refused(kind: str) -> None:
    delta, reason = BAD_DELTAS[kind]
    assert_refused(
        PLAIN,
        letters().set(1, delta=delta),
        [(1, reason)],
        without_client_1(),
        outcome={1: Outcome.REFUSED},
    )


@pytest.mark.parametrize(
    "strategy",
    [
        Strategy(),
        Strategy(compensator=Stale(), server=Adam(), weighting="examples"),
        Strategy(compensator=Capped(FDMS(), 0.2), guard=NormGuard()),
        Strategy(compensator=MIFA(wait=False)),
        Strategy(compensator=FedVARP()),
        Strategy(local=Local(rule=Scaffold())),
        Strategy(sampler=FedGS(m=1.0, graph="updates")),
    ],
    ids=["ignore", "stale", "capped", "mifa", "fedvarp", "scaffold", "fedgs"],
)
@pytest.mark.parametrize("kind", ["NaN", "too long", "float64", "the largest float32"])
def test_whatever_the_parts_a_refused_client_is_an_absent_one(
    strategy: Strategy, kind: str
) -> None:
    delta, reason = BAD_DELTAS[kind]
    assert_refused(
        strategy,
        letters().set(1, delta=delta, n_examples=1e6),  # nor is its n_examples learnt
        [(1, reason)],
        without_client_1(),
        outcome={1: Outcome.REFUSED},
    )


def test_a_bad_matrix_refuses_its_rows_one_by_one() -> None:
    state = begun(PLAIN)
    before = contents(state, but=("pending", "t", "idle"))
    for deltas, reason in (
        (torch.ones(2, D, dtype=torch.float64), Reason.WRONG_TYPE),
        (torch.ones(2, D + 1), Reason.WRONG_LENGTH),
        (torch.full((2, D), float("nan")), Reason.NOT_FINITE),
        (np.ones((2, D)), Reason.WRONG_TYPE),
    ):
        applied = PLAIN.apply(state, PLAIN.select(state, EVERYONE), Arrivals([0, 1], deltas))
        assert [refusal.reason for refusal in applied.refusals] == [reason] * 2
    assert contents(state, but=("pending", "t", "idle")) == before


@pytest.fixture
def every_warning() -> Iterator[None]:
    """Torch gives some warnings once in a process only: in whichever test comes first."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


# -- accepted --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (torch.float16, 65504 / 2),
        (torch.bfloat16, 1.8446e19 / 2),
        (torch.float32, 1.8446743e19 / 2),
        (torch.float64, 1.8446743e19 / 2),
    ],
)
def test_an_entry_may_be_as_large_as_the_root_of_the_largest_float32_over_n(
    dtype: torch.dtype, largest: float
) -> None:
    """N = 2: √3.4028235e38 / 2. In float16 the largest number itself over N."""
    assert largest_entry(dtype, 2) == pytest.approx(largest, rel=1e-4)
    for factor, reasons in ((0.99, []), (1.01, [Reason.TOO_LARGE])):
        delta = torch.zeros(D, dtype=dtype)
        delta[3] = largest * factor
        strategy = Strategy()
        state = strategy.init(Population(2), torch.zeros(D, dtype=dtype), seed=0)
        cohort = strategy.select(state, [True, True])
        applied = strategy.apply(state, cohort, Arrivals([0, 1], [delta, torch.zeros_like(delta)]))
        assert [refusal.reason for refusal in applied.refusals] == reasons
        assert torch.isfinite(state.params).all()
        assert state.params[3] == (delta[3] / 2 if not reasons else 0)


@pytest.mark.parametrize("compensator", [FDMS(), FDMS("distance"), Capped(FDMS(), 0.3)], ids=str)
def test_a_huge_update_leaves_the_friendships_of_others_finite(
    compensator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64 the scalar product of two such updates is beyond all numbers.

    Admission refuses such an update; the compensator must not depend on that.
    """
    monkeypatch.setattr(admission, "largest_entry", lambda dtype, n_clients: 1e300)
    strategy = Strategy(compensator=compensator)
    state = strategy.init(Population(4), torch.zeros(D, dtype=torch.float64), seed=0)
    for t in range(2):
        cohort = strategy.select(state, np.ones(4, dtype=bool))
        made = updates_for([(i, t) for i in range(4)], state.params)
        deltas = list(made.deltas)
        deltas[1] = torch.full((D,), 1e200, dtype=torch.float64)
        strategy.apply(state, cohort, Arrivals([0, 1, 2, 3], deltas))
    others = np.array([0, 2, 3])
    scores = state.compensator.score.gather(np.arange(4))
    assert torch.isfinite(scores[others][:, others]).all()
    assert not torch.isnan(scores).any()  # a NaN would be everyone's best friend
    cohort = strategy.select(state, np.array([True, True, True, False]))
    applied = strategy.apply(state, cohort, updates_for([(0, 2), (2, 2)], state.params))
    assert set(applied.contributions.source.tolist()) <= {0, 2}


@pytest.mark.parametrize(
    "delta",
    [
        np.arange(D, dtype=np.float32),
        np.repeat(np.arange(D, dtype=np.float32), 2)[::2],
        np.arange(D - 1, -1, -1, dtype=np.float32)[::-1],
        np.arange(D, dtype=np.float32).astype(">f4"),
        np.frombuffer(np.arange(D, dtype=np.float32).tobytes(), dtype=np.float32),
        torch.arange(D, dtype=torch.float32).requires_grad_(),
        torch.arange(D, dtype=torch.float32).repeat_interleave(2)[::2],
    ],
    ids=["numpy", "strided", "backwards", "big endian", "read-only", "grad", "view"],
)
@pytest.mark.usefixtures("every_warning")
def test_vectors_of_the_right_numbers_are_taken_as_they_are(delta: Any) -> None:
    """Numpy vectors as they come off a network, often read-only. (A vector of another byte order
    may be refused as of the wrong type instead.)"""
    for compensator in (Stale(), FDMS()):
        strategy = Strategy(compensator=compensator)
        state = strategy.init(Population(2), torch.zeros(D), seed=0)
        cohort = strategy.select(state, [True, True])
        applied = strategy.apply(state, cohort, Arrivals([0, 1], [delta, torch.zeros(D)]))
        if isinstance(delta, np.ndarray) and not delta.dtype.isnative and applied.refusals:
            assert [refusal.reason for refusal in applied.refusals] == [Reason.WRONG_TYPE]
            continue
        assert applied.refusals == ()
        assert state.params.tolist() == [i / 2 for i in range(D)]
        assert not state.params.requires_grad


def test_the_senders_vectors_are_neither_changed_nor_kept_alive() -> None:
    strategy = Strategy(compensator=Stale(), guard=NormGuard(1.0))
    state = strategy.init(Population(2), torch.zeros(D), seed=0)
    deltas = torch.stack([torch.full((D,), 100.0), torch.ones(D)])
    strategy.apply(state, strategy.select(state, [True, True]), Arrivals([0, 1], deltas))
    assert deltas.tolist() == [[100.0] * D, [1.0] * D]
    before = contents(state)
    deltas.fill_(7)
    assert contents(state) == before


def test_order_of_arrival_changes_no_bit() -> None:
    for strategy in (PLAIN, Strategy(compensator=Stale(), guard=NormGuard())):
        one, other = begun(strategy), begun(strategy)
        requests = [(0, 3), (1, 3), (2, 3), (3, 3), (5, 0), (5, 2), (4, 1)]
        strategy.apply(one, strategy.select(one, EVERYONE), letters(requests).arrivals())
        strategy.apply(other, strategy.select(other, EVERYONE), letters(requests[::-1]).arrivals())
        assert contents(one) == contents(other)


# -- who sent it -----------------------------------------------------------------------------------


UNKNOWN = [-1, N, 10**30, -(2**70), True, np.True_, 1.0, np.float64(1), "1", None, (1,), [1], b"1"]


@pytest.mark.parametrize("client", UNKNOWN, ids=repr)
def test_an_unknown_id_is_refused(client: Any) -> None:
    applied = assert_refused(
        PLAIN, letters().set(1, id=client), [(client, Reason.UNKNOWN_ID)], without_client_1()
    )
    assert applied.outcome[1] == Outcome.MISSING  # nobody knows that it was client 1's


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16, int])
def test_any_whole_number_is_an_id(kind: Any) -> None:
    state, twin = begun(PLAIN), begun(PLAIN)
    bad = letters()
    bad.ids = [kind(client) for client in bad.ids]
    assert PLAIN.apply(state, PLAIN.select(state, EVERYONE), bad.arrivals()).refusals == ()
    PLAIN.apply(twin, PLAIN.select(twin, EVERYONE), letters().arrivals())
    assert contents(state) == contents(twin)


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_columns_may_be_arrays_or_tensors(make: Any) -> None:
    state, twin = begun(PLAIN), begun(PLAIN)
    made = letters()
    columns = {name: make(values) for name, values in vars(made).items() if name != "deltas"}
    arrivals = Arrivals(deltas=torch.stack(made.deltas), **columns)
    assert PLAIN.apply(state, PLAIN.select(state, EVERYONE), arrivals).refusals == ()
    PLAIN.apply(twin, PLAIN.select(twin, EVERYONE), letters().arrivals())
    assert contents(state) == contents(twin)


def test_a_retired_client_is_refused() -> None:
    """Also one that was asked before it retired: its answer comes too late."""
    state, twin = begun(PLAIN), begun(PLAIN)
    cohort = PLAIN.select(state, EVERYONE)
    for each in (state, twin):
        PLAIN.retire(each, 1)
    applied = PLAIN.apply(state, cohort, letters().arrivals())
    assert [(r.id, r.reason, r.detail) for r in applied.refusals] == [
        (1, Reason.UNKNOWN_ID, "it was retired")
    ]
    PLAIN.apply(twin, PLAIN.select(twin, EVERYONE), without_client_1().arrivals())
    assert contents(state, but=("pending",)) == contents(twin, but=("pending",))
    assert not (state.pending[:, 0] == 1).any()  # nobody waits for the retired
    applied = PLAIN.apply(state, PLAIN.select(state, EVERYONE), letters([(1, 4)]).arrivals())
    assert [refusal.reason for refusal in applied.refusals] == [Reason.UNKNOWN_ID]
    applied = PLAIN.apply(state, PLAIN.select(state, EVERYONE), letters([(1, 0)]).arrivals())
    assert [refusal.reason for refusal in applied.refusals] == [Reason.UNKNOWN_ID]


def test_a_client_that_was_not_asked_is_refused() -> None:
    """Wanted but thought to be out of reach: it stays unavailable."""
    reachable = EVERYONE.copy()
    reachable[1] = False
    applied = assert_refused(
        PLAIN,
        letters(),
        [(1, Reason.NOT_ASKED)],
        without_client_1(),
        available=reachable,
    )
    assert applied.outcome[1] == Outcome.UNAVAILABLE


def test_a_client_that_was_not_wanted_is_refused() -> None:
    strategy = Strategy(sampler=Uniform(2))
    state = strategy.init(Population(N), torch.zeros(D), seed=0)
    cohort = strategy.select(state, EVERYONE)
    [stranger, *_] = np.setdiff1d(np.arange(N), cohort.wanted).tolist()
    asked = [(int(i), 0) for i in cohort.asked]
    applied = strategy.apply(state, cohort, letters([*asked, (stranger, 0)]).arrivals())
    assert [(r.id, r.reason) for r in applied.refusals] == [(stranger, Reason.NOT_ASKED)]
    assert applied.outcome[stranger] == Outcome.NOT_WANTED
    assert sorted(applied.contributions.ids.tolist()) == sorted(cohort.asked.tolist())


# -- twice -----------------------------------------------------------------------------------------


def test_the_first_of_two_counts() -> None:
    twice = letters().add(letters([(1, 3)]).set(0, delta=torch.full((D,), 50.0), n_examples=99))
    assert_refused(PLAIN, twice, [(1, Reason.DUPLICATE)], letters())
    thrice = letters().add(letters([(1, 3), (1, 3), (0, 3)]))
    assert_refused(PLAIN, thrice, [(1, Reason.DUPLICATE)] * 2 + [(0, Reason.DUPLICATE)], letters())


def test_a_second_that_is_bad_too_is_a_duplicate() -> None:
    twice = letters().add(letters([(1, 3)]).set(0, delta=nan_last))
    assert_refused(PLAIN, twice, [(1, Reason.DUPLICATE)], letters())


def test_the_first_valid_one_counts() -> None:
    """A bad one, then a good one, then one more: the good one counts, and the client came."""
    bad = letters([(1, 3), (1, 3)]).set(0, delta=nan_last).set(1, n_examples=0)
    story = bad.add(letters()).add(letters([(1, 3)]))
    reasons = [(1, Reason.NOT_FINITE), (1, Reason.BAD_EXAMPLES), (1, Reason.DUPLICATE)]
    applied = assert_refused(PLAIN, story, reasons, letters())
    assert applied.outcome[1] == Outcome.CAME


def test_one_client_may_answer_two_requests_at_once() -> None:
    """Client 5 was asked in rounds 0 to 3: one fresh and two late updates are three requests."""
    state = begun(PLAIN)
    arrivals = letters([(5, 3), (5, 0), (5, 2), (5, 0)]).arrivals()
    applied = PLAIN.apply(state, PLAIN.select(state, EVERYONE), arrivals)
    assert [(r.id, r.reason) for r in applied.refusals] == [(5, Reason.DUPLICATE)]
    assert applied.outcome[5] == Outcome.CAME
    assert [5, 1] in state.pending.tolist()
    assert [5, 0] not in state.pending.tolist()


# -- late ------------------------------------------------------------------------------------------


def test_a_late_update_is_accepted_once_and_not_twice() -> None:
    strategy = Strategy(compensator=Stale())
    state = begun(strategy)
    assert state.pending.tolist() == [[4, 1], [4, 2], [5, 0], [5, 1], [5, 2]]
    before = state.params.clone()
    applied = strategy.apply(state, strategy.select(state, EVERYONE), letters([(5, 1)]).arrivals())
    assert applied.refusals == ()
    assert applied.outcome[5] == Outcome.LATE
    assert not applied.stepped
    assert torch.equal(state.params, before)  # it is learnt, but it moves nothing by itself
    row = letters([(5, 1)]).deltas[0]
    assert torch.equal(state.compensator.rows.get(5), row)
    assert state.compensator.last_seen[5] == 1
    assert [5, 1] not in state.pending.tolist()
    kept = contents(state, but=("pending", "t", "idle"))
    applied = strategy.apply(state, strategy.select(state, EVERYONE), letters([(5, 1)]).arrivals())
    assert [(r.id, r.reason) for r in applied.refusals] == [(5, Reason.NOT_ASKED)]
    assert applied.outcome[5] == Outcome.MISSING
    assert contents(state, but=("pending", "t", "idle")) == kept


def test_an_older_late_update_does_not_replace_a_newer_one() -> None:
    strategy = Strategy(compensator=Stale())
    state = begun(strategy)
    strategy.apply(state, strategy.select(state, EVERYONE), letters([(5, 2)]).arrivals())
    strategy.apply(state, strategy.select(state, EVERYONE), letters([(5, 0)]).arrivals())
    assert state.compensator.last_seen[5] == 2
    assert torch.equal(state.compensator.rows.get(5), letters([(5, 2)]).deltas[0])
    fresh_and_late = letters([(5, 5), (5, 1)])
    strategy.apply(state, strategy.select(state, EVERYONE), fresh_and_late.arrivals())
    assert state.compensator.last_seen[5] == 5
    assert torch.equal(state.compensator.rows.get(5), fresh_and_late.deltas[0])


def test_late_and_fresh_together() -> None:
    """Client 5 is late and client 0 fresh: the step is client 0's and the remembered ones', as if
    client 5 were silent; then client 5's old update speaks for it in the round after.

    Clients weigh alike: by examples, a late one would still tell how many it has.
    """
    strategy = Strategy(compensator=Stale(), weighting="clients")
    state, silent = begun(strategy), begun(strategy)
    applied = strategy.apply(
        state, strategy.select(state, EVERYONE), letters([(5, 2), (0, 3)]).arrivals()
    )
    strategy.apply(silent, strategy.select(silent, EVERYONE), letters([(0, 3)]).arrivals())
    assert torch.equal(state.params, silent.params)
    assert applied.outcome.tolist() == [0, 4, 4, 4, 4, 1]
    assert 5 not in applied.contributions.ids
    applied = strategy.apply(state, strategy.select(state, EVERYONE), letters([(0, 4)]).arrivals())
    assert (
        dict(zip(applied.contributions.ids.tolist(), applied.contributions.source, strict=True))[5]
        == 5
    )


@pytest.mark.parametrize("start", [4, 10**9, 2.0, "2", None, True, float("nan"), np.float32(2)])
def test_a_bad_start_round_is_refused(start: Any) -> None:
    bad = letters().set(1, start_round=start)
    applied = assert_refused(PLAIN, bad, [(1, Reason.BAD_START)], without_client_1())
    assert applied.outcome[1] == Outcome.MISSING


@pytest.mark.parametrize(("client", "start"), [(1, 0), (1, -1), (4, 0), (5, -(10**20))])
def test_a_late_update_nobody_waits_for_is_refused(client: int, start: int) -> None:
    """Clients 1 and 4 answered in round 0; nobody was asked before round 0."""
    bad = letters([(0, 3), (2, 3)]).add(letters([(client, 0)]).set(0, start_round=start))
    assert_refused(PLAIN, bad, [(client, Reason.NOT_ASKED)], letters([(0, 3), (2, 3)]))


def test_a_bad_late_update_is_refused_and_settles_its_request() -> None:
    bad = letters([(0, 3), (5, 1)]).set(1, delta=nan_last)
    applied = assert_refused(PLAIN, bad, [(5, Reason.NOT_FINITE)], letters([(0, 3)]))
    assert applied.outcome[5] == Outcome.MISSING
    state = begun(PLAIN)
    PLAIN.apply(state, PLAIN.select(state, EVERYONE), bad.arrivals())
    applied = PLAIN.apply(state, PLAIN.select(state, EVERYONE), letters([(5, 1)]).arrivals())
    assert [refusal.reason for refusal in applied.refusals] == [Reason.NOT_ASKED]


def test_open_requests_of_one_client_are_bounded() -> None:
    """A client that never answers is asked in each of 40 rounds; the 32 latest may be answered."""
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(3), torch.zeros(D), seed=0)
    rounds = MOST_PENDING + 8
    for t in range(rounds):
        cohort = strategy.select(state, np.ones(3, dtype=bool))
        strategy.apply(state, cohort, letters([(1, t)] if t % 2 else []).arrivals())
        counts = np.bincount(state.pending[:, 0], minlength=3)
        assert counts.tolist() == [min(t + 1, MOST_PENDING), t // 2 + 1, min(t + 1, MOST_PENDING)]
    of_client_2 = state.pending[state.pending[:, 0] == 2][:, 1].tolist()
    assert of_client_2 == list(range(8, rounds))
    cohort = strategy.select(state, np.ones(3, dtype=bool))
    applied = strategy.apply(state, cohort, letters([(2, 7), (2, 8)]).arrivals())
    assert [(r.id, r.reason) for r in applied.refusals] == [(2, Reason.NOT_ASKED)]
    assert state.compensator.last_seen[2] == 8


# -- what it says of itself ------------------------------------------------------------------------


BEYOND_FLOAT = 10**400  # Python's whole numbers have no bound, floats have


def short(value: Any) -> str:
    return str(value)[:20]


NOT_POSITIVE = [
    0,
    -1,
    0.0,
    float("nan"),
    float("inf"),
    -float("inf"),
    None,
    "5",
    True,
    np.True_,
    1j,
    [5],
    np.ones(2),
    torch.ones(2),
    np.float64("nan"),
    BEYOND_FLOAT,
    Fraction(-1, 2),
]


@pytest.mark.parametrize("n_examples", NOT_POSITIVE, ids=short)
def test_a_bad_number_of_examples_is_refused(n_examples: Any) -> None:
    for strategy in (PLAIN, Strategy(compensator=Stale(), weighting="examples")):
        assert_refused(
            strategy,
            letters().set(1, n_examples=n_examples),
            [(1, Reason.BAD_EXAMPLES)],
            without_client_1(),
            outcome={1: Outcome.REFUSED},
        )


@pytest.mark.parametrize("n_examples", [1, 0.5, np.int32(7), np.float32(2.5), Fraction(1, 2)])
def test_any_real_number_above_zero_counts_examples(n_examples: Any) -> None:
    strategy = Strategy(weighting="examples")
    state = strategy.init(Population(2), torch.zeros(1), seed=0)
    arrivals = Arrivals([0, 1], torch.tensor([[1.0], [0.0]]), n_examples=[n_examples, 1])
    applied = strategy.apply(state, strategy.select(state, [True, True]), arrivals)
    assert applied.refusals == ()
    weight = float(n_examples)
    assert state.n_examples.tolist() == [weight, 1.0]
    assert state.params.item() == pytest.approx(weight / (weight + 1), rel=1e-6)


@pytest.mark.parametrize(
    "strategy", [Strategy(weighting="examples"), mdsample(m=2)], ids=["mean", "draws"]
)
def test_two_who_claim_the_largest_number_of_examples_do_not_break_the_run(
    strategy: Strategy,
) -> None:
    """Each is a real number above zero; their sum is beyond all numbers."""
    state = strategy.init(Population(3), torch.zeros(2), seed=0)
    for _ in range(3):
        cohort = strategy.select(state, np.ones(3, dtype=bool))
        ids = cohort.asked.tolist()
        deltas = [torch.full((2,), float(client)) for client in ids]
        arrivals = Arrivals(ids, deltas, n_examples=[1.7e308 if i < 2 else 1 for i in ids])
        strategy.apply(state, cohort, arrivals)
        assert torch.isfinite(state.params).all()


@pytest.mark.parametrize("n_steps", NOT_POSITIVE, ids=short)
def test_a_bad_number_of_steps_is_refused_under_scaffold(n_steps: Any) -> None:
    assert_refused(
        scaffold(),
        letters().set(1, n_steps=n_steps),
        [(1, Reason.BAD_STEPS)],
        without_client_1(),
        outcome={1: Outcome.REFUSED},
    )


@pytest.mark.parametrize("n_steps", [0, None, "many", BEYOND_FLOAT], ids=short)
def test_the_number_of_steps_is_looked_at_by_scaffold_only(n_steps: Any) -> None:
    assert_refused(PLAIN, letters().set(1, n_steps=n_steps), [], letters())


def test_without_any_number_of_steps_scaffold_refuses_all() -> None:
    strategy = scaffold()
    state = begun(strategy)
    before = contents(state, but=("pending", "t", "idle"))
    made = letters()
    arrivals = Arrivals(made.ids, made.deltas, n_examples=made.n_examples)
    applied = strategy.apply(state, strategy.select(state, EVERYONE), arrivals)
    assert [(r.id, r.reason) for r in applied.refusals] == [
        (client, Reason.BAD_STEPS) for client in (0, 1, 2, 4)
    ]
    assert contents(state, but=("pending", "t", "idle")) == before


@pytest.mark.parametrize(
    "loss",
    [None, "bad", float("nan"), [1, 2], torch.ones(2), np.ones(3), BEYOND_FLOAT],
    ids=short,
)
def test_a_loss_that_is_no_number_is_not_known(loss: Any) -> None:
    made = letters()
    state = begun(PLAIN)
    arrivals = Arrivals(made.ids, made.deltas, losses=[1.0, loss, 2.0, 3.0])
    applied = PLAIN.apply(state, PLAIN.select(state, EVERYONE), arrivals)
    assert applied.refusals == ()
    assert applied.outcome[1] == Outcome.CAME


HOSTILE_COUNTS = [
    None,
    "many",
    7,
    [],
    [1.0],
    [1.0, 2.0],
    [1.0, 2.0, 3.0, 4.0],
    [-1.0, 1.0, 1.0],
    [float("nan"), 1.0, 1.0],
    [float("inf"), 1.0, 1.0],
    [BEYOND_FLOAT, 1, 1],
    [[1.0, 2.0, 3.0]],
    ["a", "b", "c"],
    [1j, 1, 1],
    np.array([1j, 1, 1]),
    {"cats": 3},
    torch.ones(3, requires_grad=True) * -1,
]


@pytest.mark.parametrize("counts", HOSTILE_COUNTS, ids=short)
@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_a_hostile_histogram_is_ignored_and_the_others_are_learnt(counts: Any, first: bool) -> None:
    """The population told three classes; client 0's or 2's row is no histogram of three."""
    population = Population(3, label_counts=np.ones((3, 3)))
    strategy = Strategy()
    state = strategy.init(population, torch.zeros(D), seed=0)
    ids, told = ([0, 1], [counts, [5, 6, 7]]) if first else ([1, 2], [[5, 6, 7], counts])
    arrivals = Arrivals(ids, [torch.ones(D)] * 2, label_counts=told)
    applied = strategy.apply(state, strategy.select(state, np.ones(3, dtype=bool)), arrivals)
    assert applied.refusals == ()
    assert (applied.outcome == Outcome.CAME).sum() == 2
    np.testing.assert_array_equal(state.label_counts, [[1, 1, 1], [5, 6, 7], [1, 1, 1]])


@pytest.mark.parametrize(
    "told",
    [
        [[5, 6, 7], [8, 9, 10]],
        np.array([[5, 6, 7], [8, 9, 10]]),
        torch.tensor([[5, 6, 7], [8, 9, 10]]),
        [torch.tensor([5.0, 6.0, 7.0]), torch.tensor([8, 9, 10])],
        [np.array([5, 6, 7]), (8, 9, 10)],
    ],
    ids=["lists", "array", "tensor", "tensors", "mixed"],
)
def test_histograms_may_be_written_in_any_way(told: Any) -> None:
    strategy = Strategy()
    state = strategy.init(Population(2), torch.zeros(D), seed=0)
    arrivals = Arrivals([0, 1], [torch.ones(D)] * 2, label_counts=told)
    strategy.apply(state, strategy.select(state, [True, True]), arrivals)
    np.testing.assert_array_equal(state.label_counts, [[5, 6, 7], [8, 9, 10]])


def test_histograms_learnt_on_the_way_keep_their_number_of_classes() -> None:
    strategy = Strategy()
    state = strategy.init(Population(3), torch.zeros(D), seed=0)
    for told in ([[1, 2], [3, 4]], [[9, 9, 9], [8, 8, 8]], [[5, 5], [7, 7, 7]]):
        cohort = strategy.select(state, np.ones(3, dtype=bool))
        strategy.apply(state, cohort, Arrivals([0, 1], [torch.ones(D)] * 2, label_counts=told))
    np.testing.assert_array_equal(state.label_counts, [[5, 5], [3, 4], [np.nan, np.nan]])


# -- all of them -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [
        PLAIN,
        Strategy(compensator=Stale("model"), server=Adam(), guard=NormGuard()),
        Strategy(compensator=MIFA()),
        Strategy(compensator=FedVARP(), local=Local(rule=Scaffold())),
    ],
    ids=["fdms", "stale", "mifa", "fedvarp"],
)
def test_when_all_are_refused_only_the_rounds_are_counted(strategy: Strategy) -> None:
    state = begun(strategy)
    before = contents(state)
    bad = letters([(0, 3), (1, 3), (5, 2)])
    bad.set(0, delta=nan_last).set(1, n_examples=-1).set(2, delta=ones.double())
    applied = strategy.apply(state, strategy.select(state, EVERYONE), bad.arrivals())
    assert not applied.stepped
    assert len(applied.contributions) == 0
    assert applied.outcome.tolist() == [6, 6, 4, 4, 4, 4]
    after = contents(state)
    assert after.pop("t") == before.pop("t") + 1 == 4
    assert after.pop("pending") != before.pop("pending")
    assert after.pop("idle") != before.pop("idle")  # a schedule does not count this round
    assert after == before
    # the two that were refused are settled; the others may still come
    assert state.pending.tolist() == [
        [2, 3],
        [3, 3],
        *[[4, t] for t in (1, 2, 3)],
        [5, 0],
        [5, 1],
        [5, 3],
    ]


def test_an_empty_round_changes_what_counts_rounds_only() -> None:
    strategy = Strategy(sampler=FedGS(m=2, graph="updates"), compensator=Stale(), server=Momentum())
    state = begun(strategy)
    before, counts = contents(state), state.sampler.counts.copy()
    cohort = strategy.select(state, EVERYONE)
    strategy.apply(state, cohort, Arrivals.none())
    after = contents(state)
    assert {path for path in after if after[path] != before[path]} == {
        "t",
        "pending",
        "idle",  # a schedule does not count this round
        "sampler.counts",  # picks count, whether anyone came or not
    }
    counts[cohort.wanted] += 1
    assert state.sampler.counts.tolist() == counts.tolist()


# -- the caller's own mistakes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", ["deltas", "n_examples", "n_steps", "losses", "label_counts", "start_round"]
)
@pytest.mark.parametrize("length", [1, 3])
def test_columns_of_different_lengths_are_the_callers_mistake(field: str, length: int) -> None:
    state = begun(PLAIN)
    before = contents(state)
    columns: dict[str, Any] = {"ids": [0, 1], "deltas": [ones, ones]}
    columns[field] = [ones] * length if field == "deltas" else [1] * length
    cohort = PLAIN.select(state, EVERYONE)
    with pytest.raises(ValueError, match=rf"Arrivals\.{field}: expected 2 entries, .*got {length}"):
        PLAIN.apply(state, cohort, Arrivals(**columns))
    assert contents(state) == before
    PLAIN.apply(state, cohort, Arrivals([0, 1], [ones, ones]))  # the round can still be played


@pytest.mark.parametrize(
    "available", [np.ones(N - 1), np.ones((N, 1)), [0, 1, 2, 0, 0, 0], ["yes"] * N, True]
)
def test_a_mask_that_is_no_mask_is_the_callers_mistake(available: Any) -> None:
    state = begun(PLAIN)
    with pytest.raises(ValueError, match=rf"available: expected \({N},\) true or false"):
        PLAIN.select(state, available)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5] * (N - 1), r"p: expected shape \(6,?\), got \(5,\)"),
        ([0.5] * (N - 1) + [1.5], r"p\[5\]: expected a probability, got 1.5"),
        ([0.5] * (N - 1) + [float("nan")], r"p\[5\]: expected a probability, got nan"),
    ],
)
def test_probabilities_that_are_none_are_the_callers_mistake(p: Any, message: str) -> None:
    state = begun(PLAIN)
    with pytest.raises(ValueError, match=message):
        PLAIN.select(state, EVERYONE, p=p)


# -- all at once, or one by one --------------------------------------------------------------------


@settings(max_examples=150)
@given(data=st.data())
def test_a_round_told_all_at_once_is_the_one_told_singly(data: st.DataObject) -> None:
    """Arrays are looked at as a whole, lists entry by entry: whatever comes, the same is taken."""
    ids = data.draw(st.lists(st.integers(-1, N), max_size=N + 1))
    if data.draw(st.booleans()):
        ids = sorted({client for client in ids if 0 <= client < N})
    asked = np.array(sorted(data.draw(st.sets(st.integers(0, N - 1)))), dtype=np.int64)
    if data.draw(st.booleans()):
        asked = np.arange(N)
    active = np.ones(N, dtype=np.bool_)
    active[data.draw(st.lists(st.integers(0, N - 1), max_size=1))] = False
    numbers = st.sampled_from([1.0, 2.0, 3.5, 0.0, -1.0, np.nan, np.inf, 2.0**54])
    often = st.one_of(st.just(1.0), numbers)
    columns = {
        name: np.array(data.draw(st.lists(often, min_size=len(ids), max_size=len(ids))))
        for name in ("n_examples", "n_steps", "losses")
        if data.draw(st.booleans())
    }
    deltas = torch.arange(1.0, 1 + len(ids) * D).reshape(len(ids), D)
    if len(ids) and data.draw(st.booleans()):
        deltas[-1, 3] = data.draw(st.sampled_from([np.nan, np.inf, 1e38]))
    pending = np.zeros((0, 2), dtype=np.int64)
    cohort = Cohort(4, wanted=asked, weight=np.ones(len(asked)), asked=asked, pending=pending)
    needs_steps = data.draw(st.booleans())

    def told(arrivals: Arrivals) -> list[Any]:
        got = admit(arrivals, cohort, active, torch.zeros(D), needs_steps=needs_steps)
        sides: list[Any] = [
            [
                side.ids.tolist(),
                [row.tolist() for row in side.deltas],
                *(repr(getattr(side, n)) for n in ("n_examples", "n_steps", "losses")),
                np.asarray([] if side.start_round is None else side.start_round).tolist(),
            ]
            for side in (got.fresh, got.late)
            if len(side)
        ]
        refused = [(int(r.id), r.reason) for r in got.refusals]  # type: ignore[call-overload]
        state = outcomes(N, cohort, got).tolist()
        left = still_pending(pending, asked, 4, got.answered, active).tolist()
        return [sides, refused, sorted(got.answered), state, left]

    whole = Arrivals(ids=np.array(ids, dtype=np.int64), deltas=deltas, **columns)
    single = Arrivals(
        ids=ids, deltas=list(deltas), **{name: list(values) for name, values in columns.items()}
    )
    assert told(whole) == told(single)

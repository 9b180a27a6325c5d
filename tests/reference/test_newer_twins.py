"""The methods of 2020 to 2024 against their slow twins, to 1e-10, over 36 random rounds."""

from __future__ import annotations

from math import nan
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.reference import samplers
from tests.reference.drive import D, N, Play
from tests.reference.fedau import FedAUTwin
from tests.reference.fedavg import IgnoreTwin
from tests.reference.fedawe import FedAWETwin
from tests.reference.fedstale import FedStaleTwin
from tests.reference.late_updates import LateUpdatesTwin
from tests.reference.mimic import MimiCTwin
from tests.reference.oort import OortTwin
from tests.reference.samplers import F3ASTTwin
from tests.reference.twin import Facts, Part, Twin
from understudy import (
    F3AST,
    Arrivals,
    Blind,
    ByData,
    Everyone,
    FedAU,
    FedAWE,
    FedStale,
    HorvitzThompson,
    LateUpdates,
    LeastAvailableFirst,
    Local,
    MimiC,
    Oort,
    Population,
    Strategy,
    Uniform,
)
from understudy.parts.schedules import constant, inverse_time

CLOSE = 1e-10

pytestmark = pytest.mark.parametrize("seed", [0, 1])
by_schedule = pytest.mark.parametrize("schedule", [constant, inverse_time])
by_sampler_and_weighting = pytest.mark.parametrize(
    ("sampler", "weighting"),
    [
        (Everyone(), "examples"),
        (Blind(Uniform(4)), "examples"),
        (ByData(5), "clients"),
    ],
    ids=str,
)


def played(seed, compensator, sampler, weighting, schedule=constant) -> Play:
    strategy = Strategy(
        sampler=sampler,
        compensator=compensator,
        local=Local(lr=0.1, schedule=schedule),
        weighting=weighting,
    )
    return Play(strategy, seed, n_known=weighting == "clients", rtol=CLOSE)


@by_sampler_and_weighting
@pytest.mark.parametrize("longest", [3, 100_000])
def test_fedau(seed, sampler, weighting, longest) -> None:
    twin = FedAUTwin(N, D, longest)
    played(seed, FedAU(longest), sampler, weighting).run(twin)
    assert any(len(set(one)) > 1 for one in twin.intervals.intervals)


@by_sampler_and_weighting
@pytest.mark.parametrize(
    ("beta", "rates", "schedule"),
    [
        (0.0, "known", constant),
        (0.4, "known", inverse_time),
        (0.5, "estimated", inverse_time),
        (1.0, "estimated", constant),
    ],
)
def test_fedstale(seed, sampler, weighting, beta, rates, schedule) -> None:
    play = played(seed, FedStale(beta, rates), sampler, weighting, schedule)
    play.run(FedStaleTwin(N, D, beta, rates))


@by_sampler_and_weighting
@by_schedule
def test_mimic(seed, sampler, weighting, schedule) -> None:
    played(seed, MimiC(), sampler, weighting, schedule).run(MimiCTwin(N, D))


@by_sampler_and_weighting
@pytest.mark.parametrize("model", ["mean", "last"])
@pytest.mark.parametrize(("eta", "clip"), [(1.0, None), (0.3, 0.5)])
def test_fedawe(seed, sampler, weighting, eta, clip, model) -> None:
    play = played(seed, FedAWE(eta, clip, model), sampler, weighting)
    twin = FedAWETwin(N, D, play.params(), eta, clip, model)
    n_checked = 0
    starts: dict[int, np.ndarray] = {}  # what each of the asked starts from, before the round
    for _, cohort, applied in play.against(twin):
        for i in cohort.asked.tolist():
            found = cohort.start(i).numpy()
            # the cohort's function shows the present: those who came have received the new model
            expected = twin.x[i]
            np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)
            n_checked += not np.array_equal(expected, starts.get(i, expected))
            starts[i] = expected.copy()
        if clip is not None and applied.stepped:
            assert 0 < applied.notes["fedawe_clipped"] <= 1
    assert n_checked >= 20
    assert twin.clipped >= (0 if clip is None else 10)


@pytest.mark.parametrize(
    ("sampler", "schedule"),
    [(Everyone(), inverse_time), (Uniform(5), constant)],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
@pytest.mark.parametrize(
    "settings",
    [("refl",), ("refl", 0.9, 1.0, 3), ("inverse",), ("root",), ("exponential",), ("equal",)],
)
def test_late_updates(seed, sampler, schedule, settings) -> None:
    twin = LateUpdatesTwin(N, D, *settings)
    play = played(seed, LateUpdates(*settings), sampler, "examples", schedule)
    rounds = [applied for _, _, applied in play.against(twin)]
    assert twin.n_late >= 3
    assert sum("late_weight" in applied.notes for applied in rounds) >= 3


@pytest.mark.parametrize("rest", [0, 4])
@pytest.mark.parametrize("rates", ["estimated", "known"])
def test_least_available_first(seed, rest, rates) -> None:
    """Those who rest come last, all others by their probability; who is taken of equals is free."""
    play = Play(Strategy(sampler=LeastAvailableFirst(3, rest, rates)), seed, rtol=CLOSE)
    there, counted, last_pick = [0] * N, [0] * N, {}
    for now, cohort, _ in play.against(IgnoreTwin(N, D)):
        chances = (
            now.p
            if rates == "known"
            else [k / n if n else 0.5 for k, n in zip(there, counted, strict=True)]
        )
        reachable = np.flatnonzero(now.available).tolist()
        order = samplers.least_available(reachable, chances, last_pick, now.t, rest)
        picked = cohort.wanted.tolist()
        assert sorted(order[i] for i in picked) == sorted(order.values())[:3]
        for i in range(N):
            there[i] += i in reachable
            owes = any(int(j) == i and now.t - s <= 5 for j, s in cohort.pending)
            counted[i] += i in reachable or not owes
        for i in picked:
            last_pick[i] = now.t


def test_oort(seed) -> None:
    """Utilities to 1e-10, how many are explored, whom an exploited one is drawn from, the pacer."""
    rng = np.random.default_rng([11, seed])
    sampler = Oort(4, 0.8, 0.9, 0.25, alpha=2.0, percentile=30.0, window=4, pace=20.0, clip=0.9)
    strategy, m = Strategy(sampler=sampler), 4
    sizes = rng.integers(1, 60, N).astype(float)
    state = strategy.init(
        Population(N, n_examples=sizes), torch.zeros(D, dtype=torch.float64), seed=seed
    )
    twin = OortTwin(N, 0.8, 0.9, 0.25, 2.0, 30.0, 4, 20.0, 0.9)
    n_explored = 0
    for t in range(60):
        here = rng.random(N) < (0.0 if t == 20 else 0.7)
        reachable = np.flatnonzero(here).tolist()
        score = twin.scores(reachable, sizes, t)
        ids = np.array(sorted(score), dtype=np.int64)
        start = SimpleNamespace(population=Population(N, n_examples=sizes), t=t)
        ours = sampler.scores(state.sampler, start, ids, state.sampler.loss[ids])
        np.testing.assert_allclose(ours, [score[i] for i in ids], rtol=CLOSE, atol=CLOSE)
        cohort = strategy.select(state, here)
        wanted = cohort.wanted.tolist()
        exploited = [i for i in wanted if i in score]
        unseen = len(reachable) - len(score)
        k, explored = twin.split(min(m, len(reachable)), len(score), unseen, t)
        assert (len(exploited), len(wanted) - len(exploited)) == (k, explored)
        if k:
            cut = 0.95 * sorted(score.values(), reverse=True)[k - 1]
            assert all(score[i] >= cut * (1 - CLOSE) for i in exploited)
        n_explored += explored
        pending = {(int(i), int(s)) for i, s in cohort.pending}
        late = sorted(request for request in pending if rng.random() < 0.3)
        late = list({i: (i, s) for i, s in late}.values())
        came = [i for i in wanted if rng.random() < 0.7]
        requests = [*late, *((i, t) for i in came)]
        losses = rng.uniform(0.1, 2.0, len(requests)) * (1.0 if t < 30 else 30.0)
        seconds = np.where(rng.random(len(requests)) < 0.8, rng.exponential(5, len(requests)), nan)
        arrivals = Arrivals(
            ids=[i for i, _ in requests],
            deltas=torch.zeros((len(requests), D), dtype=torch.float64),
            losses=losses,
            seconds=seconds,
            start_round=[s for _, s in requests],
        )
        applied = strategy.apply(state, cohort, arrivals)
        assert applied.refusals == ()
        told = [(i, x, s) for (i, _), x, s in zip(requests, losses, seconds, strict=True)]
        twin.learn(t, sorted(came), told, sizes)
        assert state.sampler.percentile == twin.percentile
    assert n_explored >= N - 1
    assert len(set(twin.moves)) > 1


class HorvitzThompsonTwin(Twin):
    """sum_{i in A} v_i n_i Delta_i / sum_j n_j; q_i is v_i n_i."""

    def fill(self, facts: Facts) -> list[Part]:
        everyone = sum(facts.base)
        return [(i, ("came", i), facts.q[i] / everyone, d) for i, d in facts.came.items()]


@pytest.mark.parametrize("beta", [0.01, 0.3])
@pytest.mark.parametrize("n_known", [True, False])
def test_f3ast(seed, beta, n_known) -> None:
    strategy = Strategy(sampler=F3AST(3, beta), compensator=HorvitzThompson())
    play = Play(strategy, seed, n_known=n_known, rtol=CLOSE)
    sizes = play.weights.base(play.active).tolist()
    twin = F3ASTTwin(sizes, 3, beta)
    for now, cohort, _ in play.against(HorvitzThompsonTwin(N, D)):
        picked = cohort.wanted.tolist()
        best = twin.gains(np.flatnonzero(now.available).tolist(), sizes)
        found = sorted((twin.gain(i, sizes) for i in picked), reverse=True)
        assert found == pytest.approx(best, rel=CLOSE)
        assert cohort.weight.tolist() == pytest.approx(twin.weights(picked), rel=CLOSE)
        sizes = play.weights.base(play.active).tolist()  # what is known when the next is picked


@pytest.mark.parametrize(
    ("compensator", "twin"),
    [(FedAU(), FedAUTwin), (FedStale(), FedStaleTwin), (MimiC(), MimiCTwin)],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_one_retires(seed, compensator, twin) -> None:
    """A retired client leaves sums and totals, and what it once sent is forgotten."""
    play = played(seed, compensator, Everyone(), "examples")
    play.run(twin(N, D), retire=(16, 2))


def test_one_retires_from_fedawe(seed) -> None:
    play = played(seed, FedAWE(), Everyone(), "examples")
    play.run(FedAWETwin(N, D, play.params()), retire=(16, 2))

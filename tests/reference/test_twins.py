"""Each algorithm against its slow twin, over 36 random rounds in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.reference import aggregators, concord, samplers
from tests.reference.amplified import AmplifiedScaffoldTwin, FocusTwin, GeneralizedTwin
from tests.reference.capped import CappedTwin
from tests.reference.conflicts import FedFVTwin, FedMGDATwin
from tests.reference.drive import ATOL, RTOL, D, N, Play
from tests.reference.fdms import FDMSTwin, RaceTwin
from tests.reference.fedavg import IgnoreTwin
from tests.reference.fedavg_is import FedAvgISTwin
from tests.reference.fedgs import best_pick, distances, objective
from tests.reference.fedvarp import FedVARPTwin
from tests.reference.guard import NormGuardTwin
from tests.reference.kriging import KrigingTwin
from tests.reference.memory import FedARTwin, MIFATwin
from tests.reference.scaffold import ScaffoldTwin
from tests.reference.servers import (
    AdaptiveTwin,
    BufferedTwin,
    ExtrapolatedTwin,
    MomentumTwin,
    SgdTwin,
)
from tests.reference.stale import StaleTwin
from tests.reference.waiting import WaitingTwin
from understudy import (
    FDMS,
    MIFA,
    Adam,
    AmplifiedScaffold,
    Arrivals,
    Blind,
    ByData,
    Capped,
    Concord,
    Everyone,
    Extrapolated,
    FedAR,
    FedAvgIS,
    FedFV,
    FedGS,
    FedMGDA,
    FedVARP,
    Focus,
    Gather,
    GeneralizedFedAvg,
    HoeffdingRace,
    Ignore,
    KeepAsking,
    Kriging,
    Linear,
    Local,
    Median,
    Momentum,
    NormGuard,
    OldestFirst,
    Population,
    PowerOfChoice,
    Scaffold,
    Sgd,
    Stale,
    Strategy,
    TrimmedMean,
    Uniform,
    Yogi,
)
from understudy.parts.schedules import Exponential, constant, inverse_time

# loose enough that something is eliminated within 36 rounds
SHORT = {"horizon": 10, "max_friends": 1, "beta": 1.0, "p": 0.9, "n_clients": 2}

pytestmark = pytest.mark.parametrize("seed", [0, 1])
by_weighting = pytest.mark.parametrize("weighting", ["clients", "examples"])
by_schedule = pytest.mark.parametrize("schedule", [constant, inverse_time, Exponential(0.9)])
# ByData already draws by examples, so it is refused with weighting by examples
by_sampler_and_weighting = pytest.mark.parametrize(
    ("sampler", "weighting"),
    [
        (Everyone(), "clients"),
        (Everyone(), "examples"),
        (Uniform(4), "clients"),
        (Uniform(4), "examples"),
        (Blind(Uniform(4)), "clients"),
        (Blind(Uniform(4)), "examples"),
        (ByData(5), "clients"),
    ],
    ids=str,
)


def growing_cut(t: int) -> float:
    return 1 + t / 6


@by_sampler_and_weighting
def test_ignore(seed, weighting, sampler) -> None:
    strategy = Strategy(sampler=sampler, compensator=Ignore(), weighting=weighting)
    # ByData must know every n_examples
    n_known = isinstance(sampler, ByData)
    Play(strategy, seed, n_known=n_known).run(IgnoreTwin(N, D))


@by_sampler_and_weighting
@pytest.mark.parametrize("kind", ["update", "model"])
@pytest.mark.parametrize("schedule", [constant, inverse_time])
def test_stale(seed, weighting, sampler, kind, schedule) -> None:
    strategy = Strategy(
        sampler=sampler,
        compensator=Stale(kind=kind),
        local=Local(schedule=schedule),
        weighting=weighting,
    )
    Play(strategy, seed).run(StaleTwin(N, D, kind))


@by_sampler_and_weighting
@pytest.mark.parametrize("similarity", ["cosine", "distance"])
@pytest.mark.parametrize("n_parameters", [D, D - 3])
def test_fdms(seed, weighting, sampler, similarity, n_parameters) -> None:
    compensator = FDMS(similarity=similarity)
    strategy = Strategy(sampler=sampler, compensator=compensator, weighting=weighting)
    twin = FDMSTwin(N, D, similarity=similarity, n_parameters=n_parameters)
    play = Play(strategy, seed, n_parameters=n_parameters)
    for _, _, applied in play.against(twin):
        assert_same_stand_ins(applied, twin.parts)


def assert_same_stand_ins(applied, parts) -> None:
    contributions = applied.contributions
    got = {
        int(i): (int(s), float(c))
        for i, s, c in zip(contributions.ids, contributions.source, contributions.coef, strict=True)
    }
    assert len(got) == len(contributions)
    assert got == {k: (source, pytest.approx(coef)) for k, (_, source), coef, _ in parts}


@pytest.mark.parametrize("sampler", [Everyone(), Blind(Uniform(5))], ids=repr)
@pytest.mark.parametrize("threshold", ["theorem", "code"])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_fdms_race(seed, sampler, threshold, scale) -> None:
    race = HoeffdingRace(threshold=threshold, scale=scale, **SHORT)
    twin = FDMSTwin(N, D, race=RaceTwin(threshold=threshold, scale=scale, **SHORT))
    play = Play(Strategy(sampler=sampler, compensator=FDMS(race=race)), seed)
    saved = 0
    for _, _, applied in play.against(twin):
        assert_same_stand_ins(applied, twin.parts)
        assert applied.notes.get("pairs_needed", 0) == twin.pairs_needed
        computed = applied.notes.get("pairs_computed", 0)
        assert twin.pairs_needed <= computed <= twin.pairs_at_most
        came = {source for _, (kind, source), _, _ in twin.parts if kind == "came"}
        saved += twin.pairs_needed < len(came) * (len(came) - 1) // 2
    if scale == 0.5:
        assert twin.removals, "nothing was eliminated: the test shows nothing"
        assert saved, "no comparison was saved: the test shows nothing"


def test_fdms_race_by_the_paper_constants(seed) -> None:
    """With Theorem 2's own constants nobody can go before its t = 76."""
    twin = FDMSTwin(N, D, race=RaceTwin())
    Play(Strategy(compensator=FDMS(race=HoeffdingRace())), seed).run(twin)
    assert twin.removals == []


@by_weighting
@by_schedule
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("sampler", [Everyone(), Uniform(4)], ids=repr)
def test_mifa(seed, weighting, schedule, wait, sampler) -> None:
    strategy = Strategy(
        sampler=sampler,
        compensator=MIFA(wait=wait),
        local=Local(lr=0.1, schedule=schedule),
        weighting=weighting,
    )
    Play(strategy, seed).run(MIFATwin(N, D, wait))


@by_weighting
@by_schedule
@pytest.mark.parametrize("psi", ["power", "linear"])
@pytest.mark.parametrize("cutoff", [None, growing_cut])
@pytest.mark.parametrize("rho", [0.1, 0.6])
def test_fedar(seed, weighting, schedule, psi, cutoff, rho) -> None:
    strategy = Strategy(
        sampler=Uniform(4),
        compensator=FedAR(rho=rho, cutoff=cutoff, psi=psi),
        local=Local(lr=0.1, schedule=schedule),
        weighting=weighting,
    )
    Play(strategy, seed).run(FedARTwin(N, D, rho, cutoff, psi))


@by_sampler_and_weighting
@pytest.mark.parametrize("schedule", [constant, inverse_time])
def test_fedvarp(seed, weighting, sampler, schedule) -> None:
    strategy = Strategy(
        sampler=sampler, compensator=FedVARP(), local=Local(schedule=schedule), weighting=weighting
    )
    Play(strategy, seed).run(FedVARPTwin(N, D))


@by_sampler_and_weighting
def test_fedavg_is(seed, weighting, sampler) -> None:
    strategy = Strategy(sampler=sampler, compensator=FedAvgIS(), weighting=weighting)
    Play(strategy, seed).run(FedAvgISTwin(N, D))


@pytest.mark.parametrize(
    ("inner", "weighting"),
    [
        (Blind(Uniform(4)), "clients"),
        (Blind(Uniform(4)), "examples"),
        (Blind(ByData(5)), "clients"),
        (Uniform(3), "clients"),
    ],
    ids=str,
)
def test_waiting_for_those_who_were_drawn(seed, inner, weighting) -> None:
    strategy = Strategy(sampler=KeepAsking(inner), compensator=Gather(), weighting=weighting)
    play = Play(strategy, seed, n_known=True)
    twin, n_steps, n_waited = WaitingTwin(D), 0, 0
    for now in play.rounds:
        before = play.params()
        cohort = play.select(now)
        if not twin.drawn:
            twin.drawn = cohort.wanted.tolist()
        assert cohort.wanted.tolist() == twin.wanted()
        came, late = play.attendance(now, cohort)
        applied = strategy.apply(play.state, cohort, play.arrivals(now, came, late))
        assert applied.refusals == ()
        update = twin.round(came, play.q(cohort))
        expected = before if update is None else before + update
        np.testing.assert_allclose(play.params(), expected, rtol=RTOL, atol=ATOL)
        assert applied.stepped == (update is not None)
        n_steps += applied.stepped
        n_waited += bool(came) and not applied.stepped
        if not twin.sent and not applied.stepped:
            assert "gather_missing" not in applied.notes
    assert n_steps >= 5
    assert n_waited >= 3


@pytest.mark.parametrize(
    ("options", "aggregator", "schedule"),
    [
        ({}, Linear(), inverse_time),
        ({"nearest": 2}, Linear(), constant),
        ({}, Concord(bound=None), inverse_time),
        (
            {"nugget": 0.3, "decay": 0.8, "evidence_decay": 0.9, "prior": 1.0, "alike": 1.0},
            Concord(0.3, centred=False, bound=None),
            constant,
        ),
        ({}, Concord(bound=1.2), constant),
    ],
    ids=["plain", "nearest", "concord", "other settings", "bound"],
)
@pytest.mark.parametrize(
    ("sampler", "weighting", "retire"),
    [(Everyone(), "examples", (16, 2)), (Blind(Uniform(4)), "clients", None)],
    ids=["everyone", "some"],
)
def test_kriging(seed, sampler, weighting, retire, schedule, options, aggregator) -> None:
    compensator = Kriging(**options, exact=0 if "nearest" in options else 256)
    strategy = Strategy(
        sampler=sampler,
        compensator=compensator,
        aggregator=aggregator,
        local=Local(schedule=schedule),
        weighting=weighting,
    )
    n_parameters = D - 2
    play = Play(strategy, seed, n_parameters=n_parameters, rtol=1e-10)
    twin = KrigingTwin(N, D, n_parameters, owed=lambda: play.owed, **options)

    def combine(parts):
        if isinstance(aggregator, Linear):
            return concord.plain_update(parts, D, n_parameters)
        return concord.update(
            parts,
            D,
            n_parameters,
            aggregator.ridge,
            share=twin.share,
            centred=aggregator.centred,
            bound=aggregator.bound,
            buffers_from=("came",),
        )

    play.run(twin, combine=combine, retire=retire)
    assert twin.n_late > twin.n_dropped


@pytest.mark.parametrize(
    ("compensator", "twin"),
    [(Ignore(), IgnoreTwin), (FDMS(), FDMSTwin), (MIFA(), MIFATwin), (FedAvgIS(), FedAvgISTwin)],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
@pytest.mark.parametrize("bound", [None, 1.5])
def test_concord(seed, compensator, twin, bound) -> None:
    strategy = Strategy(compensator=compensator, aggregator=Concord(bound=bound))
    play = Play(strategy, seed, rtol=1e-10)
    play.run(twin(N, D), combine=lambda parts: concord.update(parts, D, D, bound=bound))


@by_weighting
@pytest.mark.parametrize(
    ("compensator", "twin"),
    [
        (Ignore(), IgnoreTwin),
        (Stale(), StaleTwin),
        (FDMS(), FDMSTwin),
        (MIFA(), MIFATwin),
        (FedAR(), FedARTwin),
        (FedVARP(), FedVARPTwin),
        (FedAvgIS(), FedAvgISTwin),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_one_retires(seed, weighting, compensator, twin) -> None:
    """A retired client leaves sums and totals, and what it once sent is forgotten."""
    strategy = Strategy(compensator=compensator, weighting=weighting)
    Play(strategy, seed).run(twin(N, D), retire=(16, 2))


@by_weighting
@pytest.mark.parametrize("share", [0.05, 0.2, 0.35])
@pytest.mark.parametrize("sampler", [Everyone(), Blind(Uniform(6))], ids=repr)
def test_capped(seed, weighting, share, sampler) -> None:
    strategy = Strategy(sampler=sampler, compensator=Capped(FDMS(), share), weighting=weighting)
    twin = CappedTwin(FDMSTwin(N, D), share)
    for _, _, applied in Play(strategy, seed, reach=0.5).against(twin):
        totals: dict[int, float] = {}
        for source, coef in zip(
            applied.contributions.source, applied.contributions.coef, strict=True
        ):
            totals[int(source)] = totals.get(int(source), 0.0) + float(coef)
        expected: dict[int, float] = {}
        for _, (_, source), coef, _ in twin.parts:
            expected[source] = expected.get(source, 0.0) + coef
        assert totals == {source: pytest.approx(coef) for source, coef in expected.items()}
    assert twin.n_cut, "no row was cut: the test shows nothing"


@pytest.mark.parametrize("compensator", [Stale(), FDMS(), MIFA()], ids=repr)
@pytest.mark.parametrize("factor", [1.2, 2.5])
def test_norm_guard(seed, compensator, factor) -> None:
    twins = {"Stale": StaleTwin, "FDMS": FDMSTwin, "MIFA": MIFATwin}
    n_parameters = D - 2
    options = {"n_parameters": n_parameters} if isinstance(compensator, FDMS) else {}
    twin = twins[type(compensator).__name__](N, D, **options)
    play = Play(
        Strategy(compensator=compensator, guard=NormGuard(factor)), seed, n_parameters=n_parameters
    )
    play.run(twin, guard=NormGuardTwin(factor, n_parameters))


def twin_of(aggregator):
    def combine(parts):
        if isinstance(aggregator, Median):
            return aggregators.median(parts, D)
        return aggregators.trimmed_mean(parts, D, aggregator.share)

    return combine


@by_weighting
@pytest.mark.parametrize(
    ("compensator", "twin"),
    [(Ignore(), IgnoreTwin), (FDMS(), FDMSTwin), (MIFA(), MIFATwin), (FedAR(), FedARTwin)],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
@pytest.mark.parametrize("aggregator", [Median(), TrimmedMean(0.1), TrimmedMean(0.3)], ids=repr)
def test_robust_aggregators(seed, weighting, compensator, twin, aggregator) -> None:
    strategy = Strategy(compensator=compensator, aggregator=aggregator, weighting=weighting)
    Play(strategy, seed).run(twin(N, D), combine=twin_of(aggregator))


@pytest.mark.parametrize(
    ("compensator", "twin"),
    [
        (Ignore(), IgnoreTwin),
        (FDMS(), FDMSTwin),
        (Stale(), StaleTwin),
        (MIFA(), MIFATwin),
        (FedVARP(), FedVARPTwin),
        (FedAvgIS(), FedAvgISTwin),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
@pytest.mark.parametrize("claim_factor", [1.0, 1.5])
def test_claims_are_capped(seed, compensator, twin, claim_factor) -> None:
    """Every other size is not confirmed, and the cap is low: it acts in many rounds."""
    strategy = Strategy(compensator=compensator, weighting="examples", claim_factor=claim_factor)
    capped = 0
    for _, _, applied in Play(strategy, seed, n_known=False).against(twin(N, D)):
        capped += applied.notes.get("claims_capped", 0) > 0
    assert capped > 20, "few claims were capped: the test shows nothing"


@pytest.mark.parametrize("aggregator", [Median(), TrimmedMean(0.3)], ids=repr)
def test_claims_have_one_vote(seed, aggregator) -> None:
    strategy = Strategy(compensator=FDMS(), aggregator=aggregator, weighting="examples")
    Play(strategy, seed, n_known=False).run(FDMSTwin(N, D), combine=twin_of(aggregator))


@pytest.mark.parametrize("schedule", [constant, Exponential(0.9)])
@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "yogi"])
def test_servers(seed, schedule, name) -> None:
    def lr(t: int) -> float:
        return 0.3 * schedule(t)

    server, twin = {
        "sgd": lambda: (Sgd(lr=0.3, schedule=schedule), SgdTwin(D, lr)),
        "momentum": lambda: (
            Momentum(lr=0.3, beta=0.8, schedule=schedule),
            MomentumTwin(D, lr, 0.8),
        ),
        "adam": lambda: (
            Adam(lr=0.3, beta1=0.8, beta2=0.95, tau=0.01, schedule=schedule),
            AdaptiveTwin(D, lr, 0.8, 0.95, 0.01, "adam"),
        ),
        "yogi": lambda: (
            Yogi(lr=0.3, beta1=0.8, beta2=0.95, tau=0.01, schedule=schedule),
            AdaptiveTwin(D, lr, 0.8, 0.95, 0.01, "yogi"),
        ),
    }[name]()
    Play(Strategy(server=server), seed).run(IgnoreTwin(N, D), server=twin)


substitutions = pytest.mark.parametrize(
    ("compensator", "twin"),
    [(Ignore(), IgnoreTwin), (FDMS(), FDMSTwin), (Stale(), StaleTwin)],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)


@substitutions
@pytest.mark.parametrize(("epsilon", "length"), [(0.1, "mean"), (1.0, "unit"), (0.0, "mean")])
def test_fedmgda(seed, compensator, twin, epsilon, length) -> None:
    aggregator = FedMGDA(epsilon, length)
    strategy = Strategy(compensator=compensator, aggregator=aggregator, weighting="examples")
    play = Play(strategy, seed, rtol=1e-10)
    play.run(twin(N, D), combine=FedMGDATwin(D, epsilon, length))


@substitutions
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("external", ["none", "absent", "came"])
def test_fedfv(seed, compensator, twin, alpha, external) -> None:
    aggregator = FedFV(alpha, external)
    strategy = Strategy(compensator=compensator, aggregator=aggregator, weighting="examples")
    play = Play(strategy, seed, rtol=1e-10)
    play.run(twin(N, D), combine=FedFVTwin(D, alpha, external))


@by_weighting
@pytest.mark.parametrize(
    ("rows", "scale", "epsilon", "damping"),
    [
        ("fresh", 0.5, 1e-3, 0.0),
        ("fresh", 1.0, 0.0, 0.6),
        ("all", 0.5, 1.0, 0.0),
        ("all", 2.0, 1e-3, 0.9),
    ],
)
@pytest.mark.parametrize(
    ("compensator", "twin"),
    [(Ignore(), IgnoreTwin), (Stale(), StaleTwin), (FedVARP(), FedVARPTwin)],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_extrapolated(seed, weighting, compensator, twin, rows, scale, epsilon, damping) -> None:
    settings = (rows, scale, epsilon, damping)
    strategy = Strategy(
        compensator=compensator,
        server=Extrapolated(Sgd(lr=0.7), *settings),
        weighting=weighting,
    )
    play = Play(strategy, seed, n_parameters=D - 2, rtol=1e-10)
    inner = BufferedTwin(SgdTwin(D - 2, lambda t: 0.7), D - 2)
    server = ExtrapolatedTwin(inner, D, D - 2, *settings)
    factors = []
    for _, _, applied in play.against(twin(N, D), server=server):
        if applied.stepped:
            assert applied.notes["server_factor"] == pytest.approx(server.factor, rel=1e-10)
            factors.append(server.factor)
    assert max(factors) > 1.2, "no step was longer: the test shows nothing"


@pytest.mark.parametrize(("period", "factor"), [(1, 2.0), (3, 1.5), (10, 0.5)])
@pytest.mark.parametrize("n_parameters", [D, D - 2])
def test_generalized_fedavg(seed, period, factor, n_parameters) -> None:
    strategy = Strategy(server=GeneralizedFedAvg(period, factor))
    play = Play(strategy, seed, n_parameters=n_parameters, rtol=1e-10)
    twin = GeneralizedTwin(play.params(), period, factor, n_parameters)
    play.run(IgnoreTwin(N, D), server=twin)
    assert twin.n_late > 0 or period == 10, "no period ended with an empty round"


@by_schedule
@pytest.mark.parametrize("period", [1, 4])
@pytest.mark.parametrize("n_parameters", [D, D - 2])
def test_amplified_scaffold(seed, schedule, period, n_parameters) -> None:
    local = Local(lr=0.1, schedule=schedule, rule=AmplifiedScaffold(period))
    strategy = Strategy(sampler=Uniform(4), local=local)
    play = Play(strategy, seed, n_parameters=n_parameters, rtol=1e-10)
    variates = AmplifiedScaffoldTwin(N, D, n_parameters, period)
    n_checked = 0
    for now, cohort, _ in play.against(IgnoreTwin(N, D)):
        for i in cohort.asked.tolist():
            expected = variates.correction(i)
            np.testing.assert_allclose(play.corrections[i], expected, rtol=1e-10, atol=ATOL)
            n_checked += bool(np.any(expected != 0))
        came = {int(i): now.deltas[i] for i in cohort.asked if now.shows_up[i]}
        variates.learn(now.t, came, {i: int(now.n_steps[i]) for i in came}, play.lr(now.t))
    assert n_checked >= 50


@by_schedule
@pytest.mark.parametrize("sampler", [Everyone(), Uniform(4)], ids=repr)
@pytest.mark.parametrize("n_parameters", [D, D - 2])
def test_focus(seed, schedule, sampler, n_parameters) -> None:
    strategy = Strategy(
        sampler=sampler,
        compensator=MIFA(wait=False),
        local=Local(lr=0.1, schedule=schedule, rule=Focus()),
        weighting="clients",
    )
    play = Play(strategy, seed, n_parameters=n_parameters, rtol=1e-10)
    twin = FocusTwin(N, D, n_parameters)
    before = twin.gradient.copy()
    for _, cohort, _ in play.against(twin):
        for i in cohort.asked.tolist():
            np.testing.assert_allclose(play.corrections[i], -before[i], rtol=1e-10, atol=ATOL)
        before = twin.gradient.copy()
    remembered = play.state.local.gradients
    for i in range(N):
        gradient = remembered.get(i).numpy()
        np.testing.assert_allclose(gradient, twin.gradient[i], rtol=1e-10, atol=ATOL)


@by_schedule
@pytest.mark.parametrize("sampler", [Everyone(), Uniform(4)], ids=repr)
@pytest.mark.parametrize("n_parameters", [D, D - 2])
def test_scaffold(seed, schedule, sampler, n_parameters) -> None:
    local = Local(lr=0.1, schedule=schedule, rule=Scaffold())
    play = Play(Strategy(sampler=sampler, local=local), seed, n_parameters=n_parameters)
    variates = ScaffoldTwin(N, D, n_parameters)
    n_checked = 0
    for now, cohort, _ in play.against(IgnoreTwin(N, D)):
        assert set(play.corrections) >= set(cohort.asked.tolist())
        for i in cohort.asked.tolist():
            np.testing.assert_allclose(
                play.corrections[i], variates.correction(i), rtol=RTOL, atol=ATOL
            )
            n_checked += bool(np.any(variates.correction(i) != 0))
        # a late update is dropped: its variate belongs to a model that is gone
        came = {int(i): now.deltas[i] for i in cohort.asked if now.shows_up[i]}
        variates.learn(now.t, came, {i: int(now.n_steps[i]) for i in came}, play.lr)
    assert n_checked >= 60


@pytest.mark.parametrize("scale", ["pairs", "paper"])
@pytest.mark.parametrize("edges", ["code", "paper"])
@pytest.mark.parametrize(("m", "alpha"), [(1, 1.0), (3, 0.0), (3, 1.0), (4, 5.0), (9, 1.0)])
def test_fedgs(seed, scale, edges, m, alpha) -> None:
    """The pick reaches the best value of all sets, round after round, whoever is reachable."""
    rng = np.random.default_rng([7, seed])
    features = rng.random((N, 4)) * (rng.random((N, 4)) < 0.6) + 0.01
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarity = unit @ unit.T
    similarity = (similarity + similarity.T) / 2
    h = distances(similarity, edges)
    strategy = Strategy(sampler=FedGS(m=m, alpha=alpha, scale=scale, edges=edges))
    state = strategy.init(
        Population(N, similarity=similarity), torch.zeros(D, dtype=torch.float64), seed=seed
    )
    picks = [0] * N
    for _ in range(30):
        available = rng.random(N) < 0.7
        cohort = strategy.select(state, available=available)
        reachable = np.flatnonzero(available).tolist()
        wanted = cohort.wanted.tolist()
        assert set(wanted) <= set(reachable)
        assert len(wanted) == min(m, len(reachable))
        if reachable:
            best, _ = best_pick(reachable, h, picks, m, alpha, scale)
            value = objective(wanted, h, picks, len(wanted), alpha, scale)
            assert value == pytest.approx(best, abs=1e-8)
        # picks count whether or not they come
        strategy.apply(state, cohort, Arrivals.none())
        for k in wanted:
            picks[k] += 1


def test_oldest_first(seed) -> None:
    rng = np.random.default_rng([8, seed])
    strategy = Strategy(sampler=OldestFirst(3))
    state = strategy.init(Population(N), torch.zeros(D, dtype=torch.float64), seed=seed)
    last_pick: dict[int, int] = {}
    for t in range(40):
        available = rng.random(N) < 0.6
        cohort = strategy.select(state, available=available)
        wanted = cohort.wanted.tolist()
        reachable = np.flatnonzero(available).tolist()
        assert set(wanted) <= set(reachable)
        ages = sorted(last_pick.get(k, -1) for k in wanted)
        assert ages == samplers.oldest_first(reachable, last_pick, 3)
        strategy.apply(state, cohort, Arrivals.none())
        for k in wanted:
            last_pick[k] = t


def test_power_of_choice_asked(seed) -> None:
    play = Play(Strategy(sampler=PowerOfChoice(3)), seed)
    for now, cohort, _ in play.against(IgnoreTwin(N, D)):
        reachable = np.flatnonzero(now.available).tolist()
        expected = samplers.power_of_choice(reachable, now.losses, 3)
        assert set(cohort.wanted.tolist()) == expected


def test_power_of_choice_last(seed) -> None:
    """Where losses cannot be asked for: the last reported one, and one never seen comes first."""
    rng = np.random.default_rng([9, seed])
    strategy = Strategy(sampler=PowerOfChoice(3, losses="last"))
    state = strategy.init(Population(N), torch.zeros(D, dtype=torch.float64), seed=seed)
    reported: dict[int, float] = {}
    for _ in range(40):
        available = rng.random(N) < 0.7
        cohort = strategy.select(state, available=available)
        wanted = set(cohort.wanted.tolist())
        reachable = np.flatnonzero(available).tolist()
        unknown = {k for k in reachable if k not in reported}
        if len(unknown) >= 3:
            assert len(wanted) == 3
            assert wanted <= unknown
        else:
            known = [k for k in reachable if k in reported]
            assert wanted == unknown | samplers.power_of_choice(known, reported, 3 - len(unknown))
        ids = [k for k in cohort.asked.tolist() if rng.random() < 0.8]
        losses = rng.random(len(ids)).tolist()
        deltas = torch.zeros((len(ids), D), dtype=torch.float64)
        strategy.apply(
            state,
            cohort,
            Arrivals(ids=ids, deltas=deltas, n_examples=[1] * len(ids), losses=losses),
        )
        reported.update(zip(ids, losses, strict=True))


def test_race_of_newcomers(seed) -> None:
    """Pairs with a newcomer race at the rounds since it joined, not since the start."""
    race = RaceTwin(threshold="code", scale=0.5, **SHORT)
    twin = FDMSTwin(6, D, race=race)
    strategy = Strategy(compensator=FDMS(race=HoeffdingRace(threshold="code", scale=0.5, **SHORT)))
    rng = np.random.default_rng([10, seed])
    state = strategy.init(Population(6), torch.zeros(D, dtype=torch.float64), seed=seed)
    centres = rng.normal(size=(2, D))
    n = 6
    for t in range(40):
        if t == 20:
            n = 9
            strategy.grow(state, Population(9))
            twin.grow(9, t)
        cohort = strategy.select(state, available=np.ones(n, dtype=bool))
        came = {
            i: centres[i % 2] + 0.5 * rng.normal(size=D) for i in range(n) if rng.random() < 0.7
        }
        before = state.params.numpy().copy()
        applied = strategy.apply(
            state,
            cohort,
            Arrivals(
                ids=list(came),
                deltas=[torch.from_numpy(delta) for delta in came.values()],
                n_examples=[1] * len(came),
            ),
        )
        ones = np.ones(n)
        update = twin.round(t, range(n), came, ones, base=ones)
        if update is not None:
            np.testing.assert_allclose(
                state.params.numpy() - before, update, rtol=RTOL, atol=ATOL, err_msg=f"round {t}"
            )
        assert applied.notes.get("pairs_needed", 0) == twin.pairs_needed
    assert any(t > 20 and max(k, i) >= 6 for t, k, i in twin.removals)
    assert not any(t < 22 and max(k, i) >= 6 for t, k, i in twin.removals)

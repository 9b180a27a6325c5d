"""Every registered part keeps its role's contract; parametrised from the registry.

A part that is added to the registry is picked up by itself: built with no arguments, checked by
`understudy.testing`, and combined with all others.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

import understudy
from understudy import (
    F3AST,
    FDMS,
    MIFA,
    Adam,
    AmplifiedScaffold,
    Arrivals,
    Bernoulli,
    Blind,
    ByData,
    Capped,
    Concord,
    Contributions,
    Everyone,
    Exponential,
    Extrapolated,
    FedAR,
    FedAU,
    FedAvgIS,
    FedAWE,
    FedFV,
    FedGS,
    FedMGDA,
    FedStale,
    FedVARP,
    FixedDropout,
    GeneralizedFedAvg,
    Gone,
    HoeffdingRace,
    HorvitzThompson,
    Ignore,
    InverseRoot,
    InverseRootHorizon,
    Kriging,
    LabelDirichlet,
    LabelHalves,
    LateUpdates,
    LeastAvailableFirst,
    Linear,
    LinearCutoff,
    Local,
    Markov,
    Median,
    MimiC,
    MinSeparation,
    Momentum,
    NormGuard,
    OldestFirst,
    Oort,
    Outcome,
    Plain,
    Population,
    PowerOfChoice,
    Proximal,
    RoundRobin,
    Scaffold,
    Sgd,
    SqrtCutoff,
    Stale,
    Strategy,
    TrimmedMean,
    Uniform,
    VanishingDropout,
    Yogi,
    constant,
    inverse_time,
    load_state,
    registry,
    save_state,
)
from understudy.core import roles
from understudy.core.describe import describe
from understudy.core.types import Block
from understudy.testing import (
    ContractBroken,
    check_aggregator,
    check_availability,
    check_compensator,
    check_sampler,
    draw_availability,
    example_population,
    snapshot,
    updates_for,
)

REGISTRIES = [value for value in vars(registry).values() if isinstance(value, registry.Registry)]
CLASSES = [
    pytest.param(role.role, part, id=f"{role.role}-{name}")
    for role in REGISTRIES
    for name, part in role.items()
    if inspect.isclass(part)
]

REQUIRED: dict[type, dict[str, Any]] = {
    Bernoulli: {"p_min": 0.1},
    Gone: {"clients": [1]},
}  # what has no default


def made(part: Any) -> Any:
    """A registered part with its defaults."""
    return part(**REQUIRED.get(part, {}))


EXTRA_COMPENSATORS = [
    FDMS(race=HoeffdingRace()),
    # constants under which candidates do leave within the few rounds of a check
    FDMS(race=HoeffdingRace(scale=0.05, beta=1.0, delta_f=0.0)),
    FDMS(race=HoeffdingRace("code", scale=0.05, beta=1.0, delta_f=0.0)),
    FDMS(similarity="distance"),
    Stale("model"),
    MIFA(wait=False),
    FedAR(psi="linear"),
    FedAR(rho=0.5, cutoff=3),
    FedAR(cutoff=LinearCutoff(t0=1)),
    FedAR(cutoff=SqrtCutoff(c=0.5, t0=1)),
    Capped(Stale()),
    Capped(FDMS(), 0.05),
    Capped(MIFA()),
    FedAU(max_interval=2),
    FedStale(beta=1.0, max_interval=3),
    FedStale(precision="float16"),
    FedAWE(eta=0.5, clip=0.1),
    Kriging(nearest=2, exact=0),
    FedAWE(model="last"),
    LateUpdates("exponential", max_age=2),
    Capped(LateUpdates()),
]
EXTRA_SAMPLERS = [
    Blind(FedGS()),
    Blind(ByData()),
    Blind(PowerOfChoice(losses="last")),
    Blind(Everyone()),
    F3AST(m=2, beta=0.9),
    Blind(F3AST()),
    LeastAvailableFirst(m=2, rest=0),
    Oort(m=2, epsilon=0.2, window=1),
    Oort(losses="asked"),
    Blind(Oort()),
    Blind(LeastAvailableFirst()),
    PowerOfChoice(losses="last"),
    PowerOfChoice(m=2, candidates=3),
    PowerOfChoice(m=2, candidates=0.5),
    FedGS(alpha=0),
    FedGS(m=3, alpha=5, scale="paper"),
    FedGS(m=3, edges="paper"),
    FedGS(m=3, graph="updates"),
    FedGS(m=3, graph="labels"),
    FedGS(m=3, graph="features"),
    *(sampler(m) for sampler in (Uniform, ByData, FedGS) for m in (0.5, 1, 1.0, 50)),
]
EXTRA_AVAILABILITY = [
    Bernoulli(0.4),
    Bernoulli(p=1),
    Bernoulli(p_min=0.0),
    Bernoulli(p_min=1.0, seed=7),
    FixedDropout(alpha=0.3, keep_one_per_group=True),
    FixedDropout(alpha=0.7, first_round_full=True),
    FixedDropout(alpha=0.0),
    VanishingDropout(alpha=0.7, power=1.0),
    Gone([2, 5], since=3, inner=Bernoulli(0.6)),
    Bernoulli(LabelDirichlet(mean=0.5)),
    Markov(LabelHalves(), comes_back=0.3),
    MinSeparation(2, RoundRobin(3, 1)),
]

SAMPLERS = [made(part) for part in registry.SAMPLERS.values()] + EXTRA_SAMPLERS
COMPENSATORS = [made(part) for part in registry.COMPENSATORS.values()] + EXTRA_COMPENSATORS
AGGREGATORS = [made(part) for part in registry.AGGREGATORS.values()] + [Concord(exact=0)]
AVAILABILITIES = [made(part) for part in registry.AVAILABILITY.values()] + EXTRA_AVAILABILITY


# -- the public checks, over everything ----------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_sampler_keeps_its_contract(sampler) -> None:
    check_sampler(sampler)


@pytest.mark.parametrize("compensator", COMPENSATORS, ids=repr)
def test_compensator_keeps_its_contract(compensator) -> None:
    check_compensator(compensator)


@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=repr)
def test_aggregator_keeps_its_contract(aggregator) -> None:
    check_aggregator(aggregator)


@pytest.mark.parametrize("availability", AVAILABILITIES, ids=repr)
def test_availability_keeps_its_contract(availability, request) -> None:
    if hasattr(availability, "file"):
        root = request.getfixturevalue("data_root")  # skips where no recorded data are to be had
        if not (root / availability.file).is_file():
            pytest.skip(f"UNDERSTUDY_DATA has no {availability.file}")
    check_availability(availability)


@pytest.mark.parametrize("n_clients", [1, 2, 5, 13])
@pytest.mark.parametrize("name", registry.COMPENSATORS)
def test_compensator_in_populations_of_other_sizes(name, n_clients) -> None:
    check_compensator(registry.COMPENSATORS[name](), example_population(n_clients))


@pytest.mark.parametrize("n_clients", [1, 2, 5, 13])
@pytest.mark.parametrize("name", registry.SAMPLERS)
def test_sampler_in_populations_of_other_sizes(name, n_clients) -> None:
    check_sampler(registry.SAMPLERS[name](), example_population(n_clients))


@pytest.mark.parametrize("name", registry.SAMPLERS)
def test_sampler_where_nothing_is_known_of_the_clients(name) -> None:
    check_sampler(registry.SAMPLERS[name](), Population(6))


@pytest.mark.parametrize("name", [name for name in registry.COMPENSATORS if name != "fedavg_is"])
def test_compensator_where_nothing_is_known_of_the_clients(name) -> None:
    check_compensator(registry.COMPENSATORS[name](), Population(6))


# -- a part is a value ---------------------------------------------------------------------------

PROTOCOLS = {
    "sampler": roles.Sampler,
    "compensator": roles.Compensator,
    "guard": roles.Guard,
    "aggregator": roles.Aggregator,
    "server": roles.Server,
    "rule": roles.LocalRule,
    "availability": roles.Availability,
}


@pytest.mark.parametrize(("role", "part"), CLASSES)
def test_part_is_a_frozen_dataclass_with_defaults(role, part) -> None:
    built = made(part)
    assert dataclasses.is_dataclass(built)
    assert part.__dataclass_params__.frozen
    for item in dataclasses.fields(built):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(built, item.name, None)
    assert made(part) == built
    assert hash(made(part)) == hash(built)
    assert isinstance(built, PROTOCOLS.get(role, object))


@pytest.mark.parametrize(("role", "part"), CLASSES)
def test_part_says_what_it_is(role, part) -> None:
    """A docstring of its own, not the signature that a dataclass gets by itself."""
    assert part.__doc__ is not None
    assert not part.__doc__.startswith(f"{part.__name__}(")


def _names() -> dict[str, Any]:
    return {name: getattr(understudy, name) for name in dir(understudy)}


def _from_repr(text: str) -> Any:
    """Python shows a function with its address; its name is what can be read back."""
    return eval(re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text), _names())


@pytest.mark.parametrize(("role", "part"), CLASSES)
def test_default_part_is_read_back_from_its_repr(role, part) -> None:
    assert _from_repr(repr(made(part))) == made(part)


@pytest.mark.parametrize("part", EXTRA_SAMPLERS + EXTRA_COMPENSATORS + EXTRA_AVAILABILITY, ids=repr)
def test_part_is_read_back_from_its_repr(part) -> None:
    again = _from_repr(repr(part))
    assert again == part
    assert type(again) is type(part)


@pytest.mark.parametrize(("role", "part"), CLASSES)
def test_default_hyper_parameters_are_stored_untouched(role, part) -> None:
    given = {item.name: getattr(made(part), item.name) for item in dataclasses.fields(part)}
    built = part(**given)
    for name, value in given.items():
        assert getattr(built, name) is value, name


@pytest.mark.parametrize("part", EXTRA_SAMPLERS + EXTRA_COMPENSATORS + EXTRA_AVAILABILITY, ids=repr)
def test_hyper_parameters_are_stored_untouched(part) -> None:
    given = {item.name: getattr(part, item.name) for item in dataclasses.fields(part)}
    built = type(part)(**given)
    for name, value in given.items():
        assert getattr(built, name) is value, name


def test_an_integer_stays_an_integer() -> None:
    assert isinstance(FedGS(alpha=2).alpha, int)
    assert isinstance(Sgd(lr=1).lr, int)
    assert isinstance(Uniform(m=1.0).m, float)


# -- bad hyper-parameters ------------------------------------------------------------------------

NAN, INF = math.nan, math.inf


def _bad(part: Any, name: str, *values: object, **others: object) -> list[Any]:
    return [
        pytest.param(part, {name: value, **others}, name, id=f"{part.__name__}-{name}-{value!r}")
        for value in values
    ]


BAD = [
    *(
        case
        for part in (
            Uniform,
            ByData,
            PowerOfChoice,
            FedGS,
            OldestFirst,
            F3AST,
            LeastAvailableFirst,
            Oort,
        )
        for case in _bad(part, "m", 0, -1, 0.0, 1.5, -0.1, True, "3", NAN, INF, [2])
    ),
    *_bad(PowerOfChoice, "candidates", 0, 1.5, "all"),
    *_bad(PowerOfChoice, "losses", "first", None),
    *(case for name in ("epsilon", "epsilon_min", "clip") for case in _bad(Oort, name, -0.1, 2)),
    *(case for name in ("decay", "cutoff", "percentile") for case in _bad(Oort, name, 0, 101)),
    *_bad(Oort, "alpha", -1, NAN),
    *_bad(Oort, "window", 0, 2.5),
    *_bad(Oort, "pace", -1, NAN),
    *_bad(Oort, "losses", "first", None),
    *_bad(LeastAvailableFirst, "rest", -1, 2.5, None),
    *_bad(LeastAvailableFirst, "rates", "guessed"),
    *_bad(LateUpdates, "rule", "adasgd", None),
    *_bad(LateUpdates, "beta", -0.1, 1.1),
    *_bad(LateUpdates, "c", 0.9, NAN),
    *_bad(LateUpdates, "max_age", 0, 1.5),
    *_bad(F3AST, "beta", 0, 1, -0.5, NAN),
    *_bad(FedGS, "alpha", -0.1, NAN, INF, "1", None),
    *_bad(FedGS, "scale", "code", None),
    *_bad(FedGS, "edges", "pairs"),
    *_bad(FedGS, "graph", "label"),
    *_bad(FedGS, "restarts", 0, 2.0, None),
    *_bad(Blind, "inner", Uniform, FDMS(), None),
    *_bad(Stale, "kind", "models", None),
    *_bad(FDMS, "similarity", "euclid"),
    *_bad(FDMS, "race", "hoeffding", HoeffdingRace),
    *_bad(FDMS, "race", HoeffdingRace(), similarity="distance"),
    *_bad(HoeffdingRace, "threshold", "paper"),
    *_bad(HoeffdingRace, "scale", 0, -1.0, NAN),
    *_bad(HoeffdingRace, "n_clients", 0, 2.5),
    *_bad(HoeffdingRace, "horizon", 0, 10.0),
    *_bad(HoeffdingRace, "max_friends", 0, "3"),
    *_bad(HoeffdingRace, "beta", 0, 1.5),
    *_bad(HoeffdingRace, "p", 0, 1, NAN),
    *_bad(HoeffdingRace, "delta_f", -0.01),
    *_bad(MIFA, "wait", "no", None),
    *_bad(FedAR, "rho", -0.1, NAN, None),
    *_bad(FedAR, "cutoff", -1, NAN, "sqrt", True),
    *_bad(FedAR, "psi", "log"),
    *_bad(FedAU, "max_interval", 0, 2.5, None),
    *_bad(FedStale, "beta", -0.1, 1.1, NAN),
    *_bad(FedStale, "rates", "guessed", None),
    *_bad(FedAWE, "eta", 0, -1.0, NAN),
    *_bad(FedAWE, "model", "all", None),
    *_bad(FedAWE, "clip", 0, -0.5, INF),
    *_bad(InverseRoot, "period", 0, NAN),
    *_bad(LinearCutoff, "t0", -1),
    *_bad(LinearCutoff, "b", 2, 2.0, NAN),
    *_bad(SqrtCutoff, "c", 0),
    *_bad(SqrtCutoff, "t0", -1.0),
    *_bad(Capped, "inner", FDMS, Uniform(), FedVARP(), Stale("model"), FedAR(), FedAvgIS()),
    *_bad(Capped, "share", 0, -0.2, 1.01, NAN, "0.2", None),
    *_bad(Kriging, "nugget", 0, -0.1, NAN),
    *(case for name in ("decay", "evidence_decay") for case in _bad(Kriging, name, 0, 1.1, NAN)),
    *(case for name in ("prior", "alike") for case in _bad(Kriging, name, 0, -1, INF)),
    *_bad(Kriging, "nearest", 0, 2.5),
    *_bad(Kriging, "exact", -1, 2.5),
    *_bad(Concord, "ridge", 0, -0.1, NAN),
    *_bad(Concord, "centred", "yes", None),
    *_bad(Concord, "bound", 0.99, NAN, "2"),
    *_bad(Concord, "exact", -1, 2.5),
    *_bad(NormGuard, "factor", 0.99, 0, NAN, INF, None),
    *_bad(TrimmedMean, "share", 0.5, -0.1, NAN),
    *(case for part in (Sgd, Momentum, Adam, Yogi) for case in _bad(part, "lr", 0, -1, NAN, "1")),
    *(case for part in (Sgd, Momentum, Adam, Yogi) for case in _bad(part, "schedule", 0.9, None)),
    *_bad(Momentum, "beta", 1, -0.1),
    *(
        case
        for part in (Adam, Yogi)
        for name in ("beta1", "beta2")
        for case in _bad(part, name, 1.0, -0.1)
    ),
    *(case for part in (Adam, Yogi) for case in _bad(part, "tau", 0, NAN)),
    *_bad(Extrapolated, "inner", Sgd, 1.0),
    *_bad(Extrapolated, "rows", "late", None),
    *_bad(Extrapolated, "scale", 0, NAN),
    *_bad(Extrapolated, "epsilon", -1e-3, NAN),
    *_bad(Extrapolated, "damping", 1, -0.1, NAN),
    *_bad(FedMGDA, "epsilon", -0.1, 1.1, NAN),
    *_bad(FedMGDA, "length", "sum", None),
    *_bad(FedFV, "alpha", -0.1, 1.1, NAN),
    *_bad(FedFV, "external", "late", None),
    *_bad(GeneralizedFedAvg, "period", 0, 2.5, None),
    *_bad(GeneralizedFedAvg, "factor", 0, -1, NAN),
    *_bad(GeneralizedFedAvg, "inner", Sgd, 1.0),
    *_bad(AmplifiedScaffold, "period", 0, 2.5, None),
    *_bad(Proximal, "mu", -0.01, NAN, None),
    *_bad(Exponential, "decay", 0, 1.1, NAN),
    *_bad(Bernoulli, "p_min", -0.1, 1.1, NAN),
    *_bad(Bernoulli, "p", -0.1, 1.1, NAN, "0.5", True),
    *_bad(Bernoulli, "seed", -1, 0.5, p=0.5),
    *_bad(InverseRootHorizon, "rounds", 0, 2.5),
    *_bad(VanishingDropout, "alpha", -0.1, 1.1, NAN),
    *_bad(VanishingDropout, "power", -0.5, NAN, "1"),
    *_bad(FixedDropout, "alpha", -0.1, 1.1, "half"),
    *_bad(FixedDropout, "keep_one_per_group", "yes"),
    *_bad(FixedDropout, "first_round_full", None),
    *_bad(Local, "lr", 0, -0.1, NAN),
    *_bad(Local, "schedule", 0.5),
    *_bad(Local, "epochs", 0, 1.5),
    *_bad(Local, "steps", 0, 2.5),
    *_bad(Local, "batch_size", 0, None),
    *_bad(Local, "batch_growth", -1, NAN),
    *_bad(Local, "momentum", 1, -0.1),
    *_bad(Local, "weight_decay", -0.1),
    *_bad(Local, "rule", Plain, "plain", None),
    *_bad(Strategy, "sampler", Uniform, Ignore(), None),
    *_bad(Strategy, "compensator", FDMS, Uniform(), None),
    *_bad(Strategy, "aggregator", Linear, 0.5, None),
    *_bad(Strategy, "server", Sgd, 1.0, None),
    *_bad(Strategy, "local", Local, Plain(), None),
    *_bad(Strategy, "guard", NormGuard, 2.5),
    *_bad(Strategy, "weighting", "uniform", None),
]


@pytest.mark.parametrize(("part", "kwargs", "name"), BAD)
def test_a_bad_hyper_parameter_fails_at_construction(part, kwargs, name) -> None:
    """The message begins with the parameter, and holds what was expected and what came."""
    with pytest.raises((ValueError, TypeError)) as caught:
        part(**kwargs)
    message = str(caught.value)
    assert re.match(rf"{name}\b[^:]*: expected ", message)
    assert repr(kwargs[name]) in message


@pytest.mark.parametrize(
    ("part", "name"),
    [
        pytest.param(part, item.name, id=f"{part.__name__}-{item.name}")
        for role in REGISTRIES
        for part in role.values()
        if inspect.isclass(part)
        for item in dataclasses.fields(part)
    ],
)
def test_nonsense_is_refused_by_every_hyper_parameter(part, name) -> None:
    """Also of parts that the table above does not know yet."""
    with pytest.raises(
        (ValueError, TypeError), match=rf"^{name}\b[^:]*: expected .*object object at"
    ):
        part(**{name: object()})


def test_a_class_instead_of_a_part_is_told_how_to_write_it() -> None:
    with pytest.raises(TypeError, match=re.escape("write FDMS(), with parentheses")):
        Strategy(compensator=FDMS)


# -- whole methods -------------------------------------------------------------------------------

METHODS = {  # what has a paper of its own: sampler, compensator, rule, the paper's weighting
    "fedavg": (Everyone(), Ignore(), Plain(), "examples"),
    "fedprox": (ByData(), Ignore(), Proximal(0.01), "clients"),
    "fdms": (Everyone(), FDMS(), Plain(), "clients"),
    "stale": (Everyone(), Stale(), Plain(), "clients"),
    "mifa": (Everyone(), MIFA(wait=True), Plain(), "clients"),
    "fedar": (Everyone(), FedAR(rho=0.1), Plain(), "clients"),
    "fedvarp": (Everyone(), FedVARP(), Plain(), "clients"),
    "fedavg_is": (Everyone(), FedAvgIS(), Plain(), "clients"),
    "fedau": (Everyone(), FedAU(), Plain(), "clients"),
    "fedstale": (Everyone(), FedStale(), Plain(), "examples"),
    "mimic": (Everyone(), MimiC(), Plain(), "clients"),
    "fedawe": (Everyone(), FedAWE(), Plain(), "clients"),
    "fedlaavg": (OldestFirst(), MIFA(wait=False), Plain(), "clients"),
    "scaffold": (Everyone(), Ignore(), Scaffold(), "clients"),
    "fedgs": (FedGS(alpha=1), Ignore(), Plain(), "examples"),
    "mdsample": (ByData(), Ignore(), Plain(), "clients"),
    "power_of_choice": (PowerOfChoice(), Ignore(), Plain(), "clients"),
    "oort": (Oort(), Ignore(), Plain(), "clients"),
    "refl": (LeastAvailableFirst(), LateUpdates(), Plain(), "clients"),
    "f3ast": (F3AST(beta=0.01), HorvitzThompson(), Plain(), "examples"),
}


@pytest.mark.parametrize("name", METHODS)
def test_method_is_set_as_its_paper_sets_it(name) -> None:
    strategy = getattr(understudy, name)(weighting="paper")
    assert isinstance(strategy, Strategy)
    assert (
        strategy.sampler,
        strategy.compensator,
        strategy.local.rule,
        strategy.weighting,
    ) == METHODS[name]
    assert strategy.aggregator == Linear()
    assert strategy.server == Sgd(lr=1.0)
    assert strategy.guard is None


@pytest.mark.parametrize("name", registry.STRATEGIES)
def test_methods_have_one_objective_whatever_their_papers(name) -> None:
    """Once by examples: as weights, or by drawing more often those who have more of them."""
    strategy = getattr(understudy, name)()
    expected = "clients" if name in ("mdsample", "fedprox") else "examples"
    assert strategy.weighting == describe(strategy)["weighting"] == expected
    assert f"weighting='{expected}'" in repr(strategy)


@pytest.mark.parametrize(
    "given",
    [
        {"sampler": Uniform(2)},
        {"compensator": Capped(FDMS())},
        {"aggregator": Linear()},
        {"server": Adam(lr=0.5)},
        {"guard": NormGuard(3.0)},
        {"weighting": "clients"},
        {"sampler": Uniform(2), "weighting": "examples"},
    ],
    ids=lambda given: "-".join(given),
)
@pytest.mark.parametrize("name", registry.STRATEGIES)
def test_method_takes_any_field_of_a_strategy(name, given) -> None:
    plain = getattr(understudy, name)()
    strategy = getattr(understudy, name)(**given)
    assert strategy == dataclasses.replace(plain, **given)


@pytest.mark.parametrize("name", registry.STRATEGIES)
def test_method_keeps_its_rule_when_local_is_given(name) -> None:
    local = Local(lr=0.7, epochs=3, schedule=inverse_time)
    rule = getattr(understudy, name)().local.rule
    strategy = getattr(understudy, name)(local=local)
    assert strategy.local == dataclasses.replace(local, rule=rule)


@pytest.mark.parametrize("name", registry.STRATEGIES)
def test_method_refuses_what_is_no_field(name) -> None:
    with pytest.raises(TypeError, match="momentum"):
        getattr(understudy, name)(momentum=0.9)


@pytest.mark.parametrize(
    ("made", "place", "value"),
    [
        (understudy.fedprox(mu=0.2, m=3), "local.rule", Proximal(0.2)),
        (understudy.fedprox(mu=0.2, m=3), "sampler", ByData(3)),
        (understudy.fdms("distance"), "compensator", FDMS("distance")),
        (
            understudy.fdms(race=HoeffdingRace(scale=0.5)),
            "compensator",
            FDMS(race=HoeffdingRace(scale=0.5)),
        ),
        (understudy.stale("model"), "compensator", Stale("model")),
        (understudy.concord(bound=3.0), "aggregator", Concord(bound=3.0)),
        (understudy.mifa(wait=False), "compensator", MIFA(wait=False)),
        (understudy.fedar(0.2, 7, "linear"), "compensator", FedAR(0.2, 7, "linear")),
        (
            understudy.fedgs(2, 0.5, "paper", "paper", "labels", 3),
            "sampler",
            FedGS(0.5, 2, "paper", "paper", "labels", 3),
        ),
        (understudy.fedau(50), "compensator", FedAU(50)),
        (understudy.fedstale(0.2, "known", 9), "compensator", FedStale(0.2, "known", 9)),
        (understudy.fedawe(0.5, 2.0, "last"), "compensator", FedAWE(0.5, 2.0, "last")),
        (understudy.fedlaavg(3), "sampler", OldestFirst(3)),
        (understudy.fedlaavg(3, True), "compensator", MIFA(False, True)),
        (understudy.oort(3, "asked"), "sampler", Oort(3, losses="asked")),
        (
            understudy.refl(3, "equal", 2, "known"),
            "sampler",
            LeastAvailableFirst(3, 2, "known"),
        ),
        (understudy.refl(3, "equal"), "compensator", LateUpdates("equal")),
        (understudy.f3ast(4, 0.2), "sampler", F3AST(4, 0.2)),
        (understudy.mdsample(4), "sampler", ByData(4)),
        (understudy.fedmgda(0.3, "unit"), "aggregator", FedMGDA(0.3, "unit")),
        (understudy.fedfv(0.2, "came"), "aggregator", FedFV(0.2, "came")),
        (understudy.generalized_fedavg(4, 2.0), "server", GeneralizedFedAvg(4, 2.0)),
        (understudy.amplified_scaffold(4, 2.0), "server", GeneralizedFedAvg(4, 2.0)),
        (understudy.amplified_scaffold(4, 2.0), "local.rule", AmplifiedScaffold(4)),
        (understudy.focus(), "compensator", MIFA(wait=False)),
        (understudy.fedexp("all", 0.5), "server", Extrapolated(rows="all", damping=0.5)),
        (understudy.power_of_choice(2, 5, "last"), "sampler", PowerOfChoice(2, 5, "last")),
    ],
)
def test_method_hands_its_own_hyper_parameters_on(made, place, value) -> None:
    assert functools.reduce(getattr, place.split("."), made) == value


@pytest.mark.parametrize("name", registry.STRATEGIES)
def test_method_plays(name) -> None:
    told = tell_a_story(getattr(understudy, name)())
    assert [told[t].stepped for t in (0, 2, 3)] == [False, False, True]  # nobody, nobody, all


# -- everything combines -------------------------------------------------------------------------


def _larger(small: Population, n: int) -> Population:
    new = example_population(n)
    fields = {}
    for item in dataclasses.fields(Population)[1:-1]:  # without names
        old, value = getattr(small, item.name), getattr(new, item.name).copy()
        value[tuple(slice(0, size) for size in old.shape)] = old
        fields[item.name] = value
    return Population(n, **fields)


def tell_a_story(strategy: Strategy) -> list[Any]:
    """Six rounds: nobody answers; late ones and half of the asked; nobody there; new clients join
    and all come; one leaves, some come; one comes. The model stays finite throughout."""
    n = 7
    population = example_population(n)
    params = torch.linspace(-1, 1, 5, dtype=torch.float64)
    state = strategy.init(population, params, seed=5)
    told = []

    def a_round(available, answers, late=False) -> None:
        t = state.t
        cohort = strategy.select(state, available, losses=lambda ids: np.cos(1.7 * ids + t))
        came = answers(cohort.asked)
        requests = [(int(client), t) for client in came]
        overdue = [(int(client), int(start)) for client, start in cohort.pending] if late else []
        before = state.params.clone()
        applied = strategy.apply(state, cohort, updates_for(requests + overdue, state.params))
        assert state.t == t + 1
        assert applied.refusals == ()
        assert torch.isfinite(state.params).all()
        assert np.flatnonzero(applied.outcome == Outcome.CAME).tolist() == sorted(came)
        late_ones = {client for client, _ in overdue} - set(came.tolist())
        assert set(np.flatnonzero(applied.outcome == Outcome.LATE)) == late_ones
        if not len(came):
            assert not applied.stepped
            assert torch.equal(state.params, before)
        filled = applied.contributions
        own = np.isin(filled.ids, came)
        assert ((filled.source == filled.ids) | (filled.source == -1))[own].all()
        assert state.active[filled.ids].all()
        assert np.isfinite(filled.coef).all()
        told.append(applied)

    everyone, nobody = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    a_round(everyone, lambda asked: asked[:0])
    a_round(everyone, lambda asked: asked[::2], late=True)
    a_round(nobody, lambda asked: asked)
    strategy.grow(state, _larger(population, n + 2))
    a_round(np.ones(n + 2, dtype=bool), lambda asked: asked)
    strategy.retire(state, 1)
    some = np.arange(n + 2) % 3 > 0
    a_round(some, lambda asked: asked[1:], late=True)
    a_round(~some, lambda asked: asked[:1])
    return told


DEFAULT_SAMPLERS = SAMPLERS[: len(registry.SAMPLERS)]


@pytest.mark.parametrize(
    ("sampler", "compensator"),
    [
        *itertools.product(DEFAULT_SAMPLERS, COMPENSATORS),
        *itertools.product(EXTRA_SAMPLERS, [Ignore(), Stale(), FDMS(), FedVARP()]),
    ],
    ids=repr,
)
def test_sampler_and_compensator_play_together(sampler, compensator) -> None:
    told = tell_a_story(Strategy(sampler=sampler, compensator=compensator))
    outcomes = [set(applied.outcome.tolist()) for applied in told]
    assert Outcome.MISSING in outcomes[0]
    assert Outcome.CAME in outcomes[1]
    assert Outcome.CAME not in outcomes[2]
    assert Outcome.CAME in outcomes[3]


OTHERS = [
    pytest.param(field_name, part(), id=f"{field_name}-{name}")
    for field_name, role in (
        ("aggregator", registry.AGGREGATORS),
        ("server", registry.SERVERS),
        ("guard", registry.GUARDS),
        ("rule", registry.RULES),
    )
    for name, part in role.items()
]


@pytest.mark.parametrize("compensator", [Ignore(), Stale(), FDMS(), MIFA(wait=False)], ids=repr)
@pytest.mark.parametrize(("field_name", "part"), OTHERS)
def test_other_parts_play_and_continue_after_a_reload(
    field_name, part, compensator, tmp_path
) -> None:
    fields = {"local": Local(rule=part)} if field_name == "rule" else {field_name: part}
    strategy = Strategy(compensator=compensator, weighting="examples", **fields)
    tell_a_story(strategy)
    states = [strategy.init(example_population(5), torch.zeros(4), seed=1)]
    for t in range(4):
        if t == 2:
            save_state(states[0], tmp_path / "state")
            states.append(load_state(tmp_path / "state", strategy))
        for state in states:
            here = np.arange(5) % 4 != t
            cohort = strategy.select(state, here)
            requests = [(int(client), t) for client in cohort.asked]
            strategy.apply(state, cohort, updates_for(requests, state.params))
    assert snapshot(states[0]) == snapshot(states[1])


@pytest.mark.parametrize("aggregator", [Median(), TrimmedMean()], ids=repr)
@pytest.mark.parametrize("compensator", [c for c in COMPENSATORS if not c.signed], ids=repr)
def test_robust_aggregators_take_every_unsigned_compensator(compensator, aggregator) -> None:
    told = tell_a_story(Strategy(compensator=compensator, aggregator=aggregator))
    assert [told[t].stepped for t in (0, 2, 3)] == [False, False, True]  # nobody, nobody, all


def test_graph_of_updates_survives_growing_once_labels_are_known() -> None:
    """FedGS(graph="auto") of a population of which nothing is known learns from updates. Label
    histograms that clients send later must not break it when clients join."""
    strategy = Strategy(sampler=FedGS(m=2))
    state = strategy.init(Population(4), torch.zeros(3), seed=0)
    cohort = strategy.select(state, np.ones(4, dtype=bool))
    k = len(cohort.asked)
    arrivals = Arrivals(cohort.asked, torch.ones(k, 3), label_counts=[[1, 2]] * k)
    strategy.apply(state, cohort, arrivals)
    strategy.grow(state, Population(6))
    cohort = strategy.select(state, np.ones(6, dtype=bool))
    assert len(cohort.wanted) == 2


# -- the checks can fail -------------------------------------------------------------------------


@dataclass
class Count:
    n: int


@dataclass
class Hidden:
    _n: int  # derived, says the underscore: neither saved nor grown


@dataclass
class Remembered:
    things: Any


@dataclass(frozen=True)
class Averages:
    """A faithful compensator, to be broken in one place by those below."""

    signed = False
    normalised = True

    def init(self, setup):
        return Count(0)

    def coef(self, state, end):
        return np.full(len(end.came), 1 / len(end.came))

    def fill(self, state, end):
        k = len(end.came)
        return Contributions.of((end.came, end.fresh(), np.arange(k), self.coef(state, end)))

    def learn(self, state, end, step):
        state.n += 1
        return {}


class NoDataclass:
    """Keeps the promises of `Averages`, but is not a dataclass."""

    signed, normalised = False, True
    init, coef, fill, learn = Averages.init, Averages.coef, Averages.fill, Averages.learn


@dataclass
class NotFrozen:
    signed = False
    normalised = True
    init, coef, fill, learn = Averages.init, Averages.coef, Averages.fill, Averages.learn


@dataclass(frozen=True)
class WritesInFill(Averages):
    def fill(self, state, end):
        state.n += 1
        return super().fill(state, end)


@dataclass(frozen=True)
class ScalesWhatCame(Averages):
    def fill(self, state, end):
        for _, delta in end.arrivals:
            delta.mul_(0.5)
        return super().fill(state, end)


@dataclass(frozen=True)
class UsesNumpysGenerator(Averages):
    def learn(self, state, end, step):
        np.random.random()  # noqa: NPY002
        return {}


@dataclass(frozen=True)
class UsesTorchsGenerator(Averages):
    def learn(self, state, end, step):
        torch.rand(1)
        return {}


@dataclass(frozen=True)
class NegativeThoughUnsigned(Averages):
    normalised = False

    def coef(self, state, end):
        return -np.ones(len(end.came))


@dataclass(frozen=True)
class DoesNotSumToOne(Averages):
    def coef(self, state, end):
        return np.full(len(end.came), 2 / len(end.came))


@dataclass(frozen=True)
class NotFinite(Averages):
    normalised = False

    def coef(self, state, end):
        return np.full(len(end.came), np.inf)


@dataclass(frozen=True)
class PointsBeyondTheRows(Averages):
    def fill(self, state, end):
        k = len(end.came)
        return Contributions.of((end.came, end.fresh(), np.arange(k) + 1, self.coef(state, end)))


@dataclass(frozen=True)
class PointsBeforeTheRows(Averages):
    def fill(self, state, end):
        return Contributions.of((end.came, end.fresh(), -1, self.coef(state, end)))


@dataclass(frozen=True)
class CoefficientsOfAnotherShape(Averages):
    def coef(self, state, end):
        return np.full(len(end.came) + 1, 1 / len(end.came))


@dataclass(frozen=True)
class SpeaksForThoseWhoCame(Averages):
    def fill(self, state, end):
        return Contributions.of((end.came, end.fresh(), 0, self.coef(state, end)))


@dataclass(frozen=True)
class RepresentsTheRetired(Averages):
    def fill(self, state, end):
        mean = Block(np.array([-1]), torch.zeros_like(end.params)[None])
        everyone = np.arange(end.population.n_clients)
        return Contributions.of((everyone, mean, 0, 1 / len(everyone)))


@dataclass(frozen=True)
class ForgetsWhenSaved(Averages):
    normalised = False

    def init(self, setup):
        return Hidden(1)

    def coef(self, state, end):
        return np.full(len(end.came), state._n / len(end.came))

    def learn(self, state, end, step):
        state._n += 1
        return {}


@dataclass(frozen=True)
class CannotBeSaved(Averages):
    def init(self, setup):
        return Remembered({})

    def learn(self, state, end, step):
        return {}


@dataclass(frozen=True)
class ChangesItself(Averages):
    rounds: int = 0

    def learn(self, state, end, step):
        object.__setattr__(self, "rounds", self.rounds + 1)
        return {}


@dataclass(frozen=True)
class MovesTheModel(Averages):
    def learn(self, state, end, step):
        end.params.add_(1.0)
        return {}


@dataclass(frozen=True)
class NeedsTwoClients(Averages):
    def init(self, setup):
        return Count(1 // (setup.population.n_clients - 1))


def test_the_faithful_compensator_is_faithful() -> None:
    check_compensator(Averages())


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (NoDataclass(), "a part is a (frozen )?dataclass"),
        (NotFrozen(), "frozen"),
        (WritesInFill(), "only read"),
        (ScalesWhatCame(), "only read"),
        (UsesNumpysGenerator(), "no global random generator"),
        (UsesTorchsGenerator(), "no global random generator"),
        (NegativeThoughUnsigned(), "not negative"),
        (DoesNotSumToOne(), "sum to one"),
        (NotFinite(), "finite"),
        (PointsBeyondTheRows(), "points to a row|beyond the last block"),
        (PointsBeforeTheRows(), "points to a row"),
        (CoefficientsOfAnotherShape(), "shape"),
        (SpeaksForThoseWhoCame(), "represented by its own row"),
        (RepresentsTheRetired(), "only active clients|retired"),
        (ForgetsWhenSaved(), "same bits"),
        (CannotBeSaved(), "CannotBeSaved.init: state.things is a dict; a state is None or"),
        (ChangesItself(), "never changes it"),
        (MovesTheModel(), "no client came: the model is unchanged"),
        (NeedsTwoClients(), "zero"),
    ],
    ids=lambda case: type(case).__name__ if dataclasses.is_dataclass(case) else None,
)
def test_a_broken_compensator_is_found(broken, said) -> None:
    with pytest.raises(Exception, match=said):
        check_compensator(broken)


@dataclass(frozen=True)
class Picks:
    """A faithful sampler, to be broken in one place by those below."""

    def init(self, setup):
        return Count(0)

    def pick(self, state, start):
        ids = np.flatnonzero(start.available)
        return ids, np.ones(len(ids))

    def learn(self, state, end):
        state.n += 1


@dataclass(frozen=True)
class WritesInPick(Picks):
    def pick(self, state, start):
        state.n += 1
        return super().pick(state, start)


@dataclass(frozen=True)
class PicksTheRetired(Picks):
    def pick(self, state, start):
        n = len(start.active)
        return np.arange(n), np.ones(n)


@dataclass(frozen=True)
class PicksTwice(Picks):
    def pick(self, state, start):
        ids, weight = super().pick(state, start)
        return np.concatenate([ids, ids]), np.concatenate([weight, weight])


@dataclass(frozen=True)
class PicksStrangers(Picks):
    def pick(self, state, start):
        ids, weight = super().pick(state, start)
        return ids + len(start.active), weight


@dataclass(frozen=True)
class WeightsOfAnotherShape(Picks):
    def pick(self, state, start):
        ids, weight = super().pick(state, start)
        return ids, np.append(weight, 1.0)


@dataclass(frozen=True)
class WeighsNothing(Picks):
    def pick(self, state, start):
        ids, weight = super().pick(state, start)
        return ids, 0 * weight


@dataclass(frozen=True)
class DrawsFromNumpy(Picks):
    def pick(self, state, start):
        ids, weight = super().pick(state, start)
        keep = np.random.random(len(ids)) < 0.5  # noqa: NPY002
        return ids[keep], weight[keep]


@dataclass(frozen=True)
class NeverTheSame(Picks):
    turns: itertools.count = field(default_factory=itertools.count, compare=False)

    def pick(self, state, start):
        ids, weight = super().pick(state, start)
        return ids, weight + next(self.turns)


@dataclass(frozen=True)
class CountsOnlyTheFirstClients(Picks):
    """Its array has a length of its own, and does not grow."""

    def init(self, setup):
        return Remembered(np.zeros(8))

    def learn(self, state, end):
        state.things[end.cohort.wanted] += 1


@dataclass(frozen=True)
class PicksDifferentlyAfterAReload(Picks):
    def init(self, setup):
        return Hidden(0)

    def pick(self, state, start):
        ids, weight = super().pick(state, start)
        return ids, weight + np.arange(len(ids)) * state._n

    def learn(self, state, end):
        state._n += 1


def test_the_faithful_sampler_is_faithful() -> None:
    check_sampler(Picks())


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (WritesInPick(), "only read"),
        (PicksTheRetired(), "retired"),
        (PicksTwice(), "distinct"),
        (PicksStrangers(), "expected ids 0 to"),
        (WeightsOfAnotherShape(), "ids but"),
        (WeighsNothing(), "weights > 0"),
        (DrawsFromNumpy(), "says the same|no global random generator"),
        (NeverTheSame(), "says the same"),
        (CountsOnlyTheFirstClients(), "out of bounds"),
        (PicksDifferentlyAfterAReload(), "same bits"),
    ],
    ids=lambda case: type(case).__name__ if dataclasses.is_dataclass(case) else None,
)
def test_a_broken_sampler_is_found(broken, said) -> None:
    with pytest.raises(Exception, match=said):
        check_sampler(broken)


@dataclass(frozen=True)
class Coins:
    """A faithful availability, to be broken in one place by those below."""

    def init(self, population):
        return Count(population.n_clients)

    def draw(self, state, t, rng):
        return rng.random(state.n) < 0.5

    def rates(self, state, t):
        return np.full(state.n, 0.5)


@dataclass(frozen=True)
class OneCoinTooMany(Coins):
    def draw(self, state, t, rng):
        return rng.random(state.n + 1) < 0.5


@dataclass(frozen=True)
class NumbersInsteadOfBools(Coins):
    def draw(self, state, t, rng):
        return rng.integers(0, 2, state.n)


@dataclass(frozen=True)
class CoinsOfItsOwn(Coins):
    def draw(self, state, t, rng):
        return np.random.random(state.n) < 0.5  # noqa: NPY002


@dataclass(frozen=True)
class SaysMoreThanItDraws(Coins):
    def rates(self, state, t):
        return np.full(state.n, 0.75)


@dataclass(frozen=True)
class RatesAboveOne(Coins):
    def rates(self, state, t):
        return np.full(state.n, 1.5)


@dataclass(frozen=True)
class OneRateForAll(Coins):
    def rates(self, state, t):
        return np.array([0.5])


@dataclass(frozen=True)
class CountsInItself(Coins):
    drawn: int = 0

    def draw(self, state, t, rng):
        object.__setattr__(self, "drawn", self.drawn + 1)
        return super().draw(state, t, rng)


def test_the_faithful_availability_is_faithful() -> None:
    check_availability(Coins())


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (OneCoinTooMany(), r"draw gives \(8,\) bool"),
        (NumbersInsteadOfBools(), r"draw gives \(8,\) bool"),
        (CoinsOfItsOwn(), "the same address draws the same"),
        (SaysMoreThanItDraws(), "as often as rates says"),
        (RatesAboveOne(), r"lie in \[0, 1\]"),
        (OneRateForAll(), r"rates gives \(8,\)"),
        (CountsInItself(), "never changes it"),
    ],
    ids=lambda case: type(case).__name__ if dataclasses.is_dataclass(case) else None,
)
def test_a_broken_availability_is_found(broken, said) -> None:
    with pytest.raises(ContractBroken, match=said):
        check_availability(broken)


def test_draw_availability_gives_frequencies_of_the_rounds_asked_for() -> None:
    """The state is carried through the rounds between: one that counts its draws shows it."""

    @dataclass(frozen=True)
    class EveryThird:
        def init(self, population):
            return Count(0)

        def draw(self, state, t, rng):
            state.n += 1
            return np.array([state.n % 3 == 0, True, rng.random() < 0.25])

    frequency = draw_availability(EveryThird(), Population(3), [2, 5, 3], seeds=200)
    assert frequency.shape == (3, 3)
    assert frequency[:, 0].tolist() == [1, 1, 0]  # rounds 2 and 5 are the third and the sixth draw
    assert frequency[:, 1].tolist() == [1, 1, 1]
    assert (np.abs(frequency[:, 2] - 0.25) < 0.15).all()  # five standard deviations


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", REGISTRIES, ids=lambda role: role.role)
def test_every_registered_name_is_importable_from_the_package(role) -> None:
    for name, part in role.items():
        assert getattr(understudy, part.__name__) is part, name
        assert part.__name__ in dir(understudy)
        assert part.__name__ in understudy.__all__


def test_every_public_name_is_there() -> None:
    assert sorted(set(dir(understudy))) == sorted(dir(understudy))
    for name in dir(understudy):
        assert getattr(understudy, name) is not None


def test_the_names_of_the_foundation_are_public() -> None:
    names = """
        Everyone Uniform ByData PowerOfChoice FedGS Blind OldestFirst
        Ignore Stale FDMS HoeffdingRace MIFA FedAR FedVARP FedAvgIS Capped NormGuard
        Linear Median TrimmedMean Sgd Momentum Adam Yogi Local Plain Proximal Scaffold
        fedavg fedprox fdms stale mifa fedar fedvarp fedavg_is scaffold fedgs mdsample
        power_of_choice Strategy Population Arrivals Contributions Cohort RoundLog
        save_state load_state Bernoulli FixedDropout
    """
    assert set(names.split()) <= set(dir(understudy))


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match=re.escape("module 'understudy' has no attribute 'FDSM'")
    ):
        understudy.FDSM  # noqa: B018
    with pytest.raises(ImportError, match="Unifrom"):
        exec("from understudy import Unifrom")


def test_parts_are_loaded_when_they_are_asked_for() -> None:
    program = (
        "import sys, understudy\n"
        "print('understudy.parts.samplers.fedgs' in sys.modules, 'scipy' in sys.modules)\n"
        "understudy.FedGS\n"
        "print('understudy.parts.samplers.fedgs' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False", "True"]


@pytest.mark.parametrize(
    ("role", "typo", "meant"),
    [
        (registry.COMPENSATORS, "fmds", "fdms"),
        (registry.COMPENSATORS, "FDMS", "fdms"),
        (registry.COMPENSATORS, "FedAvgIS", "fedavg_is"),
        (registry.SAMPLERS, "unifrom", "uniform"),
        (registry.SAMPLERS, "ByData", "by_data"),
        (registry.SAMPLERS, "powerofchoice", "power_of_choice"),
        (registry.SERVERS, "yogy", "yogi"),
        (registry.STRATEGIES, "fedvarb", "fedvarp"),
    ],
)
def test_a_typo_is_answered_with_what_may_have_been_meant(role, typo, meant) -> None:
    with pytest.raises(KeyError) as caught:
        role[typo]
    message = str(caught.value)
    assert message.startswith(f"no {role.role} named {typo!r}; did you mean {meant!r}?")
    assert message.endswith("known: " + ", ".join(role))


def test_a_name_like_no_other_gets_the_list_only() -> None:
    with pytest.raises(KeyError) as caught:
        registry.GUARDS["xyzzy"]
    assert str(caught.value) == "no guard named 'xyzzy'; known: norm_guard"


def test_a_registry_is_a_mapping() -> None:
    assert "fdms" in registry.COMPENSATORS
    assert "FDMS" not in registry.COMPENSATORS
    assert registry.COMPENSATORS.get("nobody") is None
    assert len(registry.COMPENSATORS) == len(list(registry.COMPENSATORS))
    assert "fdms" in repr(registry.COMPENSATORS)
    assert registry.SCHEDULES["constant"] is constant


def test_other_peoples_parts_by_module_and_class(tmp_path, monkeypatch) -> None:
    (tmp_path / "their_parts.py").write_text(
        "from dataclasses import dataclass\n"
        "from understudy import Ignore\n"
        "@dataclass(frozen=True)\n"
        "class Theirs(Ignore):\n"
        "    size: int = 3\n"
    )
    (tmp_path / "their_broken_parts.py").write_text("import something_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    theirs = registry.COMPENSATORS["their_parts:Theirs"]
    assert theirs().size == 3
    check_compensator(theirs())
    with pytest.raises(ImportError, match=re.escape("'their_parts' has no 'Thiers'")):
        registry.COMPENSATORS["their_parts:Thiers"]
    with pytest.raises(ImportError, match="no module named 'nobodys_parts'"):
        registry.COMPENSATORS["nobodys_parts:Part"]
    with pytest.raises(ModuleNotFoundError, match="something_that_is_not_there"):
        registry.COMPENSATORS["their_broken_parts:Part"]

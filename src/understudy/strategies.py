"""Whole methods by name: each with its paper's parts, and the local training it is compared with.

Every function takes its algorithm's own hyper-parameters and any field of `Strategy`, which then
takes the place of the method's own. A given `local` keeps the method's rule (the proximal term of
FedProx, the variates of SCAFFOLD). Clients weigh by their examples, as `Strategy` has it, whatever
the paper does; ``weighting="paper"`` asks for the paper's own, which is "clients" for all but
`fedavg`, `fedgs`, `fedstale` and `f3ast`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from understudy import registry
from understudy.core.roles import Compensator, LocalRule, Sampler
from understudy.core.shown import part_text
from understudy.graph.noise_answers import NoiseAnswers
from understudy.parts.aggregators.concord import Concord
from understudy.parts.aggregators.fedfv import FedFV
from understudy.parts.aggregators.fedmgda import FedMGDA
from understudy.parts.amplified import AmplifiedScaffold, GeneralizedFedAvg
from understudy.parts.compensators.fdms import FDMS
from understudy.parts.compensators.fedar import FedAR
from understudy.parts.compensators.fedawe import FedAWE
from understudy.parts.compensators.fedstale import FedStale
from understudy.parts.compensators.fedvarp import FedVARP
from understudy.parts.compensators.gather import Gather
from understudy.parts.compensators.kriging.kriging import Kriging
from understudy.parts.compensators.late_updates import LateUpdates
from understudy.parts.compensators.mifa import MIFA
from understudy.parts.compensators.mimic import MimiC
from understudy.parts.compensators.race import HoeffdingRace
from understudy.parts.compensators.reweight import NEVER, FedAU, FedAvgIS, HorvitzThompson
from understudy.parts.compensators.stale import Stale
from understudy.parts.extrapolated import Extrapolated
from understudy.parts.focus import Focus
from understudy.parts.local import Local, Proximal, Scaffold
from understudy.parts.samplers.blind import Blind
from understudy.parts.samplers.f3ast import F3AST
from understudy.parts.samplers.fedgs import FedGS
from understudy.parts.samplers.keep_asking import KeepAsking
from understudy.parts.samplers.least_available import LeastAvailableFirst
from understudy.parts.samplers.oldest_first import OldestFirst
from understudy.parts.samplers.oort import Oort
from understudy.parts.samplers.power_of_choice import PowerOfChoice
from understudy.parts.samplers.uniform import ByData, Uniform
from understudy.parts.schedules import Exponential, InverseRoot, inverse_time
from understudy.parts.servers import Momentum
from understudy.server.strategy import Strategy
from understudy.server.weights import CLIENTS, EXAMPLES

PAPER = "paper"  # as `weighting`, and in a study as `local`: what the method's own paper does
# FL-FDMS's MNIST setting; FedAR's, which equals MIFA's public defaults; FedGS's FMNIST setting;
# the defaults of FedAU's, FedAWE's and REFL's code
FDMS_LOCAL = Local(lr=0.1, epochs=2, batch_size=5)
FEDAR_LOCAL = Local(lr=0.1, schedule=inverse_time, epochs=5, batch_size=64, weight_decay=0.001)
FEDGS_LOCAL = Local(lr=0.1, schedule=Exponential(0.998), steps=10, batch_size=32)
FEDAU_LOCAL = Local(lr=0.1, steps=5, batch_size=16)
FEDAWE_LOCAL = Local(lr=0.05, schedule=InverseRoot(), steps=10, batch_size=128)
REFL_LOCAL = Local(lr=0.05, schedule=Exponential(0.998), steps=20, batch_size=30)


def fedavg(**fields: Any) -> Strategy:
    """FedAvg: everyone is wanted, those who come are averaged by their examples."""
    return _made(fields, paper=EXAMPLES)


def waiting_fedavg(m: int | float | None = None, **fields: Any) -> Strategy:
    """FedAvg with S = m devices as MIFA's authors run it: drawn of all, waited for, one mean."""
    sampler = KeepAsking(Blind(Uniform(m)))
    return _made(fields, sampler=sampler, compensator=Gather(), local=FEDAR_LOCAL)


def concord(bound: float | None = 5.0, **fields: Any) -> Strategy:
    """Kriging and Concord: absent updates predicted, and a step that agrees with everyone's."""
    return _made(
        fields,
        paper=EXAMPLES,
        compensator=Kriging(),
        aggregator=Concord(bound=bound),
        server=Momentum(lr=1.0, beta=0.5),
        local=FDMS_LOCAL,
    )


def fedprox(mu: float = 0.01, m: int | float | None = None, **fields: Any) -> Strategy:
    """FedProx as FedGS compares with it: MDSample and a proximal term."""
    return _made(fields, rule=Proximal(mu), sampler=ByData(m), local=FEDGS_LOCAL)


def fdms(similarity: str = "cosine", race: HoeffdingRace | None = None, **fields: Any) -> Strategy:
    """FL-FDMS: updates of similar clients (friends) stand in for the absent."""
    return _made(fields, compensator=FDMS(similarity, race), local=FDMS_LOCAL)


def stale(kind: str = "update", **fields: Any) -> Strategy:
    """Stale, FL-FDMS's benchmark: a client's last update (or model) stands in for it."""
    return _made(fields, compensator=Stale(kind), local=FDMS_LOCAL)


def mifa(wait: bool = True, step_when_empty: bool = False, **fields: Any) -> Strategy:
    """MIFA: the mean of everyone's latest update."""
    return _made(fields, compensator=MIFA(wait, step_when_empty), local=FEDAR_LOCAL)


def fedar(
    rho: float = 0.1,
    cutoff: float | Callable[[int], float] | None = None,
    psi: str = "power",
    step_when_empty: bool = False,
    **fields: Any,
) -> Strategy:
    """FedAR: everyone's latest update; older ones get larger weights."""
    compensator = FedAR(rho, cutoff, psi, step_when_empty)
    return _made(fields, compensator=compensator, local=FEDAR_LOCAL)


def fedvarp(**fields: Any) -> Strategy:
    """FedVARP: variance reduction by remembered updates."""
    return _made(fields, compensator=FedVARP(), local=FEDAR_LOCAL)


def fedavg_is(**fields: Any) -> Strategy:
    """FedAvg with importance sampling: needs known probabilities, ``Population(p=…)``."""
    return _made(fields, compensator=FedAvgIS(), local=FEDAR_LOCAL)


def fedau(max_interval: int = NEVER, **fields: Any) -> Strategy:
    """FedAU: each update counts as many rounds as its client comes apart, on average."""
    return _made(fields, compensator=FedAU(max_interval), local=FEDAU_LOCAL)


def fedstale(
    beta: float = 0.5, rates: str = "estimated", max_interval: int = NEVER, **fields: Any
) -> Strategy:
    """FedStale: fresh updates by their clients' rates, last updates by a factor β."""
    compensator = FedStale(beta, rates, max_interval)
    return _made(fields, compensator=compensator, local=FEDAU_LOCAL, paper=EXAMPLES)


def mimic(**fields: Any) -> Strategy:
    """MimiC: each update is corrected by what it lacked of the common one the last time."""
    return _made(fields, compensator=MimiC(), local=FEDAR_LOCAL)


def fedawe(
    eta: float = 1.0, clip: float | None = None, model: str = "mean", **fields: Any
) -> Strategy:
    """FedAWE: clients resume from the model they received last; steps grow with absence."""
    return _made(fields, compensator=FedAWE(eta, clip, model), local=FEDAWE_LOCAL)


def fedlaavg(
    m: int | float | None = None, step_when_empty: bool = False, **fields: Any
) -> Strategy:
    """FedLaAvg: the mean of everyone's latest update; the clients picked longest ago are next."""
    compensator = MIFA(wait=False, step_when_empty=step_when_empty)
    return _made(fields, sampler=OldestFirst(m), compensator=compensator, local=FEDAR_LOCAL)


def scaffold(**fields: Any) -> Strategy:
    """SCAFFOLD, option II, among those who come."""
    return _made(fields, rule=Scaffold(), local=FEDAR_LOCAL)


def fedgs(
    alpha: float = 1.0,
    m: int | float | None = None,
    scale: str = "pairs",
    edges: str = "code",
    graph: str = "auto",
    restarts: int = 20,
    answers: NoiseAnswers | None = None,
    everybody_first: bool = False,
    **fields: Any,
) -> Strategy:
    """FedGS: graph-based sampling, averaged by examples (eq. 18)."""
    sampler = FedGS(m, alpha, scale, edges, graph, restarts, answers, everybody_first)
    return _made(fields, sampler=sampler, local=FEDGS_LOCAL, paper=EXAMPLES)


def mdsample(m: int | float | None = None, **fields: Any) -> Strategy:
    """MDSample: drawn by examples with replacement, plain mean."""
    return _made(fields, sampler=ByData(m), local=FEDGS_LOCAL)


def power_of_choice(
    m: int | float | None = None,
    candidates: int | float | None = None,
    losses: str = "asked",
    **fields: Any,
) -> Strategy:
    """Power-of-Choice: those with the largest loss."""
    sampler = PowerOfChoice(m=m, candidates=candidates, losses=losses)
    return _made(fields, sampler=sampler, local=FEDGS_LOCAL)


def fedexp(rows: str = "fresh", damping: float = 0.0, **fields: Any) -> Strategy:
    """FedExP: FedAvg with a server step that grows with how far updates disagree."""
    return _made(fields, server=Extrapolated(rows=rows, damping=damping))


def f3ast(m: int | float | None = None, beta: float = 0.01, **fields: Any) -> Strategy:
    """F3AST: those whose data are ahead of their rate of picks, weighted by one over it."""
    sampler = F3AST(m, beta)
    compensator = HorvitzThompson()
    return _made(
        fields, sampler=sampler, compensator=compensator, local=FEDGS_LOCAL, paper=EXAMPLES
    )


def fedmgda(epsilon: float = 0.1, length: str = "mean", **fields: Any) -> Strategy:
    """FedMGDA+: a step that harms none of those who came, with weights near their shares."""
    return _made(fields, aggregator=FedMGDA(epsilon, length))


def fedfv(alpha: float = 0.1, external: str = "absent", **fields: Any) -> Strategy:
    """FedFV: conflicts are projected away, among those who came and with who is remembered."""
    return _made(fields, compensator=Stale(), aggregator=FedFV(alpha, external))


def oort(m: int | float | None = None, losses: str = "last", **fields: Any) -> Strategy:
    """Oort: those whose loss is large and who are fast, and some who were never seen."""
    return _made(fields, sampler=Oort(m, losses=losses), local=REFL_LOCAL)


def refl(
    m: int | float | None = None,
    rule: str = "refl",
    rest: int = 5,
    rates: str = "estimated",
    **fields: Any,
) -> Strategy:
    """REFL: those who will seldom be there are asked, late updates join with less weight."""
    sampler = LeastAvailableFirst(m, rest, rates)
    return _made(fields, sampler=sampler, compensator=LateUpdates(rule), local=REFL_LOCAL)


def generalized_fedavg(period: int = 10, factor: float = 1.5, **fields: Any) -> Strategy:
    """Generalized FedAvg: what a period adds up to is amplified at its end."""
    return _made(fields, server=GeneralizedFedAvg(period, factor))


def amplified_scaffold(period: int = 10, factor: float = 1.5, **fields: Any) -> Strategy:
    """Amplified SCAFFOLD: the same with variates that are averaged over a period."""
    server = GeneralizedFedAvg(period, factor)
    return _made(fields, rule=AmplifiedScaffold(period), server=server)


def focus(**fields: Any) -> Strategy:
    """FOCUS: the mean of everyone's last gradient; clients send how theirs changed."""
    return _made(fields, rule=Focus(), compensator=MIFA(wait=False))


def strategy_of(given: object) -> Strategy:
    """A strategy as it is; or the method of this name, with its paper's parts and training."""
    if isinstance(given, str):
        made = registry.STRATEGIES[given]()
        if isinstance(made, Strategy):
            return made
        raise TypeError(f"strategy: expected {given!r} to make a Strategy, got {made!r}")
    if isinstance(given, Strategy):
        return given
    hint = ""
    if inspect.isfunction(given) or isinstance(given, type):
        hint = f"; write {given.__name__}(), with parentheses"
    elif isinstance(given, Compensator | Sampler):
        role = "compensator" if isinstance(given, Compensator) else "sampler"
        hint = f"; write Strategy({role}={part_text(given)})"
    raise TypeError(
        f"strategy: expected a Strategy or the name of a method, got {part_text(given)}{hint}"
    )


def _made(
    fields: dict[str, Any], rule: LocalRule | None = None, paper: str = CLIENTS, **defaults: Any
) -> Strategy:
    """A strategy from the method's defaults and the user's fields, which win; the rule stays.

    `paper` is the weighting of the method's paper.
    """
    chosen = {**defaults, **fields}
    if chosen.get("weighting") == PAPER:
        chosen["weighting"] = paper
    if rule is not None:
        local = chosen.get("local", Local())
        if not isinstance(local, Local):
            raise TypeError(f"local: expected a Local, got {local!r}")
        chosen["local"] = replace(local, rule=rule)
    return Strategy(**chosen)

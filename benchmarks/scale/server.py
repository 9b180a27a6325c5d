"""The server's side alone: FedGS's graph and pick, FDMS's products, rounds of every method."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.scale.measuring import Entry, entry, median_of, product_limit, seconds_of, timed
from understudy import (
    FDMS,
    MIFA,
    Arrivals,
    ByData,
    Capped,
    Concord,
    FedAR,
    FedGS,
    FedVARP,
    HoeffdingRace,
    Ignore,
    Kriging,
    Median,
    OldestFirst,
    Population,
    PowerOfChoice,
    Stale,
    Strategy,
    TrimmedMean,
    Uniform,
    concord,
    f3ast,
    fedau,
    fedavg_is,
    fedawe,
    fedfv,
    fedmgda,
    fedstale,
    focus,
    mimic,
    oort,
    refl,
    scaffold,
)
from understudy.core.threads import one_thread
from understudy.graph.dispersion import pick_dispersed
from understudy.graph.products import gram_float32
from understudy.graph.similarity import cosine_rows
from understudy.graph.sparse_graph import sparse_distances
from understudy.parts.samplers.fedgs import SEARCHED

D = 6000  # of the rounds below, as in the figures of the first version
TURNS = 20  # rounds at the most before those that are measured, in which everybody comes once


def features(n: int, kind: str, seed: int = 0) -> np.ndarray:
    """(n, 10) label counts: Dirichlet(0.3), or two classes each, or clusters of equal clients."""
    rng = np.random.default_rng([n, seed])
    if kind == "dirichlet":
        return rng.dirichlet(np.full(10, 0.3), size=n)
    counts = np.zeros((n, 10))
    for row in counts:
        row[rng.choice(10, 2, replace=False)] = rng.integers(5, 50, 2) if kind == "shards" else 30
    return counts


def graph_and_pick(n: int) -> Iterator[Entry]:
    """FedGS: shortest paths once, then picks as the counts go on."""
    rows = cosine_rows(features(n, "dirichlet"), np.arange(n), n)
    made: list[np.ndarray] = []
    with one_thread():
        spent = seconds_of(lambda: made.append(sparse_distances(rows, n)))
        yield entry("FedGS: the graph's paths", n_clients=n, seconds=spent)
        for m in (n // 100, n // 10):
            counts, rng, times = np.zeros(n), np.random.default_rng(0), []
            coefficient = (n - 1) / (m * (m - 1))
            for _ in range(6):
                z = 2 * (counts - counts.mean() - m / n) + 1
                spent, picked = timed(
                    pick_dispersed, made[0], z, m, np.arange(n), coefficient, rng, work=SEARCHED
                )
                times.append(spent)
                counts[picked] += 1
            yield entry("FedGS: a pick", n_clients=n, seconds=median_of(times), picked=m)


def products(n_arrivals: int, d: int) -> Iterator[Entry]:
    """FDMS's products of all updates of a round."""
    updates = torch.randn(n_arrivals, d, generator=torch.Generator().manual_seed(0))
    limit = product_limit(n_arrivals)
    with one_thread():
        spent = median_of([seconds_of(lambda: gram_float32(updates, d)) for _ in range(3)])
    rate = n_arrivals**2 * d / spent / 1e9
    yield entry(
        "FDMS: products of a round",
        n_clients=n_arrivals,
        seconds=spent,
        rate=rate,
        unit="GFLOP/s",
        limit=limit,
        d=d,
    )


METHODS = {
    "ignore": lambda: Strategy(compensator=Ignore()),
    "stale": lambda: Strategy(compensator=Stale()),
    "mifa": lambda: Strategy(compensator=MIFA(wait=False)),
    "fedar": lambda: Strategy(compensator=FedAR()),
    "fedvarp": lambda: Strategy(compensator=FedVARP()),
    "fdms": lambda: Strategy(compensator=FDMS()),
    "fdms with a race": lambda: Strategy(
        compensator=FDMS(race=HoeffdingRace(threshold="code", scale=0.1))
    ),
    "capped fdms": lambda: Strategy(compensator=Capped(FDMS())),
    "fedavg_is": fedavg_is,
    "fedau": fedau,
    "fedstale": fedstale,
    "mimic": mimic,
    "fedawe": fedawe,
    "scaffold": scaffold,
    "focus": focus,
    "kriging": lambda: Strategy(compensator=Kriging()),
    "concord": concord,
    "concord over stale": lambda: Strategy(compensator=Stale(), aggregator=Concord()),
    "concord over fedvarp": lambda: Strategy(compensator=FedVARP(), aggregator=Concord()),
    "fedmgda": fedmgda,
    "fedfv": fedfv,
    "median": lambda: Strategy(compensator=Stale(), aggregator=Median()),
    "trimmed mean": lambda: Strategy(compensator=Stale(), aggregator=TrimmedMean()),
    "uniform": lambda: Strategy(sampler=Uniform(1000)),
    "bydata": lambda: Strategy(sampler=ByData(1000)),
    "oldest first": lambda: Strategy(sampler=OldestFirst(1000)),
    "power of choice": lambda: Strategy(sampler=PowerOfChoice(1000, losses="last")),
    "f3ast": lambda: f3ast(m=1000),
    "oort": lambda: oort(m=1000),
    "refl": lambda: refl(m=1000),
    "fedgs": lambda: Strategy(sampler=FedGS(1000, graph="labels")),
}
SAMPLERS = list(METHODS)[list(METHODS).index("uniform") :]  # everybody is there
ALL_PAIRS = {"fdms with a race", "kriging", "concord", "fedgs"}  # N×N: not with 100,000 clients
# these compare all who are absent with all who came, or sort all last updates: far too long
SMALLER = ALL_PAIRS | {
    *("concord over stale", "concord over fedvarp", "fedfv", "median", "trimmed mean"),
}


def rounds(method: str, n: int, n_rounds: int = 5, asked: int = 1000) -> Iterator[Entry]:
    """Whole rounds on the server: select and apply, without training."""
    asked = min(asked, n)
    counts = features(n, "dirichlet") * 100
    rates = np.full(n, asked / n)
    population = Population(n, n_examples=np.full(n, 100.0), label_counts=counts, p=rates)
    strategy = METHODS[method]()
    state = strategy.init(population, torch.zeros(D), seed=0)
    rng, draw = np.random.default_rng(0), torch.Generator().manual_seed(0)
    kinds = torch.randn(50, D, generator=draw)

    def one_round(available: np.ndarray) -> float:
        spent, cohort = timed(strategy.select, state, available)
        noise = torch.randn(len(cohort.asked), D, generator=draw)
        deltas = kinds[torch.from_numpy(cohort.asked % 50)] + 0.5 * noise
        return spent + timed(strategy.apply, state, cohort, Arrivals(cohort.asked, deltas))[0]

    def those(clients: np.ndarray) -> np.ndarray:
        available = np.zeros(n, dtype=bool)
        available[clients] = True
        return available

    if method in SAMPLERS:
        first = [one_round(np.ones(n, dtype=bool))]  # it makes what stays: FedGS's graph
        times = [one_round(np.ones(n, dtype=bool)) for _ in range(n_rounds)]
    else:
        # everybody came once before what is measured, so that memories are full
        turns = min(TURNS, -(-n // asked))
        first = [one_round(those(turn)) for turn in np.array_split(np.arange(n), turns)]
        times = [one_round(those(rng.choice(n, asked, replace=False))) for _ in range(n_rounds)]
    yield entry(
        f"server's round: {method}",
        n_clients=n,
        seconds=median_of(times),
        first_seconds=round(first[0], 3),
        asked=asked,
        d=D,
    )

"""Are picked clients that are far apart closer to everybody? (FedGS, theorem 1)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.analysis.findings import Findings
from understudy.core.rng import generator
from understudy.core.types import Bools, Floats
from understudy.graph.dependency_graph import graph_distances
from understudy.papers.graph_f1 import oracle_similarity

if TYPE_CHECKING:
    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Task

DRAWS = 20  # of who is there
SUBSETS = 100  # of those, for each draw
_COLUMNS = 1 << 16  # of all updates that are in float64 at once


def spread(run: Run, task: Task) -> Findings:
    """Rank correlation: how far apart clients are, and how far their mean is from everybody's.

    Everybody is trained once from the first model, and once from the last. 20 times it is drawn
    who is there, and each time 100 sets of M of these, with M as the sampler has it. The distance
    of a set is the mean of its pairs in the oracle's graph, its error is the distance between its
    mean update, weighed by examples (eq. 18), and that of all clients, there or not.

    Returns
    -------
    Findings
        ``spread_correlation_start`` and ``spread_correlation``, from the first and the last model:
        Spearman's correlation of distance and error, a mean over the draws. Theorem 1 says that it
        is below 0. Array ``spread_correlations`` (20, 2), NaN where it cannot be told: fewer than
        three there, or all distances alike.

    References
    ----------
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, 2023.
    """
    federation, n = run.federation, run.federation.n_clients
    distance = graph_distances(oracle_similarity(federation))
    sizes = np.asarray(federation.sizes, dtype=np.float64)
    count = getattr(task.strategy.sampler, "count", None)
    m = n if count is None else min(n, int(count(n)))
    there = _there(run, task)
    found = np.full((DRAWS, 2), np.nan)
    for column, (params, t) in enumerate(((run.start(), 0), (run.state.params, run.state.t))):
        updates = run.train(params, np.arange(n), t).deltas
        assert isinstance(updates, torch.Tensor)
        products = products_of_errors(updates[:, : run.state.n_parameters], sizes)
        for draw, who in enumerate(there):
            rng = generator(task.seed, "analysis/spread/sets", draw)
            found[draw, column] = set_correlation(distance, products, sizes, who, m, rng)
    names = ("spread_correlation_start", "spread_correlation")
    known = {
        name: float(np.nanmean(column))
        for name, column in zip(names, found.T, strict=True)
        if not np.isnan(column).all()
    }
    return Findings(known, {"spread_correlations": found})


def _there(run: Run, task: Task) -> list[Bools]:
    """Who is there, in as many rounds as are drawn."""
    availability = run.settings.availability
    state = availability.init(run.federation.population())
    role = "analysis/spread/availability"
    return [availability.draw(state, t, generator(task.seed, role, t)) for t in range(DRAWS)]


def products_of_errors(updates: torch.Tensor, n_examples: Floats) -> Floats:
    """(N, N) scalar products of Δ_k − Δ̄, where Δ̄ is the mean weighed by examples.

    The squared error of a set with weights w, which sum to one, is then w'Pw.
    """
    weights = torch.from_numpy(np.asarray(n_examples / n_examples.sum()))
    total = torch.zeros(len(updates), len(updates), dtype=torch.float64)
    for piece in torch.split(updates, _COLUMNS, dim=1):
        rows = piece.detach().cpu().to(torch.float64)
        rows = rows - weights @ rows
        total += rows @ rows.T
    return np.asarray(total.numpy())


def set_correlation(
    distance: Floats,
    products: Floats,
    n_examples: Floats,
    there: Bools,
    m: int,
    rng: np.random.Generator,
    n_sets: int = SUBSETS,
) -> float:
    """Spearman's correlation of distance and error over sets of M of those who are there.

    Parameters
    ----------
    distance : (N, N) array
        H.
    products : (N, N) array
        Of `products_of_errors`.
    n_examples : (N,) array
        n_k.
    there : (N,) array of bool
        Whom a set may have.
    m : int
        M. Where fewer than M + 1 are there, sets have all but one of them.
    rng : Generator
        Draws the sets.
    n_sets : int
        How many.

    Returns
    -------
    float
        In [−1, 1]; NaN where distances or errors do not differ, or fewer than three are there.
    """
    reachable = np.flatnonzero(there)
    if len(reachable) < 3:
        return float("nan")
    size = max(2, min(m, len(reachable) - 1))
    apart, errors = np.zeros(n_sets), np.zeros(n_sets)
    for index in range(n_sets):
        ids = np.sort(rng.choice(reachable, size, replace=False))
        pairs = np.ix_(ids, ids)
        weights = n_examples[ids] / n_examples[ids].sum()
        apart[index] = distance[pairs].sum() / (size * (size - 1))
        errors[index] = np.sqrt(max(0.0, float(weights @ products[pairs] @ weights)))
    return rank_correlation(apart, errors)


def rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's; those alike share the mean of their ranks. NaN where one does not vary."""
    a, b = (_ranks(np.asarray(values)) for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


def _ranks(values: Floats) -> Floats:
    _, places, counts = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[places], dtype=np.float64)

"""What approximate forms lose: FedGS's objective, FDMS's friends, accuracy by small memories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.scale.measuring import Entry, entry, seconds_of, timed
from benchmarks.scale.server import features
from understudy import FDMS, MIFA, Arrivals, FedAR, FixedDropout, Local, Population, Strategy
from understudy.graph import (
    cosine_similarity,
    edge_lengths,
    edge_score,
    edges_of,
    graph_distances,
    shortest_paths,
)
from understudy.graph.dispersion import pick_dispersed
from understudy.graph.similarity import cosine_rows
from understudy.graph.sparse_graph import sparse_distances, sparse_edges
from understudy.parts.samplers.fedgs import SEARCHED
from understudy.simulation import federate, simulate


def fedgs(n: int, kind: str, rounds: int = 10) -> Iterator[Entry]:
    """The sparse graph against the exact one: distances, edges, and the objective of ten rounds."""
    m, counts = n // 10, features(n, kind)
    similarity = cosine_similarity(counts)
    lengths = edge_lengths(similarity)
    exact_seconds = seconds_of(lambda: shortest_paths(lengths))
    exact = graph_distances(similarity)
    rows = cosine_rows(counts, np.arange(n), n)
    made: list[np.ndarray] = []
    spent = seconds_of(lambda: made.append(sparse_distances(rows, n)))
    sparse = made[0]
    coefficient = (n - 1) / (m * (m - 1))
    totals = []
    for distance, work in ((exact, None), (sparse, SEARCHED)):
        picked, rng, total = np.zeros(n), np.random.default_rng(0), 0.0
        for _ in range(rounds):
            z = 2 * (picked - picked.mean() - m / n) + 1
            ids = pick_dispersed(distance, z, m, np.arange(n), coefficient, rng, work=work)
            total += coefficient * exact[np.ix_(ids, ids)].sum() - z[ids].sum()
            picked[ids] += 1
        totals.append(total)
    graph = sparse_edges(rows, n).toarray() > 0
    kept = graph | graph.T
    # edges that are themselves a shortest path: the others are in no shortest path
    longest = (lengths / np.where(exact > 0, exact, np.inf))[exact > 0]
    scale = float(np.min(longest[np.isfinite(longest)]))
    used = np.isfinite(lengths) & (lengths <= exact * scale * (1 + 1e-9)) & ~np.eye(n, dtype=bool)
    of_all, of_used = edge_score(kept, edges_of(similarity, 0.01)), edge_score(kept, used)
    yield entry(
        f"FedGS: loss, {kind}",
        n_clients=n,
        seconds=spent,
        exact_seconds=round(exact_seconds, 3),
        loss_of_objective=round(1 - totals[1] / totals[0], 5),
        mean_error=round(float(np.abs(sparse - exact).mean()), 5),
        largest_error=round(float(np.abs(sparse - exact).max()), 4),
        f1_all_edges=round(of_all.f1, 4),
        recall_used_edges=round(of_used.recall, 4),
        f1_used_edges=round(of_used.f1, 4),
    )


def friends(n: int, candidates: int, seed: int = 0) -> Iterator[Entry]:
    """FDMS with the best candidates only: who stands in, against complete tables."""
    kinds, share, rounds, d = max(8, n // 20), 0.2, 30, 20
    said = []
    spent = 0.0
    for compensator in (FDMS(), FDMS(exact_up_to=0, candidates=candidates)):
        rng, draw = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        strategy = Strategy(compensator=compensator)
        state = strategy.init(Population(n), torch.zeros(d), seed=seed)
        base, logs = torch.randn(kinds, d, generator=draw), []
        for _ in range(rounds):
            cohort = strategy.select(state, rng.random(n) < share)
            noise = torch.randn(len(cohort.asked), d, generator=draw)
            deltas = base[torch.from_numpy(cohort.asked % kinds)] + 0.3 * noise
            arrivals = Arrivals(cohort.asked, deltas)
            spent, applied = timed(strategy.apply, state, cohort, arrivals)
            logs.append(applied)
        said.append([(log.contributions.ids, log.contributions.source) for log in logs])
    absent = other = strangers = lonely = 0
    for (ids, source), (ids2, source2) in list(zip(*said, strict=True))[rounds // 2 :]:
        exact = dict(zip(ids.tolist(), source.tolist(), strict=True))
        sparse = dict(zip(ids2.tolist(), source2.tolist(), strict=True))
        for client, friend in exact.items():
            if friend not in (client, -1):
                absent += 1
                other += sparse[client] != friend
                lonely += sparse[client] < 0
                both = [one % kinds != client % kinds for one in (sparse[client], friend)]
                strangers += int(both[0]) - int(both[1]) if sparse[client] >= 0 else 0
    yield entry(
        "FDMS: friends of the best candidates",
        n_clients=n,
        seconds=spent,
        candidates=candidates,
        absent=absent,
        share_other_friend=round(other / absent, 5),
        share_more_strangers=round(strangers / absent, 5),
        share_no_friend=round(lonely / absent, 5),
    )


SETTINGS = {
    "digits": {"clients": 20, "rounds": 60, "model": "softmax"},
    "mnist": {"clients": 50, "rounds": 60, "model": "mlp"},
}


def accuracy(data: str, method: str, rounds: int | None = None) -> Iterator[Entry]:
    """Test accuracy with memories of each precision, over three seeds, half of the clients away."""
    chosen = SETTINGS[data]
    kind = {"fedar": FedAR, "mifa": MIFA}[method]
    for precision in ("full", "float16", "bfloat16", "int8"):
        found, losses, spent = [], [], 0.0
        for seed in range(3):
            federation = federate(
                data, "classes_per_client", n_clients=chosen["clients"], k=2, seed=seed
            )
            local = Local(lr=0.1, epochs=1, batch_size=50)
            run = simulate(
                federation,
                Strategy(compensator=kind(precision=precision), local=local),
                model=chosen["model"],
                rounds=rounds or chosen["rounds"],
                availability=FixedDropout(0.5),
                evaluate_every=10_000,
                seed=seed,
            )
            spent += seconds_of(lambda run=run: list(run))
            found.append(run.last.metrics["test_accuracy"])
            losses.append(run.last.metrics["test_loss"])
        yield entry(
            f"accuracy: {data}, {method}, {precision}",
            n_clients=chosen["clients"],
            seconds=spent,
            accuracy=round(float(np.mean(found)), 4),
            loss=round(float(np.mean(losses)), 6),
            accuracies=[round(one, 4) for one in found],
        )

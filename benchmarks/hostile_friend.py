"""How loud a client becomes under FDMS that sends what the others sent.

    python benchmarks/hostile_friend.py

20 clients in 4 clusters, a model of 1,000 entries; the update of an honest client is its cluster's
direction plus noise of its own, and it comes with probability 0.3. Client 0 always comes and sends
the mean of the updates that the others made in the round: it is more like anybody than their true
friends, whose noise differs. Printed is the share of a round that one client's row carries (the
note `largest_share`), mean and maximum over rounds 20 to 99.
"""

from __future__ import annotations

import json

import numpy as np
import torch

from understudy import FDMS, Arrivals, Capped, Population, Strategy
from understudy.core.rng import generator
from understudy.core.roles import Compensator

N_CLIENTS, N_CLUSTERS, D, ROUNDS, FIRST = 20, 4, 1000, 100, 20
COMES, NOISE = 0.3, 1.5


def measured(compensator: Compensator, seed: int = 0) -> dict[str, float]:
    """Mean and maximum of `largest_share`, and how often the hostile client's row had it."""
    strategy = Strategy(compensator=compensator)
    state = strategy.init(Population(N_CLIENTS), torch.zeros(D), seed=seed)
    centres = generator(seed, "centres").normal(size=(N_CLUSTERS, D))
    shares, hostile = [], 0
    for t in range(ROUNDS):
        rng = generator(seed, "updates", t)
        honest = centres[np.arange(N_CLIENTS) % N_CLUSTERS] + NOISE * rng.normal(
            size=(N_CLIENTS, D)
        )
        here = rng.random(N_CLIENTS) < COMES
        here[0] = True
        honest[0] = honest[1:].mean(axis=0)
        came = np.flatnonzero(here)
        cohort = strategy.select(state, np.ones(N_CLIENTS, dtype=bool))
        deltas = torch.from_numpy(honest[came]).float()
        applied = strategy.apply(state, cohort, Arrivals(came, deltas))
        if t >= FIRST:
            shares.append(applied.notes["largest_share"])
            rows, total = applied.contributions.by_row()
            hostile += int(
                applied.contributions.source[applied.contributions.row == rows[np.argmax(total)]][0]
                == 0
            )
    return {
        "mean": float(np.mean(shares)),
        "max": float(np.max(shares)),
        "rounds_in_which_it_is_client_0": hostile / len(shares),
    }


def main() -> None:
    found = {"FDMS()": measured(FDMS()), "Capped(FDMS(), 0.2)": measured(Capped(FDMS(), 0.2))}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

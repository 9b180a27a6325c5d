"""What Kriging and Concord cost with many clients, and what their bounded form loses.

    python benchmarks/concord_scale.py    # prints tables, writes benchmarks/concord_scale.json

Cost: CPU seconds that the server takes for a round, median of four, beside FDMS's; 2,000 entries,
half of the clients come, 20 kinds of clients. Loss: 100 clients of the digits with 12 examples each
in 10 clusters, half of them missing, softmax regression, 40 rounds: test accuracy of the last ten
in percent, of the exact form and of the bounded one (``exact=0``: the 16 nearest friends, and the
absent with the same nearest friend as one).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy import (
    FDMS,
    Arrivals,
    Concord,
    FixedDropout,
    Kriging,
    Local,
    Momentum,
    Population,
    Strategy,
)
from understudy.simulation import clustered_digits, simulate

OUTPUT = Path(__file__).with_suffix(".json")
SIZES, D, KINDS, ROUNDS = (100, 300, 1000, 2000), 2000, 20, 6
SEEDS = range(100, 105)


def parts(exact: int | None = None) -> dict[str, Any]:
    if exact is None:
        return {"compensator": Kriging(), "aggregator": Concord()}
    return {"compensator": Kriging(exact=exact), "aggregator": Concord(exact=exact)}


def seconds(strategy: Strategy, n: int) -> float:
    """CPU seconds of a round's end, median of the later rounds."""
    state = strategy.init(Population(n), torch.zeros(D), seed=0)
    rng = np.random.default_rng(0)
    centres, own = rng.normal(size=(KINDS, D)), 0.7 * rng.normal(size=(n, D))
    taken = []
    for _ in range(ROUNDS):
        cohort = strategy.select(state, rng.random(n) < 0.5)
        ids = cohort.asked
        rows = centres[ids % KINDS] + own[ids] + rng.normal(size=(len(ids), D))
        arrivals = Arrivals(ids, torch.from_numpy(rows).float(), n_examples=[10] * len(ids))
        begun = time.process_time()
        strategy.apply(state, cohort, arrivals)
        taken.append(time.process_time() - begun)
    return float(np.median(taken[2:]))


def accuracy(exact: int, seed: int) -> float:
    """Of the last ten rounds, in percent."""
    strategy = Strategy(
        server=Momentum(lr=1.0, beta=0.5),
        local=Local(lr=0.1, epochs=2, batch_size=8),
        **parts(exact),
    )
    data = clustered_digits(n_clients=100, n_clusters=10, per_client=12, seed=seed)
    run = simulate(
        data, strategy, model="softmax", availability=FixedDropout(0.5), rounds=40, seed=seed
    )
    return 100 * float(np.mean([log.metrics["test_accuracy"] for log in run][-10:]))


def main() -> None:
    found: dict[str, Any] = {"seconds": {}, "accuracy": {}}
    for n in SIZES:
        concord, fdms = Strategy(**parts()), Strategy(compensator=FDMS())
        found["seconds"][n] = {"concord": seconds(concord, n), "fdms": seconds(fdms, n)}
        print(n, found["seconds"][n], flush=True)
    for name, exact in (("exact", 10**6), ("bounded", 0)):
        found["accuracy"][name] = [accuracy(exact, seed) for seed in SEEDS]
        print(name, np.round(found["accuracy"][name], 2), flush=True)
    OUTPUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

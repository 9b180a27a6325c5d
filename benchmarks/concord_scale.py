"""What Kriging and Concord cost with many clients, and what their bounded form loses.

    python -m benchmarks.concord_scale       # prints tables, writes benchmarks/concord_scale.json
    python -m benchmarks.concord_scale w1    # the last measurement alone; or accuracy

Cost: CPU seconds that the server takes for a round, median of four, beside FDMS's; 2,000 entries,
half of the clients come, 20 kinds of clients. Loss: 100 clients of the digits with 12 examples each
in 10 clusters, half of them missing, softmax regression, 40 rounds: test accuracy of the last ten
in percent, of the exact form and of the bounded one (``exact=0``: the 16 nearest friends, and the
absent with the same nearest friend as one). Over ``Stale`` and ``FedVARP`` as well, whose absent
clients are together where the same arrival is most like what is remembered of them.

A whole round: the workload W1 (``benchmarks/workloads.py``: FL-FDMS's MNIST, 20 clients) with
``concord()`` and with ``fdms()``, a round of the one after a round of the other, with everybody
there and with half of the clients missing: median CPU seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.models import build
from benchmarks.ours import federation_of, local_of
from benchmarks.workloads import WORKLOADS
from understudy import (
    FDMS,
    Always,
    Arrivals,
    Concord,
    FedVARP,
    FixedDropout,
    Kriging,
    Local,
    Momentum,
    Population,
    Stale,
    Strategy,
    concord,
    fdms,
)
from understudy.simulation import clustered_digits, simulate

OUTPUT = Path(__file__).with_suffix(".json")
SIZES, D, KINDS, ROUNDS = (100, 300, 1000, 2000), 2000, 20, 6
SEEDS = range(100, 105)
W1_ROUNDS = 24


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


def accuracy(exact: int, seed: int, compensator: Any = None) -> float:
    """Of the last ten rounds, in percent."""
    chosen = parts(exact) | ({} if compensator is None else {"compensator": compensator})
    local = Local(lr=0.1, epochs=2, batch_size=8)
    strategy = Strategy(server=Momentum(lr=1.0, beta=0.5), local=local, **chosen)
    data = clustered_digits(n_clients=100, n_clusters=10, per_client=12, seed=seed)
    run = simulate(
        data, strategy, model="softmax", availability=FixedDropout(0.5), rounds=40, seed=seed
    )
    return 100 * float(np.mean([log.metrics["test_accuracy"] for log in run][-10:]))


def whole_rounds() -> dict[str, dict[str, float]]:
    """CPU seconds of a round of W1, by who is missing and by method; the first rounds are left."""
    workload = WORKLOADS["W1"]
    data, found = federation_of(workload), {}
    for name, missing in (("everybody", Always()), ("half missing", FixedDropout(0.5))):
        strategies = {"concord": concord(local=local_of(workload))}
        strategies["fdms"] = fdms(local=local_of(workload))
        runs = {
            label: iter(
                simulate(
                    data,
                    strategy,
                    model=build(workload.model),
                    availability=missing,
                    rounds=W1_ROUNDS,
                    evaluate=(),
                    workers=1,
                )
            )
            for label, strategy in strategies.items()
        }
        taken: dict[str, list[float]] = {label: [] for label in runs}
        for _ in range(W1_ROUNDS):
            for label, run in runs.items():
                begun = time.process_time()
                next(run)
                taken[label].append(time.process_time() - begun)
        found[name] = {label: float(np.median(times[4:])) for label, times in taken.items()}
        print(name, found[name], flush=True)
    return found


def main(only: list[str]) -> None:
    found = json.loads(OUTPUT.read_text(encoding="utf-8")) if only else {}
    if not only:
        found["seconds"] = server_rounds()
    if only in ([], ["accuracy"]):
        found["accuracy"] = accuracies()
    if only in ([], ["w1"]):
        found["w1"] = whole_rounds()
    OUTPUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def server_rounds() -> dict[int, dict[str, float]]:
    found = {}
    for n in SIZES:
        concord, fdms = Strategy(**parts()), Strategy(compensator=FDMS())
        found[n] = {"concord": seconds(concord, n), "fdms": seconds(fdms, n)}
        print(n, found[n], flush=True)
    return found


def accuracies() -> dict[str, list[float]]:
    found = {}
    for name, over in (("", None), (" over Stale", Stale()), (" over FedVARP", FedVARP())):
        for form, exact in (("exact", 10**6), ("bounded", 0)):
            found[form + name] = [accuracy(exact, seed, over) for seed in SEEDS]
            print(form + name, np.round(found[form + name], 2), flush=True)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])

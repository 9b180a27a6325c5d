"""Is a method better, or is only its step longer? The server's step, chosen on validation data."""

from pathlib import Path

import pandas as pd

from understudy import FixedDropout, Local, Sgd, fdms, fedavg, plots, stale
from understudy.simulation import federate, simulate

STEPS = (0.5, 1.0, 2.0, 4.0, 8.0)
TUNING, FINAL = range(100, 103), range(5)  # other seeds, and other data, for the result
same = {"local": Local(lr=0.1, epochs=2, batch_size=8), "weighting": "examples"}
methods = {"fedavg": fedavg, "stale": stale, "fdms": fdms}
missing = FixedDropout(0.7)


def accuracy(name, step, seed, part):
    """Of the last round, on one part of the data."""
    data = federate("digits", "clustered", per_client=48, validation=0.2, seed=seed)
    method = methods[name](server=Sgd(step), **same)
    run = simulate(
        data,
        method,
        model="softmax",
        availability=missing,
        rounds=15,
        seed=seed,
        evaluate=(part,),
        evaluate_every=15,
    )
    return list(run)[-1].metrics[f"{part}_accuracy"]


tried = pd.DataFrame(
    [
        {"strategy": name, "server step": step, "seed": seed}
        | {"validation_accuracy": accuracy(name, step, seed, "validation")}
        for name in methods
        for step in STEPS
        for seed in TUNING
    ]
)
for name, own in tried.groupby("strategy", sort=False):
    best = own.groupby("server step")["validation_accuracy"].mean().idxmax()
    at_one, at_best = (
        sum(accuracy(name, step, seed, "test") for seed in FINAL) / len(FINAL)
        for step in (1.0, best)
    )
    print(f"{name}: accuracy {at_one:.3f} with step 1, {at_best:.3f} with step {best:g}")
figure = plots.levels(tried, "server step", "validation_accuracy")
Path("server_step.svg").write_bytes(plots.svg(figure))

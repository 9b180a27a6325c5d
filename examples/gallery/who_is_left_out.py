"""Whom does the model serve badly when some kinds of clients hardly ever come?"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from understudy import LabelBernoulli, Local, Outcome, fedavg, plots, stale
from understudy.simulation import clustered_digits, simulate

ROUNDS, SEEDS = 20, range(3)
same = {"local": Local(lr=0.1, epochs=2, batch_size=8), "weighting": "examples"}
methods = {
    "fedavg: the absent are left out": (fedavg(**same), "o", "#D55E00"),
    "stale: their last update stands in": (stale(**same), "^", "#0072B2"),
}
# Clients with small digits come with probability 0.05, those with large ones nearly always.
seldom = LabelBernoulli(p_min=0.05)

figure, axes = plt.subplots(figsize=(5.8, 3.6), layout="constrained")
for label, (method, marker, colour) in methods.items():
    came, served = [], []  # of every client and seed
    for seed in SEEDS:
        run = simulate(
            clustered_digits(seed=seed),
            method,
            model="softmax",
            availability=seldom,
            rounds=ROUNDS,
            seed=seed,
            per_client_every=ROUNDS,  # after the last round, for each client by itself
        )
        logs = list(run)
        came.extend(np.mean([log.outcome == Outcome.CAME for log in logs], axis=0))
        served.extend(logs[-1].client_metrics["accuracy"])
    often = np.array(came) > 0.5
    rare, usual = (100 * np.array(served)[chosen].mean() for chosen in (~often, often))
    print(f"{label}: accuracy {usual:.0f} % for those who come often, {rare:.0f} % for the others")
    axes.plot(
        100 * np.array(came), 100 * np.array(served), marker, color=colour, alpha=0.5, label=label
    )
axes.set_xlabel("rounds in which the client came, %")
axes.set_ylabel("accuracy on data like the client's, %")
axes.grid(color="#E3E6EA")
axes.legend(frameon=False, loc="lower right")
Path("who_is_left_out.svg").write_bytes(plots.svg(figure))

"""A third of the clients leave and never return: is a memory of them a help?"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy import Local, fdms, fedavg, plots, stale
from understudy.simulation import clustered_digits, simulate


@dataclass(frozen=True)
class LeaveAt:
    """An availability of your own: who can be reached in round t."""

    clients: tuple[int, ...]
    round: int

    def init(self, population):
        return population.n_clients

    def draw(self, n_clients, t, rng):
        there = np.ones(n_clients, dtype=bool)
        there[list(self.clients)] = t < self.round
        return there

    def rates(self, n_clients, t):
        return self.draw(n_clients, t, None).astype(float)  # known for certain


same = {"local": Local(lr=0.1, epochs=2, batch_size=8), "weighting": "examples"}
methods = {"fedavg": fedavg(**same), "stale": stale(**same), "fdms": fdms(**same)}
# 0 to 3 are all that hold their digits; of 4 to 7, who share theirs, one stays.
leaving = LeaveAt(clients=tuple(range(7)), round=10)
runs = {
    name: [
        simulate(
            clustered_digits(seed=seed),
            method,
            model="softmax",
            availability=leaving,
            rounds=30,
            seed=seed,
        )
        for seed in range(4)
    ]
    for name, method in methods.items()
}
for name, of_seeds in runs.items():
    curve = np.mean([[log.metrics["test_accuracy"] for log in run] for run in of_seeds], axis=0)
    before, after, end = curve[[9, 12, -1]]
    print(f"{name}: {before:.2f} before they leave, {after:.2f} soon after, {end:.2f} at the end")
figure = plots.convergence(runs, title="Clients 0 to 6 leave for good after round 9")
Path("gone_for_good.svg").write_bytes(plots.svg(figure))

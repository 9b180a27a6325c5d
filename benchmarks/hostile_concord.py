"""What hostile clients do to a model trained with Concord, and what its bound costs and holds.

    python benchmarks/hostile_concord.py    # prints a table, writes benchmarks/hostile_concord.json

20 clients of the digits in 5 clusters, any half of which is missing in a round; an MLP, 40 rounds,
the server ``Momentum(1, beta=0.5)`` for all. Hostile clients come like everybody else. Printed is
test accuracy, mean of the last ten rounds and of the seeds, in percent.

A copycat sends the mean of the others' updates for 20 rounds, and then that mean turned round. Sign
flip: its own update turned round; scaled: ten times that. Conflict-seeking: the mean of the others,
turned round, at the norm of its own update, which is what the common direction has to make up for;
two colluding: two clients that do so. One is 1 of 20 clients, two are 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy import (
    FDMS,
    Capped,
    Concord,
    FixedDropout,
    Kriging,
    Linear,
    Local,
    Median,
    Momentum,
    NormGuard,
    Strategy,
)
from understudy.core.types import Arrivals, Setup
from understudy.simulation import clustered_digits, simulate

OUTPUT = Path(__file__).with_suffix(".json")
SEEDS = range(100, 105)
ROUNDS, LAST, TURNS = 40, 10, 20
ATTACKS = {  # what client 0 (and 1) sends
    "none": (),
    "copycat": (0,),
    "sign flip": (0,),
    "scaled": (0,),
    "conflict-seeking": (0,),
    "two colluding": (0, 1),
}
BOUNDS = (None, 20.0, 10.0, 5.0, 3.0, 2.0, 1.5)
LOCAL = Local(lr=0.1, epochs=2, batch_size=5)


@dataclass
class Rounds:
    t: int
    inner: Any


@dataclass(frozen=True)
class Hostile:
    """What some clients sent is replaced before the guard proper looks at it."""

    attack: str
    inner: Any = field(default_factory=NormGuard)

    def init(self, setup: Setup) -> Rounds:
        return Rounds(0, None if self.inner is None else self.inner.init(setup))

    def guard(
        self, state: Rounds, arrivals: Arrivals, late: Arrivals
    ) -> tuple[Arrivals, Arrivals, Mapping[str, float]]:
        state.t += 1
        sent = replace(arrivals, deltas=self.replaced(arrivals, state.t - 1))
        if self.inner is None:
            return sent, late, {}
        return self.inner.guard(state.inner, sent, late)  # type: ignore[no-any-return]

    def replaced(self, arrivals: Arrivals, t: int) -> list[torch.Tensor]:
        deltas = [delta.clone() for _, delta in arrivals]
        bad = [row for row, who in enumerate(arrivals.ids) if who in ATTACKS[self.attack]]
        honest = [delta for row, delta in enumerate(deltas) if row not in bad]
        if not honest:
            return deltas
        mean = torch.stack(honest).mean(dim=0)
        for row in bad:
            own = deltas[row]
            turned = -mean * (own.norm() / mean.norm().clamp_min(1e-12))
            deltas[row] = {
                "copycat": mean if t < TURNS else turned,
                "sign flip": -own,
                "scaled": -10 * own,
            }.get(self.attack, turned)
        return deltas


def strategies() -> dict[str, dict[str, Any]]:
    guard = NormGuard()
    found: dict[str, dict[str, Any]] = {
        "FedAvg": {"guard": guard},
        "Capped(FDMS(), 0.2), Median()": {
            "compensator": Capped(FDMS(), 0.2),
            "aggregator": Median(),
            "guard": guard,
        },
        "Kriging(), Linear()": {
            "compensator": Kriging(),
            "aggregator": Linear(),
            "guard": guard,
        },
        "Kriging(), Concord(bound=None), no guard": {
            "compensator": Kriging(),
            "aggregator": Concord(bound=None),
            "guard": None,
        },
    }
    for bound in BOUNDS:
        found[f"Kriging(), Concord(bound={bound})"] = {
            "compensator": Kriging(),
            "aggregator": Concord(bound=bound),
            "guard": guard,
        }
    return found


def accuracy(parts: Mapping[str, Any], attack: str, seed: int, rounds: int = ROUNDS) -> float:
    """Mean test accuracy of the last rounds of one run, in percent."""
    fields = {**parts, "guard": Hostile(attack, parts["guard"])}
    strategy = Strategy(server=Momentum(lr=1.0, beta=0.5), local=LOCAL, **fields)
    data = clustered_digits(n_clients=20, n_clusters=5, per_client=64, seed=seed)
    run = simulate(
        data,
        strategy,
        model="mlp",
        availability=FixedDropout(0.5),
        rounds=rounds,
        seed=seed,
        workers=1,
    )
    found = [log.metrics["test_accuracy"] for log in run]
    return 100 * float(np.mean(found[-LAST:]))


def table(seeds: range = SEEDS) -> dict[str, dict[str, list[float]]]:
    """Strategy → attack → accuracy of each seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, parts in strategies().items():
        found[name] = {}
        for attack in ATTACKS:
            found[name][attack] = [accuracy(parts, attack, seed) for seed in seeds]
        print(row(name, found[name]), file=sys.stderr, flush=True)
    return found


def row(name: str, found: Mapping[str, list[float]]) -> str:
    cells = [f"{np.mean(found[attack]):.1f}" for attack in ATTACKS]
    return f"| `{name}` | {' | '.join(cells)} |"


def markdown(found: Mapping[str, Mapping[str, list[float]]]) -> str:
    """A table for the documentation."""
    lines = [f"| accuracy, % | {' | '.join(ATTACKS)} |", f"| --- |{' --- |' * len(ATTACKS)}"]
    return "\n".join([*lines, *(row(name, one) for name, one in found.items())])


def main() -> None:
    found = table()
    print(markdown(found))
    report = {"seeds": list(SEEDS), "rounds": ROUNDS, "accuracy": found}
    OUTPUT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

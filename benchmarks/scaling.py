"""How a round's cost grows with the number of clients, and what the loop around training costs.

    python benchmarks/scaling.py [--rounds 5]

writes benchmarks/scaling.json. Two figures: seconds a round and client for 20, 100, 500 and 2,000
clients (W1's model, 40 examples each, FedAvg, everyone trains; linear growth means a constant
figure), and the share of a W1 round with FDMS that is not training (select, fill, aggregate, step,
learn, log).
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
import torch

from understudy import FixedDropout, Local, fdms, fedavg
from understudy.simulation import Federation, simulate


def federation(n_clients: int, per_client: int) -> Federation:
    rng = np.random.default_rng(0)
    n = n_clients * per_client + 10
    return Federation(
        x=torch.from_numpy(rng.random((n, 1, 28, 28), dtype=np.float32)),
        y=torch.from_numpy(rng.integers(0, 10, n)),
        clients=tuple(np.split(np.arange(n - 10), n_clients)),
        test=np.arange(n - 10, n),
    )


def growth(rounds: int) -> dict[str, float]:
    """Milliseconds a round and client, median over rounds after the first."""
    figures = {}
    for n_clients in (20, 100, 500, 2000):
        run = simulate(
            federation(n_clients, 40),
            fedavg(local=Local(lr=0.01, batch_size=5)),
            model="fdms_cnn",
            rounds=rounds + 1,
            evaluate=(),
        )
        spent = [log.timings["round"] for log in run][1:]
        figures[str(n_clients)] = 1000 * statistics.median(spent) / n_clients
        print(f"{n_clients:5d} clients: {figures[str(n_clients)]:.2f} ms a round and client")
    return figures


def overhead(rounds: int) -> float:
    """The share of a W1 round with FDMS that is not training, median over rounds."""
    run = simulate(
        federation(20, 200),
        fdms(local=Local(lr=0.01, epochs=2, batch_size=5)),
        model="fdms_cnn",
        availability=FixedDropout(0.3),
        rounds=rounds + 1,
        evaluate=(),
    )
    shares = [1 - log.timings["train"] / log.timings["round"] for log in run][1:]
    share = statistics.median(shares)
    print(f"W1 with FDMS: {100 * share:.2f} % of a round is not training")
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    figures = {
        "milliseconds_per_client": growth(rounds),
        "overhead_share_w1_fdms": overhead(rounds),
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()

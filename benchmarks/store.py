"""What keeping the rounds of 10,000 clients costs, in bytes and in time.

    python benchmarks/store.py [--rounds 1000] [--every 1] [--folder FOLDER]

Plays `--rounds` rounds' logs as FDMS writes them (everyone wanted, a fifth came, a client of the
same cluster stands in for each absent one, unequal sizes, accuracy per client in every tenth round)
into a store, `--every` rounds a transaction, then reads them back. Beside it stands the time of a
real round of as many clients with a small model on few examples, of which the store's part is to
stay below 5 %; and the bytes of 1,000 rounds, to stay below 1 GB.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from understudy import FixedDropout, Local, fedavg
from understudy.core.types import Outcome, RoundLog
from understudy.simulation import Federation, simulate
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.studies.statistics.frames import results
from understudy.studies.store.store import FILE, Store

N_CLIENTS = 10_000
N_GROUPS = 10
SHARE_THAT_COMES = 0.2
KEY = "0" * 16


def logs(rounds: int) -> Iterator[RoundLog]:
    """Made up, but as large and as hard to compress as real ones: friends are drawn evenly."""
    rng = np.random.default_rng(0)
    sizes = np.ceil(rng.lognormal(4, 1, N_CLIENTS))
    share = sizes / sizes.sum()
    groups = rng.integers(0, N_GROUPS, N_CLIENTS)
    phases = ("select", "train", "admit", "guard", "fill", "aggregate", "step", "learn", "round")
    for t in range(rounds):
        here = rng.random(N_CLIENTS) < SHARE_THAT_COMES
        came, absent = np.flatnonzero(here), np.flatnonzero(~here)
        friend = np.zeros(N_CLIENTS, dtype=np.int64)
        for group in range(N_GROUPS):
            members = came[groups[came] == group]
            alone = absent[groups[absent] == group]
            friend[alone] = rng.choice(members, len(alone))
        ids = np.concatenate([came, absent])
        metrics = {}
        if (t + 1) % 10 == 0:
            right = rng.binomial(40, 0.8, N_CLIENTS) / 40
            metrics = {"loss": rng.exponential(0.5, N_CLIENTS), "accuracy": right}
        yield RoundLog(
            t=t,
            outcome=np.where(here, Outcome.CAME, Outcome.UNAVAILABLE).astype(np.int8),
            refusals=(),
            ids=ids,
            source=np.concatenate([came, friend[absent]]),
            coef=share[ids],
            notes={"no_candidate": 0.0, "pairs_needed": rng.random(), "step_norm": rng.random()},
            metrics={"test_loss": rng.random(), "test_accuracy": rng.random()},
            megabytes_up=1.2 * len(came),
            megabytes_down=1.2 * len(came),
            timings={phase: rng.random() for phase in phases},
            clock=float(t),
            client_metrics=metrics,
        )


def cell() -> Cell:
    task = Task(DataRecipe("synthetic"), "softmax", fedavg(), rounds=1)
    return Cell({"strategy": "fdms", "availability": "bernoulli"}, task, {}, KEY)


def write(folder: Path, rounds: int, every: int) -> tuple[float, int]:
    """Seconds a round and bytes a round."""
    spent = 0.0
    batch: list[RoundLog] = []
    with Store.open(folder, write=True) as store:
        store.begin(KEY, {}, {"n_clients": N_CLIENTS}, "0")
        store.save_study("benchmark", {"target": 0.9}, [cell()], "0")
        for log in logs(rounds):
            batch.append(log)
            if len(batch) == every or log.t == rounds - 1:
                begin = perf_counter()
                store.add_rounds(KEY, batch)
                spent += perf_counter() - begin
                batch = []
        begin = perf_counter()
        store.finish(KEY, None)
        closing = perf_counter() - begin
    print(f"finish: {closing:.2f} s for {rounds} rounds")
    return (spent + closing) / rounds, (folder / FILE).stat().st_size // rounds


def read(folder: Path) -> None:
    with Store.open(folder) as store:
        begin = perf_counter()
        store.rounds(KEY)
        print(f"rounds(): {perf_counter() - begin:.2f} s")
        begin = perf_counter()
        n_rounds = sum(1 for _ in store.logs(KEY))
        print(f"logs(): {1000 * (perf_counter() - begin) / n_rounds:.2f} ms a round")
    begin = perf_counter()
    results(folder)
    print(f"results(): {perf_counter() - begin:.2f} s")


def round_seconds() -> float:
    """A round in which a fifth of the clients fit a linear model to 20 examples each, once."""
    rng = np.random.default_rng(0)
    n = N_CLIENTS * 20 + 1000
    federation = Federation(
        x=torch.from_numpy(rng.random((n, 60), dtype=np.float32)),
        y=torch.from_numpy(rng.integers(0, 10, n)),
        clients=tuple(np.split(np.arange(n - 1000), N_CLIENTS)),
        test=np.arange(n - 1000, n),
    )
    run = simulate(
        federation,
        fedavg(local=Local(lr=0.01, batch_size=10)),
        model="softmax",
        availability=FixedDropout(1 - SHARE_THAT_COMES),
        rounds=6,
    )
    return statistics.median([log.timings["round"] for log in run][1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--every", type=int, default=1, help="rounds a transaction")
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        seconds, size = write(Path(folder), options.rounds, options.every)
        print(f"{size:,} bytes a round: {size / 1e6:.2f} GB for 1,000 rounds")
        print(f"{1000 * seconds:.1f} ms a round")
        read(Path(folder))
    whole = round_seconds()
    print(
        f"a round of a small model: {whole:.2f} s; the store's part {100 * seconds / whole:.1f} %"
    )


if __name__ == "__main__":
    main()

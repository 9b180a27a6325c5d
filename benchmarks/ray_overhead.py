"""What a round costs on a Ray cluster beyond its training: two nodes on this machine, and without.

Run, from the top of the project, with the extra ``ray``::

    python -m benchmarks.ray_overhead   # writes benchmarks/ray_overhead.json, docs/cluster.md
    python -m benchmarks.ray_overhead --rounds 3   # fewer turns
    python -m benchmarks.ray_overhead --pages   # the table of docs/cluster.md, from the file

Two raylets on 127.0.0.1 with one CPU each do what two workers of this machine do. Both train the
same rounds in turns in one run, so read the ratios: seconds differ with the machine and its load.
What a network between machines adds is not measured here; the table has the bytes that it moves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.models import build
from benchmarks.ours import federation_of, local_of
from benchmarks.workloads import WORKLOADS
from understudy import Local, fedavg
from understudy.memory.pixels import bytes_held
from understudy.simulation import Federation, RayTrainer, simulate
from understudy.simulation.training.trainers import ray_trainer

OUTPUT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parent.parent / "docs" / "cluster.md"
BEGIN, END = "<!-- ray overhead: begin -->", "<!-- ray overhead: end -->"
NODES = 2


@dataclass(frozen=True)
class Job:
    """What is trained."""

    title: str
    federation: Federation
    model: Any
    local: Local


def jobs() -> dict[str, Job]:
    """By name: two of the workloads of `make bench`, one that only waits, one that only moves."""
    made = {}
    for name in ("W1", "W3"):
        work = WORKLOADS[name]  # all of its clients train
        model = partial(build, work.model)
        made[name] = Job(work.title, federation_of(work), model, local_of(work))

    def drawn(n_clients: int, each: int, n_inputs: int) -> Federation:
        rng = np.random.default_rng(0)
        n = n_clients * each + 1
        return Federation(
            x=torch.from_numpy(rng.random((n, n_inputs), dtype=np.float32)),
            y=torch.from_numpy(rng.integers(0, 10, n)),
            clients=tuple(np.split(np.arange(n - 1), n_clients)),
            test=np.arange(n - 1, n),
            n_classes=10,
        )

    one_step = Local(lr=0.01, epochs=1, batch_size=20)
    made["small"] = Job(
        "20 clients × 20, softmax 20→10, 1 step: next to nothing to train", drawn(20, 20, 20),
        "softmax", one_step,
    )  # fmt: skip
    made["wide"] = Job(
        "40 clients × 20, MLP 784-1000-200-10 (a million parameters), 1 step: rows of 4 MB",
        drawn(40, 20, 784),
        lambda: nn.Sequential(
            nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 200), nn.ReLU(), nn.Linear(200, 10)
        ),
        one_step,
    )
    return made


def measured(job: Job, rounds: int) -> dict[str, Any]:
    """Seconds of training in each round, local and on the cluster in turns."""
    strategy = fedavg(local=job.local)
    settings = {"model": job.model, "rounds": rounds + 1, "evaluate": (), "workers": NODES}
    here = simulate(job.federation, strategy, **settings)
    there = simulate(job.federation, strategy, trainer=RayTrainer(), **settings)
    times: dict[str, list[float]] = {"local": [], "ray": []}
    for one, other in zip(here, there, strict=True):
        times["local"].append(one.timings["train"])
        times["ray"].append(other.timings["train"])
    if not torch.equal(here.state.params, there.state.params):
        raise AssertionError("the bits differ")
    first, turns = times["ray"][0], {name: seconds[1:] for name, seconds in times.items()}
    local, ray = (statistics.median(turns[name]) for name in ("local", "ray"))
    ratios = [b / a for a, b in zip(turns["local"], turns["ray"], strict=True)]
    params, n_clients = here.state.params, job.federation.n_clients
    data = job.federation
    return {
        "title": job.title,
        "clients_a_round": n_clients,
        "parameters": len(params),
        "local_seconds": round(local, 5),
        "ray_seconds": round(ray, 5),
        "overhead_seconds": round(ray - local, 5),
        "ratio": round(statistics.median(ratios), 3),
        "first_round_seconds": round(first, 3),
        "megabytes_of_data_a_node": round((bytes_held(data.x) + data.y.nbytes) / 1e6, 2),
        "megabytes_of_model_a_node_and_round": round(params.nbytes / 1e6, 3),
        "megabytes_of_rows_a_round": round(params.nbytes * n_clients / 1e6, 3),
        "turns": {name: [round(s, 5) for s in seconds] for name, seconds in turns.items()},
    }


def table(workloads: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown table of docs/cluster.md."""
    titles = (
        *("what is trained", "parameters", "MB of rows a round", "local (ms a round)"),
        *("on the cluster", "more", "ratio", "first round (s)"),
    )
    rows = [titles, ("---", *["---:"] * (len(titles) - 1))]
    rows += [
        (
            one["title"],
            f"{one['parameters']:,}",
            f"{one['megabytes_of_rows_a_round']:.3g}",
            *(f"{1000 * one[name]:.3g}" for name in ("local_seconds", "ray_seconds")),
            f"{1000 * one['overhead_seconds']:.3g}",
            f"{one['ratio']:.2f}",
            f"{one['first_round_seconds']:.1f}",
        )
        for one in workloads.values()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write_page(workloads: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the table between the two marks of the page."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: the lines {BEGIN!r} and {END!r} are missing")
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(workloads)}\n\n{END}{after}")


def main() -> None:
    """Start the cluster, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="turns that count")
    parser.add_argument("--only", help="names, separated by commas: written nowhere")
    parser.add_argument("--pages", action="store_true", help="the page from the file")
    asked = parser.parse_args()
    if asked.pages:
        write_page(json.loads(OUTPUT.read_text())["workloads"])
        return
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # all servers on loopback
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    from understudy.simulation.training.trainers.ray_cluster import (
        join_or_start,
        outside_sockets,
        ray,
    )

    ray_trainer.WORTH_SENDING = 0.0  # also what would stay here
    cluster = Cluster()
    for _ in range(NODES):
        cluster.add_node(
            num_cpus=1, node_ip_address="127.0.0.1", object_store_memory=1_000_000_000,
            include_dashboard=False,
        )  # fmt: skip
    try:
        join_or_start(cluster.address)
        if list(outside_sockets()):
            raise RuntimeError("Ray listens where other machines reach it")
        chosen = {k: v for k, v in jobs().items() if not asked.only or k in asked.only.split(",")}
        found = {name: measured(job, asked.rounds) for name, job in chosen.items()}
    finally:
        ray.shutdown()
        cluster.shutdown()
    for name, row in found.items():
        print(
            f"{name:6} local {1e3 * row['local_seconds']:8.1f} ms  "
            f"ray {1e3 * row['ray_seconds']:8.1f} ms  "
            f"overhead {1e3 * row['overhead_seconds']:7.1f} ms  ratio {row['ratio']:.2f}"
        )
    if not asked.only:
        told = {
            "ray": ray.__version__,
            "torch": str(torch.__version__),
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "cores": os.cpu_count(),
            "load_at_the_end": round(os.getloadavg()[0], 1),
            "nodes": NODES,
            "rounds": asked.rounds,
            "when": time.strftime("%Y-%m-%d"),
            "workloads": found,
        }
        OUTPUT.write_text(json.dumps(told, indent=1) + "\n")
        write_page(found)


if __name__ == "__main__":
    main()

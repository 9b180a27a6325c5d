"""Does it matter how the examples lie? As bytes or floats, a client's side by side or anywhere.

Run, from the top of the project::

    python -m benchmarks.layout              # W2 and W3; writes benchmarks/layout.json
    python -m benchmarks.layout --rounds 5   # fewer turns
    python -m benchmarks.layout --pages      # the table of docs/performance.md, from the file

The same rounds on one core, in turns in one process, which is checked to come to the same bits; the
figure is the median CPU time of a round. "Anywhere": all examples of all clients shuffled, as a
partition of a data set leaves them, and worse.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.models import build
from benchmarks.ours import federation_of, local_of, sampler_of
from benchmarks.workloads import WORKLOADS, Workload
from understudy import fedavg
from understudy.memory.pixels import Pixels, stored_of
from understudy.simulation import Federation, simulate

OUTPUT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- layout: begin -->", "<!-- layout: end -->"
WARMUP = 2


def layouts(workload: Workload) -> dict[str, Federation]:
    """The workload's data, laid out in four ways."""
    data = federation_of(workload)
    stored, scaling = stored_of(data.x)
    assert scaling is not None
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(stored))
    place = np.argsort(shuffled)
    anywhere = stored[torch.from_numpy(shuffled)], data.y[torch.from_numpy(shuffled)]
    clients, test = tuple(place[held] for held in data.clients), place[data.test]
    found = {"bytes, side by side": data}
    found["bytes, anywhere"] = Federation(Pixels(anywhere[0], scaling), anywhere[1], clients, test)
    for name, one in list(found.items()):
        plain = Federation(one.x.clone(), one.y, one.clients, one.test)
        found[name.replace("bytes", "floats")] = plain
    return found


def measured(workload: Workload, rounds: int) -> dict[str, Any]:
    """Median CPU milliseconds of a round, of each layout."""
    torch.set_num_threads(1)
    strategy = fedavg(sampler=sampler_of(workload), local=local_of(workload))
    runs = {
        name: simulate(
            data,
            strategy,
            model=build(workload.model),
            rounds=rounds + WARMUP,
            evaluate=(),
            workers=1,
        )
        for name, data in layouts(workload).items()
    }
    loops, spent = {name: iter(run) for name, run in runs.items()}, {name: [] for name in runs}
    for _ in range(rounds + WARMUP):
        for name, loop in loops.items():
            begin = time.process_time()
            next(loop)
            spent[name].append(1000 * (time.process_time() - begin))
    first, *others = (run.state.params for run in runs.values())
    if not all(torch.equal(first, other) for other in others):
        raise AssertionError("the bits differ")
    return {name: round(statistics.median(of[WARMUP:]), 2) for name, of in spent.items()}


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """The Markdown table of docs/performance.md."""
    names = list(next(iter(found.values())))
    rows = [
        ["CPU milliseconds a round", *found],
        ["---", *["---:"] * len(found)],
        *([name, *(f"{one[name]:.3g}" for one in found.values())] for name in names),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write_page(found: Mapping[str, Mapping[str, float]]) -> None:
    """Put the table between the two marks of the page."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: the lines {BEGIN!r} and {END!r} are missing")
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="turns that count")
    parser.add_argument("--only", default="W2,W3", help="workloads; others are written nowhere")
    parser.add_argument("--pages", action="store_true", help="the page from the file")
    given = parser.parse_args()
    if given.pages:
        write_page(json.loads(OUTPUT.read_text())["workloads"])
        return
    found = {name: measured(WORKLOADS[name], given.rounds) for name in given.only.split(",")}
    print(table(found))
    if given.only == "W2,W3":
        told = {"cores": os.cpu_count(), "when": time.strftime("%Y-%m-%d"), "workloads": found}
        OUTPUT.write_text(json.dumps(told, indent=1) + "\n")
        write_page(found)


if __name__ == "__main__":
    main()

"""FedGS's pick and its shortest paths: seconds on one core, and ratios.

Run, from the top of the project::

    python benchmarks/pick.py            # prints a table, writes benchmarks/pick.json
    python benchmarks/pick.py --large    # shortest paths of 3,000 clients too: half a minute

Machines differ and are noisy, so read the ratios. "obvious" is the same search written the way one
would first write it: a copy of H for the candidates, sums anew for every client added, and swaps
with every outsider. Both forms are timed in turns, in one process, and do the same restarts.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from understudy.graph import cosine_similarity, edge_lengths, shortest_paths
from understudy.graph.dispersion import pick_dispersed

PICKS = ((30, 6), (100, 20), (1000, 100), (10_000, 100))
OBVIOUS_UP_TO = 1000  # the obvious form takes minutes above
RESTARTS = 20
ALPHA = 1.0
OUTPUT = Path(__file__).with_suffix(".json")


def instance(n: int, m: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Distances of points in a square, FedGS's z of counts 0..3, and its coefficient."""
    rng = np.random.default_rng(n)
    points = rng.random((n, 2))
    distance = np.empty((n, n))
    for start in range(0, n, 500):
        offsets = points[start : start + 500, None] - points[None]
        distance[start : start + 500] = np.sqrt((offsets**2).sum(axis=-1))
    distance /= distance.max()
    counts = rng.integers(0, 4, n)
    penalty = 2 * (counts - counts.mean() - m / n) + 1
    return distance, penalty, ALPHA * (n - 1) / (m * (m - 1))


def value(
    distance: NDArray[np.float64], penalty: NDArray[np.float64], coefficient: float, ids: list[int]
) -> float:
    return float(coefficient * distance[np.ix_(ids, ids)].sum() - penalty[ids].sum())


def searched(
    distance: NDArray[np.floating],
    penalty: NDArray[np.float64],
    m: int,
    coefficient: float,
    seed: int,
) -> list[int]:
    rng = np.random.default_rng(seed)
    everyone = np.arange(len(penalty))
    picked = pick_dispersed(
        distance, penalty, m, everyone, coefficient, rng, RESTARTS, enumerate_up_to=0
    )
    return [int(k) for k in picked]


def obvious(
    distance: NDArray[np.float64],
    penalty: NDArray[np.float64],
    m: int,
    coefficient: float,
    seed: int,
) -> list[int]:
    """Greedy and best swaps from random first clients, without any bookkeeping."""
    candidates = np.arange(len(penalty))
    h, z = 2 * coefficient * distance[np.ix_(candidates, candidates)], penalty[candidates]
    n = len(candidates)
    best: list[int] = []
    best_value = -np.inf
    for first in np.random.default_rng(seed).permutation(n)[:RESTARTS].tolist():
        chosen = [first]
        while len(chosen) < m:
            gain = h[:, chosen].sum(axis=1) - z
            gain[chosen] = -np.inf
            chosen.append(int(gain.argmax()))
        while True:
            outside = np.setdiff1d(np.arange(n), chosen)
            marginal = h[:, chosen].sum(axis=1) - z
            gains = marginal[outside] - marginal[chosen][:, None] - h[np.ix_(chosen, outside)]
            a, b = np.unravel_index(gains.argmax(), gains.shape)
            if gains[a, b] <= 1e-9:
                break
            chosen[a] = int(outside[b])
        here = float(h[np.ix_(chosen, chosen)].sum() / 2 - z[chosen].sum())
        if here > best_value:
            best, best_value = chosen, here
    return sorted(int(k) for k in candidates[best])


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_picks() -> list[dict[str, float]]:
    rows = []
    for n, m in PICKS:
        distance, penalty, coefficient = instance(n, m)
        forms = {
            "seconds": partial(searched, distance, penalty, m, coefficient),
            "seconds_float32": partial(searched, distance.astype("f4"), penalty, m, coefficient),
        }
        if n <= OBVIOUS_UP_TO:
            forms["seconds_obvious"] = partial(obvious, distance, penalty, m, coefficient)
        times: dict[str, list[float]] = {name: [] for name in forms}
        for seed in range(5):
            for name, form in forms.items():
                times[name].append(seconds(partial(form, seed)))
        row: dict[str, float] = {"n": n, "m": m}
        row.update({name: statistics.median(measured) for name, measured in times.items()})
        row["value"] = value(distance, penalty, coefficient, forms["seconds"](0))
        if n <= OBVIOUS_UP_TO:
            row["obvious_over_ours"] = row["seconds_obvious"] / row["seconds"]
            row["value_obvious"] = value(
                distance, penalty, coefficient, forms["seconds_obvious"](0)
            )
        rows.append(row)
    return rows


def measure_paths(sizes: tuple[int, ...]) -> list[dict[str, float]]:
    rows = []
    for n in sizes:
        features = np.random.default_rng(n).dirichlet(np.full(10, 0.3), size=n)
        lengths = edge_lengths(cosine_similarity(features))
        repeats = 3 if n <= 1000 else 1
        times = [seconds(partial(shortest_paths, lengths)) for _ in range(repeats)]
        rows.append({"n": n, "seconds": statistics.median(times)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Time FedGS's pick and its shortest paths.")
    parser.add_argument("--large", action="store_true", help="shortest paths of 3,000 clients too")
    large = parser.parse_args().large
    with threadpool_limits(1):
        picks = measure_picks()
        paths = measure_paths((300, 1000, 3000) if large else (300, 1000))
    print(f"pick, {RESTARTS} restarts, nothing enumerated (milliseconds, one core)")
    print(f"{'N':>7}{'m':>5}{'float64':>10}{'float32':>10}{'obvious':>10}{'ratio':>8}")
    for row in picks:
        line = f"{row['n']:7.0f}{row['m']:5.0f}{1e3 * row['seconds']:10.1f}"
        line += f"{1e3 * row['seconds_float32']:10.1f}"
        if "seconds_obvious" in row:
            line += f"{1e3 * row['seconds_obvious']:10.1f}{row['obvious_over_ours']:8.1f}"
        print(line)
    print("shortest paths (seconds)")
    for row in paths:
        print(f"{row['n']:7.0f}{row['seconds']:10.3f}")
    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
    report = {"restarts": RESTARTS, "versions": versions, "pick": picks, "shortest_paths": paths}
    OUTPUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

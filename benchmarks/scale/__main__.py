"""How Understudy scales: clients from 20 to 100,000, models from 10,000 to 10 million entries.

    python -m benchmarks.scale [--smoke] [--only WORDS] [--folder FOLDER]
    python -m benchmarks.scale --pages

writes benchmarks/scale.json, an entry for each measurement, docs/_static/scale.svg and the tables
of docs/scale.md; `--pages` only the last two, from the file. Each measurement is made in a process
of its own, so that its peak memory is its own; the machine's limits are measured in the same one.
`--smoke` tries everything at a small size and writes nothing. `--folder` is where memories lie.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.scale import errors, memories, server, simulator
from benchmarks.scale.measuring import Entry
from benchmarks.scale.pages import write_pages

OUTPUT = Path(__file__).parent.parent / "scale.json"


def measurements(smoke: bool, folder: Path | None) -> dict[str, Callable[[], Iterator[Entry]]]:
    """By name; the last ones take the longest."""
    found: dict[str, Callable[[], Iterator[Entry]]] = {}
    for n in (20, 200) if smoke else (20, 1000, 10_000, 100_000):
        found[f"simulator {n}"] = partial(simulator.rounds, n, 8 if smoke else 200)
    for method in server.METHODS:
        for n in (200,) if smoke else (1000, 10_000, 100_000):
            if n <= 10_000 or method not in server.SMALLER:
                found[f"server {method} {n}"] = partial(server.rounds, method, n)
    for d in (10_000,) if smoke else (10_000, 100_000, 1_000_000):
        found[f"products {d}"] = partial(server.products, 100 if smoke else 1000, d)
    sizes = (10_000,) if smoke else (10_000, 100_000, 1_000_000)
    for d in sizes:
        n = 50 if smoke else 10_000
        found[f"memory {d}"] = partial(memories.aggregate, n, d, "full", folder)
    found["memory wide"] = partial(memories.aggregate, 20, sizes[-1] * 10, "full", folder)
    for precision in ("float16", "bfloat16", "int8"):
        d, n = (5000, 50) if smoke else (100_000, 10_000)
        found[f"memory {precision}"] = partial(memories.aggregate, n, d, precision, folder)
    for n in (300,) if smoke else (1000, 3000):
        for kind in ("dirichlet", "shards", "clusters"):
            found[f"loss fedgs {kind} {n}"] = partial(errors.fedgs, n, kind)
    for n in (200,) if smoke else (500, 2000):
        found[f"loss fdms {n}"] = partial(errors.friends, n, 64)
    for data in ("digits",) if smoke else ("digits", "mnist"):
        for method in ("fedar", "mifa"):
            found[f"accuracy {data} {method}"] = partial(
                errors.accuracy, data, method, 3 if smoke else None
            )
    found["graph"] = partial(server.graph_and_pick, 400 if smoke else 10_000)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", default="", help="words that a measurement's name has")
    parser.add_argument("--folder", type=Path, help="on the disk that memories are to lie on")
    parser.add_argument("--pages", action="store_true", help="draw what is in the file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = measurements(options.smoke, options.folder)
    if options.one:
        print(json.dumps(list(known[options.one]())))
        return
    if not options.pages:
        before = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
        found = before if options.only and not options.smoke else {}
        for name in known:
            if options.only in name:
                found[name] = _in_a_process(name)
                if not options.smoke:
                    OUTPUT.write_text(json.dumps(found, indent=1) + "\n")
    if not options.smoke:
        write_pages(json.loads(OUTPUT.read_text()))


def _in_a_process(name: str) -> list[Entry]:
    given = [one for one in sys.argv[1:] if one not in ("--pages",)]
    command = [sys.executable, "-m", "benchmarks.scale", *given, "--one", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    entries: list[Entry] = json.loads(done.stdout.strip().splitlines()[-1])
    for one in entries:
        told = {key: value for key, value in one.items() if value not in (None, "")}
        print("; ".join(f"{key} {value}" for key, value in told.items()), flush=True)
    return entries


if __name__ == "__main__":
    main()

"""Run the benchmarks: every ``bench_*.py`` beside this file, each in a process of its own.

Settings come from the environment (``make bench ONLY=pick ROUNDS=20``): ONLY runs the benchmarks
whose name contains it; ROUNDS and PEERS are read by the benchmarks that have such a size.
"""

import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    only = os.environ.get("ONLY", "")
    paths = sorted(Path(__file__).parent.glob("bench_*.py"))
    chosen = [path for path in paths if only in path.stem.removeprefix("bench_")]
    if not chosen:
        names = ", ".join(path.stem.removeprefix("bench_") for path in paths) or "none"
        print(f"No benchmark is called {only!r}; there are: {names}.", file=sys.stderr)
        return 1
    failed = []
    for path in chosen:
        print(f"== {path.stem.removeprefix('bench_')}", flush=True)
        if subprocess.run([sys.executable, path], check=False).returncode != 0:
            failed.append(path.stem)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

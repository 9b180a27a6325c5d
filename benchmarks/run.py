"""Run the benchmarks; settings come from the environment (``make bench ONLY=W3 ROUNDS=5``).

ONLY names workloads of the simulation (``W1,W3``; all of them by default), or is ``pick``: FedGS's
pick and its shortest paths. ROUNDS are the measured rounds in a block; PEERS is ``all`` (default),
``none`` or names such as ``pfl,fedjax``. ENGINE=loop measures ours twice: as it is, and by the
loop.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    only = os.environ.get("ONLY") or "all"
    command = [sys.executable, "-m"]
    if only == "pick":
        command += ["benchmarks.pick"]
    else:
        command += ["benchmarks.bench_simulation", "--only", only]
        command += ["--rounds", os.environ.get("ROUNDS") or "0"]
        command += ["--peers", os.environ.get("PEERS") or "all"]
        command += ["--engine", os.environ.get("ENGINE") or ""]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

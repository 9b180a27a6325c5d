"""Install the peers, each into an environment of its own under the cache folder.

Run, from the top of the project::

    python -m benchmarks.install_peers              # all of them
    python -m benchmarks.install_peers pfl fedjax   # some

The cache folder is UNDERSTUDY_BENCH, else ``.bench`` (ignored by git). Every package is pinned in
``peers/requirements`` and installed without looking at what it asks for: fluke asks for a CUDA
build of torchvision and two services to log to, fedjax for versions of JAX it does not run on.
An environment that is complete and current is left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.workloads import cache_folder

REQUIREMENTS = Path(__file__).parent / "peers" / "requirements"
PEERS = ("flower", "pfl", "fedjax", "fluke", "fedlab", "flgo")
TIMEOUT = 1800  # seconds for one environment


class InstallError(RuntimeError):
    """An environment could not be made; the message is the end of pip's."""


def python_of(peer: str) -> Path:
    """The Python of the peer's environment."""
    return cache_folder() / peer / "bin" / "python"


def _stamp(peer: str) -> str:
    requirements = (REQUIREMENTS / f"{peer}.txt").read_bytes()
    here = f"{sys.version} {cache_folder()}".encode()  # an environment cannot be moved
    return hashlib.sha256(requirements + here).hexdigest()


def install(peer: str) -> bool:
    """Make the peer's environment unless it is there; whether anything was done."""
    folder = cache_folder() / peer
    stamp = folder / ".stamp"
    if stamp.exists() and stamp.read_text() == _stamp(peer) and python_of(peer).exists():
        return False
    venv.create(folder, clear=True, with_pip=True)
    # The project's own constraints hold for the project's environment only.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")
    }
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    command = [python_of(peer), "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["-r", REQUIREMENTS / f"{peer}.txt"]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"pip did not finish in {TIMEOUT} s") from None
    if done.returncode != 0:
        raise InstallError("\n".join(done.stderr.strip().splitlines()[-5:]))
    stamp.write_text(_stamp(peer))
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the peers of the benchmark.")
    parser.add_argument("peers", nargs="*", metavar="peer", help=f"of {', '.join(PEERS)}")
    chosen = parser.parse_args().peers or PEERS
    failed = False
    for peer in chosen:
        if peer not in PEERS:
            parser.error(f"no peer is called {peer!r}; there are: {', '.join(PEERS)}")
        try:
            print(f"{peer}: {'installed' if install(peer) else 'is there'}", flush=True)
        except (InstallError, OSError) as error:
            failed = True
            print(f"{peer}: {error}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

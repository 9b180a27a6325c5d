"""What checksums cost: seconds in CRC-32 beside the seconds of the rounds they are part of.

    python benchmarks/checksums.py [--rounds 10]

20 clients with 64 handwritten digits each, all of them in every round, a memory of everyone's last
update (`Stale`) in a folder, a commit after every round: each row that is written and each state
get a checksum. For a small and a larger model; the aim is below 2 % of a round. The result is in
checksums.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import zlib
from pathlib import Path
from time import perf_counter
from typing import Any

from understudy import Local, Stale, Strategy
from understudy.memory import rows, tensor_stream
from understudy.simulation import clustered_digits, simulate
from understudy.simulation import run as engine


class Counted:
    """zlib whose crc32 is timed."""

    def __init__(self) -> None:
        self.seconds, self.n_bytes = 0.0, 0

    def crc32(self, data: Any, value: int = 0) -> int:
        begin = perf_counter()
        result = zlib.crc32(data, value)
        self.seconds += perf_counter() - begin
        self.n_bytes += len(data)
        return result


def measured(hidden: int, rounds: int) -> dict[str, float]:
    """Seconds a round, and the part of them that went into checksums."""
    counted = Counted()
    rows.zlib = tensor_stream.zlib = counted  # type: ignore[assignment]
    engine.COMMIT_EVERY = 0.0
    strategy = Strategy(compensator=Stale(), local=Local(lr=0.05, epochs=5, batch_size=5))
    federation = clustered_digits(n_clients=20, n_clusters=5)
    with tempfile.TemporaryDirectory() as folder:
        run = simulate(
            federation,
            strategy,
            model={"name": "mlp", "hidden": hidden},
            rounds=rounds,
            folder=Path(folder),
        )
        seconds = [log.timings["round"] for log in run]
        d = len(run.state.params)
    rows.zlib = tensor_stream.zlib = zlib
    return {
        "d": d,
        "rounds": rounds,
        "seconds_a_round": sum(seconds) / rounds,
        "checksum_seconds_a_round": counted.seconds / rounds,
        "checksum_megabytes_a_round": counted.n_bytes / rounds / 1e6,
        "share": counted.seconds / sum(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    found = {f"mlp, hidden {hidden}": measured(hidden, rounds) for hidden in (32, 400)}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

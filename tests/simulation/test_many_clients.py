"""Simulations of very many clients: what they keep must not grow with the rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy import FedAR, FixedDropout, Local, Strategy, Uniform
from understudy.simulation import Federation, simulate

CHILD = """
import json, sys
from pathlib import Path
from tests.simulation.test_many_clients import played
resident = []
for log in played(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])):
    resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6)
print(json.dumps(resident))
"""


def played(n: int, rounds: int, folder: Path | None = None, precision: str = "full"):
    """A run of many tiny clients, of whom some hundred train."""
    rng = np.random.default_rng(0)
    size = 4 * n + 100
    federation = Federation(
        x=torch.from_numpy(rng.random((size, 8), dtype=np.float32)),
        y=torch.from_numpy(rng.integers(0, 3, size)),
        clients=tuple(np.split(np.arange(size - 100), n)),
        test=np.arange(size - 100, size),
    )
    strategy = Strategy(
        sampler=Uniform(200),
        compensator=FedAR(precision=precision),
        local=Local(lr=0.1, epochs=1, batch_size=4),
    )
    return simulate(
        federation,
        strategy,
        model="softmax",
        rounds=rounds,
        availability=FixedDropout(0.3),
        evaluate_every=50,
        folder=folder,
    )


@pytest.mark.parametrize("n", [10_000, 100_000])
def test_a_round_of_very_many_clients_is_kept_in_few_bytes(n: int, tmp_path: Path) -> None:
    """An outcome of each client and round, and those who contributed."""
    run = played(n, 10, tmp_path / "run")
    logs = list(run)
    assert len(logs[-1].outcome) == n
    size = (tmp_path / "run" / "rounds.jsonl").stat().st_size / 10
    # 10,000 clients x 1,000 rounds stay within 10 MB of outcomes; coefficients come on top
    contributed = max(len(log.ids) for log in logs)
    assert size < n + 8 * contributed + 3000


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_is_flat_over_200_rounds(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, "10000", "200", str(tmp_path / "run")]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=root)
    resident = json.loads(done.stdout.splitlines()[-1])
    # what is remembered of 10,000 clients is less than 2 MB; logs kept in memory are compressed
    assert resident[-1] - resident[40] < 25

"""Ten thousand clients' mapped memories, killed at any moment: the run goes on to the same bits.

Run as a program, this file is the child that gets killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy import FDMS, Arrivals, CheckpointError, FedAR, Population, Strategy, Uniform, resume
from understudy.core.rng import generator
from understudy.server.state import ServerState
from understudy.testing import snapshot

pytestmark = pytest.mark.process  # it starts and kills processes

D = 300
STRATEGIES = {
    "fedar": Strategy(sampler=Uniform(0.1), compensator=FedAR()),
    "small rows": Strategy(sampler=Uniform(0.1), compensator=FedAR(precision="int8")),
    "candidates": Strategy(sampler=Uniform(0.1), compensator=FDMS(exact_up_to=0, candidates=16)),
}


def begun(name: str, n: int, folder: Path | None = None) -> ServerState:
    return STRATEGIES[name].init(Population(n), torch.zeros(D), seed=2, folder=folder)


def one_round(name: str, state: ServerState) -> None:
    """A tenth of the clients; updates have addresses, so that a round is the same anywhere."""
    strategy = STRATEGIES[name]
    cohort = strategy.select(state, np.ones(state.n_clients, dtype=bool))
    drawn = generator(7, "updates", state.t).normal(size=(len(cohort.asked), D))
    deltas = torch.from_numpy(drawn).float() + torch.from_numpy(cohort.asked % 5)[:, None]
    strategy.apply(state, cohort, Arrivals(cohort.asked, deltas))


def main(name: str, n: str, folder: str) -> None:
    torch.set_num_threads(1)
    try:
        state = resume(folder, STRATEGIES[name])
    except CheckpointError as error:
        if "holds no run" not in str(error):
            raise
        state = begun(name, int(n), Path(folder))
    state.commit_every = 0.0  # kills then hit commits more often than rounds
    one_round(name, state)
    print("began", state.t, flush=True)
    while True:
        one_round(name, state)


def killed(name: str, n: int, folder: Path, kills: int) -> None:
    from tests.server.test_kill import Child  # not in the child: it runs this file alone

    for number in range(kills):
        with Child(__file__, name, str(n), str(folder)) as child:
            child.wait_for("began")
            time.sleep(generator(number, "kill", n).uniform(0.0, 0.6))
            died_before = child.process.poll() is not None
            child.kill()
            assert not died_before, "".join(child.said)
    state = resume(folder, STRATEGIES[name])
    assert state.t >= kills
    one_round(name, state)
    whole = begun(name, n)
    while whole.t < state.t:
        one_round(name, whole)
    assert snapshot(whole) == snapshot(state)
    state.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_three_kills_of_a_thousand_clients(name: str, tmp_path: Path) -> None:
    killed(name, 1000, tmp_path / "run", kills=3)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", STRATEGIES)
def test_twenty_kills_of_ten_thousand_clients(name: str, tmp_path: Path) -> None:
    killed(name, 10_000, tmp_path / "run", kills=20)


if __name__ == "__main__":
    main(*sys.argv[1:])

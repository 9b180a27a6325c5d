"""When a commit is due: after some seconds, when spare slots have run out, at the end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.simulation.small import federation
from understudy import Arrivals, Local, Population, Stale, Strategy, fedavg
from understudy.core.types import RoundLog
from understudy.journal.protocol import Journal
from understudy.memory import commits, rows
from understudy.memory.commits import COMMIT_EVERY, CommitTimer
from understudy.memory.rows import RowStore, spare_slots
from understudy.server import checkpoint, loop
from understudy.simulation import Run, Simulation


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass when the test says so."""
    now = [100.0]
    monkeypatch.setattr(commits, "monotonic", lambda: now[0])
    return now


def test_it_is_due_after_so_many_seconds(clock):
    timer = CommitTimer()
    assert timer.due(0.0)
    clock[0] += 1.9
    assert not timer.due(COMMIT_EVERY)
    clock[0] += 0.1
    assert timer.due(COMMIT_EVERY)
    timer.committed()
    assert not timer.due(COMMIT_EVERY)


def test_it_is_due_when_a_row_file_is_crowded(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "SMALL", 0)
    timer, store = CommitTimer(), RowStore(3, 2, torch.float32, "cpu", tmp_path / "rows")
    assert spare_slots(3) == 3
    for client in range(3):
        assert not timer.due(1e9, [store])
        store.put(client, torch.ones(2))
    assert timer.due(1e9, [store])
    store.committed()
    assert not timer.due(1e9, [store])
    store.close()


def test_a_strategy_commits_by_it(clock, tmp_path):
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(2), torch.zeros(3), folder=tmp_path)

    def committed_after(seconds: float) -> int:
        clock[0] += seconds
        cohort = strategy.select(state, [True, False])
        strategy.apply(state, cohort, Arrivals([0], torch.ones(1, 3)))
        return int(checkpoint.numbers_of(tmp_path)["t"])

    assert committed_after(1.5) == 0
    assert committed_after(0.5) == 2
    assert committed_after(1.9) == 2
    assert committed_after(0.1) == 4
    state.close()


class Kept(Journal):
    """A journal that notes which rounds were flushed together."""

    def __init__(self) -> None:
        self.unsafe: list[int] = []
        self.flushed: list[list[int]] = []

    def append(self, log: RoundLog) -> None:
        self.unsafe.append(log.t)

    def flush(self) -> None:
        if self.unsafe:
            self.flushed.append(self.unsafe)
            self.unsafe = []


@pytest.mark.parametrize("has_folder", [True, False])
@pytest.mark.parametrize(
    ("every", "expected"), [(0.0, [[0], [1], [2], [3], [4]]), (2.0, [[0, 1], [2, 3], [4]])]
)
def test_a_run_flushes_its_logs_by_it_with_and_without_a_folder(
    has_folder, every, expected, clock, tmp_path, monkeypatch
):
    """A round takes one second; what is left is flushed at the end."""
    monkeypatch.setattr(loop, "COMMIT_EVERY", every)

    class Clockwork:
        def init(self, population):
            return None

        def rates(self, state, t):
            return None

        def draw(self, state, t, rng):
            clock[0] += 1.0
            return np.ones(3, dtype=bool)

    journal = Kept()
    settings = Simulation(model="softmax", rounds=5, availability=Clockwork(), evaluate=())
    data, strategy = federation(dtype=torch.float32), fedavg(local=Local(batch_size=4))
    folder = tmp_path if has_folder else None
    assert [log.t for log in Run(data, strategy, settings, folder, journal)] == list(range(5))
    assert journal.flushed == expected


def test_a_run_that_is_left_early_has_flushed_what_it_played(clock):
    journal = Kept()
    settings = Simulation(model="softmax", rounds=5)
    data, strategy = federation(dtype=torch.float32), fedavg(local=Local(batch_size=4))
    for log in Run(data, strategy, settings, journal=journal):
        if log.t == 2:
            break
    assert journal.flushed == [[0, 1, 2]]

"""Long runs leak nothing: memory, file descriptors and files stay as they are."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from tests.simulation.small import all_facts, federation
from understudy import Bernoulli, Momentum, Stale, Strategy, fdms, simulate

STRATEGIES = {"stale": Strategy(compensator=Stale(), server=Momentum()), "fdms": fdms()}
MEGABYTE = 2**20


def a_run(name: str, n_clients: int, rounds: int, folder: Path | None) -> Any:
    data = federation(sizes=(6,) * n_clients, shape=(10,), dtype=torch.float32)
    return simulate(
        data, STRATEGIES[name], model="mlp", rounds=rounds, seed=2,
        availability=Bernoulli(0.5), folder=folder,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For the run and for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def used(folder: Path) -> tuple[int, int, list[str]]:
    """Memory, open descriptors, and the names of files of the run and of temporary ones."""
    gc.collect()
    process = psutil.Process()
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return process.memory_info().rss, process.num_fds(), files


def check(name: str, folder: Path, n_clients: int, rounds: int, stops: list[int]) -> int:
    """Bytes that memory grew by from the first quarter of the rounds to the end."""
    expected = all_facts(a_run(name, n_clients, rounds, None))
    before = used(folder)
    early, growth = None, 0
    found: list[Any] = []
    for stop in [*stops, rounds - 1]:
        with a_run(name, n_clients, rounds, folder / "run") as run:
            found = []
            for log in run:
                found.append(log)
                if early is None and log.t == rounds // 4:
                    early = used(folder)
                if log.t == stop:
                    now = used(folder)
                    if early is not None:
                        growth = now[0] - early[0]
                        assert now[1] <= early[1]  # idle workers of other runs may end meanwhile
                        assert now[2] == early[2]
                    break
        del run
    assert all_facts(found) == expected
    del found
    assert used(folder)[1] <= before[1]
    return growth


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_resumed_several_times_leaves_nothing_open(name: str, folder: Path) -> None:
    check(name, folder, n_clients=12, rounds=16, stops=[5, 9, 13])


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", STRATEGIES)
def test_hundreds_of_rounds_of_hundreds_of_clients(name: str, folder: Path) -> None:
    growth = check(name, folder, n_clients=200, rounds=320, stops=[90, 150, 233])
    # logs of 240 rounds are kept in memory, some 6 bytes for each client and round, and here twice
    assert growth < 16 * MEGABYTE, growth

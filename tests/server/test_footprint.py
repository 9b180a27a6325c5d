"""Bytes a run needs: exact, said before it starts, and refused where there is not as much."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch

from understudy import (
    FDMS,
    Adam,
    Blind,
    FedGS,
    HoeffdingRace,
    Local,
    Momentum,
    NormGuard,
    Population,
    Scaffold,
    Stale,
    Strategy,
    Uniform,
)
from understudy.server.footprint import Footprint, readable
from understudy.server.state import row_stores
from understudy.testing import updates_for

TEN = Population(10)


def test_fedavg() -> None:
    """N = 10, d = 1000, float32: the model takes 4,000 bytes, there is no other state.

    A round: ten updates, the aggregated one, the new model, the step: 13 x 4,000 = 52,000.
    Memory 56,000 with or without a folder; on disk two copies of the model while it is renewed.
    """
    assert Strategy().footprint(TEN, 1000) == Footprint(
        memory=56_000, disk=8_000, memory_with_folder=56_000
    )


def test_the_type_of_the_numbers_counts() -> None:
    for dtype, size in ((torch.float16, 2), (torch.bfloat16, 2), (torch.float64, 8)):
        found = Strategy().footprint(TEN, 1000, dtype=dtype)
        assert found.memory == 14 * 1000 * size
        assert found.disk == 2 * 1000 * size


def test_fewer_asked_need_less_at_once() -> None:
    """Three of ten: 3 + 3 vectors of 4,000 bytes beside the model; 20 % of ten are two."""
    assert Strategy(sampler=Uniform(3)).footprint(TEN, 1000).memory == 4_000 + 6 * 4_000
    assert Strategy(sampler=Uniform(0.5)).footprint(TEN, 1000).memory == 4_000 + 8 * 4_000
    assert Strategy(sampler=Blind(Uniform())).footprint(TEN, 1000).memory == 4_000 + 5 * 4_000
    assert Strategy(sampler=Uniform(99)).footprint(TEN, 1000).memory == 56_000


def test_stale() -> None:
    """A remembered row: 4,000 bytes, 4,032 from one to the next (63 x 64).

    Small: the model, the last round and the local step of each client: 4,000 + 80 + 80 = 4,160.
    Memory: 4,160 + 10 x 4,032 + 52,000 = 96,480; with a folder, without the rows: 56,160.
    Disk: a committed and a new row of each client, 20 x 4,032, and the small twice: 88,960.
    """
    assert Strategy(compensator=Stale()).footprint(TEN, 1000) == Footprint(
        memory=96_480, disk=88_960, memory_with_folder=56_160
    )


def test_fdms() -> None:
    """Scores: rows of 10 x 8 = 80 bytes, in 128; counts: 10 x 4 = 40, in 64. Joined: 80.

    Small 4,080; memory 4,080 + 10 x 192 + 52,000 = 58,000; disk 20 x 192 + 2 x 4,080 = 12,000.
    A race keeps 10 x 1 byte more for each, in 64: 640 in memory, 1,280 on disk.
    """
    assert Strategy(compensator=FDMS()).footprint(TEN, 1000) == Footprint(
        memory=58_000, disk=12_000, memory_with_folder=56_080
    )
    race = Strategy(compensator=FDMS(race=HoeffdingRace()))
    assert race.footprint(TEN, 1000) == Footprint(
        memory=58_640, disk=13_280, memory_with_folder=56_080
    )


def test_scaffold_with_adam_and_a_guard() -> None:
    """Model, two moments, the common variate: 4 x 4,000; five rounds of ten norms: 400.

    Small 16,400; variates 10 x 4,032; memory 16,400 + 40,320 + 52,000 = 108,720; with a folder
    68,400; disk 20 x 4,032 + 2 x 16,400 = 113,440.
    """
    strategy = Strategy(server=Adam(), local=Local(rule=Scaffold()), guard=NormGuard())
    assert strategy.footprint(TEN, 1000) == Footprint(
        memory=108_720, disk=113_440, memory_with_folder=68_400
    )


def test_fedgs_from_updates() -> None:
    """Counts: 80 bytes. First updates: 10 x 4,032. Two of ten are asked: 5 x 4,000.

    Memory 4,080 + 40,320 + 20,000 = 64,400; with a folder 24,080; disk 80,640 + 8,160 = 88,800.
    """
    assert Strategy(sampler=FedGS(graph="updates")).footprint(TEN, 1000) == Footprint(
        memory=64_400, disk=88_800, memory_with_folder=24_080
    )


def test_nothing_is_allocated_to_find_out() -> None:
    """A thousand rows of 10^12 numbers: 4 x 10^15 bytes, and the sum is still exact."""
    n, d = 1000, 10**12
    found = Strategy(compensator=Stale(), server=Momentum()).footprint(Population(n), d)
    stale_rows = n * 4 * d  # 4 x 10^12 is a multiple of 64
    assert found.memory == 2 * 4 * d + 16 * n + stale_rows + (n + 3) * 4 * d


@pytest.mark.parametrize("n", [10, 40, 100])
def test_the_rows_never_take_more_disk_than_was_said(n: int, tmp_path: Path) -> None:
    """Everyone comes in every round: between two commits each client has two rows."""
    strategy = Strategy(compensator=Stale(), server=Momentum())
    need = strategy.footprint(Population(n), 1000)
    state = strategy.init(Population(n), torch.zeros(1000), folder=tmp_path)
    most = 0
    for t in range(4):
        cohort = strategy.select(state, np.ones(n, dtype=bool))
        strategy.apply(state, cohort, updates_for([(i, t) for i in range(n)], state.params))
        strategy.commit(state)
        files = [path.stat() for path in tmp_path.iterdir() if path.suffix != ""]
        most = max(most, sum(min(file.st_size, file.st_blocks * 512) for file in files))
    headers = 8_000  # names and hyper-parameters in the small files
    assert most <= need.disk + headers
    state.close()


def test_the_rows_take_the_memory_that_was_said() -> None:
    strategy = Strategy(compensator=FDMS(race=HoeffdingRace()), local=Local(rule=Scaffold()))
    state = strategy.init(TEN, torch.zeros(1000))
    in_rows = sum(store.bytes() for _, store in row_stores(state))
    need = strategy.footprint(TEN, 1000)
    assert in_rows == need.memory - need.memory_with_folder == 10 * (128 + 64 + 64 + 4032)


# -- refused ---------------------------------------------------------------------------------------


def with_free(monkeypatch: pytest.MonkeyPatch, *, memory: int, disk: int = 2**60) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=memory))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=disk))


def test_what_no_machine_has_is_refused_naming_the_sum(tmp_path: Path) -> None:
    """10^13 float32 without storage, ten clients: 14 x 4 x 10^13 = 560 TB."""
    params = torch.zeros(1).expand(10**13)
    with pytest.raises(MemoryError, match=r"560\.0 TB of memory \(560000000000000 bytes\)"):
        Strategy().init(TEN, params)
    with pytest.raises(MemoryError, match=r"560\.0 TB of memory"):
        Strategy().init(TEN, params, folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_one_byte_too_few_is_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = Strategy(compensator=Stale())
    with_free(monkeypatch, memory=96_479)
    with pytest.raises(MemoryError, match=r"96\.5 kB of memory \(96480 bytes\).*96\.5 kB are free"):
        strategy.init(TEN, torch.zeros(1000))
    with_free(monkeypatch, memory=96_480)
    strategy.init(TEN, torch.zeros(1000))


def test_with_a_folder_the_rows_need_disk_instead_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, folder = Strategy(compensator=Stale()), tmp_path / "deep" / "run"
    with_free(monkeypatch, memory=56_160, disk=88_960)
    with pytest.raises(MemoryError, match="with a folder, remembered rows live on disk"):
        strategy.init(TEN, torch.zeros(1000))
    strategy.init(TEN, torch.zeros(1000), folder=folder).close()
    with_free(monkeypatch, memory=56_159, disk=88_960)
    with pytest.raises(MemoryError, match=r"56\.2 kB of memory \(56160 bytes\)") as refused:
        strategy.init(TEN, torch.zeros(1000), folder=tmp_path / "other")
    assert "with a folder" not in str(refused.value)
    assert not (tmp_path / "other").exists()


def test_a_hint_that_would_not_help_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedAvg remembers no rows: a folder would save nothing."""
    with_free(monkeypatch, memory=55_999)
    with pytest.raises(MemoryError, match=r"\(56000 bytes\)") as refused:
        Strategy().init(TEN, torch.zeros(1000))
    assert "folder" not in str(refused.value)


def test_too_little_disk_is_refused_and_nothing_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, folder = Strategy(compensator=Stale()), tmp_path / "deep" / "run"
    with_free(monkeypatch, memory=2**60, disk=88_959)
    with pytest.raises(OSError, match=r"89\.0 kB of disk \(88960 bytes\)") as refused:
        strategy.init(TEN, torch.zeros(1000), folder=folder)
    assert str(folder) in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    tmp_path.joinpath("exists").mkdir()
    with pytest.raises(OSError, match="of disk"):
        strategy.init(TEN, torch.zeros(1000), folder=tmp_path / "exists")
    assert list((tmp_path / "exists").iterdir()) == []


def test_wrong_arguments_create_nothing_in_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seed: expected"):
        Strategy().init(TEN, torch.zeros(5), seed=-1, folder=tmp_path / "run")
    with pytest.raises(ValueError, match="n_parameters: expected"):
        Strategy().init(TEN, torch.zeros(5), n_parameters=6, folder=tmp_path / "run")
    with pytest.raises(ValueError, match="params: expected"):
        Strategy().init(TEN, torch.zeros(5, 2), folder=tmp_path / "run")
    with pytest.raises(ValueError, match="graph='features': needs"):
        Strategy(sampler=FedGS(graph="features")).init(TEN, torch.zeros(5), folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_it_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    strategy = Strategy(compensator=Stale())
    with caplog.at_level(logging.INFO, logger="understudy"):
        strategy.init(TEN, torch.zeros(1000))
        strategy.init(TEN, torch.zeros(1000), folder=tmp_path).close()
    in_memory, in_folder = [record.getMessage() for record in caplog.records]
    assert "96.5 kB of memory" in in_memory
    assert "0 bytes of disk" in in_memory
    assert "56.2 kB of memory" in in_folder
    assert "89.0 kB of disk" in in_folder


def test_bytes_as_a_person_reads_them() -> None:
    assert [readable(size) for size in (0, 999, 1000, 1_234_567, 8e9, 5.6e14, 1e18)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "1.2 MB",
        "8.0 GB",
        "560.0 TB",
        "1000000.0 TB",
    ]

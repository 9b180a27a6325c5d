"""Runs that were stored before the modules had rooms are still read, and resumed.

``stored/flat_layout.zip`` was written by the package when all its modules lay flat: the study
`kept` ran to its end, the study `half` and the run in ``run_folder`` were interrupted.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from understudy import Local, Markov, fdms, results, simulate
from understudy.memory.tensor_stream import CheckpointError, Reader
from understudy.simulation import clustered_digits
from understudy.studies import Study, cell_module

AS_IT_WAS = ["weighting=paper"]  # the default then
STORED = Path(__file__).parents[1] / "stored" / "flat_layout.zip"


@pytest.fixture
def stored(tmp_path, monkeypatch) -> Path:
    with zipfile.ZipFile(STORED) as archive:
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_finished_study_is_found_by_its_keys(stored):
    study = Study.read("kept.toml", overrides=AS_IT_WAS)
    keys = {cell.key for cell in study.cells()}
    assert keys == {"477a616eb1c8f2f9", "94b55126e904a456", "a611270bc8fa1087", "d4f35ca70d18be78"}
    outcome = study.run("kept_runs", progress=False)
    assert (outcome.done, outcome.failed) == ((), {})
    assert set(outcome.skipped) == keys
    frame = results("kept_runs", study="kept")
    assert sorted(frame["strategy"]) == ["fdms", "fdms", "fedavg", "fedavg"]
    assert set(frame["status"]) == {"done"}
    for key in keys:
        assert sum(entry.numel() for entry in cell_module("kept_runs", key).parameters()) == 650


def test_an_interrupted_study_goes_on_from_its_checkpoint(stored):
    study = Study.read("half.toml", overrides=AS_IT_WAS)
    (cell,) = study.cells()
    checkpoint = stored / "half_runs" / "cells" / cell.key / "server" / "state.safetensors"
    played_before = Reader(checkpoint).about["numbers"]["t"]
    assert played_before > 0
    outcome = study.run("half_runs", progress=False, on="here")
    assert outcome.done == (cell.key,)
    study.run("whole_runs", progress=False, on="here")
    taken_up, whole = (cell_module(folder, cell.key) for folder in ("half_runs", "whole_runs"))
    for ours, theirs in zip(taken_up.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)  # another kind of CPU


def test_an_interrupted_run_goes_on_from_its_folder(stored):
    def run(folder: Path | None, **asked: str):
        return simulate(
            clustered_digits(),
            fdms(local=Local(lr=0.1), **asked),
            model="softmax",
            availability=Markov(),
            rounds=6,
            folder=folder,
        )

    with pytest.raises(CheckpointError) as refused:
        run(stored / "run_folder")
    assert str(refused.value).endswith(
        "a checkpoint of another strategy: weighting is 'clients' there, 'examples' here. "
        "The default has changed: weighting='clients' resumes this run"
    )
    resumed, whole = (run(place, weighting="clients") for place in (stored / "run_folder", None))
    assert resumed.state.t == 3
    assert [log.t for log in resumed] == [log.t for log in whole] == list(range(6))
    torch.testing.assert_close(resumed.state.params, whole.state.params, rtol=1e-4, atol=1e-5)

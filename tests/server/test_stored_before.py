"""Runs that earlier versions stored are still read, and resumed.

``stored/flat_layout.zip`` was written by the package when all its modules lay flat: the study
`kept` ran to its end, the study `half` and the run in ``run_folder`` were interrupted.
``stored/before_the_loop.zip`` was written before simulations and live federations shared a loop:
the run in ``in_flight`` had late updates under way, ``live`` is a federation after three rounds.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.test_resume import noisy
from tests.flower.toy import play, toy_app
from understudy import Local, Markov, fdms, mifa, results, simulate
from understudy.memory.tensor_stream import CheckpointError, Reader
from understudy.parts.delay import Combined, Deadline, Failure, Latency
from understudy.simulation import clustered_digits
from understudy.studies import Study, cell_module

AS_IT_WAS = ["weighting=paper"]  # the default then
STORED = Path(__file__).parents[1] / "stored"


@pytest.fixture
def stored(tmp_path, monkeypatch) -> Path:
    for name in ("flat_layout", "before_the_loop"):
        with zipfile.ZipFile(STORED / f"{name}.zip") as archive:
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


def test_updates_that_were_under_way_arrive(stored):
    def run(folder: Path | None):
        return simulate(
            clustered_digits(n_clients=10, n_clusters=5, per_client=24, seed=1),
            mifa(wait=False, local=Local(lr=0.1, batch_size=8)),
            model="softmax",
            availability=Markov(0.6, 2),
            delay=Deadline(Combined(Failure(0.1), Latency(step_spread=1.0, seed=1)), seconds=0.12),
            rounds=8,
            folder=folder,
            engine="loop",
            workers=1,
        )

    resumed, whole = run(stored / "in_flight"), run(None)
    assert resumed.state.t == 4
    assert len(resumed.state.extra.flight.ids) == 2
    for ours, theirs in zip(resumed, whole, strict=True):
        np.testing.assert_array_equal(ours.outcome, theirs.outcome)
    torch.testing.assert_close(resumed.state.params, whole.state.params, rtol=1e-4, atol=1e-5)


def test_a_live_federation_without_its_attendance_draws_it_again(stored):
    def rounds(folder: Path | None):
        grid = LoopbackGrid(nodes_of(toy_app(noisy), 5))
        return play(grid, fdms(), rounds=6, availability=Markov(0.5, 3), folder=folder).history

    assert rounds(stored / "live") == rounds(None)[3:]

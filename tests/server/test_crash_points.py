"""Killed at every call that changes a file, or without power: the last commit is whole."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.power_cut import Crash, CrashPoints, PowerCut
from understudy import FDMS, Momentum, Population, Stale, Strategy, resume
from understudy.core.types import RoundLog
from understudy.memory.run_folder import STATE
from understudy.server.state import ServerState
from understudy.studies.store.store import Store
from understudy.testing import play, snapshot

N, D = 6, 40
STRATEGIES = {
    "stale": Strategy(compensator=Stale(), server=Momentum()),
    "fdms": Strategy(compensator=FDMS()),
}


def begun(name: str, folder: Path | None = None) -> ServerState:
    state = STRATEGIES[name].init(Population(N), torch.linspace(-1, 1, D), seed=3, folder=folder)
    state.commit_every = 0.0
    return state


def played(name: str, state: ServerState, rounds: int) -> str:
    while state.t < rounds:
        play(STRATEGIES[name], state, 4)
    return snapshot(state)


def crash_everywhere(name: str, tmp_path: Path, rounds: int) -> int:
    """How many crash points there were: each, once before and once after the call."""
    expected, at, points = played(name, begun(name), rounds), 0, 0
    for after in (False, True):
        at = 0
        while True:
            folder = tmp_path / f"{after}-{at}"
            begun(name, folder).close()
            state = resume(folder, STRATEGIES[name])
            state.commit_every = 0.0
            with pytest.MonkeyPatch.context() as patch:
                crash = CrashPoints(patch, at, after=after)
                try:
                    played(name, state, rounds)
                except Crash:
                    assert crash.crashed
            state.close()
            again = resume(folder, STRATEGIES[name])
            assert played(name, again, rounds) == expected, (at, after, crash.seen[-1:])
            again.close()
            if not crash.crashed:
                break
            at, points = at + 1, points + 1
    return points


@pytest.mark.parametrize("name", STRATEGIES)
def test_killed_before_and_after_every_call_a_run_resumes_to_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # here the power stays on; waiting is slow
    assert crash_everywhere(name, tmp_path, rounds=2) >= 30


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", STRATEGIES)
def test_hundreds_of_crash_points(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    assert crash_everywhere(name, tmp_path, rounds=14) >= 200


def cut_power_everywhere(name: str, tmp_path: Path, rounds: int) -> int:
    """After each round, and at each crash point in it, what is durable is a run to resume."""
    expected, at = played(name, begun(name), rounds), 0
    while True:
        folder, left = tmp_path / f"run-{at}", tmp_path / f"left-{at}"
        with pytest.MonkeyPatch.context() as patch:
            power = PowerCut(patch, folder)
            state = begun(name, folder)
            committed = state.t
            crash = CrashPoints(patch, at, after=True)
            try:
                while state.t < rounds:
                    play(STRATEGIES[name], state, 4)
                    committed = state.t
            except Crash:
                pass
        state.close()
        power.left(left)
        again = resume(left, STRATEGIES[name])
        assert again.t >= committed, "a commit that was reported is gone"
        assert played(name, again, rounds) == expected, (at, crash.seen[-1:])
        again.close()
        if not crash.crashed:
            return at
        at += 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are needed")
@pytest.mark.parametrize("name", STRATEGIES)
def test_without_power_at_any_moment_the_last_commit_is_whole(name: str, tmp_path: Path) -> None:
    assert cut_power_everywhere(name, tmp_path, rounds=2) >= 12


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_hundred_power_cuts(name: str, tmp_path: Path) -> None:
    assert cut_power_everywhere(name, tmp_path, rounds=14) >= 80


def log(t: int) -> RoundLog:
    ids = np.arange(3)
    return RoundLog(
        t=t, outcome=np.zeros(3, dtype=np.int8), refusals=(), ids=ids, source=ids,
        coef=np.full(3, t / 7), notes={}, metrics={"a": t / 3}, client_metrics={"b": ids / 3},
    )  # fmt: skip


def store_story(folder: Path) -> None:
    with Store.open(folder, write=True) as store:
        store.begin("0" * 16, {"a": 1}, {}, "1")
        store.add_rounds("0" * 16, [log(0), log(1)])
        store.add_rounds("0" * 16, [log(1), log(2)])
        store.begin_anew("0" * 16, {"a": 1}, {}, "1", [log(0)])
        store.finish("0" * 16)


@pytest.mark.slow
def test_killed_before_and_after_every_statement_the_store_holds_whole_transactions(
    tmp_path: Path,
) -> None:
    allowed = ([], [0, 1], [0, 1, 2], [0])
    points = 0
    for after in (False, True):
        at = 0
        while True:
            folder = tmp_path / f"{after}-{at}"
            with pytest.MonkeyPatch.context() as patch:
                crash = CrashPoints(patch, at, after=after)
                with suppress(Crash):
                    store_story(folder)
            with Store.open(folder, write=True) as store:
                found = list(store.logs("0" * 16))
                assert [one.t for one in found] in allowed, (at, after)
                assert [one.metrics["a"] for one in found] == [t / 3 for t in range(len(found))]
                assert store.damage("0" * 16) == ""
                assert store.broken_pages() == []
            store_story(folder)
            if not crash.crashed:
                break
            at, points = at + 1, points + 1
    assert points >= 60


def test_the_state_is_where_the_rename_put_it(tmp_path: Path) -> None:
    """The helper itself: without the fsync of the folder, a rename is not durable."""
    with pytest.MonkeyPatch.context() as patch:
        power = PowerCut(patch, tmp_path / "run")
        begun("stale", tmp_path / "run").close()
        (tmp_path / "run" / STATE).rename(tmp_path / "run" / "elsewhere")
        power.left(tmp_path / "left")
    assert (tmp_path / "left" / STATE).exists()
    assert not (tmp_path / "left" / "elsewhere").exists()

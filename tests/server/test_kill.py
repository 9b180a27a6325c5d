"""A run that is killed at any moment goes on from its last commit, to the same bits.

Run as a program, this file is the child that gets killed.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy import (
    FDMS,
    Blind,
    CheckpointError,
    FedGS,
    FolderInUse,
    HoeffdingRace,
    Local,
    Momentum,
    NormGuard,
    Population,
    Scaffold,
    Stale,
    Strategy,
    resume,
)
from understudy.core.rng import generator
from understudy.server.state import ServerState, row_stores
from understudy.testing import play, snapshot

N, D = 12, 4000
pytestmark = pytest.mark.process  # it starts and kills processes

WAIT = 240.0  # seconds for what takes two on an idle machine

# Rows in every part that can have some; and one whose rows are narrow, and many for each arrival.
STRATEGIES = {
    "stale": Strategy(
        sampler=Blind(FedGS(m=7, graph="updates")),
        compensator=Stale(),
        server=Momentum(lr=0.1),
        local=Local(rule=Scaffold()),
        guard=NormGuard(),
    ),
    "fdms": Strategy(
        compensator=FDMS(race=HoeffdingRace(threshold="code", scale=0.2, p=0.5)),
        server=Momentum(lr=0.1),
    ),
}


def begun(name: str, folder: Path | None = None) -> ServerState:
    params = torch.linspace(-1, 1, D)
    return STRATEGIES[name].init(Population(N), params, seed=11, folder=folder)


def taken_up(name: str, folder: Path) -> ServerState:
    """Resumed, or begun where the last child died before the first commit."""
    try:
        return resume(folder, STRATEGIES[name])
    except CheckpointError as error:
        if "holds no run" not in str(error):
            raise
        return begun(name, folder)


def one_round(name: str, state: ServerState) -> None:
    """Attendance and updates have addresses: round t is the same in whichever process it runs."""
    everyone = np.ones(N, dtype=bool)  # in some rounds nearly all rows change
    play(STRATEGIES[name], state, 5, available=everyone if state.t % 9 == 0 else None)


# -- the child -------------------------------------------------------------------------------------


def main(root: str, commit_every: str) -> None:
    torch.set_num_threads(1)
    states = {name: taken_up(name, Path(root, name)) for name in STRATEGIES}
    first = True
    while True:
        for name, state in states.items():
            state.commit_every = float(commit_every)
            one_round(name, state)
            if first:
                STRATEGIES[name].commit(state)
        if first:  # from here on each child has gone further than the one before
            print("began", {name: state.t for name, state in states.items()}, flush=True)
            first = False


class Child:
    """A child process, its output read as it comes, killed at the latest when the test ends."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, word: str) -> str:
        """The line that begins with `word`; a failure shows all that the child said."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            try:
                line = self._lines.get(timeout=1.0)
            except queue.Empty:
                continue
            if line is None:
                break
            self.said.append(line)
            if line.startswith(word):
                return line
        self.kill()
        pytest.fail(f"the child never said {word!r} but:\n{''.join(self.said)}")

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT)
        self._reader.join(WAIT)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


# -- killed at random ------------------------------------------------------------------------------


def kill_again_and_again(root: Path, kills: int) -> None:
    for number in range(kills):
        rng = generator(number, "kill")
        commit_every = ["0.0", "0.01", "0.1"][rng.integers(3)]
        with Child(__file__, str(root), commit_every) as child:
            child.wait_for("began")
            time.sleep(rng.uniform(0.0, 0.25))
            died_before = child.process.poll() is not None
            child.kill()
            assert not died_before, "".join(child.said) + f"\nended by itself, kill {number}"
            assert child.process.returncode == -signal.SIGKILL


def assert_as_if_never_interrupted(root: Path, kills: int) -> None:
    for name, strategy in STRATEGIES.items():
        state = resume(root / name, strategy)
        assert state.t >= kills  # each child committed a round at least
        for _ in range(3):
            one_round(name, state)
        strategy.commit(state)
        whole = begun(name)
        while whole.t < state.t:
            one_round(name, whole)
        assert whole.t == state.t
        assert torch.isfinite(whole.params).all()
        assert torch.equal(whole.params, state.params), name
        assert snapshot(whole) == snapshot(state), name
        assert all(store.known.any() for _, store in row_stores(whole)), "rows were at stake"
        state.close()
        again = resume(root / name, strategy)
        assert snapshot(again) == snapshot(whole)
        again.close()


@pytest.mark.timeout(900)
def test_ten_kills_change_no_bit(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=10)
    assert_as_if_never_interrupted(tmp_path, kills=10)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_hundred_kills_change_no_bit(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=100)
    assert_as_if_never_interrupted(tmp_path, kills=100)


# -- broken off at each write ----------------------------------------------------------------------


class BrokenOff(BaseException):
    """Stands for the kill: nothing of the library catches it."""


class Breaks:
    """Lets `left` of the calls that change files happen; a write that breaks is half done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
        self.left = left
        for name in ("pwrite", "fsync", "replace", "unlink", "ftruncate"):
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))
        monkeypatch.setattr(Path, "touch", self._counted("touch", Path.touch))

    def _counted(self, name: str, real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.left == 0:
                if name == "pwrite":
                    fd, data, offset = arguments
                    real(fd, data[: len(data) // 2], offset)
                raise BrokenOff
            self.left -= 1
            return real(*arguments, **options)

        return call


def story(name: str, state: ServerState) -> None:
    """Rounds, new clients, one that leaves: from whichever commit it is taken up."""
    strategy = STRATEGIES[name]
    while state.t < 5:
        if state.t == 3 and state.n_clients == N:
            strategy.grow(state, Population(N + 2))
        if state.t == 4:
            strategy.retire(state, 2)
        play(strategy, state, 5)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("commit_every", [0.0, 1e9])
def test_broken_off_at_each_write_it_goes_on_to_the_same_bits(
    name: str, commit_every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every single call that changes a file is, once, the last one that happens."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # here the power stays on; waiting is slow
    whole = begun(name)
    story(name, whole)
    expected, moments = snapshot(whole), 0
    while True:
        folder = tmp_path / str(moments)
        state = begun(name, folder)
        play(STRATEGIES[name], state, 5)
        STRATEGIES[name].commit(state)
        state.commit_every = commit_every
        with pytest.MonkeyPatch.context() as patched:
            breaks = Breaks(patched, left=moments)
            try:
                story(name, state)
                STRATEGIES[name].commit(state)
                finished = True
            except BrokenOff:
                finished = False
        if finished:
            assert breaks.left == 0, "it would have broken at the next call"
        state.close()
        again = resume(folder, STRATEGIES[name])
        assert again.t >= 1
        story(name, again)
        assert snapshot(again) == expected, f"broken off at call {moments}"
        again.close()
        if finished:
            break
        moments += 1
    assert moments > 30


# -- one writer ------------------------------------------------------------------------------------


HOLDER = """
import sys, time
from pathlib import Path
import torch
from understudy import Population, Stale, Strategy
from understudy.testing import play

strategy = Strategy(compensator=Stale())
state = strategy.init(Population(4), torch.zeros(3), seed=0, folder=Path(sys.argv[1]))
play(strategy, state, 0)
strategy.commit(state)
print("holds", flush=True)
time.sleep(3600)
"""

INTRUDER = """
import json, sys
from pathlib import Path
import torch
from understudy import CheckpointError, FolderInUse, Population, Stale, Strategy, resume

strategy, folder, said = Strategy(compensator=Stale()), Path(sys.argv[1]), []
for attempt in (
    lambda: resume(folder, strategy),
    lambda: strategy.init(Population(4), torch.zeros(3), seed=0, folder=folder),
):
    try:
        attempt().close()
        said.append("let in")
    except (FolderInUse, CheckpointError) as error:
        said.append(str(error))
print("said", json.dumps(said), flush=True)
"""


def test_another_process_is_refused_and_a_dead_writer_leaves_the_folder_at_once(
    tmp_path: Path,
) -> None:
    strategy = Strategy(compensator=Stale())
    with Child("-c", HOLDER, str(tmp_path)) as holder:
        holder.wait_for("holds")
        who = f"pid {holder.process.pid} on {socket.gethostname()}"
        with pytest.raises(FolderInUse, match=who) as refused:
            resume(tmp_path, strategy)
        assert str(tmp_path) in str(refused.value)
        with pytest.raises(FolderInUse, match=who):
            strategy.init(Population(4), torch.zeros(3), seed=0, folder=tmp_path)
        holder.kill()
        state = resume(tmp_path, strategy)  # no waiting
    assert state.t == 1
    with Child("-c", INTRUDER, str(tmp_path)) as intruder:
        said = json.loads(intruder.wait_for("said")[5:])
    for sentence in said:
        assert f"pid {os.getpid()} on {socket.gethostname()}" in sentence
    play(strategy, state, 1)
    strategy.commit(state)
    state.close()
    with Child("-c", INTRUDER, str(tmp_path)) as guest:
        said = json.loads(guest.wait_for("said")[5:])
    assert said[0] == "let in"
    assert "already holds a run" in said[1]


if __name__ == "__main__":
    main(*sys.argv[1:])

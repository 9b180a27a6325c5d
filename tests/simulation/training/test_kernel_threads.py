"""Threads of the compiled kernels: each part is done once, nobody goes on after an interrupt."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from understudy.simulation.training.jobs import Job, Trained
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernel_threads import KernelThreads

WAIT = 120.0  # seconds, at most


@dataclass
class Recorded:
    """An engine that notes whom it trained; `happens` is called with each client first."""

    happens: Any = field(default=lambda client: None)
    trained: list[int] = field(default_factory=list)
    engines: list[Recorded] = field(default_factory=list)

    def another(self) -> Recorded:
        made = Recorded(self.happens, self.trained, self.engines)
        self.engines.append(made)
        return made

    def train(self, job: Job, is_stopped: Callable[[], bool] = lambda: False) -> Trained:
        trained: Trained = []
        for client in job.clients:
            if is_stopped():
                break
            self.happens(client)
            self.trained.append(client)
            trained.append((client, float(client)))
        return trained

    def outputs(self, params: torch.Tensor, indices: Any) -> torch.Tensor:
        return torch.as_tensor(indices).float()[:, None] + params


def threads(engine: Recorded, n_threads: int) -> KernelThreads:
    return KernelThreads(cast(KernelEngine, engine), n_threads)


def job(n_clients: int) -> Job:
    """Client 10 + i in row i."""
    nothing = torch.zeros(0)
    return Job(0, [10 + i for i in range(n_clients)], list(range(n_clients)), nothing, nothing)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_come_in_the_order_of_the_job(n_threads):
    engine = Recorded()
    team = threads(engine, n_threads)
    trained = team.train(job(6), [[5, 0], [3], [1, 4], [2]])
    assert trained == [(10 + i, 10.0 + i) for i in range(6)]
    assert sorted(engine.trained) == [10, 11, 12, 13, 14, 15]
    n_engines = len(engine.engines)
    assert n_engines == (0 if n_threads == 1 else n_threads)  # each thread has its own
    parts = [torch.arange(3).numpy(), torch.arange(3, 5).numpy()]
    assert team.outputs(torch.ones(1), parts).flatten().tolist() == [1, 2, 3, 4, 5]
    team.close()
    assert not team.are_started
    assert team.train(job(2), [[1], [0]]) == [(10, 10.0), (11, 11.0)]  # started again
    team.close()


def test_parts_are_done_at_the_same_time():
    """Two clients, each of which waits for the other: one thread alone would wait in vain."""
    together = threading.Barrier(2)
    team = threads(Recorded(lambda client: together.wait(WAIT)), 2)
    assert team.train(job(2), [[0], [1]]) == [(10, 10.0), (11, 11.0)]
    team.close()


def test_one_part_starts_no_thread():
    team = threads(Recorded(), 2)
    team.train(job(3), [[0, 1, 2]])
    assert not team.are_started


INTERRUPTED = """
import os, signal, time
from tests.simulation.training.test_kernel_threads import Recorded, job, threads

def happens(client):
    begun.append(client)
    if len(begun) == 1:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.5)

signal.signal(signal.SIGINT, signal.default_int_handler)
begun, engine = [], Recorded(happens)
team = threads(engine, 2)
try:
    team.train(job(40), [list(range(i, i + 4)) for i in range(0, 40, 4)])
    print("not interrupted")
except KeyboardInterrupt:
    print(len(begun) < 40, sorted(engine.trained) == sorted(begun))
n_begun = len(begun)
time.sleep(1.5)
print(len(begun) == n_begun)
print(team.train(job(3), [[0], [1, 2]]))
"""


@pytest.mark.process
def test_after_an_interrupt_nobody_trains_on():
    """Ctrl-C as the first thread begins: those at work are waited for, then the process goes on."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    told = ["True True", "True", "[(10, 10.0), (11, 11.0), (12, 12.0)]"]
    assert done.stdout.splitlines() == told, done.stdout + done.stderr


ENDS = """
from tests.simulation.training.test_kernel_threads import Recorded, job, threads

team = threads(Recorded(), 3)
print(len(team.train(job(30), [[i] for i in range(30)])))
if {closed}:
    team.close()
"""


@pytest.mark.process
@pytest.mark.parametrize("closed", [True, False])
def test_a_process_that_ends_at_once_ends_well(closed):
    """A thread that wakes while the interpreter shuts down would abort the process."""
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", ENDS.format(closed=closed)],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            timeout=WAIT,
        )
        assert (done.returncode, done.stdout) == (0, "30\n"), done.stderr


def test_threads_end_with_their_owner():
    before = set(threading.enumerate())
    team = threads(Recorded(), 2)
    team.train(job(2), [[0], [1]])
    names = "understudy-kernels-0", "understudy-kernels-1"
    ours = [one for one in threading.enumerate() if one not in before and one.name in names]
    assert len(ours) == 2
    del team
    gc.collect()
    assert not any(thread.is_alive() for thread in ours)


def test_an_error_comes_through():
    def happens(client: int) -> None:
        if client == 11:
            raise MemoryError("no room for client 11")

    team = threads(Recorded(happens), 2)
    with pytest.raises(MemoryError, match="no room for client 11"):
        team.train(job(4), [[0], [1], [2], [3]])
    team.close()


def test_a_thread_that_cannot_be_started_is_an_error_and_the_next_call_works(monkeypatch):
    start = threading.Thread.start

    def fails(thread: threading.Thread) -> None:
        if thread.name == "understudy-kernels-1":
            raise RuntimeError("can't start new thread")
        start(thread)

    team = threads(Recorded(), 2)
    monkeypatch.setattr(threading.Thread, "start", fails)
    for _ in range(2):  # the first leaves nothing behind that the second would wait for
        with pytest.raises(RuntimeError, match="thread 2 of 2 that train clients cannot"):
            team.train(job(2), [[0], [1]])
        assert not team.are_started
    monkeypatch.undo()
    assert team.train(job(2), [[0], [1]]) == [(10, 10.0), (11, 11.0)]
    team.close()


def test_nobody_waits_for_threads_that_are_gone():
    team = threads(Recorded(), 2)
    team.train(job(2), [[0], [1]])
    for _ in team._threads:
        team._inbox.put(None)  # they end
    for thread in team._threads:
        thread.join(WAIT)
    with pytest.raises(RuntimeError, match="the threads that train clients are gone, with 0 of 2"):
        team.train(job(2), [[0], [1]])
    assert team.train(job(2), [[0], [1]]) == [(10, 10.0), (11, 11.0)]
    team.close()


def test_after_an_interrupt_while_threads_start_the_next_call_works():
    engine = Recorded()
    team, begun = threads(engine, 2), []

    def another() -> Recorded:
        begun.append(None)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return Recorded(engine.happens, engine.trained)

    engine.another = another  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        team.train(job(2), [[0], [1]])
    assert not team.are_started
    assert team.train(job(2), [[0], [1]]) == [(10, 10.0), (11, 11.0)]
    team.close()

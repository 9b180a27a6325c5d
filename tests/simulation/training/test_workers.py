"""Worker processes: the same bits as without, and a clear end for whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.server.test_kill import WAIT, Child
from tests.simulation.small import SEED, all_facts, cohort, federation
from understudy import FixedDropout, Local, fedavg, mifa, power_of_choice, scaffold
from understudy.simulation import Federation, TrainingTask, build, local_trainer, simulate
from understudy.simulation.data import shared_memory as shared
from understudy.simulation.training import pool
from understudy.simulation.training.pool import end_workers
from understudy.simulation.training.trainers import kernel_trainer
from understudy.simulation.training.trainers import loop_trainer as training
from understudy.simulation.training.trainers.workload import KERNELS_PACE
from understudy.simulation.training.workers import WorkerDied

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

SIZES = (30, 4, 21, 10, 64, 18, 40, 12, 34)  # no batch of one among those of 8: BatchNorm


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "WORTH_WORKERS", 0)
    monkeypatch.setattr(kernel_trainer, "WORTH_THREADS", 0)


@pytest.fixture(autouse=True, scope="module")
def _no_worker_is_left() -> Iterator[None]:
    yield
    end_workers()


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait, with a generous bound."""
    deadline = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < deadline, f"waited {WAIT:g} s in vain until {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Running, and not merely a line in the table of processes."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


# -- the same bits ---------------------------------------------------------------------------------


def normed() -> nn.Module:
    """Buffers of both kinds and dropout."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(256, 8), nn.BatchNorm1d(8, momentum=None), nn.Dropout(0.3),
        nn.Linear(8, 10),
    )  # fmt: skip


MODELS: dict[str, Any] = {
    "softmax": "softmax",
    "mlp": "mlp",
    "fdms_cnn": "fdms_cnn",  # oneDNN off
    "lenet5": "lenet5",
    "normed": normed,
}


def images(dtype: torch.dtype = torch.float32) -> Federation:
    return federation(SIZES, (1, 16, 16), 10, n_test=600, dtype=dtype)


@pytest.mark.parametrize("engine", ["auto", "loop"])
@pytest.mark.parametrize("name", MODELS)
def test_one_and_two_workers_give_the_same_bits(name, engine):
    """Rounds with more and with fewer clients, corrections, starts, two matrices side by side."""
    data = images()
    local = Local(lr=0.05, epochs=2, batch_size=8, momentum=0.5, weight_decay=0.01)
    module = build(MODELS[name], (1, 16, 16), 10, 1)
    one, two = (
        local_trainer(TrainingTask.of(data, module, local, SEED, workers=n, engine=engine))
        for n in (1, 2)
    )
    params = one.task.layout.vector(module)
    rng = np.random.default_rng(0)
    shifts = torch.from_numpy(0.01 * rng.normal(size=(len(SIZES), len(params)))).float()
    extras: list[dict[str, Any]] = [
        {},
        {"correction": lambda client: shifts[client]},
        {"start": lambda client: params + shifts[client]},
    ]
    # numbers of rows that grow, shrink and come again: memory is made anew and let go
    rounds = [[0, 1, 2, 3, 4], [8, 0, 5, 1, 2, 7], [3, 4, 6, 8], [5, 2], list(range(9)), [6]]
    for t, asked in enumerate(rounds):
        extra = extras[t % 3]
        alone = one.train(params, cohort(asked, t, **extra))
        spread = two.train(params, cohort(asked, t, **extra))
        assert torch.equal(alone.deltas, spread.deltas), (t, "matrix")
        assert alone.losses.tolist() == spread.losses.tolist()
        assert alone.n_steps.tolist() == spread.n_steps.tolist()
        others = np.setdiff1d(np.arange(9), asked)
        kept = spread.deltas.clone()
        alone = one.train(params, cohort(others, t, **extra), into="oracle")
        beside = two.train(params, cohort(others, t, **extra), into="oracle")
        if len(others):
            assert torch.equal(alone.deltas, beside.deltas), (t, "oracle")
        assert torch.equal(spread.deltas, kept), "the other matrix is not touched"
    if isinstance(two, kernel_trainer.KernelTrainer):
        assert two._threads.are_started
    else:
        assert two._workers is not None
        assert two.deaths == 0
    assert torch.equal(one.outputs(params, data.test), two.outputs(params, data.test))
    everyone = np.arange(9)[::-1].copy()
    assert one.losses(params, everyone).tolist() == two.losses(params, everyone).tolist()


def test_three_workers_and_fewer_clients_than_workers(monkeypatch):
    data, module = images(), build("mlp", (1, 16, 16), 10, 1)
    one, three = (
        local_trainer(TrainingTask.of(data, module, Local(batch_size=8), SEED, workers=n))
        for n in (1, 3)
    )
    params = one.task.layout.vector(module)
    for t, asked in enumerate([[4, 7], list(range(9))]):
        expected = one.train(params, cohort(asked, t))
        assert torch.equal(three.train(params, cohort(asked, t)).deltas, expected.deltas)


@pytest.mark.parametrize(
    ("strategy", "model"),
    [
        (scaffold(local=Local(lr=0.05, epochs=1, batch_size=8)), "fdms_cnn"),
        (scaffold(local=Local(lr=0.05, epochs=1, batch_size=8)), "softmax"),
        (mifa(wait=False, local=Local(lr=0.05, epochs=1, batch_size=8)), normed),
        (power_of_choice(4, local=Local(lr=0.05, epochs=1, batch_size=8)), "fdms_cnn"),
        (power_of_choice(4, local=Local(lr=0.05, epochs=1, batch_size=8)), normed),
    ],
    ids=["scaffold cnn", "scaffold softmax", "mifa normed", "losses cnn", "losses normed"],
)
def test_whole_runs_have_the_same_bits(strategy, model):
    """Logs, losses, evaluation and the oracle's figures, too."""

    def played(workers):
        run = simulate(
            images(),
            strategy,
            model=model,
            availability=FixedDropout(0.4),
            rounds=3,
            oracle=True,
            per_client_every=1,
            evaluate=("test", "train"),
            workers=workers,
        )
        return all_facts(run), run.state.params

    (logs, params), (other_logs, other_params) = played(1), played(2)
    assert torch.equal(params, other_params)
    assert logs == other_logs


def test_two_runs_side_by_side():
    """Alternately, one round of each: workers change their recipe every time."""

    def run(seed, workers):
        strategy = fedavg(local=Local(batch_size=8))
        return simulate(
            images(), strategy, model="mlp", rounds=3, seed=seed, workers=workers, evaluate=()
        )

    expected = [all_facts(run(seed, 1)) for seed in (0, 1)]
    pairs = list(zip(run(0, 2), run(1, 2), strict=True))
    assert [all_facts(logs) for logs in zip(*pairs, strict=True)] == expected


def test_data_in_double_precision():
    data, module = images(torch.float64), build("softmax", (1, 16, 16), 10, 0).double()
    one, two = (
        local_trainer(TrainingTask.of(data, module, Local(batch_size=8), SEED, workers=n))
        for n in (1, 2)
    )
    params = one.task.layout.vector(module)
    expected = one.train(params, cohort([0, 1, 2, 3]))
    assert torch.equal(two.train(params, cohort([0, 1, 2, 3])).deltas, expected.deltas)


# -- how work is divided ---------------------------------------------------------------------------


def test_work_is_counted_by_hand():
    """FL-FDMS on MNIST: 20 · 80 steps of 150 µs and 3 · 20 · 400 · 480,500 multiply-adds.

    By the kernels: 100 µs a client, 2 µs a step, and 40e9 multiply-adds a second.
    """
    data = federation((200,) * 20, (1, 28, 28), 10, dtype=torch.float32)
    module = build("fdms_cnn", (1, 28, 28), 10, 0)
    local = Local(lr=0.1, epochs=2, batch_size=5)
    task = TrainingTask.of(data, module, local, SEED, workers=2, engine="loop")
    expected = 20 * 80 * 150e-6 + 3 * 20 * 400 * 480_500 / 7e9
    assert task.workload.training(range(20), 0) == pytest.approx(expected)
    by_kernels = replace(task.workload, pace=KERNELS_PACE)
    expected = 20 * 100e-6 + 20 * 80 * 2e-6 + 3 * 20 * 400 * 480_500 / 40e9
    assert by_kernels.training(range(20), 0) == pytest.approx(expected)
    # three quarters in two parts of 7.5, of the remaining 6 again, the last two one by one
    parts = task.workload.parts(range(20), 0)
    assert [len(part) for part in parts] == [7, 7, 2, 2, 1, 1]
    assert [position for part in parts for position in part] == list(range(20))


def test_parts_grow_smaller_and_begin_with_the_longest():
    """Steps 8, 1, 6, 3, 16, 5, 10, 3, 9 of batches of 4: 61 in all.

    Three quarters in two parts of 22.9 steps: 16 and 10 would be more, so 16; 10 + 9. Of the 26
    that are left, two of 9.75: 8; 6. Of 12, two of 4.5: 5 is alone in its part, then 3. Then 3, 1.
    """
    data = images()
    task = TrainingTask.of(
        data, build("mlp", (1, 16, 16), 10, 0), Local(batch_size=4), SEED, workers=2
    )
    steps = [-(-size // 4) for size in SIZES]
    parts = task.workload.parts(range(9), 0)
    assert [[steps[i] for i in part] for part in parts] == [
        [16],
        [10, 9],
        [8],
        [6],
        [5],
        [3],
        [3],
        [1],
    ]
    assert task.workload.parts([3], 0) == [[0]]


def _who(number: int, folder: str) -> int:
    """Request 0 waits until all others were done, which its own process cannot do meanwhile."""
    Path(folder, str(number)).touch()
    deadline = time.monotonic() + WAIT
    while number == 0 and len(os.listdir(folder)) < 7 and time.monotonic() < deadline:
        time.sleep(0.01)
    return os.getpid()


def test_whoever_is_free_takes_the_next_order(tmp_path):
    end_workers()
    orders = [(number, str(tmp_path)) for number in range(7)]
    first, *others = pool.pool_of(2).map(_who, orders)
    assert len(set(others)) == 1
    assert first not in others


def test_more_processes_than_orders(tmp_path):
    end_workers()
    assert len(pool.pool_of(3).map(_who, [(7, str(tmp_path))])) == 1
    assert pool.pool_of(3).map(_who, []) == []


def test_a_small_round_is_trained_here(monkeypatch):
    """By counted work: four steps of a softmax regression start no process."""
    monkeypatch.setattr(training, "WORTH_WORKERS", 0.02)
    end_workers()
    before = set(psutil.Process().children(recursive=True))
    data = federation(dtype=torch.float32)
    run = simulate(data, fedavg(), model="softmax", rounds=2, workers=2)
    list(run)
    assert getattr(run._trainer, "_workers", None) is None
    assert set(psutil.Process().children(recursive=True)) <= before


# -- in a worker -----------------------------------------------------------------------------------


class Probe:
    """A loss that writes down under which conditions it is computed."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        found = (
            torch.get_num_threads(),
            torch.backends.mkldnn.enabled,
            torch._C._get_nnpack_enabled(),
            os.environ.get("OMP_NUM_THREADS"),
            os.getppid(),
        )
        Path(self.folder, str(os.getpid())).write_text(repr(found))
        return cross_entropy(outputs, labels)


@pytest.mark.parametrize(("model", "onednn"), [("fdms_cnn", False), ("mlp", True)])
def test_workers_have_one_thread_and_the_runs_kernels(tmp_path, model, onednn):
    data, module = images(), build(model, (1, 16, 16), 10, 0)
    trainer = local_trainer(
        TrainingTask.of(data, module, Local(), SEED, Probe(tmp_path), workers=2)
    )
    (tmp_path / str(os.getpid())).unlink()  # here targets are looked at, before anything is trained
    trainer.train(trainer.task.layout.vector(module), cohort(range(9)))
    found = {path.name: eval(path.read_text()) for path in tmp_path.iterdir()}
    assert str(os.getpid()) not in found
    assert 1 <= len(found) <= 2
    assert set(found.values()) == {(1, onednn, False, "1", os.getpid())}


class Refuses(Exception):
    """An error of the user's own."""


class Gate:
    """A loss that says who has begun, and waits while it is closed.

    Once `seal` was called, newcomers are not held. With `fails`, one process raises as soon as two
    have begun, and the other one stays where it is.
    """

    def __init__(self, folder: Path, fails: bool = False) -> None:
        self.folder, self.fails = str(folder), fails

    def __call__(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        me = os.getpid()
        if self._is("closed") and not self._is("sealed"):
            self._mark(f"begun-{me}")
        if self.fails and self._is(f"begun-{me}") and self._first("failed"):
            self.free(me)
            self._wait(lambda: len(self.begun()) >= 2)
            raise Refuses("a loss of the user's")
        if self._is(f"begun-{me}"):
            self._wait(lambda: not self._is("closed") or self._is(f"free-{me}"))
        return cross_entropy(outputs, labels)

    def close(self) -> None:
        self._mark("closed")

    def open(self) -> None:
        Path(self.folder, "closed").unlink()

    def seal(self) -> None:
        self._mark("sealed")

    def free(self, pid: int) -> None:
        self._mark(f"free-{pid}")

    def begun(self) -> list[int]:
        """Processes that have begun to train."""
        return sorted(int(path.name[6:]) for path in Path(self.folder).glob("begun-*"))

    def _is(self, name: str) -> bool:
        return Path(self.folder, name).exists()

    def _mark(self, name: str) -> None:
        Path(self.folder, name).touch()

    def _first(self, name: str) -> bool:
        try:
            os.close(os.open(Path(self.folder, name), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    @staticmethod
    def _wait(true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not true() and time.monotonic() < deadline:
            time.sleep(0.01)


class Meanwhile:
    """Something done in a thread while the main thread trains; an error there fails the test."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action, self._error = action, None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


def gated(
    folder: Path, fails: bool = False
) -> tuple[Gate, training.LoopTrainer, torch.Tensor, Any]:
    """(gate, trainer with two workers, parameters, what one process makes of all clients)."""
    data, module, gate = images(), build(normed, (1, 16, 16), 10, 0), Gate(folder, fails)
    local = Local(lr=0.05, epochs=1, batch_size=8)
    alone = local_trainer(TrainingTask.of(data, module, local, SEED, workers=1))
    params = alone.task.layout.vector(module)
    expected = alone.train(params, cohort(range(9)))
    two = local_trainer(TrainingTask.of(data, module, local, SEED, gate, workers=2))
    return gate, two, params, expected


def kill_child(pid: int) -> None:
    """Only what is a child of this process."""
    assert pid in {child.pid for child in psutil.Process().children(recursive=True)}
    os.kill(pid, signal.SIGKILL)


# -- workers that die ------------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle_of_a_round(tmp_path):
    """It is reported, and its clients are trained again, to the same bits."""
    gate, trainer, params, expected = gated(tmp_path)
    gate.close()

    def kill_one() -> None:
        wait_until(lambda: len(gate.begun()) >= 1, "a worker has begun")
        victim = gate.begun()[0]
        kill_child(victim)
        wait_until(lambda: not is_alive(victim), "the worker is dead")
        gate.open()

    with Meanwhile(kill_one):
        arrivals = trainer.train(params, cohort(range(9)))
    assert trainer.deaths == 1
    assert torch.equal(arrivals.deltas, expected.deltas)
    assert arrivals.losses.tolist() == expected.losses.tolist()
    again = trainer.train(params, cohort(range(9)))
    assert torch.equal(again.deltas, expected.deltas)
    assert trainer.deaths == 1


def test_a_worker_killed_between_two_rounds(tmp_path):
    gate, trainer, params, expected = gated(tmp_path)
    trainer.train(params, cohort(range(9)))
    gate.close()

    def let_through() -> None:
        wait_until(lambda: len(gate.begun()) >= 1, "a worker has begun")
        gate.open()

    with Meanwhile(let_through):
        trainer.train(params, cohort(range(9)))
    victim = gate.begun()[0]
    kill_child(victim)
    wait_until(lambda: not is_alive(victim), "the worker is dead")
    arrivals = trainer.train(params, cohort(range(9)))
    assert torch.equal(arrivals.deltas, expected.deltas)
    assert trainer.deaths <= 1


def test_idle_workers_end_and_the_next_round_starts_others(monkeypatch):
    """Without a warning: between two rounds nobody waits for them."""
    end_workers()
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.2)
    data, module = images(), build("mlp", (1, 16, 16), 10, 0)
    one, two = (
        local_trainer(
            TrainingTask.of(data, module, Local(batch_size=8), SEED, workers=n, engine="loop")
        )
        for n in (1, 2)
    )
    params = one.task.layout.vector(module)
    for t in range(2):
        expected = one.train(params, cohort(range(9), t))
        assert torch.equal(two.train(params, cohort(range(9), t)).deltas, expected.deltas)
        wait_until(lambda: not own_workers(), "idle workers have ended")
    assert two.deaths == 0
    end_workers()


def own_workers() -> list[int]:
    children = psutil.Process().children()
    commands = {child.pid: " ".join(child.cmdline()) for child in children if is_alive(child.pid)}
    return [
        pid
        for pid, command in commands.items()
        if "understudy.simulation.training.processes" in command
    ]


class Deadly:
    """Ends every process but the one that made it."""

    def __init__(self) -> None:
        self.maker = os.getpid()

    def __call__(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if os.getpid() != self.maker:
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(outputs, labels)


def test_workers_that_die_again_and_again_end_the_run_with_a_clear_error():
    data = images()
    run = simulate(
        data,
        fedavg(local=Local(batch_size=8)),
        model="mlp",
        loss=Deadly(),
        rounds=2,
        workers=2,
        evaluate=(),
    )
    with pytest.raises(WorkerDied, match=r"died 2 times while training round 0.*workers=1"):
        list(run)
    # the next run finds everything in order
    module = build("mlp", (1, 16, 16), 10, 0)
    one, two = (
        local_trainer(TrainingTask.of(data, module, Local(batch_size=8), SEED, workers=n))
        for n in (1, 2)
    )
    params = one.task.layout.vector(module)
    expected = one.train(params, cohort([0, 1, 2]))
    assert torch.equal(two.train(params, cohort([0, 1, 2])).deltas, expected.deltas)


def test_a_death_can_be_read_off_the_run(tmp_path):
    """After the run has ended, too."""
    data, gate = images(), Gate(tmp_path)

    def kill_one() -> None:
        wait_until(lambda: len(gate.begun()) >= 1, "a worker has begun")
        kill_child(gate.begun()[0])
        gate.open()

    def run(workers):
        strategy = fedavg(local=Local(batch_size=8))
        return simulate(
            data, strategy, model="mlp", loss=gate, rounds=2, workers=workers, evaluate=()
        )

    spread = run(2)  # tries the loss on a few examples, in this process
    gate.close()
    with Meanwhile(kill_one):
        logs = all_facts(spread)
    assert logs == all_facts(run(1))
    assert spread._trainer.deaths == 1


# -- errors and interrupts -------------------------------------------------------------------------


def assert_stays(deltas: torch.Tensor, expected: torch.Tensor) -> None:
    """The rows are right, and nobody writes to them any more."""
    for _ in range(50):
        assert torch.equal(deltas, expected)
        time.sleep(0.02)


def test_an_error_of_the_users_comes_through_and_nobody_goes_on_behind_it(tmp_path):
    """One worker raises while the other is in the middle of a client. What that one would still
    write must not reach the round that comes next.
    """
    gate, trainer, params, expected = gated(tmp_path, fails=True)
    gate.close()
    with pytest.raises(Refuses, match="a loss of the user's"):
        trainer.train(params, cohort(range(9)))
    gate.seal()
    arrivals = trainer.train(params, cohort(range(9)))
    assert torch.equal(arrivals.deltas, expected.deltas)
    gate.open()
    assert_stays(arrivals.deltas, expected.deltas)


def test_an_interrupt_in_the_middle_of_a_round_and_another_round(tmp_path):
    """As in a notebook: the kernel is interrupted, and something is run again."""
    gate, trainer, params, _ = gated(tmp_path)
    data, recipe = trainer.task.federation, trainer.task.recipe
    one = local_trainer(TrainingTask.of(data, recipe.module, recipe.local, SEED, workers=1))
    alone = one.train(params + 1, cohort([8, 6, 3], 1))
    gate.close()

    def interrupt() -> None:
        wait_until(lambda: len(gate.begun()) >= 2, "both workers have begun")
        os.kill(os.getpid(), signal.SIGINT)

    with Meanwhile(interrupt), pytest.raises(KeyboardInterrupt):
        trainer.train(params, cohort(range(9)))
    gate.seal()
    gate.free(gate.begun()[0])
    arrivals = trainer.train(params + 1, cohort([8, 6, 3], 1))
    assert torch.equal(arrivals.deltas, alone.deltas)
    gate.open()
    assert_stays(arrivals.deltas, alone.deltas)


# -- programs --------------------------------------------------------------------------------------

PROGRAM = '''
import os, sys, tempfile
import torch
from torch import nn
from understudy import FixedDropout, Local, Strategy, scaffold
from understudy.simulation import clustered_digits, simulate
from understudy.simulation.training.trainers import loop_trainer as training

print("ran in", os.getpid(), flush=True)
training.WORTH_WORKERS = 0

class Network(nn.Module):
    """Lives in __main__, as in a notebook."""
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    def forward(self, x):
        return self.layers(2 * x) * FACTOR

FACTOR = 0.5

def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels, label_smoothing=0.1)

def play(workers, rounds=3):
    run = simulate(
        clustered_digits(n_clients=10, per_client=16),
        scaffold(local=Local(lr=0.1, epochs=1, batch_size=8)),
        model=Network,
        loss=loss,
        availability=FixedDropout(0.4),
        rounds=rounds,
        workers=workers,
        metrics={"sure": lambda outputs, labels: outputs.softmax(1).max(1).values.mean()},
    )
    for log in run:
        print("round", workers, log.t, flush=True)
    return run
'''

BOTH_WAYS = (
    PROGRAM
    + """
one, two = play(1), play(2)
assert torch.equal(one.state.params, two.state.params)
assert one.frame().equals(two.frame())
import psutil
names = [" ".join(child.cmdline()) for child in psutil.Process().children()]
assert sum("understudy.simulation.training.processes" in name for name in names) == 2, names
print("the same", flush=True)
"""
)


def shared_memory() -> set[str]:
    """What there is where shared memory has names."""
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def shared_memory_of(pid: int, before: set[str]) -> list[str]:
    """What a process left of it, if others left nothing meanwhile."""
    left = shared_memory() - before
    return sorted(name for name in left if str(pid) in name or "understudy" in name)


def test_a_script_without_a_main_guard(tmp_path):
    """It runs once, with workers, functions and classes of its own; and leaves nothing behind."""
    script, temporary, before = tmp_path / "script.py", tmp_path / "temporary", shared_memory()
    script.write_text(BOTH_WAYS)
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    said, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 0, said
    assert said.count("ran in") == 1, said
    assert said.splitlines()[-1] == "the same", said
    assert list(temporary.iterdir()) == []
    wait_until(lambda: not shared_memory_of(process.pid, before), "shared memory is let go")


def test_no_child_outlives_a_killed_parent(tmp_path):
    """Nor does a file, nor memory that has a name."""
    script, temporary, before = tmp_path / "script.py", tmp_path / "temporary", shared_memory()
    temporary.mkdir()
    head = f"import tempfile\ntempfile.tempdir = {str(temporary)!r}\n"
    script.write_text(head + PROGRAM + "\nplay(2, rounds=10**6)\n")
    with Child(str(script)) as parent:
        parent.wait_for("round")
        children = [c.pid for c in psutil.Process(parent.process.pid).children(recursive=True)]
        assert len(children) >= 2
        parent.kill()
        assert parent.process.returncode == -signal.SIGKILL
        wait_until(lambda: not any(is_alive(pid) for pid in children), "all children have ended")
    assert list(temporary.iterdir()) == []
    pid = parent.process.pid
    wait_until(lambda: not shared_memory_of(pid, before), "shared memory is let go")


NOTEBOOK = """
import asyncio, sys
import nbclient, nbformat

cells = sys.argv[1:]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
outputs = [output for cell in notebook.cells for output in cell.outputs]
print("".join(output.get("text", "") for output in outputs), flush=True)
"""


@pytest.mark.slow
def test_a_notebook_with_workers(tmp_path):
    """Classes and functions of one cell, used by the next: a kernel has threads, and no file."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    program, rest = textwrap.dedent(BOTH_WAYS).split("FACTOR = 0.5", 1)
    result = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, program, "FACTOR = 0.5", rest],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=WAIT + 240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("ran in") == 1
    assert "the same" in result.stdout


# -- rows beyond the budget ------------------------------------------------------------------------


@pytest.mark.parametrize("n_workers", [1, 2])
def test_rows_beyond_the_budget_lie_in_a_file(n_workers, monkeypatch, tmp_path):
    """The same bits; and the file is gone with its last holder, so that a kill leaves nothing."""
    data, module = images(), build("mlp", (1, 16, 16), 10, 0)
    local = Local(batch_size=8)
    alone = local_trainer(TrainingTask.of(data, module, local, SEED, workers=1))
    params = alone.task.layout.vector(module)
    expected = alone.train(params, cohort(range(9)))
    monkeypatch.setattr(shared, "IN_MEMORY", 8 * params.nbytes)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    trainer = local_trainer(TrainingTask.of(data, module, local, SEED, workers=n_workers))
    arrivals = trainer.train(params, cohort(range(9)))
    assert torch.equal(arrivals.deltas, expected.deltas)
    files = [Path("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    ours = [
        file for file in files if str(tmp_path) in str(file.readlink() if file.is_symlink() else "")
    ]
    assert 9 * shared.row_stride(len(params), params.dtype) * 4 in {
        os.stat(f).st_size for f in ours
    }
    assert not list(tmp_path.iterdir())

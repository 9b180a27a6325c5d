"""Two simulations in two threads of one process come to the bits that each has alone."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from understudy import Local, fedavg
from understudy.core.threads import alone_in_torch
from understudy.simulation import Federation, Run, simulate
from understudy.simulation.data.models import build
from understudy.simulation.training.convolution_backend import kernels

PATIENCE = 120.0  # seconds, for threads that have to come back
A_MOMENT = 0.5  # seconds that a thread waits for what must not happen
ROUNDS = 3


class Dropping(nn.Module):
    """Trained by the loop, being no chain of layers; dropout draws from torch's own generator."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(12, 24), nn.Linear(24, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.inner(x.flatten(1)))
        return 1.0 * self.outer(nn.functional.dropout(hidden, 0.5, self.training))


MODELS: dict[str, Any] = {"loop": Dropping, "kernels": "mlp"}


def federation() -> Federation:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(240, 12)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 3, 240))
    clients = list(np.split(np.arange(200), 10))
    return Federation(x, y, clients, np.arange(200, 240))


def run(kind: str, seed: int) -> Run:
    local = Local(lr=0.1, epochs=2, batch_size=5)
    return simulate(
        federation(), fedavg(local=local), model=MODELS[kind], rounds=ROUNDS, seed=seed, workers=1
    )


def bits(run: Run) -> str:
    """The model, and what was measured in each round."""
    losses = [log.metrics["test_loss"] for log in run]
    content = run.state.params.numpy().tobytes() + np.array(losses).tobytes()
    return hashlib.sha256(content).hexdigest()


def in_threads(*tasks: Callable[[], Any]) -> list[Any]:
    """What tasks return that begin together, each in a thread."""
    begin = threading.Barrier(len(tasks), timeout=PATIENCE)
    results: list[Any] = [None] * len(tasks)

    def work(place: int) -> None:
        begin.wait()
        try:
            results[place] = tasks[place]()
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return results


@pytest.fixture(autouse=True)
def _threads_that_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("kinds", [("loop", "loop"), ("kernels", "kernels"), ("loop", "kernels")])
def test_two_runs_at_once_have_the_bits_of_each_alone(kinds: tuple[str, str]) -> None:
    alone = [bits(run(kind, seed)) for seed, kind in enumerate(kinds)]
    assert alone[0] != alone[1]
    together = in_threads(
        *(lambda kind=kind, seed=seed: bits(run(kind, seed)) for seed, kind in enumerate(kinds))
    )
    assert together == alone


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_two_runs_at_once_five_hundred_times_under_load() -> None:
    """Two processes keep both cores busy, and a third thread calls modules of its own."""
    kinds = ("kernels", "kernels")
    alone = [bits(run(kind, seed)) for seed, kind in enumerate(kinds)]
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    done, failed, layer = threading.Event(), [], nn.Linear(12, 3)

    def calls() -> None:
        while not done.is_set():
            try:
                layer(torch.zeros(2, 12))
            except Exception as error:
                failed.append(error)

    thread = threading.Thread(target=calls)
    thread.start()
    try:
        for _ in range(500):
            tasks = (
                lambda kind=kind, seed=seed: bits(run(kind, seed))
                for seed, kind in enumerate(kinds)
            )
            assert in_threads(*tasks) == alone
    finally:
        done.set()
        for process in busy:
            process.kill()
            process.wait()
    thread.join(PATIENCE)
    assert not failed


def test_first_weights_are_those_of_the_seed_whatever_other_threads_build() -> None:
    """The first thread waits between its two layers, for the other to have built one."""
    begun, other, done = threading.Event(), threading.Event(), threading.Event()

    def slow() -> nn.Module:
        layers = [nn.Linear(3, 3)]
        begun.set()
        other.wait(A_MOMENT)
        layers.append(nn.Linear(3, 3))
        done.set()
        return nn.Sequential(*layers)

    def quick() -> nn.Module:
        made = nn.Linear(3, 3)
        other.set()
        done.wait(A_MOMENT)
        return made

    def weights(make: Callable[[], nn.Module], seed: int) -> bytes:
        net = build(make, (3,), 3, seed)
        return b"".join(entry.numpy().tobytes() for entry in net.state_dict().values())

    def second() -> bytes:
        assert begun.wait(PATIENCE)
        return weights(quick, 1)

    alone = [weights(slow, 0), weights(quick, 1)]
    for event in (begun, other, done):
        event.clear()
    state = torch.random.get_rng_state()
    assert in_threads(lambda: weights(slow, 0), second) == alone
    assert torch.equal(torch.random.get_rng_state(), state)  # the user's, put back


def test_flags_of_one_run_are_not_changed_by_another() -> None:
    """The first thread waits inside, for the other to have set its own."""
    inside, other, done = threading.Event(), threading.Event(), threading.Event()

    def first() -> bool:
        with kernels(onednn=True):
            inside.set()
            other.wait(A_MOMENT)
            found = bool(torch.backends.mkldnn.enabled)
        done.set()
        return found

    def second() -> bool:
        assert inside.wait(PATIENCE)
        with kernels(onednn=False):
            other.set()
            assert done.wait(PATIENCE)
            return bool(torch.backends.mkldnn.enabled)

    before = torch.backends.mkldnn.enabled
    assert in_threads(first, second) == [True, False]
    assert torch.backends.mkldnn.enabled == before


def test_one_run_in_two_threads_is_refused() -> None:
    """The two would write to the same state."""
    inside, go_on = threading.Event(), threading.Event()
    played = run("loop", 0)
    train = played._trainer.train

    def waiting(*arguments: Any, **named: Any) -> Any:
        inside.set()
        assert go_on.wait(PATIENCE)
        return train(*arguments, **named)

    played._trainer.train = waiting  # type: ignore[method-assign]

    def second() -> Any:
        assert inside.wait(PATIENCE)
        try:
            return next(iter(played))
        finally:
            go_on.set()

    first, refused = in_threads(lambda: next(iter(played)).t, second)
    assert first == 0
    assert isinstance(refused, RuntimeError)
    assert "being run by another thread" in str(refused)


def test_the_compiled_kernels_wait_for_nobody() -> None:
    """They train while another thread has torch to itself."""
    played = run("kernels", 0)
    engine = played._task.recipe.engine
    if engine.plan is None:
        pytest.skip(f"the kernels are not here: {engine.reason}")
    ids, start = np.arange(3), played.start()
    alone = played.train(start, ids, 0).deltas.numpy().copy()
    trained: list[Any] = []
    thread = threading.Thread(target=lambda: trained.append(played.train(start, ids, 0).deltas))
    with alone_in_torch():
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert np.array_equal(trained[0].numpy(), alone)


CALL, GETATTR = nn.Module.__call__, nn.Module.__getattr__


class Looking(nn.Module):
    """Looks, while it is followed, whether torch's modules are still as they were."""

    def __init__(self, seen: list[bool]) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 3)
        self._seen = seen

    def __deepcopy__(self, memo: Any) -> Looking:
        other = Looking(self._seen)  # one list for all copies
        other.layer.load_state_dict(self.layer.state_dict())
        return other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._seen.append((nn.Module.__call__, nn.Module.__getattr__) == (CALL, GETATTR))
        return self.layer(x)


def test_building_a_run_changes_nothing_that_other_threads_see() -> None:
    seen: list[bool] = []
    simulate(federation(), fedavg(), model=Looking(seen), rounds=1, workers=1)
    assert seen
    assert all(seen)


def test_forwards_while_a_run_is_built_leave_torchs_generator_as_it_was() -> None:
    """Another run may be drawing dropout from it."""

    class Drawing(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 0 * torch.rand(3)

    before = torch.random.get_rng_state()
    made = simulate(federation(), fedavg(), model=lambda: Drawing(12, 3), rounds=1, workers=1)
    assert made.engine == "loop"
    assert torch.equal(torch.random.get_rng_state(), before)


def test_forwards_while_a_run_is_built_wait_for_whoever_has_torch() -> None:
    begun, held = threading.Event(), threading.Event()
    seen: list[bool] = []

    class Noting(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(held.is_set())
            return super().forward(x).neg()

    module = Noting(12, 3)  # there already: no first weights are waited for

    def built() -> None:
        begun.set()
        simulate(federation(), fedavg(), model=module, rounds=1, workers=1)

    thread = threading.Thread(target=built)
    with alone_in_torch():
        held.set()
        thread.start()
        assert begun.wait(PATIENCE)
        thread.join(A_MOMENT)
        held.clear()
    thread.join(PATIENCE)
    assert seen
    assert not any(seen)

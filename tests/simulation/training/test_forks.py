"""A child of `os.fork()` has none of its parent's threads: it starts its own, and waits for nobody.

Each script is a process of its own: the suite's threads must not be forked. A child that hangs is
ended by its alarm, and says nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.training.kernels.nets import needs_kernels

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

WAIT = 180.0  # seconds, for a whole script
COMMON = """
import hashlib, os, signal, threading, warnings
import numpy as np, torch
from understudy import Local, fedavg
from understudy.core.threads import alone_in_torch, one_thread
from understudy.simulation import Federation, simulate
from understudy.simulation.training.trainers.kernel_trainer import KernelTrainer

warnings.simplefilter("ignore", DeprecationWarning)

def federation():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(2200, 40)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 5, 2200))
    return Federation(x, y, list(np.split(np.arange(2000), 10)), np.arange(2000, 2200))

def run():
    local = Local(lr=0.1, epochs=2, batch_size=10)
    return simulate(federation(), fedavg(local=local), model="mlp", rounds=4, seed=1, workers=2)

def bits(run):
    losses = [log.metrics["test_loss"] for log in run]
    content = run.state.params.numpy().tobytes() + np.array(losses).tobytes()
    return hashlib.sha256(content).hexdigest()[:16]

def forked(task):
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            print("child", task(), flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""

GOES_ON = """
begun = run()
first = next(iter(begun))
if isinstance(begun._trainer, KernelTrainer):
    # with work for both, the parent's threads have been started
    begun._trainer._threads.outputs(begun.state.params, [np.arange(5), np.arange(5, 9)])
    assert begun._trainer._threads.are_started
forked(lambda: bits(begun))
print("parent", bits(begun), flush=True)
"""

HELD = """
begun, inside, done = run(), threading.Event(), threading.Event()
next(iter(begun))

def holds():
    with alone_in_torch(), one_thread(), begun._trainer._threads._engine.alone:
        inside.set()
        done.wait(120)

thread = threading.Thread(target=holds)
thread.start()
inside.wait()
forked(lambda: bits(begun))
done.set()
thread.join()
print("parent", bits(begun), flush=True)
"""

LARGE = """
torch.set_num_threads(2)
torch.randn(2000, 2000) @ torch.randn(2000, 2000)
data, module = federation(), torch.nn.Sequential(
    torch.nn.Linear(40, 400), torch.nn.ReLU(), torch.nn.Linear(400, 300), torch.nn.Linear(300, 5)
)  # larger than what torch gives to one thread only

def large():
    local = Local(lr=0.1, epochs=1, batch_size=100)
    return simulate(data, fedavg(local=local), model=module, rounds=2, seed=1, workers=2)

def words(made):
    weights = b"".join(value.numpy().tobytes() for value in made.module().state_dict().values())
    told = repr(made.scores(made.start())).encode()
    return hashlib.sha256(weights + told).hexdigest()[:16]

made = large()
forked(lambda: words(large()) + words(made))
print("parent", words(large()) + words(made), flush=True)
"""

OPENMP = """
torch.set_num_threads(2)
torch.randn(2000, 2000) @ torch.randn(2000, 2000)
torch.rand(10**7).sqrt().sum()  # OpenMP's threads are there now, in the parent only
data = federation()
forked(lambda: bits(run()))
print("parent", bits(run()), flush=True)
"""


def said(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", COMMON + script],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "script", [GOES_ON, pytest.param(HELD, marks=needs_kernels), OPENMP, LARGE]
)
def test_a_forked_child_comes_to_the_bits_of_its_parent(script):
    child, in_child, parent, in_parent = said(script)
    assert (child, parent) == ("child", "parent")
    assert in_child == in_parent

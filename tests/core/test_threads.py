"""The bits of a round do not depend on the number of threads.

The rest of the suite runs on one thread (conftest.py) and could not see it, so the rounds here are
played by processes that begin with one and with two. Run as a program, this file is such a process.

Measured with the limit taken out (two threads against one, at the d below and at 1.5 M): no part of
ours came to other bits. `Linear`, `Median`, `TrimmedMean` and the server optimizers go entry by
entry, torch's norm (`NormGuard`) takes one thread at any length, and OpenBLAS sums each entry of
the Gram matrices of FedGS and FDMS on one thread. None of these is a promise of another version or
machine. Plain sums and other products do depend on it: the oracle's figures did, and so do the
parts `Summing…` below, which stand for what other people may write. What each part finds when it
is called is looked at too.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

from understudy import (
    FDMS,
    Adam,
    FedAR,
    FedGS,
    FedVARP,
    Local,
    Median,
    Momentum,
    NormGuard,
    Population,
    Scaffold,
    Strategy,
    TrimmedMean,
    Yogi,
)
from understudy.core.threads import one_thread
from understudy.core.types import Contributions, Floats, Ints, RoundEnd, RoundStart, Setup
from understudy.parts.aggregators.linear import Linear
from understudy.parts.compensators.ignore import Ignore
from understudy.parts.samplers.uniform import Everyone
from understudy.parts.servers import Sgd
from understudy.simulation import oracle
from understudy.testing import play, snapshot, updates_for

N, D, ROUNDS = 8, 200_003, 2


def summed(vector: torch.Tensor) -> float:
    """A number whose last bits depend on the threads of torch and of NumPy's BLAS."""
    rows = vector[: D // 2 * 2].reshape(2, -1).numpy()
    products = rows @ rows[::-1].copy().T
    sums = [float(products.sum()), *(float(vector[first:].sum()) for first in range(8))]
    return sum(number % 1 for number in sums)  # where the last bits still count


@dataclass(frozen=True)
class SummingSampler:
    """Everyone, weighted by a sum over the model."""

    def init(self, setup: Setup) -> None:
        return None

    def pick(self, state: None, start: RoundStart) -> tuple[Ints, Floats]:
        everyone = np.flatnonzero(start.active)
        return everyone, np.full(len(everyone), summed(start.params))

    def learn(self, state: None, end: RoundEnd) -> None:
        return None


@dataclass(frozen=True)
class SummingCompensator:
    """Each of those who came, weighted by the sum of its update."""

    signed = True
    normalised = False

    def init(self, setup: Setup) -> None:
        return None

    def fill(self, state: None, end: RoundEnd) -> Contributions:
        coef = np.array([summed(delta) for _, delta in end.arrivals])
        return Contributions.of((end.came, end.fresh(), np.arange(len(end.came)), coef))

    def learn(self, state: None, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        return {"moved": 0.0 if step is None else summed(step)}


@dataclass(frozen=True)
class SummingServer:
    """A step as long as the sum of the update says."""

    def init(self, setup: Setup) -> None:
        return None

    def step(self, state: None, params: torch.Tensor, update: torch.Tensor, t: int) -> torch.Tensor:
        return params + update * summed(update)


STRATEGIES = {
    "FedAvg": Strategy(),
    "FedGS": Strategy(sampler=FedGS(m=3, graph="updates")),
    "FDMS": Strategy(compensator=FDMS()),
    "FDMS, distances": Strategy(compensator=FDMS(similarity="distance")),
    "FedAR": Strategy(compensator=FedAR()),
    "FedVARP": Strategy(compensator=FedVARP()),
    "Scaffold": Strategy(local=Local(rule=Scaffold())),
    "Median": Strategy(aggregator=Median()),
    "TrimmedMean": Strategy(aggregator=TrimmedMean()),
    "Momentum": Strategy(server=Momentum()),
    "Adam": Strategy(server=Adam()),
    "Yogi": Strategy(server=Yogi()),
    "NormGuard": Strategy(guard=NormGuard(factor=1.0)),
    "a summing sampler": Strategy(sampler=SummingSampler()),
    "a summing compensator": Strategy(compensator=SummingCompensator()),
    "a summing server": Strategy(server=SummingServer()),
}


# -- the child -------------------------------------------------------------------------------------


def main(what: str, n_threads: int) -> None:
    torch.set_num_threads(n_threads)
    threadpool_limits(limits=n_threads, user_api="blas")
    print(json.dumps({"bits": bits, "threads": threads_found}[what]()))


def bits() -> dict[str, str]:
    played = {name: bits_of(strategy) for name, strategy in STRATEGIES.items()}
    return played | {"the oracle": bits_of_the_oracle()}


def bits_of(strategy: Strategy) -> str:
    """A hash of all that the rounds left: picks, coefficients, notes, states, FedGS's graph."""
    state = strategy.init(Population(N), torch.linspace(-1, 2, D).double(), seed=3)
    digest = hashlib.sha256()
    for t in range(ROUNDS):
        cohort, applied = play(strategy, state, t)
        for array in (cohort.wanted, cohort.weight, applied.contributions.coef):
            digest.update(array.tobytes())
        digest.update(f"{sorted(applied.notes.items())} {snapshot(state)}".encode())
    distance = getattr(state.sampler, "_distance", None)
    digest.update(b"" if distance is None else distance.tobytes())
    return digest.hexdigest()


def bits_of_the_oracle() -> str:
    strategy = Strategy(compensator=FDMS())
    state = strategy.init(Population(N), torch.zeros(D), seed=3)
    cohort = strategy.select(state, np.arange(N) % 3 > 0)
    filled = strategy.fill(
        state, cohort, updates_for([(int(i), 0) for i in cohort.asked], state.params)
    )
    everyone = updates_for([(i, 0) for i in range(N)], state.params)
    notes, errors = oracle.compare(filled, np.arange(N), [delta for _, delta in everyone], None)
    return hashlib.sha256(f"{sorted(notes.items())} {errors.tolist()}".encode()).hexdigest()


def threads_now() -> list[int]:
    """Of torch, and of every BLAS that is loaded now."""
    blas = ThreadpoolController().select(user_api="blas").info()
    return [torch.get_num_threads(), *(library["num_threads"] for library in blas)]


class Noting:
    """A part as it is, that notes how many threads there are whenever it is called."""

    def __init__(self, part: Any, found: dict[str, list[int]]) -> None:
        self._part, self._found = part, found

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return self._noting(name, value) if callable(value) else value

    def _noting(self, name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any, **named: Any) -> Any:
            self._found[f"{type(self._part).__name__}.{name}"] = threads_now()
            return verb(*given, **named)

        return noting


def threads_found() -> dict[str, Any]:
    """What parts find in a round, and in the next, before which SciPy brings a BLAS of its own."""
    found: dict[str, list[int]] = {}
    parts = {"sampler": Everyone(), "compensator": Ignore(), "aggregator": Linear()}
    parts |= {"server": Sgd(), "guard": NormGuard()}
    noting: dict[str, Any] = {role: Noting(part, found) for role, part in parts.items()}
    strategy = Strategy(**noting, local=Local(rule=Noting(Scaffold(), found)))
    found.clear()  # what building it asked
    outside = [threads_now()]
    state = strategy.init(Population(N), torch.zeros(D), seed=3)
    play(strategy, state, 0)
    first = dict(found)
    import scipy.linalg  # noqa: F401

    outside.append(threads_now())
    play(strategy, state, 1)
    outside.append(threads_now())
    return {"first": first, "second": found, "outside": outside}


# -- the tests -------------------------------------------------------------------------------------


def child(what: str, n_threads: int) -> dict[str, Any]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    done = subprocess.run(
        [sys.executable, __file__, what, str(n_threads)],
        env={**os.environ, **dict.fromkeys(names, str(n_threads))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_rounds_come_to_the_same_bits_on_one_thread_and_on_two() -> None:
    one, two = child("bits", 1), child("bits", 2)
    assert set(one) == {*STRATEGIES, "the oracle"}
    assert [name for name in one if one[name] != two[name]] == []


def test_parts_are_called_on_one_thread_whatever_the_process_has() -> None:
    said = child("threads", 2)
    assert set(said["first"]) == set(said["second"])
    verbs = {name.partition(".")[2] for name in said["first"]}
    rounds = {"pick", "correction", "guard", "fill", "aggregate", "step", "learn"}
    assert verbs == {"init", *rounds}
    for found in (said["first"], said["second"]):
        assert {name: counts for name, counts in found.items() if set(counts) != {1}} == {}
    for counts in said["outside"]:
        assert len(counts) > 1  # torch and a BLAS at least
        assert set(counts) == {2}


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(limits=2, user_api="blas"):
        yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_an_error_inside_lifts_the_limit_and_an_inner_one_does_not() -> None:
    with one_thread():
        with pytest.raises(KeyError, match="inside"), one_thread():
            raise KeyError("inside")
        assert set(threads_now()) == {1}
    assert set(threads_now()) == {2}


@pytest.mark.usefixtures("two_threads")
def test_another_thread_may_limit_what_this_one_has_set() -> None:
    """threadpoolctl 3.8 by itself listens to the thread that was first, and says nothing."""
    found: list[list[int]] = []
    thread = threading.Thread(target=one_thread()(lambda: found.append(threads_now())))
    thread.start()
    thread.join(60)
    assert set(found[0]) == {1}
    assert set(threads_now()) == {2}


@pytest.mark.usefixtures("two_threads")
def test_a_thread_that_leaves_does_not_lift_the_limit_of_another() -> None:
    entered, leave, found = threading.Event(), threading.Event(), []

    def other() -> None:
        with one_thread():
            entered.set()
            leave.wait(60)
            found.append(threads_now())

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert entered.wait(60)
    meanwhile = threads_now()
    leave.set()
    thread.join(60)
    assert set(found[0]) == {1}
    assert meanwhile[0] == 2  # torch counts for each thread
    assert set(meanwhile[1:]) == {1}
    assert set(threads_now()) == {2}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

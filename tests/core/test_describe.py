"""What is told of a part: enough to tell any two apart, and what was told before is recognised."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch

from understudy import CheckpointError, FedAR, Local, Population, Strategy, fedavg, resume
from understudy.core import describe as describing
from understudy.core.describe import describe, differences, with_short_hashes
from understudy.simulation import clustered_digits, simulate
from understudy.studies.definition.axes import _words
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.testing import play, snapshot

# two numbers of one length, as text, and two as eight bytes, with the same crc32
TWINS = 766289914708, 647136274339
BYTE_TWINS = 3816328525917950097, 2119427907412526343


def key(**changes: Any) -> str:
    data = DataRecipe("digits", "clustered", 0, {"per_client": 30})
    given = {"data": data, "model": "softmax", "strategy": fedavg(), "rounds": 2, **changes}
    return Cell.of({}, Task(**given)).key


def holding(value: Any) -> Callable[..., Any]:
    return lambda *given: value


# -- what cannot be told from others ---------------------------------------------------------------


class Opaque:
    """Of a library, in C: no words, nothing to look into, not to be pickled."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle")


class LongWords(Opaque):
    __slots__ = ()

    def __repr__(self) -> str:
        return "LongWords(" + "1, " * 1000 + ")"


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"loss": holding(threading.Lock())}, "loss.holds[0]", "_thread.lock"),
        ({"metrics": {"mine": holding([Opaque()])}}, "metrics.mine.holds[0][0]", "Opaque object"),
        ({"loss": holding(LongWords())}, "loss.holds[0]", "LongWords(1, 1, "),
        ({"loss": holding(number for number in (1, 2))}, "loss.holds[0]", "generator object"),
        (
            {"strategy": Strategy(compensator=FedAR(cutoff=holding(threading.Lock())))},
            "strategy.compensator.cutoff.holds[0]",
            "_thread.lock",
        ),
        (
            {"strategy": fedavg(local=Local(schedule=holding(SimpleNamespace(lock=Opaque()))))},
            "strategy.local.schedule.holds[0].lock",
            "Opaque object",
        ),
    ],
)
def test_what_shares_its_description_with_its_class_has_no_key(
    changes: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(TypeError) as error:
        key(**changes)
    told = str(error.value)
    assert told.startswith(f"{place}: ")
    assert words in told
    assert "__repr__" in told
    assert "dataclass" in told


@dataclass(frozen=True)
class Connects:
    """The remedy that the message names: settings in fields, the rest made where it is used."""

    address: str

    def __call__(self, t: int) -> float:
        with threading.Lock():
            return float(len(self.address))


def test_settings_in_a_dataclass_have_a_key() -> None:
    one, same, other = (key(loss=holding(Connects(name))) for name in ("a", "a", "b"))
    assert one == same != other


def test_a_run_may_hold_what_has_no_key(tmp_path: Path) -> None:
    """A live server's parts may hold a lock: its checkpoints are told by the class, as ever."""
    strategy = Strategy(compensator=FedAR(cutoff=holding(threading.Lock())))
    again = Strategy(compensator=FedAR(cutoff=holding(threading.Lock())))
    state = strategy.init(Population(4), torch.zeros(3), folder=tmp_path)
    state.close()
    resume(tmp_path, again).close()
    other = Strategy(compensator=FedAR(cutoff=holding(Opaque())))
    with pytest.raises(CheckpointError, match=r"compensator\.cutoff"):
        resume(tmp_path, other)


def test_a_method_of_a_number_is_told_with_the_number() -> None:
    assert key(loss=(1.5).__mul__) == key(loss=(1.5).__mul__) != key(loss=(2.5).__mul__)


# -- hashes ----------------------------------------------------------------------------------------


def test_arrays_of_one_crc32_are_told_apart() -> None:
    one, other = (np.array([number]) for number in BYTE_TWINS)
    assert crc32(one.tobytes()) == crc32(other.tobytes())
    assert key(loss=holding(one)) != key(loss=holding(other))
    assert key(loss=holding(torch.tensor(one))) != key(loss=holding(torch.tensor(other)))
    assert key(loss=holding(one)) == key(loss=holding(one.copy()))


def test_functions_whose_code_has_one_crc32_are_told_apart() -> None:
    one, other = (eval(f"lambda *given: {number}") for number in TWINS)
    codes = [describing._code(function.__code__) for function in (one, other)]
    assert codes[0] != codes[1]
    assert crc32(codes[0]) == crc32(codes[1])
    assert key(loss=one) != key(loss=other)


def test_a_label_has_the_short_hash() -> None:
    array = np.arange(3.0)
    assert _words(array) == f"float64(3,) {crc32(array.tobytes()):08x}"


# -- what was written when crc32 stood alone -------------------------------------------------------


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Descriptions have crc32 alone, as they had before sha256, until this is called."""
    monkeypatch.setattr(describing, "_hashed", lambda content: f"{crc32(content):08x}")
    return monkeypatch.undo


def recursive(step: float) -> Callable[[int], float]:
    def again(t: int) -> float:
        return step if t <= 0 else again(t - 1)

    return again


HELD: dict[str, Callable[[float], Any]] = {
    "array": lambda value: np.array([value, 1.0]),
    "tensor": lambda value: torch.tensor([value]),
    "half": lambda value: torch.tensor([value], dtype=torch.bfloat16),
    "deep": lambda value: {"deep": [(np.array([value]), holding(value))]},
    "recursive": recursive,
    "set": lambda value: {recursive(value), recursive(-value)},
}


@pytest.mark.parametrize("kind", HELD)
def test_a_checkpoint_with_short_hashes_goes_on_and_another_is_refused(
    kind: str, tmp_path: Path, as_before: Callable[[], None]
) -> None:
    def strategy(value: float) -> Strategy:
        held = HELD[kind](value)
        return Strategy(compensator=FedAR(cutoff=lambda t: 9.0 if held is None else 5.0))

    state = strategy(1.0).init(Population(6), torch.zeros(3, dtype=torch.float64), folder=tmp_path)
    play(state.made_by, state, 1)
    state.made_by.commit(state)
    expected = snapshot(state)
    stored = json.dumps(describe(state.made_by))
    state.close()
    as_before()
    assert json.dumps(describe(state.made_by)) != stored
    assert json.dumps(with_short_hashes(describe(state.made_by))) == stored
    with pytest.raises(CheckpointError, match=r"compensator\.cutoff"):
        resume(tmp_path, strategy(2.0))
    for _ in range(2):  # as it was written, and as it is written now
        state = resume(tmp_path, strategy(1.0))
        assert snapshot(state) == expected
        state.made_by.commit(state)
        state.close()
    with pytest.raises(CheckpointError, match=r"compensator\.cutoff"):
        resume(tmp_path, strategy(2.0))


def test_a_simulation_with_short_hashes_goes_on(
    tmp_path: Path, as_before: Callable[[], None]
) -> None:
    data = clustered_digits(n_clients=4, n_clusters=2, per_client=10, seed=1)

    def run(value: float, rounds: int) -> Any:
        weights = torch.tensor([value])
        metrics = {"mine": lambda outputs, labels: (outputs * weights).sum()}
        return simulate(
            data,
            fedavg(),
            model="softmax",
            rounds=rounds,
            metrics=metrics,
            workers=1,
            folder=tmp_path,
        )

    with run(1.0, 1) as begun:
        first = [log.metrics for log in begun]
    as_before()
    with pytest.raises(CheckpointError, match=r"metrics\.mine"):
        run(2.0, 2)
    with run(1.0, 2) as again:
        logs = [log.metrics for log in again]
    assert logs[:1] == first
    assert len(logs) == 2


def test_a_hash_of_other_content_is_a_difference() -> None:
    one, other = (describe(np.array([number])) for number in BYTE_TWINS)
    assert differences({"x": one}, {"x": one}) == []
    assert differences({"x": one}, {"x": with_short_hashes(one)}) == []
    assert differences({"x": one}, {"x": other}) == [f"x is {other!r} there, {one!r} here"]

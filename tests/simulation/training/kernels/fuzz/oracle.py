"""Whether the kernels did right by a case: equal to the loop, or refused; all else is a finding."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from tests.simulation.training.kernels.fuzz import boundary
from tests.simulation.training.kernels.fuzz.cases import Case, case
from tests.simulation.training.kernels.fuzz.compare import apart, is_spoilt, limit, near
from tests.simulation.training.kernels.fuzz.memory import contents, touched
from understudy.simulation.training.jobs import EngineChoice

# what an argument that cannot be used may raise; an assertion is gone under `python -O`
CLEAR = (ValueError, TypeError, IndexError, RuntimeError)
FINE = ("equal", "refused", "refused by a call", "both raise", "no case")
N_NEAR = 12  # neighbouring inputs that are asked for: see `_neighbours`


@dataclass(frozen=True)
class Verdict:
    """What came of a case; a kind that is not in FINE is a finding."""

    kind: str
    detail: str = ""

    @property
    def is_finding(self) -> bool:
        return self.kind not in FINE


class Found(Exception):
    """A finding."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind, detail)
        self.verdict = Verdict(kind, detail)


def verdict(seed: int, make: Callable[[int], Case] = case) -> Verdict:
    """What comes of a seed's case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = make(seed)
        if first.patch is not None:
            first.patch()
        try:
            if first.in_public:
                return _in_public(seed, make)
            return _judged(seed, make)
        except Found as found:
            return found.verdict


def _judged(seed: int, make: Callable[[int], Case]) -> Verdict:
    try:
        boundary.recipe_of(make(seed))
    except Exception as error:  # such as a module that cannot be copied
        return Verdict("no case", _said(error))
    choice = _answer(lambda: boundary.chosen(make(seed)))
    if isinstance(choice, Exception):
        by_loop = _asked(make(seed), boundary.Loop, EngineChoice())
        if isinstance(by_loop, Exception) or isinstance(by_loop["train"], Exception):
            return Verdict("both raise", _said(choice))
        raise Found("an error in choosing", _said(choice))
    if choice.plan is None:
        return Verdict("refused", choice.reason)
    expected = _asked(make(seed), boundary.Loop, choice)
    own = make(seed)
    before = contents(own)
    with boundary.guarded() as arenas:
        found = _asked(own, boundary.kernels, choice)
        if not all(arena.is_intact for arena in arenas):
            raise Found("written between arrays", "bytes between the arena's arrays changed")
    if isinstance(found, Exception):
        if isinstance(expected, Exception):
            return Verdict("both raise", _said(found))
        raise Found("an error in construction", _said(found))
    if isinstance(expected, Exception):
        raise Found("no error", f"the loop cannot be made: {_said(expected)}")
    if name := touched(own, before):
        raise Found("written elsewhere", f"{name} was written to")
    verdicts = []
    for name in found:
        neighbours = _neighbours(seed, make, choice, name)
        verdicts.append(_compared(name, found[name], expected[name], own, neighbours))
    return next((one for one in verdicts if one.kind != "equal"), Verdict("equal"))


# -- asking ----------------------------------------------------------------------------------------


def _answer(function: Callable[[], Any]) -> Any:
    """What a function returns, or the exception that it raises."""
    try:
        return function()
    except Exception as error:
        return error


def _asked(case: Case, make: Any, choice: EngineChoice) -> Any:
    """{"train": …, "outputs": …} of an engine; or why it cannot be made."""
    engine = _answer(lambda: make(case, choice))
    if isinstance(engine, Exception):
        return engine
    if case.call.change is not None and isinstance(
        _answer(lambda: case.call.change(case.data)), Exception
    ):
        return Found("no case", "the change cannot be made")  # the same for both
    job, is_loop = case.call.job, isinstance(engine, boundary.Loop)

    def train() -> tuple[torch.Tensor, ...]:
        results = engine.train(job)
        steps, losses = zip(*results, strict=True)
        rows = job.matrix.detach()[job.rows].clone()
        return rows, torch.tensor(losses, dtype=torch.float64), torch.tensor(steps)

    def outputs() -> tuple[torch.Tensor, ...]:
        indices = _plain_indices(case.call.indices) if is_loop else case.call.indices
        return (engine.outputs(case.call.params, indices).detach().clone(),)

    return {"train": _answer(train), "outputs": _answer(outputs)}


def _plain_indices(indices: Any) -> Any:
    """The same as an array that torch takes, where whole numbers in a row are meant."""
    array = np.asarray(indices)
    if array.dtype.kind in "iu" and array.ndim == 1 and array.size and array.max() < 2**63:
        return np.ascontiguousarray(array.astype(np.int64))
    return indices


# -- comparing -------------------------------------------------------------------------------------


def _compared(
    name: str, found: Any, expected: Any, case: Case, neighbours: Callable[[], list[Any]]
) -> Verdict:
    if isinstance(found, Exception):
        is_clear = isinstance(found, CLEAR)
        is_theirs = isinstance(expected, Exception) and type(expected) is type(found)
        if not (is_clear or is_theirs) or not str(found):
            raise Found("an unclear error", f"{name}: {_said(found)}")
        if isinstance(expected, Exception):
            return Verdict("both raise", _said(found))
        if case.late:
            return Verdict("refused by a call", f"{name}: {_said(found)}")
        raise Found("an error where the loop has an answer", f"{name}: {_said(found)}")
    if isinstance(expected, Exception):
        if name == "outputs" and _is_empty(case.call.indices) and not len(found[0]):
            return Verdict("equal")  # torch joins no empty list
        raise Found("no error", f"{name}: the loop raises {_said(expected)}")
    spoilt = is_spoilt(case, expected)
    distance = max(map(partial(apart, spoilt=spoilt), found, expected))
    if distance > limit(expected[0], case):
        others = [other for other in neighbours() if not isinstance(other, Exception)]
        swings = [max(map(apart, other, expected)) for other in others]
        if distance > 20 * max(swings, default=0):
            raise Found("other numbers", f"{name}: {distance:.2g} apart")
    return Verdict("equal")


def _is_empty(indices: Any) -> bool:
    return np.asarray(indices).size == 0


def _neighbours(
    seed: int, make: Callable[[int], Case], choice: EngineChoice, name: str
) -> Callable[[], list[Any]]:
    """What the loop says to inputs that are a little different.

    At a near-tie of a maximum, or at the kink of a ReLU, two right answers are far apart: then so
    are those to neighbouring inputs.
    """

    def answers() -> list[Any]:
        found = []
        for number in range(N_NEAR):
            other = _answer(lambda number=number: near(make(seed), number))
            asked = other if isinstance(other, Exception) else _asked(other, boundary.Loop, choice)
            found.append(asked if isinstance(asked, Exception) else asked[name])
        return found

    return answers


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


# -- in public -------------------------------------------------------------------------------------


def _in_public(seed: int, make: Callable[[int], Case]) -> Verdict:
    def run(engine: str, number: int | None = None) -> Any:
        case = make(seed) if number is None else near(make(seed), number)
        return boundary.Public(case, engine)

    expected, found = (_answer(lambda engine=engine: run(engine)) for engine in ("loop", "auto"))
    if isinstance(found, Exception):
        if isinstance(expected, Exception):
            return Verdict("both raise", _said(found))
        raise Found("an error in construction", f"simulate: {_said(found)}")
    if found.engine == "loop":
        return Verdict("refused")
    if isinstance(expected, Exception):
        raise Found("no error", f"simulate: the loop raises {_said(expected)}")
    own = make(seed)
    theirs, ours = expected.answers(_answer), found.answers(_answer)

    def neighbours(name: str) -> list[Any]:
        runs = [_answer(lambda number=number: run("loop", number)) for number in range(N_NEAR)]
        return [one if isinstance(one, Exception) else one.answers(_answer)[name] for one in runs]

    verdicts = [
        _compared(name, ours[name], theirs[name], own, partial(neighbours, name))
        for name in ours
        if name in theirs
    ]
    return next((one for one in verdicts if one.kind != "equal"), Verdict("equal"))

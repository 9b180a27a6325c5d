"""Whether the kernels did right by a case: equal to the loop, or refused; all else is a finding."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.simulation.kernels.fuzz import boundary
from tests.simulation.kernels.fuzz.cases import Case, case
from understudy.simulation.training.jobs import EngineChoice

# what an argument that cannot be used may raise; an assertion is gone under `python -O`
CLEAR = (ValueError, TypeError, IndexError, RuntimeError)
FINE = ("equal", "refused", "refused by a call", "both raise", "no case")
WITHIN = {torch.float64: 1e-9, torch.float32: 2e-5}  # relative to the largest entry
N_NUDGES = 12
NUDGE = {torch.float64: 1e-12, torch.float32: 1e-6}  # see `_nudges`


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
    before = _contents(own)
    with boundary.guarded() as arenas:
        found = _asked(own, boundary.kernels, choice)
        if not boundary.intact(arenas):
            raise Found("written between arrays", "bytes between the arena's arrays changed")
    if isinstance(found, Exception):
        if isinstance(expected, Exception):
            return Verdict("both raise", _said(found))
        raise Found("an error in construction", _said(found))
    if isinstance(expected, Exception):
        raise Found("no error", f"the loop cannot be made: {_said(expected)}")
    _check_untouched(own, before)
    verdicts = []
    for name in found:
        nudged = _nudges(seed, make, choice, name)
        verdicts.append(_compared(name, found[name], expected[name], own, nudged))
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
    name: str, found: Any, expected: Any, case: Case, nudged: Callable[[], list[Any]]
) -> Verdict:
    if isinstance(found, Exception):
        is_clear = isinstance(found, CLEAR) and not isinstance(found, NotImplementedError)
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
    distance = max(map(_apart, found, expected))
    if distance > _limit(found[0], expected[0], case):
        others = [other for other in nudged() if not isinstance(other, Exception)]
        swings = [max(map(_apart, other, expected)) for other in others]
        if distance > 20 * max(swings, default=0):
            raise Found("other numbers", f"{name}: {distance:.2g} apart")
    return Verdict("equal")


def _is_empty(indices: Any) -> bool:
    return np.asarray(indices).size == 0


def _apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest entry; infinite where one is no number."""
    if found.shape != expected.shape:
        return np.inf
    found, expected = found.double(), expected.double()
    finite = torch.isfinite(expected)
    if not torch.equal(torch.isfinite(found), finite):
        return np.inf
    if not torch.equal(found[~finite].nan_to_num(9.0), expected[~finite].nan_to_num(9.0)):
        return np.inf
    if not finite.any():
        return 0.0
    largest = float(expected[finite].abs().max())
    difference = float((found - expected)[finite].abs().max())
    return difference / largest if largest else difference


def _limit(found: torch.Tensor, expected: torch.Tensor, case: Case) -> float:
    """How far two right answers may be apart: an update is a difference of rounded weights."""
    dtype = expected.dtype if expected.dtype in WITHIN else torch.float32
    entries = expected.double().nan_to_num(0, 0, 0).abs()
    largest = float(entries.max()) if entries.numel() else 0.0
    params = case.call.job.params.detach().to_dense()
    known = params.numel() and not params.is_meta
    weights = float(params.double().nan_to_num(0, 0, 0).abs().max()) if known else 0.0
    rounding = 8 * torch.finfo(dtype).eps * weights
    return WITHIN[dtype] + (rounding / largest if largest else rounding)


def _nudges(
    seed: int, make: Callable[[int], Case], choice: EngineChoice, name: str
) -> Callable[[], list[Any]]:
    """What the loop says to inputs that are a little different.

    At a near-tie of a maximum, or at the kink of a ReLU, two right answers are far apart: then so
    are those to neighbouring inputs. And torch's two kinds of convolutions differ in whether a NaN
    times the zeros of a padding is one.
    """

    def answers() -> list[Any]:
        found = []
        for number in range(N_NUDGES):
            near = _answer(lambda number=number: _near(make(seed), number))
            with torch.backends.mkldnn.flags(enabled=bool(number % 2)):
                asked = near if isinstance(near, Exception) else _asked(near, boundary.Loop, choice)
            found.append(asked if isinstance(asked, Exception) else asked[name])
        return found

    return answers


def _near(case: Case, number: int) -> Case:
    """The same with inputs and parameters a little different."""
    rng = np.random.default_rng(number)
    case.data.x = _nudged(case.data.x, rng)
    job = case.call.job
    starts = None if job.starts is None else _nudged(job.starts, rng)
    case.call.job = dataclasses.replace(job, params=_nudged(job.params, rng), starts=starts)
    case.call.params = _nudged(case.call.params, rng)
    for parameter in case.module.parameters():
        parameter.data = _nudged(parameter.data, rng)
    return case


def _nudged(values: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    by = NUDGE.get(values.dtype, 1e-3)
    noise = torch.from_numpy(rng.uniform(-by, by, size=tuple(values.shape)))
    return (values.detach().double() * (1 + noise) + by * 1e-3 * noise.sign()).to(values.dtype)


# -- what must stay as it is -----------------------------------------------------------------------


def _contents(case: Case) -> dict[str, Any]:
    """The memory of all arguments, by name."""
    job = case.call.job
    held = {"params": job.params, "starts": job.starts, "corrections": job.corrections}
    if case.call.change is None:
        held |= {"x": case.data.x, "y": case.data.y}
    contents = {name: _memory(tensor) for name, tensor in held.items()}
    contents["matrix"] = _memory(job.matrix)
    return contents


def _memory(tensor: Any) -> Any:
    """All of a tensor's storage, copied; None where it has no such."""
    try:
        storage = tensor.detach().untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8).set_(storage)
        return flat.numpy().tobytes()
    except Exception:
        return None


def _check_untouched(case: Case, before: dict[str, Any]) -> None:
    after = _contents(case)
    job = case.call.job
    for name, content in before.items():
        if name != "matrix" and content != after.get(name, content):
            raise Found("changed arguments", f"{name} was written to")
    if before["matrix"] is None:
        return
    size = job.matrix.element_size()
    now, then = (
        np.frombuffer(part, dtype=np.uint8).reshape(-1, size)
        for part in (after["matrix"], before["matrix"])
    )
    changed = torch.from_numpy((now != then).any(axis=1))
    trained = torch.zeros(len(changed), dtype=torch.bool)
    view = torch.as_strided(
        trained, job.matrix.shape, job.matrix.stride(), job.matrix.storage_offset()
    )
    if not isinstance(_answer(lambda: view[job.rows]), Exception):
        view[job.rows] = True
        if (changed & ~trained).any():
            raise Found("written beside rows", "the matrix changed outside the rows of the job")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


# -- in public -------------------------------------------------------------------------------------


def _in_public(seed: int, make: Callable[[int], Case]) -> Verdict:
    runs = {}
    for engine in ("loop", "auto"):
        own = make(seed)
        runs[engine] = _answer(lambda own=own, engine=engine: boundary.in_public(own, engine))
    expected, found = runs["loop"], runs["auto"]
    if isinstance(found, Exception):
        if isinstance(expected, Exception):
            return Verdict("both raise", _said(found))
        raise Found("an error in construction", f"simulate: {_said(found)}")
    if isinstance(expected, Exception):
        raise Found("no error", f"simulate: the loop raises {_said(expected)}")
    own, verdicts = make(seed), []
    for name in found:
        answers = [_answer(expected[name]), _answer(found[name])]
        theirs, ours = (one if isinstance(one, Exception) else (one,) for one in answers)

        def nudged(name: str = name) -> list[Any]:
            answers = [
                _answer(lambda i=i: _all_in_public(_near(make(seed), i), name))
                for i in range(N_NUDGES)
            ]
            return [one if isinstance(one, Exception) else (one,) for one in answers]

        verdicts.append(_compared(name, ours, theirs, own, nudged))
    return next((one for one in verdicts if one.kind != "equal"), Verdict("equal"))


def _all_in_public(case: Case, last: str) -> Any:
    """The loop's answer to one question, the ones before it asked too."""
    steps = _answer(lambda: boundary.in_public(case, "loop"))
    if isinstance(steps, Exception):
        return steps
    for name, step in steps.items():
        answer = _answer(step)
        if name == last:
            return answer
    raise KeyError(last)

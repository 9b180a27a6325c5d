"""Which arrivals a round takes in: one bad client is refused with a reason, the round continues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.core.shown import shown
from understudy.core.types import Arrivals, Bools, Cohort, Floats, Ints, Outcome, Reason, Refusal
from understudy.memory.tensor_stream import as_tensor

LARGEST = 2.0**53  # examples or steps: beyond it nobody counts, and sums could overflow
EXAMPLES_FACTOR = 10  # times what the population says of a client: more is not believed

Request = tuple[int, int]  # (client, the round it was asked in)


@dataclass(frozen=True, eq=False)
class Bounds:
    """How large what a client sends may be."""

    entry: float  # largest absolute value of an entry of an update
    norm: float  # largest of the first `n_parameters` entries
    n_parameters: int  # where the buffers begin
    n_examples: Floats  # (N,) most that a client may report

    @classmethod
    def of(
        cls,
        params: torch.Tensor,
        n_parameters: int,
        n_clients: int,
        given_examples: Floats | None,
        max_norm: float | None = None,
        max_examples: float | None = None,
    ) -> Bounds:
        """The bounds of a run; `given_examples` is what the population itself says, not clients."""
        examples = np.full(n_clients, LARGEST)
        if given_examples is not None:
            known = ~np.isnan(given_examples)
            examples[known] = np.minimum(LARGEST, EXAMPLES_FACTOR * given_examples[known])
        if max_examples is not None:
            examples = np.minimum(examples, float(max_examples))
        return cls(
            entry=largest_entry(params.dtype, n_clients),
            norm=math.inf if max_norm is None else float(max_norm),
            n_parameters=n_parameters,
            n_examples=examples,
        )


def largest_entry(dtype: torch.dtype, n_clients: int) -> float:
    """√(largest float32)/N: the sum of N such entries, and its square, are finite.

    So one update can neither make the model infinite nor the second moments of `Adam` and `Yogi`.
    In float16 the square may overflow (its largest number is 65,504, so that the square's bound
    would refuse honest updates): there it is the sum alone.
    """
    largest = math.sqrt(torch.finfo(torch.float32).max)
    return min(largest, torch.finfo(dtype).max) / n_clients


@dataclass(frozen=True, eq=False)
class Admitted:
    """Valid arrivals, those of this round and late ones, and what was refused."""

    fresh: Arrivals
    late: Arrivals
    refusals: tuple[Refusal, ...]
    answered: frozenset[Request]  # requests that are answered, by a valid update or a refused one


def admit(
    arrivals: Arrivals,
    cohort: Cohort,
    active: Bools,
    params: torch.Tensor,
    *,
    needs_steps: bool,
    n_classes: int | None = None,
    bounds: Bounds | None = None,
) -> Admitted:
    """Sort arrivals into fresh, late and refused, by ascending id whatever order they came in.

    The first valid arrival of a (client, start round) counts, a second one is a duplicate.
    """
    if bounds is None:
        bounds = Bounds.of(params, len(params), len(active), None)
    fields = _columns(arrivals)
    sound = _sound(fields, params, needs_steps, bounds)
    if sound.all() and _just_as_asked(fields, cohort, active):
        everything = list(range(len(fields["ids"])))
        return Admitted(
            fresh=_take(fields, arrivals.deltas, everything, params, cohort.t, n_classes),
            late=Arrivals.none(),
            refusals=(),
            answered=frozenset((client, cohort.t) for client in fields["ids"].tolist()),
        )
    open_requests = {(int(i), cohort.t) for i in cohort.asked}
    open_requests |= {(int(i), int(s)) for i, s in cohort.pending}
    accepted: dict[Request, int] = {}
    refusals: list[Refusal] = []
    answered: set[Request] = set()
    for position, client in enumerate(fields["ids"]):
        request, reason = _request(client, fields["start_round"], position, cohort.t, active)
        if request is not None:
            if request in accepted:
                reason = Reason.DUPLICATE, f"a second update for round {request[1]}"
            elif request not in open_requests:
                asked_in = shown(request[1])
                reason = Reason.NOT_ASKED, f"not asked in round {asked_in}, or answered already"
            else:
                answered.add(request)
                reason = None
                if not sound[position]:
                    reason = _fault(fields, position, params, needs_steps, bounds)
        if reason is not None:
            refusals.append(Refusal(client, *reason))
        elif request is not None:
            accepted[request] = position
    in_order = sorted(accepted)
    fresh = [accepted[r] for r in in_order if r[1] == cohort.t]
    late = [accepted[r] for r in in_order if r[1] < cohort.t]
    return Admitted(
        fresh=_take(fields, arrivals.deltas, fresh, params, cohort.t, n_classes),
        late=_take(fields, arrivals.deltas, late, params, cohort.t, n_classes),
        refusals=tuple(refusals),
        answered=frozenset(answered),
    )


def _columns(arrivals: Arrivals) -> dict[str, Any]:
    """The fields as plain sequences of one length; a wrong length is the caller's own mistake."""
    fields: dict[str, Any] = {}
    for item in dataclass_fields(Arrivals):
        name = item.name
        value = getattr(arrivals, name)
        if isinstance(value, torch.Tensor) and name != "deltas":
            value = value.tolist()
        fields[name] = value
        if value is not None and len(value) != len(arrivals.ids):
            raise ValueError(
                f"Arrivals.{name}: expected {len(arrivals.ids)} entries, one for each id, "
                f"got {len(value)}"
            )
    return fields


def _just_as_asked(fields: dict[str, Any], cohort: Cohort, active: Bools) -> bool:
    """Whether all came from clients that were asked now, by ascending id: nothing to sort out."""
    ids = fields["ids"]
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu" or ids.ndim != 1:
        return False
    if not len(ids) or fields["start_round"] is not None or ids[0] < 0 or ids[-1] >= len(active):
        return False
    ascending = bool((ids[1:] > ids[:-1]).all())
    if not ascending or not active[ids].all():
        return False
    return np.array_equal(ids, cohort.asked) or bool(np.isin(ids, cohort.asked).all())


def _sound(
    fields: dict[str, Any], params: torch.Tensor, needs_steps: bool, bounds: Bounds
) -> Bools:
    """Arrivals that surely have no fault, told for all at once; the others are looked at singly."""
    deltas, nobody = fields["deltas"], np.zeros(len(fields["ids"]), dtype=np.bool_)
    fits = isinstance(deltas, torch.Tensor) and deltas.dtype == params.dtype
    if not fits or deltas.shape[1:] != params.shape:
        return nobody
    # an entry is never larger than the norm, which is one pass; NaN is not below any bound
    sound: Bools = _norms(deltas) <= min(bounds.entry, bounds.norm)
    if fields["n_examples"] is not None:
        n_examples, ids = _counts(fields["n_examples"]), _counts(fields["ids"])
        if n_examples is None or ids is None or ids.dtype.kind == "f":
            return nobody
        known = (ids >= 0) & (ids < len(bounds.n_examples))
        most = np.where(known, bounds.n_examples[np.where(known, ids, 0)], 0.0)
        sound &= (n_examples > 0) & (n_examples <= most)
    if needs_steps:
        n_steps = _counts(fields["n_steps"])
        if n_steps is None:
            return nobody
        sound &= (n_steps >= 1) & (n_steps <= LARGEST)
    return sound


def _counts(values: Any) -> npt.NDArray[Any] | None:
    """A column of plain numbers; None where it is anything else."""
    plain = isinstance(values, np.ndarray) and values.dtype.kind in "iuf" and values.ndim == 1
    return values if plain else None


def _norms(deltas: torch.Tensor) -> Floats:
    """(k,) Euclidean norms of the rows of a matrix; infinity where they cannot be told so."""
    if deltas.layout != torch.strided or deltas.is_meta or not deltas.is_floating_point():
        return np.full(len(deltas), np.inf)
    norms = torch.linalg.vector_norm(deltas, dim=1).double().cpu().numpy()
    return np.asarray(norms, dtype=np.float64)


def _request(
    client: object, start_round: Sequence[object] | None, position: int, t: int, active: Bools
) -> tuple[Request | None, tuple[Reason, str] | None]:
    if isinstance(client, bool | np.bool_) or not isinstance(client, Integral):
        return None, (Reason.UNKNOWN_ID, "expected a whole number")
    if not 0 <= int(client) < len(active):
        return None, (Reason.UNKNOWN_ID, f"expected 0 to {len(active) - 1}")
    if not active[int(client)]:
        return None, (Reason.UNKNOWN_ID, "it was retired")
    start = t if start_round is None else start_round[position]
    if isinstance(start, bool | np.bool_) or not isinstance(start, Integral) or int(start) > t:
        return None, (Reason.BAD_START, f"expected a round up to {t}, got {shown(start)}")
    return (int(client), int(start)), None


def _fault(
    fields: dict[str, Any],
    position: int,
    params: torch.Tensor,
    needs_steps: bool,
    bounds: Bounds,
) -> tuple[Reason, str] | None:
    """What is wrong with one arrival, or None; its client is known to be one of the N."""
    delta = _as_tensor(fields["deltas"][position])
    if not isinstance(delta, torch.Tensor) or delta.dtype != params.dtype:
        found = delta.dtype if hasattr(delta, "dtype") else type(delta).__name__
        return Reason.WRONG_TYPE, f"expected {params.dtype}, got {found}"
    if delta.layout != torch.strided or delta.is_meta:
        return Reason.WRONG_TYPE, f"expected a dense tensor, got {delta.layout} on {delta.device}"
    if delta.shape != params.shape:
        return Reason.WRONG_LENGTH, f"expected {tuple(params.shape)}, got {tuple(delta.shape)}"
    if (fault := _size_fault(delta, bounds)) is not None:
        return fault
    if fields["n_examples"] is not None:
        n_examples, most = (
            fields["n_examples"][position],
            bounds.n_examples[fields["ids"][position]],
        )
        if not 0 < _count(n_examples) <= most:
            return Reason.BAD_EXAMPLES, f"expected > 0 and <= {most:g}, got {shown(n_examples)}"
    if needs_steps:
        n_steps = None if fields["n_steps"] is None else fields["n_steps"][position]
        if not 1 <= _count(n_steps) <= LARGEST:
            return Reason.BAD_STEPS, f"expected >= 1, got {shown(n_steps)}"
    return None


def _size_fault(delta: torch.Tensor, bounds: Bounds) -> tuple[Reason, str] | None:
    """What is wrong with the numbers of an update."""
    largest = float(delta.abs().max())
    if not math.isfinite(largest):
        return Reason.NOT_FINITE, f"{int((~torch.isfinite(delta)).sum())} entries are not finite"
    if largest > bounds.entry:
        return Reason.TOO_LARGE, f"largest entry: expected <= {bounds.entry:g}, got {largest:g}"
    if bounds.norm < math.inf:
        norm = float(torch.linalg.vector_norm(delta[: bounds.n_parameters].double()))
        if norm > bounds.norm:
            return Reason.TOO_LARGE, f"norm: expected <= {bounds.norm:g}, got {norm:g}"
    return None


def _count(value: object) -> float:
    """A count as a float; NaN, which no comparison allows, where it is no real number."""
    if isinstance(value, torch.Tensor) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return math.nan
    return _float_or_nan(value)


def _take(
    fields: dict[str, Any],
    deltas: Any,
    positions: list[int],
    params: torch.Tensor,
    t: int,
    n_classes: int | None,
) -> Arrivals:
    """Some of the arrivals, in this order, as clean arrays; the updates are not copied."""

    def floats(name: str) -> Floats | None:
        if fields[name] is None:
            return None
        if isinstance(fields[name], np.ndarray) and fields[name].dtype.kind in "iuf":
            numbers = fields[name][positions].astype(np.float64)
            return np.where(np.isfinite(numbers), numbers, np.nan)
        return np.array([_float_or_nan(fields[name][i]) for i in positions], dtype=np.float64)

    def ints(values: list[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    start = fields["start_round"]
    everything = positions == list(range(len(fields["ids"])))
    whole = isinstance(deltas, torch.Tensor) and everything and deltas.device == params.device
    return Arrivals(
        ids=ints([int(fields["ids"][i]) for i in positions]),
        deltas=deltas if whole else [_tensor(deltas[i], params) for i in positions],
        n_examples=floats("n_examples"),
        n_steps=floats("n_steps"),
        losses=floats("losses"),
        seconds=floats("seconds"),
        label_counts=_histograms(fields["label_counts"], positions, n_classes),
        start_round=ints([t if start is None else int(start[i]) for i in positions]),
    )


def _tensor(delta: Any, params: torch.Tensor) -> torch.Tensor:
    tensor: torch.Tensor = _as_tensor(delta)
    return tensor.detach().to(params.device)


def _as_tensor(delta: Any) -> Any:
    """A numpy vector as a tensor, where torch has its type."""
    tensor = as_tensor(delta) if isinstance(delta, np.ndarray) else None
    return delta if tensor is None else tensor


def _real(value: Any) -> float:
    if isinstance(value, complex | np.complexfloating):
        raise TypeError("a count is a real number")
    return float(value)


def _float_or_nan(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _histograms(label_counts: Any, positions: list[int], n_classes: int | None) -> Floats | None:
    """(k, C), a row of NaN where a client sent no histogram; None where nobody sent one."""
    if label_counts is None or not positions:
        return None
    rows: list[Floats | None] = []
    for i in positions:
        try:
            row = np.array([_real(count) for count in label_counts[i]], dtype=np.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            row = np.zeros(0)
        valid = row.ndim == 1 and row.size > 0 and bool(np.isfinite(row).all() and (row >= 0).all())
        rows.append(row if valid else None)
    sizes = [len(row) for row in rows if row is not None]
    if not sizes:
        return None
    # one odd client must not decide the number of classes
    width = max(set(sizes), key=sizes.count) if n_classes is None else n_classes
    missing = np.full(width, np.nan)
    return np.stack([row if row is not None and len(row) == width else missing for row in rows])


def outcomes(n_clients: int, cohort: Cohort, admitted: Admitted) -> npt.NDArray[np.int8]:
    """(N,) the outcome of each client; what is written later weighs more."""
    outcome = np.full(n_clients, Outcome.NOT_WANTED, dtype=np.int8)
    outcome[cohort.wanted] = Outcome.UNAVAILABLE
    outcome[cohort.asked] = Outcome.MISSING
    outcome[np.asarray(admitted.late.ids, dtype=np.int64)] = Outcome.LATE
    if admitted.refusals:
        for client, start in admitted.answered:
            if start == cohort.t:
                outcome[client] = Outcome.REFUSED
    outcome[np.asarray(admitted.fresh.ids, dtype=np.int64)] = Outcome.CAME
    return outcome

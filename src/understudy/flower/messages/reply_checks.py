"""Checks of replies: each becomes an update, or is refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import torch
from flwr.app import ArrayRecord, RecordDict

from understudy.core import checks
from understudy.core.shown import shown
from understudy.core.types import Reason
from understudy.flower.messages import names
from understudy.flower.messages.model_arrays import ModelArrays, Unreadable

ROOM = 1.0  # megabytes that a reply may have beyond twice the model, where no limit is given


@dataclass(frozen=True)
class Limits:
    """Limits of what clients may do; beyond them is refused (or clipped), counted, never fatal.

    Parameters
    ----------
    norm : float, optional
        Largest ‖Δ‖ over the parameters.
    clip : bool
        Scale an update beyond `norm` down to it, instead of refusing it.
    n_examples : float
        Largest number of examples that is accepted: it is the client's weight.
    megabytes : float, optional
        Largest size of a reply; by default twice the model's, and one more.
    n_classes : int
        Longest label histogram.
    n_clients : int, optional
        Most clients, those included who have left: a newcomer beyond them is turned away. Clients
        that are expected (``clients=``) or have joined before are not. None: any number.
    """

    norm: float | None = None
    clip: bool = False
    n_examples: float = 1e9
    megabytes: float | None = None
    n_classes: int = 10_000
    n_clients: int | None = 10_000

    def __post_init__(self) -> None:
        if self.norm is not None:
            checks.number("norm", self.norm, low=0, low_open=True)
        elif self.clip:
            raise ValueError("clip: expected a norm to clip to, got norm None")
        checks.number("n_examples", self.n_examples, low=1)
        if self.megabytes is not None:
            checks.number("megabytes", self.megabytes, low=0, low_open=True)
        checks.integer("n_classes", self.n_classes, low=1)
        if self.n_clients is not None:
            checks.integer("n_clients", self.n_clients, low=1)


@dataclass(frozen=True, eq=False)
class Update:
    """A reply that was accepted."""

    delta: torch.Tensor  # (d,) local − start
    n_examples: float
    n_steps: float | None
    loss: float | None
    label_counts: list[float] | None
    megabytes: float
    clipped: bool


@dataclass(frozen=True)
class Report:
    """What a client reports of itself."""

    client_id: str | None = None
    label_counts: list[float] | None = None
    n_examples: float | None = None
    n_steps: float | None = None


def read_update(
    content: RecordDict,
    model: ModelArrays,
    start: torch.Tensor,
    limits: Limits,
    *,
    arrays_key: str,
    examples_key: str,
) -> Update:
    """A client's update, of a reply with the local model and metrics; else `Unreadable` says why.

    `start` (d,) is the model that the client began with; the keys say where the arrays and the
    number of examples are.
    """
    megabytes = megabytes_of(content)
    largest = 2 * model.megabytes + ROOM if limits.megabytes is None else limits.megabytes
    if megabytes > largest:
        raise Unreadable(
            Reason.TOO_LARGE, f"expected at most {largest:.1f} MB, got {megabytes:.1f} MB"
        )
    n_examples = _number(metrics_of(content, examples_key).get(examples_key))
    if n_examples is None or not 0 < n_examples <= limits.n_examples:
        found = _shown(metrics_of(content, examples_key).get(examples_key))
        raise Unreadable(
            Reason.BAD_EXAMPLES,
            f"{examples_key}: expected a number > 0, at most {limits.n_examples:g}, got {found}",
        )
    delta = model.vector(_the_arrays(content, arrays_key)).to(start.device).sub_(start)
    clipped = False
    if limits.norm is not None:
        norm = float(torch.linalg.vector_norm(delta[: model.n_parameters].double()))
        if isfinite(norm) and norm > limits.norm:  # what is not finite is refused by `apply`
            if not limits.clip:
                raise Unreadable(
                    Reason.TOO_LARGE, f"norm: expected at most {limits.norm:g}, got {norm:g}"
                )
            delta, clipped = delta.mul_(limits.norm / norm), True
    report = read_report(content, limits, examples_key)
    loss = _number(metrics_of(content, examples_key).get(names.LOSS))
    return Update(delta, n_examples, report.n_steps, loss, report.label_counts, megabytes, clipped)


def read_report(content: RecordDict, limits: Limits, examples_key: str) -> Report:
    """What is only informative: whatever cannot be read counts as not reported."""
    reported: Mapping[str, Any] = content.config_records.get(names.REPORT, {})
    client_id = reported.get(names.CLIENT_ID)
    if not isinstance(client_id, str):
        client_id = None
    counts = reported.get(names.LABEL_COUNTS)
    if not isinstance(counts, list) or not 0 < len(counts) <= limits.n_classes:
        counts = None
    n_examples = _number(metrics_of(content, examples_key).get(examples_key))
    if n_examples is not None and not 0 < n_examples <= limits.n_examples:
        n_examples = None
    return Report(
        client_id=client_id,
        label_counts=None if counts is None else _counts(counts),
        n_examples=n_examples,
        n_steps=_number(reported.get(names.N_STEPS)),
    )


def metrics_of(content: RecordDict, examples_key: str) -> Mapping[str, Any]:
    """The MetricRecord that has the number of examples; else the first; else none."""
    records = list(content.metric_records.values())
    with_examples = [record for record in records if examples_key in record]
    found: list[Mapping[str, Any]] = [*with_examples, *records, {}]
    return found[0]


def megabytes_of(content: RecordDict) -> float:
    """Of all arrays, numbers and texts, about."""
    size = sum(
        len(name) + len(array.data) + len(array.stype) + len(array.dtype) + 8 * len(array.shape)
        for record in content.array_records.values()
        for name, array in record.items()
    )
    size += sum(len(key) for key in content)
    others: list[Mapping[str, Any]] = [
        *content.metric_records.values(),
        *content.config_records.values(),
    ]
    size += sum(len(key) + _bytes(value) for record in others for key, value in record.items())
    return size / 1e6


def _the_arrays(content: RecordDict, key: str) -> ArrayRecord:
    """The record under its own key, or the only one there is, as Flower's FedAvg takes it."""
    records = content.array_records
    if key in records:
        return records[key]
    if len(records) == 1:
        return next(iter(records.values()))
    raise Unreadable(
        Reason.WRONG_LENGTH, f"expected one ArrayRecord, or one named {key!r}, got {len(records)}"
    )


def _bytes(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list):
        return sum(_bytes(one) for one in value)
    return 8  # a number


def _counts(counts: list[Any]) -> list[float] | None:
    numbers = [_number(count) for count in counts]
    if any(number is None or number < 0 for number in numbers):
        return None
    return [number for number in numbers if number is not None]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    number = float(value)
    return number if isfinite(number) else None


def _shown(value: Any) -> str:
    return "none" if value is None else shown(value)

"""Means of the metrics that clients report; one odd client cannot end the run.

Names are of the client's choosing: odd ones are left out, and all others get a prefix that says who
measured them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from flwr.app import MetricRecord, RecordDict
from flwr.serverapp.strategy import Result

from understudy.core.files import file_named, no_link_opener, refuse_link, write_file
from understudy.core.json_lines import is_damaged, is_sealed, sealed
from understudy.core.shown import shown
from understudy.flower.log import logger
from understudy.flower.messages import names
from understudy.flower.messages.reply_checks import metrics_of

LONGEST_NAME = 80  # characters
MOST_METRICS = 100  # of a reply
RESULTS = "results.jsonl"  # what `start` returns of each round
_KEPT = (  # the metrics of Flower's Result
    "train_metrics_clientapp",
    "evaluate_metrics_clientapp",
    "evaluate_metrics_serverapp",
)

Aggregate = Callable[[list[RecordDict], str], MetricRecord]


def aggregate(
    replies: Mapping[str, RecordDict], examples_key: str, function: Aggregate | None = None
) -> MetricRecord | None:
    """The metrics of a round; None where nobody reports any.

    `replies` are those that were taken, by the client's id. The user's own `function` is called as
    Flower's FedAvg calls it, with replies of the same keys only.
    """
    named_well = [_well_named(client, reply, examples_key) for client, reply in replies.items()]
    fitting = _alike(named_well, examples_key)
    if not fitting:
        return None
    try:
        return (
            weighted_means(fitting, examples_key)
            if function is None
            else function(fitting, examples_key)
        )
    except Exception as error:  # the user's function, or odd values: the round has no metrics
        logger.error("metrics could not be aggregated: %s: %s", type(error).__name__, error)
        return None


def weighted_means(replies: Sequence[RecordDict], examples_key: str) -> MetricRecord:
    """Means over clients, weighted by examples; lists entry by entry."""
    rows = [metrics_of(reply, examples_key) for reply in replies]
    total = sum(float(row[examples_key]) for row in rows)
    means: dict[str, Any] = {}
    for name, first in rows[0].items():
        if name == examples_key:
            continue
        shares = [float(row[examples_key]) / total for row in rows]
        if isinstance(first, list):
            columns = zip(*(row[name] for row in rows), strict=True)
            means[name] = [_dot(column, shares) for column in columns]
        else:
            means[name] = _dot([row[name] for row in rows], shares)
    return MetricRecord(means)


def named(record: MetricRecord, prefix: str) -> dict[str, float]:
    """Numbers as a round's log keeps them: under names that say who measured them.

    >>> named(MetricRecord({"test_accuracy": 1.0}), names.BY_CLIENTS)
    {'clients_test_accuracy': 1.0}
    >>> named(MetricRecord({"train_loss": 0.5, "f1": 0.8}), names.BY_CLIENTS_IN_TRAINING)
    {'clients_train_loss': 0.5, 'clients_train_f1': 0.8}

    A name that has the prefix already does not get it twice, unless another has its place:

    >>> named(MetricRecord({"test_accuracy": 0.9, "accuracy": 0.3}), names.BY_SERVER)
    {'test_test_accuracy': 0.9, 'test_accuracy': 0.3}
    """
    logged = _names_in_the_log(record, prefix)
    return {
        logged[name]: float(value)
        for name, value in record.items()
        if name in logged and not isinstance(value, list) and isfinite(value)
    }


def _names_in_the_log(record: Iterable[str], prefix: str) -> dict[str, str]:
    """Name → the name that the log has; no two have the same, whatever clients call theirs."""
    said = prefix.removeprefix(names.BY_CLIENTS)  # a name may begin so already
    logged: dict[str, str] = {}
    of_training = []
    for name in sorted(record, key=len):  # one without the prefix is shorter: it comes first
        short = prefix + name.removeprefix(prefix).removeprefix(said)
        if prefix == names.BY_CLIENTS and short.startswith(names.BY_CLIENTS_IN_TRAINING):
            of_training.append(name)
        else:
            logged[name] = prefix + name if short in logged.values() else short
    if of_training:
        logger.warning(
            "%d metrics of evaluation are not logged: expected names that do not begin with %s, as "
            "those of training do, got %s",
            len(of_training),
            names.BY_CLIENTS_IN_TRAINING.removeprefix(names.BY_CLIENTS),
            shown(of_training),
        )
    return logged


def _dot(values: Sequence[float], shares: Sequence[float]) -> float:
    return float(sum(value * share for value, share in zip(values, shares, strict=True)))


def _well_named(client: str, reply: RecordDict, examples_key: str) -> RecordDict:
    """The reply without metrics of odd names, and without those beyond the number allowed."""
    left_out, n_kept, records = [], 0, {}
    for key, record in reply.metric_records.items():
        kept = {}
        for name, value in record.items():
            if name == examples_key:
                kept[name] = value
            elif n_kept < MOST_METRICS and _is_good(name):
                kept[name] = value
                n_kept += 1
            else:
                left_out.append(name)
        records[key] = MetricRecord(kept) if len(kept) < len(record) else record
    if not left_out:
        return reply
    logger.warning(
        "%s: %d of its metrics are left out: expected printable names of at most %d characters, at "
        "most %d of them, got %s%s",
        client,
        len(left_out),
        LONGEST_NAME,
        MOST_METRICS,
        shown(left_out[0]),
        ", …" if len(left_out) > 1 else "",
    )
    return RecordDict({**reply, **records})


def _is_good(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _alike(replies: Sequence[RecordDict], examples_key: str) -> list[RecordDict]:
    """Replies with sound metrics, of the form that most have; a warning for the others."""
    sound = [reply for reply in replies if _is_sound(metrics_of(reply, examples_key), examples_key)]
    forms = Counter(_form(metrics_of(reply, examples_key)) for reply in sound)
    if not forms:
        return []
    (usual, most), *others = forms.most_common(2)
    if others and others[0][1] == most:  # else who answers first would choose the round's metrics
        logger.warning(
            "metrics of %d clients are left out: two sets of keys are reported by %d each, "
            "and none by more",
            len(replies),
            most,
        )
        return []
    fitting = [reply for reply in sound if _form(metrics_of(reply, examples_key)) == usual]
    if len(fitting) < len(replies):
        logger.warning(
            "metrics of %d of %d clients are left out: other keys than most, or no numbers",
            len(replies) - len(fitting),
            len(replies),
        )
    return fitting


def _is_sound(metrics: Mapping[str, Any], examples_key: str) -> bool:
    weight = metrics.get(examples_key)
    if isinstance(weight, list) or weight is None or not weight > 0:
        return False
    values = [
        number
        for value in metrics.values()
        for number in (value if isinstance(value, list) else [value])
    ]
    return all(isfinite(value) for value in values)


def _form(metrics: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """The keys, and how long each list is."""
    sizes = {name: len(value) if isinstance(value, list) else -1 for name, value in metrics.items()}
    return tuple(sorted(sizes.items()))


class ResultFile:
    """The metrics of each round as Flower's `Result` has them, so that a resumed run has all.

    A damaged line costs its round's metrics in the result, and is named; nothing is computed from
    them.
    """

    def __init__(self, path: Path, n_rounds: int) -> None:
        """Keep the first `n_rounds` rounds, and what was measured before them."""
        self.path, self._rounds = path, dict[int, bytes]()
        refuse_link(path)
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        for number, line in enumerate(lines, start=1):
            if is_sealed(line) and not is_damaged(line):
                self._rounds[int(json.loads(line)["round"])] = line
            elif line:
                logger.warning("%s, line %d: damaged: left out of the result", path, number)
        self._rounds = {one: line for one, line in self._rounds.items() if one <= n_rounds}
        write_file(path, b"".join(line + b"\n" for line in self._rounds.values()))

    def restore(self, result: Result) -> None:
        """Put what was measured before the run resumed into its result."""
        for number, line in self._rounds.items():
            for name, metrics in json.loads(line).items():
                if name in _KEPT:
                    getattr(result, name)[number] = MetricRecord(metrics)

    def append(self, result: Result, n_rounds: int) -> None:
        """Write all rounds that are not written yet, on disk when this returns."""
        lines = []
        for number in range(n_rounds + 1):
            found = {name: getattr(result, name).get(number) for name in _KEPT}
            metrics = {name: dict(record) for name, record in found.items() if record is not None}
            if metrics and number not in self._rounds:
                self._rounds[number] = sealed(json.dumps({"round": number, **metrics}).encode())
                lines.append(self._rounds[number] + b"\n")
        with file_named(self.path), open(self.path, "ab", opener=no_link_opener) as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())

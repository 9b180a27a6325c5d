"""Means of the metrics that clients report; one odd client cannot end the run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from flwr.app import MetricRecord, RecordDict

from understudy.flower.reply_checks import metrics_of

logger = logging.getLogger("flwr")

Aggregate = Callable[[list[RecordDict], str], MetricRecord]


def aggregate(
    replies: Sequence[RecordDict], examples_key: str, function: Aggregate | None = None
) -> MetricRecord | None:
    """The metrics of a round; None where nobody reports any.

    Parameters
    ----------
    replies : sequence of RecordDict
        Of those whose reply was taken.
    examples_key : str
        The metric by which the others are weighted.
    function : optional
        The user's own, called as Flower's FedAvg calls it, with replies of the same keys only.
    """
    fitting = _alike(replies, examples_key)
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


def _dot(values: Sequence[float], shares: Sequence[float]) -> float:
    return float(sum(value * share for value, share in zip(values, shares, strict=True)))


def _alike(replies: Sequence[RecordDict], examples_key: str) -> list[RecordDict]:
    """Replies with sound metrics, of the form that most have; a warning for the others."""
    sound = [reply for reply in replies if _is_sound(metrics_of(reply, examples_key), examples_key)]
    forms = Counter(_form(metrics_of(reply, examples_key)) for reply in sound)
    if not forms:
        return []
    usual = forms.most_common(1)[0][0]
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

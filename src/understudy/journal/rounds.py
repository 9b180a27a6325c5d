"""A round's log: how it is made, and how it is shown as a row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.core.types import Applied, Floats, Outcome, RoundLog
from understudy.journal.bounded import bounded


def log_of(
    applied: Applied, notes: Mapping[str, float], errors: Floats | None = None, **measured: Any
) -> RoundLog:
    """A round's log: what the server says of it, more notes, and what was measured."""
    kept, left_out = bounded(applied.contributions, errors)
    return RoundLog(
        t=applied.t,
        outcome=applied.outcome,
        refusals=applied.refusals,
        notes={**applied.notes, **notes, **left_out},
        **kept,
        **measured,
    )


def row_of(log: RoundLog) -> dict[str, float]:
    """A log as a row of a table: who came, clock, megabytes, metrics and notes."""
    return {
        "t": log.t,
        "came": float((log.outcome == Outcome.CAME).sum()),
        "clock": log.clock,
        "megabytes_up": log.megabytes_up,
        "megabytes_down": log.megabytes_down,
        "refused": len(log.refusals),
        **log.metrics,
        **log.notes,
    }

"""The cast of a round: who represented whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.core.types import RoundLog
from understudy.views.columns import Columns


def cast_of(columns: Columns, log: RoundLog, names: Sequence[str]) -> dict[str, Any]:
    """Who represented whom in a round, and with what weight.

    Parameters
    ----------
    columns : Columns
        Rounds that were read, that one among them.
    log : RoundLog
        The round.
    names : sequence of str
        (N,) what its clients are called.
    """
    n_clients = len(log.outcome)
    errors = [None] * len(log.ids) if log.errors is None else log.errors.tolist()
    cells = columns.cells(log.t, log.t + 1)
    return {
        "round": log.t,
        "names": list(names),
        "cells": cells[0, :n_clients].tolist() if len(cells) else [],
        "ids": log.ids.tolist(),
        "source": log.source.tolist(),
        "coef": log.coef.tolist(),
        "errors": errors,
        "cut": log.totals is not None,
        "totals": [list(column.tolist()) for column in log.by_source],
        "metrics": dict(log.metrics),
        "notes": dict(log.notes),
        "clock": log.clock,
        "refusals": refusals_of(log),
    }


def refusals_of(log: RoundLog) -> list[dict[str, str]]:
    """Whose arrivals were refused in a round, and why."""
    return [
        {"id": str(one.id), "reason": one.reason.value, "detail": one.detail}
        for one in log.refusals
    ]

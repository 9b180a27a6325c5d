"""A finished run in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from understudy.measures import MEASURES, RunNumbers


def summarise(
    rounds: pd.DataFrame,
    clients: pd.DataFrame | None,
    facts: Mapping[str, Any],
    target: float | None,
) -> dict[str, float]:
    """The measures of a run: those of `MEASURES` that it tells, and its other metrics.

    Parameters
    ----------
    rounds, clients, target
        As in `RunNumbers`.
    facts : mapping
        What is known of the run: `n_clients`, N.

    Returns
    -------
    dict
        What the run can tell; a measure it cannot tell is left out. Accuracies are fractions. A
        metric without a measure of its own is there as last evaluated, ``<part>_<metric>_last``.
    """
    if rounds.empty:
        return {}
    n_clients = int(facts.get("n_clients", 0 if clients is None else len(clients)))
    run = RunNumbers(rounds, clients, n_clients, target)
    found: dict[str, float] = {}
    for name, one in MEASURES.items():
        if one.of is None:  # where metrics without a measure of their own have their place
            found |= run.metrics
        elif (value := one.of(run)) is not None:
            found[name] = value
    return found

"""What the store is told of a live run: its settings, and what is known of its clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from understudy.core.describe import describe
from understudy.core.roles import Availability
from understudy.representation.facts import kept_label_counts
from understudy.representation.thresholds import GIVEN, Thresholds
from understudy.server.state import ServerState
from understudy.server.strategy import Strategy


def resolved_run(
    strategy: Strategy, availability: Availability | None, n_arrays: int
) -> dict[str, Any]:
    """The settings, as those of a study's cell."""
    return {
        "data": {"class": "live"},
        "model": {"class": "arrays", "names": n_arrays},
        "strategy": describe(strategy),
        "availability": {"class": "live"} if availability is None else describe(availability),
        "evaluate_every": 1,
        "analysis": [],
    }


def facts_of(state: ServerState, names: Sequence[str], limits: Thresholds) -> dict[str, Any]:
    """What is known of the clients by now; sizes are None where nobody has told them.

    `limits`, where they are not the usual, are those by which whoever reads the run shall warn.
    """
    counts = state.label_counts
    sizes = [None if np.isnan(size) else float(size) for size in state.n_examples]
    return {
        "n_clients": state.n_clients,
        "names": list(names),
        "groups": None,
        "left": np.flatnonzero(~state.active).tolist(),
        "sizes": sizes if any(size is not None for size in sizes) else None,
        "label_counts": kept_label_counts(counts),
        "n_parameters": state.n_parameters,
        "n_classes": None if counts is None else counts.shape[1],
        "data": "live federation",
        **({} if limits == Thresholds() else {GIVEN: asdict(limits)}),
    }

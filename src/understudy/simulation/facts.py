"""What tables and pictures want to know of a run's clients, as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.parts.delay import Delay
from understudy.representation.facts import ClientFacts, kept_label_counts
from understudy.simulation.data.federation import Federation
from understudy.simulation.training.jobs import versions


def run_facts(federation: Federation, n_parameters: int, engine: str) -> dict[str, Any]:
    """Of a run on these data, with a model of so many parameters, trained by this engine."""
    groups, names = federation.groups, federation.names
    own_tests = federation.test_clients is not None
    return {
        "n_clients": federation.n_clients,
        "names": None if names is None else list(names),
        "groups": None if groups is None else groups.tolist(),
        "sizes": federation.sizes.tolist(),
        "label_counts": kept_label_counts(federation.label_counts),
        "classes": None if federation.classes is None else list(federation.classes),
        "per_client_test": federation.per_client_test,
        "test_sizes": [len(own) for own in federation.client_tests()] if own_tests else None,
        "n_parameters": n_parameters,
        "n_classes": federation.n_classes,
        "data": federation.name,
        "engine": engine,
        "versions": versions(),
    }


def client_facts(federation: Federation, delay: Delay | None) -> ClientFacts:
    """What warnings of a run tell of its clients."""
    deadline = np.inf if delay is None else delay.deadline
    return ClientFacts(
        federation.names or (),
        federation.sizes.astype(np.float64),
        federation.label_counts,
        federation.classes or (),
        deadline=deadline if np.isfinite(deadline) else None,
    )

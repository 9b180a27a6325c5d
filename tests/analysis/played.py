"""What the tests of this folder share: small tasks, played to their last round."""

from __future__ import annotations

from typing import Any

from understudy.simulation import Federation, clustered_digits
from understudy.studies.definition.cell import Task


def clusters(n_clients: int = 6, n_clusters: int = 3) -> Federation:
    return clustered_digits(n_clients=n_clients, n_clusters=n_clusters, per_client=20, seed=1)


def played(analysis, task: Task, **arguments: Any):
    """(logs, findings): the analysis is asked in the turn of the last round, as in a study."""
    run = task.open(workers=1, **arguments)
    logs, found = [], None
    for log in run:
        logs.append(log)
        if log.t + 1 == task.rounds:
            found = analysis(run, task)
    assert found is not None
    return logs, found

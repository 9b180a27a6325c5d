"""The measure that a study's first table and pictures are about."""

from __future__ import annotations

import pandas as pd

from understudy.measures import BY_CLIENTS, BY_CLIENTS_IN_TRAINING

MAIN_METRICS = ("accuracy_last10", "loss_last")
OF_CLIENTS = (f"{BY_CLIENTS}accuracy_last", f"{BY_CLIENTS}loss_last")  # in a live federation


def main_metric(runs: pd.DataFrame, asked: str | None = None) -> str | None:
    """The measure that a study asks for, or else the first that there is; None without any.

    Parameters
    ----------
    runs : DataFrame
        As from ``results(path, level="run")``.
    asked : str, optional
        The study's own ``metric``.
    """
    measured = [str(name) for name in runs.columns if str(name).endswith("_last")]
    measured.sort(key=_last_resort)
    for name in (asked, *MAIN_METRICS, *measured):
        if name in runs.columns and runs[name].notna().any():
            return name
    return None


def _last_resort(name: str) -> int:
    """Measured by us, then by clients who evaluate the model, then by those who train it."""
    if not name.startswith(BY_CLIENTS):
        return -1
    if name in OF_CLIENTS:
        return OF_CLIENTS.index(name)
    return len(OF_CLIENTS) + name.startswith(BY_CLIENTS_IN_TRAINING)

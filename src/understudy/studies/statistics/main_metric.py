"""The measure that a study's first table and pictures are about."""

from __future__ import annotations

import pandas as pd

MAIN_METRICS = ("accuracy_last10", "loss_last")


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
    for name in (asked, *MAIN_METRICS, *measured):
        if name in runs.columns and runs[name].notna().any():
            return name
    return None

"""What is known of a measure by its name, and which measure a study is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.measures.known import MEASURES, OF_ROUNDS, PERCENT
from understudy.measures.measure import TO_TARGET, Counts, Measure

if TYPE_CHECKING:
    import pandas as pd

BY_CLIENTS = "clients_"  # how the name of what clients report begins
BY_CLIENTS_IN_TRAINING = f"{BY_CLIENTS}train_"  # all others are of their evaluation
EVALUATED = "rounds_evaluated"  # column of a run's results: how many rounds were evaluated
# what a study's first table and pictures are about; a frame of an earlier version has no tail
MAIN_METRICS = ("accuracy_tail", "accuracy_last10", "loss_last")
OF_CLIENTS = (f"{BY_CLIENTS}accuracy_last", f"{BY_CLIENTS}loss_last")  # in a live federation
_PARTS = {"test": "", "validation": " on validation data", "train": " on training data"}
_METRICS = {"auc": "AUC", "f1": "F1", "r2": "R²", "mae": "absolute error", "rmse": "RMSE"}
_HIGHER = {"auc", "f1", "recall", "r2"}  # words in a name that tell which way is better
_LOWER = {"loss", "mae", "rmse", "fluctuation"}


def measure(name: str, evaluated: Counts | None = None) -> Measure:
    """What is known of a measure by its name; any name will do.

    `evaluated` are the evaluated rounds of the runs, fewest and most: words then tell how many are
    averaged.
    """
    known = MEASURES.get(name) or OF_ROUNDS.get(name)
    if known is not None:
        return known.told_over(evaluated)
    percent = "accuracy" in name or (name.startswith(tuple(_PARTS)) and "recall" in name.split("_"))
    words = _words_of_metric(name)
    if name.startswith(BY_CLIENTS):  # of a live federation: their word, and nobody checked it
        words = f"{measure(name.removeprefix(BY_CLIENTS)).words}, reported by clients"
    made = Measure(name, words, lower_is_better=_lower_by_name(name))
    return replace(made, **PERCENT) if percent else made


def lower_is_better(name: str) -> bool | None:
    """Whether less of a measure is better; None where that is not known."""
    return measure(name).lower_is_better


def _lower_by_name(name: str) -> bool | None:
    if name.startswith("shapley"):  # also of the loss: what a client took off it
        return False
    told = set(name.split("_"))
    if name.endswith(TO_TARGET) or _LOWER & told:
        return True
    return False if "accuracy" in name or _HIGHER & told else None


def is_metric(name: str) -> bool:
    """Whether it is a metric on a part of the data, in the last round: ``test_auc_last``."""
    return name.endswith("_last") and name.partition("_")[0] in _PARTS


def _words_of_metric(name: str) -> str:
    """``test_auc_last`` and the like: a metric on a part of the data; else the name itself."""
    if not is_metric(name):
        return name.replace("_", " ")
    part, _, metric = name.removesuffix("_last").partition("_")
    words = _METRICS.get(metric, metric.replace("_", " "))
    if metric.startswith("recall_"):
        words = f"recall of {metric.removeprefix('recall_')}"
    return f"last {words}{_PARTS[part]}"


def evaluated_rounds(runs: pd.DataFrame) -> Counts | None:
    """Fewest and most evaluated rounds of runs that are done; None where that is not known."""
    if EVALUATED not in runs:
        return None
    done = runs[runs["status"] == "done"] if "status" in runs else runs
    known = done[EVALUATED].dropna()
    known = known[known > 0]
    return (int(known.min()), int(known.max())) if len(known) else None


def main_metric(runs: pd.DataFrame, asked: str | None = None) -> str | None:
    """The measure that a study asks for, or else the first that there is; None without any.

    `runs` are as from ``results(path, level="run")``; what the study asks for is in their `attrs`.
    """
    measured = [str(name) for name in runs.columns if str(name).endswith("_last")]
    measured.sort(key=_last_resort)
    asked = asked or runs.attrs.get("metric")
    if asked in runs.columns and asked is not None and measure(asked).is_price:
        return asked  # that no run reached the target is a result, too
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

"""What a measure is called in a table, in which unit it is printed, and which way is up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

TO_TARGET = "_to_target"
BY_CLIENTS = "clients_"  # how the name of what clients report begins
BY_CLIENTS_IN_TRAINING = f"{BY_CLIENTS}train_"  # all others are of their evaluation
SHARES = ("largest_share", "absent_represented")  # of a round, shown as percents
LAST = 10  # evaluated rounds at the end that `accuracy_last10` averages, at the most
STEADY = 20  # evaluated rounds at the end whose spread is the fluctuation, at the most
EVALUATED = "rounds_evaluated"  # column of a run's results: how many rounds were evaluated

Counts = tuple[int, int]  # of evaluated rounds: in the run with fewest, in the one with most


def tail_length(n_evaluated: int) -> int:
    """Evaluated rounds that `accuracy_tail` averages: a tenth of them, 1 to 10."""
    return max(1, min(LAST, n_evaluated // 10))


@dataclass(frozen=True)
class Measure:
    """How a measure of `summarise` (or of an analysis) is shown.

    Parameters
    ----------
    name : str
        As in the results.
    words : str
        The head of its column.
    unit : str
        Of the printed mean; empty where there is none.
    unit_of_difference : str
        A difference of percents is in points.
    scale : float
        The printed number is the measure × `scale`.
    lower_is_better : bool or None
        None: neither way is better, or it is not known.
    about : str
        A sentence, where the words do not say it all.
    """

    name: str
    words: str
    unit: str = ""
    unit_of_difference: str = ""
    scale: float = 1.0
    lower_is_better: bool | None = None
    about: str = ""

    @property
    def head(self) -> str:
        """The words with the unit."""
        return f"{self.words}, {self.unit}" if self.unit else self.words

    @property
    def phrase(self) -> str:
        """The words inside a sentence: what follows a comma in brackets."""
        first, _, rest = self.words.partition(", ")
        return f"{first} ({rest})" if rest else first

    @property
    def is_price(self) -> bool:
        """Whether it is the price of a target, which a run may never reach."""
        return self.name.endswith(TO_TARGET)

    @property
    def decimals(self) -> int | None:
        """Fixed for percents and points; None: by the size of the numbers."""
        return None if self.scale == 1 else 2


_PERCENT = {"unit": "%", "unit_of_difference": "points", "scale": 100.0}
_WORDS: dict[str, tuple[str, str]] = {
    "accuracy_best": ("best accuracy", "Best accuracy: the highest of all evaluated rounds."),
    "accuracy_last": ("last accuracy", "Last accuracy: of the last evaluated round."),
    "accuracy_last10": ("accuracy", "Accuracy: mean of the last 10 evaluated rounds."),
    "accuracy_tail": (
        "accuracy",
        "Accuracy: mean of the last tenth of the evaluated rounds, at least one, at most ten.",
    ),
    "accuracy_mean": (
        "mean accuracy over rounds",
        "Mean accuracy over rounds: over all evaluated rounds.",
    ),
    "loss_best": ("lowest test loss", ""),
    "loss_last": ("last test loss", ""),
    "train_loss_last": ("last training loss", ""),
    "validation_loss_last": ("last validation loss", ""),
    "fluctuation": (
        "fluctuation",
        "Fluctuation: standard deviation of accuracy over the last 20 evaluated rounds.",
    ),
    "fluctuation_detrended": (
        "fluctuation",
        "Fluctuation: standard deviation of accuracy about a line, last 20 evaluated rounds.",
    ),
    "loss_fluctuation": (
        "fluctuation of the loss",
        "Fluctuation of the loss: standard deviation about a line, last 20 evaluated rounds.",
    ),
    "rounds_to_target": ("rounds to target", ""),
    "clock_to_target": ("simulated seconds to target", ""),
    "megabytes_to_target": ("megabytes to target", ""),
    "client_accuracy_mean": ("accuracy over clients", ""),
    "client_accuracy_variance": ("variance over clients", ""),
    "client_accuracy_worst10": (
        "worst clients",
        "Worst clients: mean accuracy of the tenth of them where it is lowest.",
    ),
    "client_accuracy_best10": (
        "best clients",
        "Best clients: mean accuracy of the tenth of them where it is highest.",
    ),
    "client_share_from_40": ("clients from 40 % on", ""),
    "client_share_25_to_65": ("clients between 25 and 65 %", ""),
    "count_variance": (
        "variance of counts",
        "Variance of counts: over clients, of how often each was wanted.",
    ),
    "participants": ("participants per round", ""),
    "evaluations_spared": (
        "evaluations spared",
        "Evaluations spared: share of the pairs whose similarity need not be computed.",
    ),
    "evaluations_spared_last": (
        "evaluations spared at the end",
        "Evaluations spared at the end: share of pairs not compared in the last tenth of rounds.",
    ),
    "oracle_error": ("error of the update", ""),
    "oracle_error_relative": ("relative error of the update", ""),
    "oracle_error_ignoring": (
        "error of leaving out",
        "Error of leaving out: of the mean of those who came, in the same rounds.",
    ),
}
MEASURES = tuple(_WORDS)  # those of `summarise`; analyses find others
_PARTS = {"test": "", "validation": " on validation data", "train": " on training data"}
_METRICS = {"auc": "AUC", "f1": "F1", "r2": "R²", "mae": "absolute error", "rmse": "RMSE"}
_HIGHER = {"auc", "f1", "recall", "r2"}  # words in a name that tell which way is better
_LOWER = {"loss", "mae", "rmse"}
# what a study's first table and pictures are about; a frame of an earlier version has no tail
MAIN_METRICS = ("accuracy_tail", "accuracy_last10", "loss_last")
OF_CLIENTS = (f"{BY_CLIENTS}accuracy_last", f"{BY_CLIENTS}loss_last")  # in a live federation


# measures over the last evaluated rounds: how many of n that are
_OVER_THE_LAST: dict[str, Callable[[int], int]] = {
    "accuracy_last10": lambda n: min(n, LAST),
    "accuracy_tail": tail_length,
    "fluctuation": lambda n: min(n, STEADY),
    "fluctuation_detrended": lambda n: min(n, STEADY),
    "loss_fluctuation": lambda n: min(n, STEADY),
}


def rounds_averaged(name: str, evaluated: Counts | None) -> Counts | None:
    """Over how many of the last evaluated rounds a measure is taken, at least and at most.

    None for a measure that is not of that kind, or where the number of rounds is not known.
    """
    length = _OVER_THE_LAST.get(name)
    if evaluated is None or length is None:
        return None
    return length(evaluated[0]), length(evaluated[1])


def measure(name: str, evaluated: Counts | None = None) -> Measure:
    """What is known of a measure by its name; any name will do.

    Parameters
    ----------
    name : str
        As in the results.
    evaluated : pair of int, optional
        Evaluated rounds of the runs, fewest and most: words then tell how many are averaged.
    """
    words, about = _in_words(name, rounds_averaged(name, evaluated))
    if name.startswith(BY_CLIENTS):  # of a live federation: their word, and nobody checked it
        words, about = f"{measure(name.removeprefix(BY_CLIENTS)).words}, reported by clients", ""
    lower = lower_is_better(name)
    if name in ("fluctuation", "fluctuation_detrended"):
        unit = {"unit": "points", "unit_of_difference": "points", "scale": 100.0}
    elif name == "client_accuracy_variance":
        unit = {"unit": "points²", "unit_of_difference": "points²", "scale": 1e4}
    elif (
        "accuracy" in name
        or name in SHARES
        or (name.startswith(tuple(_PARTS)) and "recall" in name.split("_"))
        or name.startswith(("evaluations_spared", "client_share"))
    ):
        unit = dict(_PERCENT)
    else:
        unit = {}
    return Measure(name, words, lower_is_better=lower, about=about, **unit)  # type: ignore[arg-type]


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


def span(counts: Counts) -> str:
    """One number, or ``3 to 5``."""
    return str(counts[1]) if counts[0] == counts[1] else f"{counts[0]} to {counts[1]}"


def _in_words(name: str, over: Counts | None) -> tuple[str, str]:
    words, about = _WORDS.get(name, (_words_of_metric(name), ""))
    if name == "accuracy_last10" and over is None:
        return f"{words}, mean of last {LAST}", about
    if over is None:
        return words, about
    n = span(over)
    if not name.startswith("accuracy"):
        return words, about.replace(f"last {STEADY}", f"last {n}")
    if over[1] == 1:
        return f"{words}, last round", "Accuracy: of the last evaluated round."
    return f"{words}, mean of last {n}", f"Accuracy: mean of the last {n} evaluated rounds."


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

    Parameters
    ----------
    runs : DataFrame
        As from ``results(path, level="run")``.
    asked : str, optional
        The study's own ``metric``; by default that of ``runs.attrs``.
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


def lower_is_better(name: str) -> bool | None:
    """Whether less of a measure is better; None where that is not known."""
    if name.startswith("shapley"):  # also of the loss: what a client took off it
        return False
    if "fluctuation" in name or name in ("count_variance", "client_accuracy_variance"):
        return True
    told = set(name.split("_"))
    if name.endswith(TO_TARGET) or name.startswith("oracle_error") or _LOWER & told:
        return True
    if "accuracy" in name or name.startswith("evaluations_spared") or _HIGHER & told:
        return False
    return None

"""What a measure is called in a table, in which unit it is printed, and which way is up."""

from __future__ import annotations

from dataclasses import dataclass

TO_TARGET = "_to_target"
BY_CLIENTS = "clients_"  # how the name of what clients report begins
BY_CLIENTS_IN_TRAINING = f"{BY_CLIENTS}train_"  # all others are of their evaluation
SHARES = ("largest_share", "absent_represented")  # of a round, shown as percents


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
        "Evaluations spared at the end: the same over the last tenth of the rounds.",
    ),
    "oracle_error": ("error of the update", ""),
    "oracle_error_relative": ("relative error of the update", ""),
    "oracle_error_ignoring": (
        "error of leaving out",
        "Error of leaving out: of the mean of those who came, in the same rounds.",
    ),
}
MEASURES = tuple(_WORDS)  # those of `summarise`; analyses find others


def measure(name: str) -> Measure:
    """What is known of a measure by its name; any name will do."""
    words, about = _WORDS.get(name, (name.replace("_", " "), ""))
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
        or name.startswith(("evaluations_spared", "client_share"))
    ):
        unit = dict(_PERCENT)
    else:
        unit = {}
    return Measure(name, words, lower_is_better=lower, about=about, **unit)  # type: ignore[arg-type]


def lower_is_better(name: str) -> bool | None:
    """Whether less of a measure is better; None where that is not known."""
    if name.startswith("shapley"):  # also of the loss: what a client took off it
        return False
    if "fluctuation" in name or name in ("count_variance", "client_accuracy_variance"):
        return True
    if name.endswith(TO_TARGET) or name.startswith("oracle_error") or "loss" in name.split("_"):
        return True
    if "accuracy" in name or name.startswith("evaluations_spared") or "f1" in name.split("_"):
        return False
    return None

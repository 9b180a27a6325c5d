"""Metrics by name: AUC, F1, balanced accuracy and recalls of classes; errors of a regression."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from understudy.core.suggestions import suggestion
from understudy.core.types import Floats, Ints

Metric = Callable[[torch.Tensor, torch.Tensor], Any]  # outputs, labels of a data set -> a number


# -- of classes ------------------------------------------------------------------------------------


def auc(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Area under the ROC curve; of more than two classes the mean of each against the rest.

    Outputs are ranked as probabilities (softmax, in double precision); equal ones count half. A
    class without examples, or with all of them, is left out; NaN where none is left.
    """
    from scipy.stats import rankdata  # here: it takes a second, and 30 MB

    rows, true = _checked(outputs, labels)
    # of two classes the difference ranks alike, and no probability rounds to 1
    ranked = rows[:, 1:] - rows[:, :1] if rows.shape[1] == 2 else rows.log_softmax(dim=1)
    ranks = rankdata(ranked.numpy(), axis=0)
    classes = np.arange(1, 2) if rows.shape[1] == 2 else np.arange(rows.shape[1])
    own = true[:, None] == classes
    n_own = own.sum(axis=0)
    n_pairs = n_own * (len(true) - n_own)
    known = n_pairs > 0
    above = (ranks * own).sum(axis=0) - n_own * (n_own + 1) / 2
    return float((above[known] / n_pairs[known]).mean()) if known.any() else float("nan")


def f1(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """F1, the mean over classes (macro); over those that have examples or are predicted."""
    counts = _confusion(outputs, labels)
    both = counts.sum(axis=0) + counts.sum(axis=1)
    return float((2 * np.diag(counts)[both > 0] / both[both > 0]).mean())


def recall(outputs: torch.Tensor, labels: torch.Tensor) -> Floats:
    """(C,) the share of each class's examples that is recognised; NaN for one without examples."""
    counts = _confusion(outputs, labels)
    held = counts.sum(axis=1)
    return np.where(held > 0, np.diag(counts) / np.maximum(held, 1), np.nan)


def balanced_accuracy(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """The mean of the recalls, over classes that have examples."""
    return float(np.nanmean(recall(outputs, labels)))


def _checked(outputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, Ints]:
    if outputs.ndim != 2 or labels.ndim != 1:
        raise ValueError(
            "metrics: expected outputs of shape (n, C) for n labels, got "
            f"{tuple(outputs.shape)} for {tuple(labels.shape)}"
        )
    return outputs.double().cpu(), labels.cpu().numpy()


def _confusion(outputs: torch.Tensor, labels: torch.Tensor) -> Ints:
    """(C, C) how many examples of each class (row) are taken for each (column)."""
    rows, true = _checked(outputs, labels)
    n = rows.shape[1]
    taken_for = rows.argmax(dim=1).numpy()
    return np.bincount(true * n + taken_for, minlength=n * n).reshape(n, n)


# -- of a regression -------------------------------------------------------------------------------


def r2(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """1 − squared error / variance, the mean over targets; NaN for one that does not vary."""
    said, true = _columns(outputs, labels)
    left, spread = ((true - said) ** 2).sum(axis=0), ((true - true.mean(axis=0)) ** 2).sum(axis=0)
    known = spread > 0
    return float((1 - left[known] / spread[known]).mean()) if known.any() else float("nan")


def mae(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Mean absolute error."""
    said, true = _columns(outputs, labels)
    return float(np.abs(said - true).mean())


def rmse(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Root of the mean squared error."""
    said, true = _columns(outputs, labels)
    return float(np.sqrt(((said - true) ** 2).mean()))


def _columns(outputs: torch.Tensor, labels: torch.Tensor) -> tuple[Floats, Floats]:
    """(n, targets) each."""
    if outputs.numel() != labels.numel():
        raise ValueError(
            f"metrics: expected as many outputs as targets, got {tuple(outputs.shape)} for "
            f"{tuple(labels.shape)}"
        )
    said, true = (one.double().cpu().numpy().reshape(len(labels), -1) for one in (outputs, labels))
    return said, true


# -- by name ---------------------------------------------------------------------------------------

OF_CLASSES: dict[str, Metric] = {
    "auc": auc,
    "f1": f1,
    "balanced_accuracy": balanced_accuracy,
    "recall": recall,
}
OF_REGRESSION: dict[str, Metric] = {"r2": r2, "mae": mae, "rmse": rmse}
METRICS = {**OF_CLASSES, **OF_REGRESSION}


def chosen(given: Mapping[str, Metric | str] | Sequence[str]) -> dict[str, Metric]:
    """Name → function: of a list of names, or of a table of functions and names."""
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise ValueError(
            f"metrics: expected a list of names ({', '.join(METRICS)}) or a table of functions, "
            f"got {given!r}"
        )
    table = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    return {name: _function(value) for name, value in table.items()}


def _function(value: Metric | str) -> Metric:
    if callable(value):
        return value
    if value not in METRICS:
        raise ValueError(f"metrics: no metric {value!r}; {suggestion(str(value), METRICS)}")
    return METRICS[value]


def check(metrics: Mapping[str, Metric], n_classes: int) -> None:
    """Refuse metrics of classes for a regression, and the other way round."""
    unfit = OF_REGRESSION if n_classes else OF_CLASSES
    data = f"{n_classes} classes" if n_classes else "the targets of a regression (a floating type)"
    for name, metric in metrics.items():
        if metric in unfit.values():
            fit = ", ".join(OF_CLASSES if n_classes else OF_REGRESSION)
            raise ValueError(f"metrics: {name!r} does not fit labels that are {data}; use {fit}")


def by_class(name: str, values: Any, classes: Sequence[str]) -> dict[str, float]:
    """What a metric gave: one number under its name, or one for each class."""
    numbers = np.asarray(values.double().cpu() if isinstance(values, torch.Tensor) else values)
    if numbers.size == 1:
        return {name: float(numbers.reshape(()))}
    if numbers.ndim == 1:
        numbers = numbers[: len(classes)]  # a model may have outputs that are no class here
    if not classes or numbers.shape != (len(classes),):
        raise ValueError(
            f"metrics: expected of {name!r} one number, or one for each of {len(classes)} classes, "
            f"got an array of shape {numbers.shape}"
        )
    return {f"{name}_{own}": float(one) for own, one in zip(classes, numbers, strict=True)}


def class_names(classes: Sequence[str] | None, n_classes: int) -> tuple[str, ...]:
    """What columns call the classes: letters, digits and ``_``; a number where there is no name."""
    names: dict[str, None] = {}
    for number in range(n_classes):
        words = "" if classes is None else re.sub(r"\W+", "_", classes[number]).strip("_")
        own = words or str(number)
        names[own if own not in names else f"{own}_{number}"] = None
    return tuple(names)

"""What an axis of a picture is called: longer words than in the head of a column."""

from __future__ import annotations

from dataclasses import replace

from understudy.measures import STEADY, Counts, Measure, rounds_averaged, span
from understudy.measures import measure as as_in_tables

WORDS = {
    "absent_represented": "absent clients that are represented",
    "accuracy_best": "best test accuracy",
    "accuracy_last": "test accuracy in the last round",
    "accuracy_last10": "test accuracy, mean of the last 10 rounds",
    "accuracy_tail": "test accuracy, mean of the last rounds",
    "client_accuracy_mean": "accuracy, mean over clients",
    "client_accuracy_variance": "variance of accuracy over clients",
    "client_accuracy_worst10": "accuracy of the worst 10 % of clients",
    "client_accuracy_best10": "accuracy of the best 10 % of clients",
    "count_variance": "variance of sampling counts",
    "fluctuation": "fluctuation over the last 20 evaluated rounds",
    "largest_share": "largest share of one row",
    "loss_last": "test loss in the last round",
    "oracle_error": "substitution error ‖e‖²",
    "oracle_error_relative": "substitution error ‖e‖², relative",
    "oracle_error_wanted": "substitution error ‖e‖² against the wanted",
    "oracle_error_wanted_relative": "substitution error ‖e‖² against the wanted, relative",
    "train_loss_last": "training loss in the last round",
}


def measure(name: str, evaluated: Counts | None = None) -> Measure:
    """A measure with the words of an axis, which tell how many rounds are averaged."""
    known, over = as_in_tables(name, evaluated), rounds_averaged(name, evaluated)
    words = WORDS.get(name, known.words)
    if over is not None and name.startswith("accuracy"):
        words = f"test {known.words}"
    elif over is not None:
        words = words.replace(f"last {STEADY}", f"last {span(over)}")
    return replace(known, words=words)

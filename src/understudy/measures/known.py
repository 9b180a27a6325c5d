"""`MEASURES`: the measures of a run. A new one is one value in this list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from understudy.core.types import Floats
from understudy.measures.measure import Measure
from understudy.measures.run_numbers import (
    LAST,
    STEADY,
    RunNumbers,
    about_a_line,
    late_length,
    mean_of_tenth,
    tail_length,
)

PERCENT: dict[str, Any] = {"unit": "%", "unit_of_difference": "points", "scale": 100.0}
POINTS: dict[str, Any] = {**PERCENT, "unit": "points"}
SQUARED: dict[str, Any] = {"unit": "points²", "unit_of_difference": "points²", "scale": 1e4}
HIGHER: dict[str, Any] = {"lower_is_better": False}
LOWER: dict[str, Any] = {"lower_is_better": True}
# titles of the tables in a report
ACCURACY = "More about accuracy and loss"
COST = "Cost of reaching the target"
CLIENTS = "Over clients"
SUBSTITUTION = "Substitution and similarity"


def _of(
    numbers: Callable[[RunNumbers], Floats], compute: Callable[[Floats], Any], at_least: int = 1
) -> Callable[[RunNumbers], float | None]:
    """A measure of some numbers of a run; none where they are too few."""

    def of(run: RunNumbers) -> float | None:
        values = numbers(run)
        return float(compute(values)) if len(values) >= at_least else None

    return of


def _accuracy(compute: Callable[[Floats], Any], at_least: int = 1) -> Any:
    return _of(lambda run: run.accuracy, compute, at_least)


def _clients(compute: Callable[[Floats], Any]) -> Any:
    return _of(lambda run: run.client_accuracy, compute)


def _mean_over_rounds(name: str) -> Any:
    return _of(lambda run: run.known(name), np.mean)


def _steady(n: int) -> int:
    return min(n, STEADY)


_LIST = (
    Measure(
        "accuracy_best", "best accuracy", "best test accuracy", **PERCENT, **HIGHER,
        about="Best accuracy: the highest of all evaluated rounds.",
        of=_accuracy(np.max), table=ACCURACY,
    ),
    Measure(
        "accuracy_last", "last accuracy", "test accuracy in the last round", **PERCENT, **HIGHER,
        about="Last accuracy: of the last evaluated round.",
        of=_accuracy(lambda values: values[-1]), table=ACCURACY,
    ),
    Measure(
        "accuracy_last10", "accuracy, mean of last 10", "test accuracy, mean of the last 10 rounds",
        **PERCENT, **HIGHER, about="Accuracy: mean of the last 10 evaluated rounds.",
        over=lambda n: min(n, LAST),
        of=_accuracy(lambda values: values[-LAST:].mean()), table=ACCURACY,
    ),
    Measure(  # single rounds fluctuate, and a longer mean tells how fast a short run learnt
        "accuracy_tail", "accuracy", "test accuracy, mean of the last rounds", **PERCENT, **HIGHER,
        about="Accuracy: mean of the last tenth of the evaluated rounds, at least one, at most "
        "ten.",
        over=tail_length,
        of=_accuracy(lambda values: values[-tail_length(len(values)) :].mean()), table=ACCURACY,
    ),
    Measure(  # it needs fewer seeds than the last rounds to tell two methods apart
        "accuracy_mean", "mean accuracy over rounds", **PERCENT, **HIGHER,
        about="Mean accuracy over rounds: over all evaluated rounds.", of=_accuracy(np.mean),
    ),
    Measure(  # a single value says nothing of how much it would fluctuate
        "fluctuation", "fluctuation", "fluctuation over the last 20 evaluated rounds",
        **POINTS, **LOWER,
        about="Fluctuation: standard deviation of accuracy over the last 20 evaluated rounds.",
        over=_steady, of=_accuracy(lambda values: values[-STEADY:].std(), 2), table=ACCURACY,
    ),
    Measure(  # a curve that only rises does not fluctuate; two points lie on a line
        "fluctuation_detrended", "fluctuation", **POINTS, **LOWER,
        about="Fluctuation: standard deviation of accuracy about a line, last 20 evaluated rounds.",
        over=_steady, of=_accuracy(lambda values: about_a_line(values[-STEADY:]), 3),
    ),
    Measure(  # a line through the whole of a short curve would measure its bend
        "fluctuation_late", "fluctuation", **POINTS, **LOWER,
        about="Fluctuation: standard deviation of accuracy about a line, second half of the "
        "evaluated rounds, at most the last 20.",
        over=late_length, of=_accuracy(lambda v: about_a_line(v[-late_length(len(v)) :]), 5),
    ),
    Measure(
        "loss_best", "lowest test loss", **LOWER,
        of=_of(lambda run: run.loss, np.fmin.reduce), table=ACCURACY,
    ),
    Measure(
        "loss_last", "last test loss", "test loss in the last round", **LOWER,
        of=_of(lambda run: run.loss, lambda values: values[-1]), table=ACCURACY,
    ),
    Measure(
        "loss_fluctuation", "fluctuation of the loss", **LOWER,
        about="Fluctuation of the loss: standard deviation about a line, last 20 evaluated rounds.",
        over=_steady,
        of=_of(lambda run: run.loss, lambda values: about_a_line(values[-STEADY:]), 3),
    ),
    Measure(
        "loss_fluctuation_late", "fluctuation of the loss", **LOWER,
        about="Fluctuation of the loss: standard deviation about a line, second half of the "
        "evaluated rounds, at most the last 20.",
        over=late_length,
        of=_of(lambda run: run.loss, lambda v: about_a_line(v[-late_length(len(v)) :]), 5),
    ),
    # words for two of the metrics on a part of the data, which `RunNumbers.metrics` computes
    Measure(
        "train_loss_last", "last training loss", "training loss in the last round", **LOWER,
        table=ACCURACY,
    ),
    Measure("validation_loss_last", "last validation loss", **LOWER, table=ACCURACY),
    Measure(
        "rounds_to_target", "rounds to target", **LOWER,
        of=lambda run: None if (t := run.to_target("t")) is None else t + 1, table=COST,
    ),
    Measure(
        "clock_to_target", "simulated seconds to target", **LOWER,
        of=lambda run: run.to_target("clock"), table=COST,
    ),
    Measure(
        "megabytes_to_target", "megabytes to target", **LOWER,
        of=lambda run: run.to_target("megabytes"), table=COST,
    ),
    Measure(
        "megabytes", "megabytes sent", **LOWER,
        about="Megabytes sent: of all rounds, to the clients and back.",
        of=lambda run: run.megabytes,
    ),
    Measure(
        "client_accuracy_mean", "accuracy over clients", "accuracy, mean over clients",
        **PERCENT, **HIGHER, of=_clients(np.mean), table=CLIENTS,
    ),
    Measure(
        "client_accuracy_variance", "variance over clients", "variance of accuracy over clients",
        **SQUARED, **LOWER, of=_clients(np.var), table=CLIENTS,
    ),
    Measure(
        "client_accuracy_worst10", "worst clients", "accuracy of the worst 10 % of clients",
        **PERCENT, **HIGHER,
        about="Worst clients: mean accuracy of the tenth of them where it is lowest.",
        of=_clients(mean_of_tenth), table=CLIENTS,
    ),
    Measure(
        "client_accuracy_best10", "best clients", "accuracy of the best 10 % of clients",
        **PERCENT, **HIGHER,
        about="Best clients: mean accuracy of the tenth of them where it is highest.",
        of=_clients(lambda values: mean_of_tenth(values, highest=True)), table=CLIENTS,
    ),
    # where FedAR's fig. 3 compares densities
    Measure(
        "client_share_from_40", "clients from 40 % on", **PERCENT,
        of=_clients(lambda values: (values >= 0.4).mean()),
    ),
    Measure(
        "client_share_25_to_65", "clients between 25 and 65 %", **PERCENT,
        of=_clients(lambda values: ((values >= 0.25) & (values <= 0.65)).mean()),
    ),
    Measure(
        "count_variance", "variance of counts", "variance of sampling counts", **LOWER,
        about="Variance of counts: over clients, of how often each was wanted.",
        of=_of(lambda run: run.wanted, np.var), table=CLIENTS,
    ),
    Measure(
        "participants", "participants per round",
        of=_of(lambda run: run.by_round("came"), np.mean),
    ),
    Measure(
        "evaluations_spared", "evaluations spared", **PERCENT, **HIGHER,
        about="Evaluations spared: share of the pairs whose similarity need not be computed.",
        of=RunNumbers.spared, table=SUBSTITUTION,
    ),
    Measure(
        "evaluations_spared_last", "evaluations spared at the end", **PERCENT, **HIGHER,
        about="Evaluations spared at the end: share of pairs not compared in the last tenth of "
        "rounds.",
        of=lambda run: run.spared(10),
    ),
    Measure(
        "oracle_error", "error of the update", "substitution error ‖e‖²", **LOWER,
        of=_mean_over_rounds("oracle_error"),
    ),
    Measure(
        "oracle_error_relative", "relative error of the update",
        "substitution error ‖e‖², relative", **LOWER,
        of=_mean_over_rounds("oracle_error_relative"), table=SUBSTITUTION,
    ),
    Measure(
        "oracle_error_ignoring", "error of leaving out", **LOWER,
        about="Error of leaving out: of the mean of those who came, in the same rounds.",
        of=_mean_over_rounds("oracle_error_ignoring"),
    ),
    Measure(
        "oracle_stand_ins_error_relative", "relative error of the stand-ins' sum", **LOWER,
        of=_mean_over_rounds("oracle_stand_ins_error_relative"),
    ),
    Measure(
        "oracle_cosine", "cosine of the stand-ins' sum with the true mean", **HIGHER,
        of=_mean_over_rounds("oracle_cosine"),
    ),
    Measure(
        "oracle_stand_in_error_known", "relative error of a stand-in with a memory", **LOWER,
        of=_mean_over_rounds("oracle_stand_in_error_known"),
    ),
    Measure(
        "oracle_last_update_error", "relative error of a last update", **LOWER,
        of=_mean_over_rounds("oracle_last_update_error"),
    ),
)  # fmt: skip
MEASURES = {one.name: one for one in _LIST}  # in the order of the columns of results

# what a round is described by, and no run
OF_ROUNDS = {
    one.name: one
    for one in (
        Measure(
            "absent_represented", "absent represented", "absent clients that are represented",
            **PERCENT,
        ),
        Measure("largest_share", "largest share", "largest share of one row", **PERCENT),
        Measure(
            "oracle_error_wanted", "oracle error wanted",
            "substitution error ‖e‖² against the wanted", **LOWER,
        ),
        Measure("oracle_stand_ins_error", "error of the stand-ins' sum", **LOWER),
        Measure("oracle_stand_in_error", "relative error of a stand-in", **LOWER),
        Measure(
            "oracle_error_wanted_relative", "oracle error wanted relative",
            "substitution error ‖e‖² against the wanted, relative", **LOWER,
        ),
    )
}  # fmt: skip

"""A finished run in a few numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.core.types import Floats
from understudy.measures import LAST, STEADY, tail_length

TAIL = 10  # worst and best: one client in TAIL, rounded up
PARTS = ("test", "validation", "train", "clients")  # the last: what clients reported
TOLD_ELSEWHERE = ("test_accuracy", "test_loss")  # have measures of their own


def summarise(
    rounds: pd.DataFrame,
    clients: pd.DataFrame | None,
    facts: Mapping[str, Any],
    target: float | None,
) -> dict[str, float]:
    """The measures of a run.

    Parameters
    ----------
    rounds : DataFrame
        One row per round, in order: t, clock, megabytes_up, megabytes_down, came, metrics (NaN in
        rounds that were not evaluated), notes.
    clients : DataFrame, optional
        One row per client: how often it was `wanted`, and its last `accuracy` where that was
        asked for.
    facts : mapping
        What is known of the run: `n_clients`, N.
    target : float, optional
        The test accuracy in [0, 1] whose price is asked for.

    Returns
    -------
    dict
        What the run can tell; a measure it cannot tell is left out. Accuracies are fractions.

        ``accuracy_best``, ``accuracy_last``, ``accuracy_last10``
            Highest, last and mean of the last 10 of the evaluated rounds (of all where there are
            fewer).
        ``accuracy_tail``
            Mean of the last tenth of the evaluated rounds, at least one and at most ten: single
            rounds fluctuate, and a longer mean tells how fast a short run learnt.
        ``accuracy_mean``
            Over all evaluated rounds: how good the model was during training. It needs fewer seeds
            than the last rounds to tell two methods apart.
        ``loss_best``, ``loss_last``
            Lowest and last test loss; NaN where the last evaluated round has no number for it.
        ``train_loss_last`` and the like
            Every other metric at its last evaluation, as ``<part>_<metric>_last``.
        ``fluctuation``
            Standard deviation (divisor n) of accuracy over the last 20 evaluated rounds; from two
            on.
        ``fluctuation_detrended``, ``loss_fluctuation``
            Standard deviation of accuracy, and of the test loss, about a straight line through the
            last 20 evaluated rounds: a curve that only rises does not fluctuate; from three on.
        ``rounds_to_target``, ``clock_to_target``, ``megabytes_to_target``
            Rounds, simulated seconds gone by and megabytes sent up and down when the target
            was first reached; NaN: never. Without a delay no simulated time goes by, and there is
            no ``clock_to_target``.
        ``client_accuracy_mean``, ``_variance``, ``_worst10``, ``_best10``
            Over clients (divisor N); worst and best are means over the ⌈N/10⌉ lowest and highest.
        ``client_share_from_40``, ``client_share_25_to_65``
            Share of the clients whose accuracy is at least 40 %, and between 25 and 65 %: where
            FedAR's fig. 3 compares densities.
        ``count_variance``
            Variance over clients (divisor N) of how often each was wanted.
        ``participants``
            Mean number of clients that came per round.
        ``evaluations_spared``
            Share of the pairs that came together whose similarity nobody needed.
        ``evaluations_spared_last``
            The same over the last tenth of the rounds.
        ``oracle_error``, ``oracle_error_relative``, ``oracle_error_ignoring``
            Means over rounds.
    """
    if rounds.empty:
        return {}
    measures = _of_accuracy(rounds) | _of_losses(rounds) | _other_metrics(rounds)
    if target is not None and "test_accuracy" in rounds:
        measures |= _to_target(rounds, target)
    if clients is not None:
        measures |= _over_clients(clients, int(facts.get("n_clients", len(clients))))
    if "came" in rounds:
        measures["participants"] = float(_numbers(rounds["came"]).mean())
    measures |= _spared(rounds)
    for name in ("oracle_error", "oracle_error_relative", "oracle_error_ignoring"):
        known = _numbers(rounds[name]) if name in rounds else np.zeros(0)
        known = known[~np.isnan(known)]
        if len(known):
            measures[name] = float(known.mean())
    return measures


def _numbers(column: pd.Series[Any]) -> Floats:
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _evaluated(rounds: pd.DataFrame, part: str) -> pd.DataFrame:
    """The rounds in which `part` was evaluated: some metric of it has a number."""
    columns = [name for name in map(str, rounds.columns) if name.startswith(f"{part}_")]
    return rounds[rounds[columns].notna().any(axis=1)]


def n_evaluated(rounds: pd.DataFrame) -> int:
    """Rounds with a test accuracy; without any, rounds in which test data were evaluated."""
    told = rounds.get("test_accuracy")
    counted = 0 if told is None else int(told.notna().sum())
    return counted or len(_evaluated(rounds, "test"))


def _of_accuracy(rounds: pd.DataFrame) -> dict[str, float]:
    if "test_accuracy" not in rounds:
        return {}
    accuracy = _numbers(rounds["test_accuracy"].dropna())
    if not len(accuracy):
        return {}
    measures = {
        "accuracy_best": float(accuracy.max()),
        "accuracy_last": float(accuracy[-1]),
        "accuracy_last10": float(accuracy[-LAST:].mean()),
        "accuracy_tail": float(accuracy[-tail_length(len(accuracy)) :].mean()),
        "accuracy_mean": float(accuracy.mean()),
    }
    if len(accuracy) > 1:  # a single value says nothing of how much it would fluctuate
        measures["fluctuation"] = float(accuracy[-STEADY:].std())
    if len(accuracy) > 2:  # two lie on a line
        measures["fluctuation_detrended"] = about_a_line(accuracy[-STEADY:])
    return measures


def about_a_line(values: Floats) -> float:
    """Standard deviation (divisor n) of what a straight line through the values leaves."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    left = values - values.mean()
    slope = float(at @ left) / float(at @ at)
    return float((left - slope * at).std())


def _of_losses(rounds: pd.DataFrame) -> dict[str, float]:
    if "test_loss" not in rounds:
        return {}
    # A diverged model is evaluated and has no loss: that round is the last one all the same.
    loss = _numbers(_evaluated(rounds, "test")["test_loss"])
    if not len(loss):
        return {}
    known = loss[~np.isnan(loss)]
    best = float(known.min()) if len(known) else math.nan
    measures = {"loss_best": best, "loss_last": float(loss[-1])}
    if len(loss) > 2:
        measures["loss_fluctuation"] = about_a_line(loss[-STEADY:])
    return measures


def _other_metrics(rounds: pd.DataFrame) -> dict[str, float]:
    measures = {}
    for part in PARTS:
        evaluated = _evaluated(rounds, part)
        for name in map(str, rounds.columns):
            if name.startswith(f"{part}_") and name not in TOLD_ELSEWHERE and len(evaluated):
                measures[f"{name}_last"] = float(_numbers(evaluated[name])[-1])
    return measures


def _to_target(rounds: pd.DataFrame, target: float) -> dict[str, float]:
    names = ["rounds_to_target", "clock_to_target", "megabytes_to_target"]
    if not _numbers(rounds["clock"]).any():
        names.remove("clock_to_target")
    reached = np.flatnonzero(_numbers(rounds["test_accuracy"]) >= target)  # NaN is not
    if not len(reached):
        return dict.fromkeys(names, math.nan)
    first = int(reached[0])
    sent = rounds[["megabytes_up", "megabytes_down"]].iloc[: first + 1]
    at = rounds.iloc[first]
    values = {
        "rounds_to_target": float(at["t"]) + 1,
        "clock_to_target": float(at["clock"]),
        "megabytes_to_target": float(sent.to_numpy(dtype=np.float64).sum()),
    }
    return {name: values[name] for name in names}


def _over_clients(clients: pd.DataFrame, n_clients: int) -> dict[str, float]:
    measures: dict[str, float] = {}
    if "accuracy" in clients:
        accuracy = np.sort(_numbers(clients["accuracy"].dropna()))
        if len(accuracy):
            tail = math.ceil(len(accuracy) / TAIL)
            measures |= {
                "client_accuracy_mean": float(accuracy.mean()),
                "client_accuracy_variance": float(accuracy.var()),
                "client_accuracy_worst10": float(accuracy[:tail].mean()),
                "client_accuracy_best10": float(accuracy[-tail:].mean()),
                "client_share_from_40": float((accuracy >= 0.4).mean()),
                "client_share_25_to_65": float(((accuracy >= 0.25) & (accuracy <= 0.65)).mean()),
            }
    if "wanted" in clients:
        counts = np.zeros(max(n_clients, len(clients)))  # whoever has no row was never wanted
        counts[: len(clients)] = _numbers(clients["wanted"])
        measures["count_variance"] = float(counts.var())
    return measures


def _spared(rounds: pd.DataFrame) -> dict[str, float]:
    if "pairs_needed" not in rounds or "came" not in rounds:
        return {}
    told = rounds[rounds["pairs_needed"].notna()]
    came: npt.NDArray[np.float64] = _numbers(told["came"])
    pairs, needed = came * (came - 1) / 2, _numbers(told["pairs_needed"])
    last = math.ceil(len(pairs) / TAIL)
    measures = {}
    for name, of in (("", slice(None)), ("_last", slice(-last, None))):
        if pairs[of].sum() > 0:
            spared = 1 - float(needed[of].sum()) / float(pairs[of].sum())
            measures[f"evaluations_spared{name}"] = spared
    return measures

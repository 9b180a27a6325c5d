"""`RunNumbers`: the rounds and clients of a run as arrays, from which measures are computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.types import Floats

if TYPE_CHECKING:
    import pandas as pd

LAST = 10  # evaluated rounds at the end that `accuracy_last10` averages, at the most
STEADY = 20  # evaluated rounds at the end whose spread is the fluctuation, at the most
TAIL = 10  # worst and best: one client in TAIL, rounded up; the same of rounds
PARTS = ("test", "validation", "train", "clients")  # the last: what clients reported
TOLD_ELSEWHERE = ("test_accuracy", "test_loss")  # have measures of their own
NOTHING: Floats = np.zeros(0)


def tail_length(n_evaluated: int) -> int:
    """Evaluated rounds that `accuracy_tail` averages: a tenth of them, 1 to 10."""
    return max(1, min(LAST, n_evaluated // 10))


def late_length(n_evaluated: int) -> int:
    """Evaluated rounds that `fluctuation_late` looks at: the second half, at most 20."""
    return min(STEADY, n_evaluated - n_evaluated // 2)


@dataclass(frozen=True, eq=False)
class RunNumbers:
    """A run, as measures see it.

    Parameters
    ----------
    rounds : DataFrame
        One row per round, in order: t, clock, megabytes_up, megabytes_down, came, metrics (NaN in
        rounds that were not evaluated), notes.
    clients : DataFrame, optional
        One row per client: how often it was `wanted`, and its last `accuracy` where that was
        asked for.
    n_clients : int
        N; clients without a row were never wanted.
    target : float, optional
        The test accuracy in [0, 1] whose price is asked for.
    """

    rounds: pd.DataFrame
    clients: pd.DataFrame | None = None
    n_clients: int = 0
    target: float | None = None

    def by_round(self, name: str) -> Floats:
        """A column of the rounds; empty where there is none."""
        return _numbers(self.rounds[name]) if name in self.rounds else NOTHING

    def known(self, name: str) -> Floats:
        """Those of its rounds that have a number."""
        values = self.by_round(name)
        return values[~np.isnan(values)]

    @cached_property
    def accuracy(self) -> Floats:
        """Test accuracy in the rounds that have one."""
        return self.known("test_accuracy")

    @cached_property
    def loss(self) -> Floats:
        """Test loss in the rounds that were evaluated.

        A diverged model is evaluated and has no loss: that round is the last one all the same.
        """
        return (
            _numbers(self._evaluated("test")["test_loss"])
            if "test_loss" in self.rounds
            else (NOTHING)
        )

    @property
    def n_evaluated(self) -> int:
        """Rounds with a test accuracy; without any, rounds in which test data were evaluated."""
        return len(self.accuracy) or len(self._evaluated("test"))

    @cached_property
    def client_accuracy(self) -> Floats:
        """The accuracies of the clients that have one, ascending."""
        if self.clients is None or "accuracy" not in self.clients:
            return NOTHING
        return np.sort(_numbers(self.clients["accuracy"].dropna()))

    @property
    def wanted(self) -> Floats:
        """In how many rounds each client was wanted; empty where that is not known."""
        if self.clients is None or "wanted" not in self.clients:
            return NOTHING
        counts = np.zeros(max(self.n_clients, len(self.clients)))
        counts[: len(self.clients)] = _numbers(self.clients["wanted"])
        return counts

    def to_target(self, name: str) -> float | None:
        """The price of the target: NaN where it was not reached, None where there is none."""
        if self.target is None or "test_accuracy" not in self.rounds:
            return None
        if name == "clock" and not self.by_round("clock").any():  # without a delay
            return None
        reached = np.flatnonzero(self.by_round("test_accuracy") >= self.target)  # NaN is not
        if not len(reached):
            return math.nan
        first = int(reached[0])
        if name == "megabytes":
            sent = self.rounds[["megabytes_up", "megabytes_down"]].iloc[: first + 1]
            return float(sent.to_numpy(dtype=np.float64).sum())
        return float(self.by_round(name)[first])

    @property
    def megabytes(self) -> float | None:
        """What was sent in all rounds, both ways; None where that is not known."""
        sent = [self.known(name) for name in ("megabytes_up", "megabytes_down")]
        return float(sum(way.sum() for way in sent)) if all(map(len, sent)) else None

    def spared(self, of: int = 1) -> float | None:
        """Share of the pairs whose similarity nobody needed, in the last 1/`of` of the rounds."""
        if "pairs_needed" not in self.rounds or "came" not in self.rounds:
            return None
        told = self.rounds[self.rounds["pairs_needed"].notna()]
        last = slice(-math.ceil(len(told) / of) or None, None)
        came, needed = _numbers(told["came"])[last], _numbers(told["pairs_needed"])[last]
        pairs = came * (came - 1) / 2
        return 1 - float(needed.sum()) / float(pairs.sum()) if pairs.sum() > 0 else None

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric without measures of its own at its last evaluation, by part of the data."""
        found = {}
        for part in PARTS:
            evaluated = self._evaluated(part)
            for name in map(str, self.rounds.columns):
                if name.startswith(f"{part}_") and name not in TOLD_ELSEWHERE and len(evaluated):
                    found[f"{name}_last"] = float(_numbers(evaluated[name])[-1])
        return found

    def _evaluated(self, part: str) -> pd.DataFrame:
        """The rounds in which `part` was evaluated: some metric of it has a number."""
        columns = [name for name in map(str, self.rounds.columns) if name.startswith(f"{part}_")]
        return self.rounds[self.rounds[columns].notna().any(axis=1)]


def about_a_line(values: Floats) -> float:
    """Standard deviation (divisor n) of what a straight line through the values leaves."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    left = values - values.mean()
    slope = float(at @ left) / float(at @ at)
    return float((left - slope * at).std())


def mean_of_tenth(values: Floats, *, highest: bool = False) -> float:
    """Mean of the tenth of ascending values that is lowest, or highest."""
    tail = math.ceil(len(values) / TAIL)
    return float((values[-tail:] if highest else values[:tail]).mean())


def _numbers(column: pd.Series[Any]) -> Floats:
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))

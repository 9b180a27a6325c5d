"""What a terminal shows of runs: followed while they run, without a page and its server."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from understudy.core.types import RoundLog
from understudy.dashboard.columns import Columns
from understudy.dashboard.places import (
    FAULTS,
    Places,
    RunInfo,
    Trouble,
    resolved_of,
    without_folder,
)
from understudy.memory.tensor_stream import CheckpointError
from understudy.representation import ClientFacts, Warnings

MOST_FOLLOWED = 6  # runs whose rounds are read: those that run, then the latest
PACE = 20  # rounds whose mean length tells how long the others will take
METRIC = "metric "
MAIN = ("accuracy", "loss")  # the measure that is shown: the first that there is


class Watched:
    """A run whose rounds are followed.

    It is the place that its columns are read from, to note how long each round took.
    """

    def __init__(self, run: RunInfo) -> None:
        self.run, self._place = run, run.place
        self.trouble = ""
        self._seconds: deque[float] = deque(maxlen=PACE)
        self.columns = Columns(self)

    @property
    def warnings(self) -> Warnings:
        """Who is left out, and what else to know."""
        return self.columns.warnings

    def new(self, since: int) -> Iterator[RoundLog]:
        """Rounds from `since` on."""
        for log in self._place.new(since):
            if log.t >= self.columns.n:
                self._seconds.append(log.timings.get("round", np.nan))
            yield log

    def update(self, run: RunInfo, seconds: float) -> None:
        """Read what came since, for so long at most."""
        columns, self.run = self.columns, run
        try:
            if not columns.resolved or run.resolved:  # of a stored cell they stay as they are
                columns.resolved = resolved_of(run)
            columns.tell(ClientFacts.told(run.facts, columns.resolved))
            if run.is_live:
                columns.seconds = _answers(run)
            columns.update(seconds)
            self.trouble = ""
        except (*FAULTS, CheckpointError) as error:
            self.trouble = without_folder(error, run.folder)

    @property
    def seconds_left(self) -> float | None:
        """Until the last round, at the pace of the latest; None where it is not known."""
        known = [one for one in self._seconds if one == one]
        if not known or self.run.n_rounds is None or self.run.status != "running":
            return None
        return max(0, self.run.n_rounds - self.run.rounds) * float(np.mean(known))

    def measured(self) -> tuple[str, list[float]]:
        """The main measure by its name, and its values; nothing where none was measured."""
        for kind in MAIN:
            for name in self.columns.names:
                if name.startswith(METRIC) and name.endswith(kind):
                    values = self.columns.numbers(name)
                    return kind, [float(value) for value in values[np.isfinite(values)]]
        return "", []


class Watch:
    """The runs of some folders, looked at again and again.

    Parameters
    ----------
    given : sequence of path
        As for `Places`.
    """

    def __init__(self, given: Sequence[Path]) -> None:
        self._places = Places(given)
        self._followed: dict[str, Watched] = {}
        self.runs: list[RunInfo] = []
        self.troubles: list[Trouble] = []

    def look(self, seconds: float = np.inf) -> list[Watched]:
        """Read what is new; the runs that are followed, those that run first.

        Parameters
        ----------
        seconds : float
            How long to read rounds at most, of each run; the rest is left for the next time.
        """
        self.runs, self.troubles = self._places.look()
        begun = [run for run in self.runs if run.rounds or run.status == "running"]
        order = sorted(begun, key=lambda run: (run.status != "running", -run.changed))
        chosen = order[:MOST_FOLLOWED]
        kept = {run.id: self._followed.get(run.id) or Watched(run) for run in chosen}
        self._followed = kept
        for run in chosen:
            kept[run.id].update(run, seconds)
        return list(kept.values())


def _answers(run: RunInfo) -> dict[int, dict[int, float]]:
    """Round → client → seconds until it answered."""
    found: dict[int, dict[int, float]] = {}
    for one in run.told_outcomes():
        if one.seconds is not None:
            found.setdefault(one.t, {})[one.client] = one.seconds
    return found

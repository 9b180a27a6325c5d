"""What a terminal shows of runs: followed while they run, without a page and its server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from understudy.dashboard.places import FAULTS, Places, resolved_of, without_folder
from understudy.dashboard.runs import RunInfo, Trouble
from understudy.representation import Warnings
from understudy.views.columns import Columns

MOST_FOLLOWED = 6  # runs whose rounds are read: those that run, then the latest


class Watched:
    """A run whose rounds are followed."""

    def __init__(self, run: RunInfo) -> None:
        self.run, self.trouble = run, ""
        self.columns = Columns(run.place)

    @property
    def warnings(self) -> Warnings:
        """Who is left out, as far as rounds were read."""
        return self.columns.warnings

    def update(self, run: RunInfo, seconds: float) -> None:
        """Read what came since, for so long at most."""
        columns, self.run = self.columns, run
        try:
            if not columns.resolved or run.resolved:  # of a stored cell they stay as they are
                columns.resolved = resolved_of(run)
            columns.tell(run.facts)
            if run.is_live:
                columns.seconds = _answers(run)
            columns.update(seconds)
            self.trouble = ""
        except FAULTS as error:
            self.trouble = without_folder(error, run.folder)

    @property
    def seconds_left(self) -> float | None:
        """Until the last round, at the pace of the latest; None where it is not known."""
        known = self.columns.pace()
        if known is None or self.run.n_rounds is None or self.run.status != "running":
            return None
        return max(0, self.run.n_rounds - self.run.rounds) * known

    def measured(self) -> tuple[str, list[float]]:
        """The main measure by its name, and its values; nothing where none was measured."""
        found = self.columns.main_measure
        if found is None:
            return "", []
        kind, name = found
        return kind, self.columns.known(name).tolist()


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

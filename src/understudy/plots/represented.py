"""The attendance map of a run: who came, and what represented those who did not."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from understudy.core.types import Outcome, RoundLog
from understudy.plots.federation import OUTCOME_COLOURS, client_map
from understudy.plots.runs import is_runs, labelled, played
from understudy.representation import Representation, Voice

AGES = (2, 5, 17)  # rounds from which on a remembered update belongs to the next class


class Presence(IntEnum):
    """A cell of the map."""

    CAME = 0
    LATE = 1
    REMEMBERED = 2  # one round old
    REMEMBERED_2 = 3
    REMEMBERED_5 = 4
    REMEMBERED_17 = 5
    OTHERS = 6
    MIXTURE = 7
    ERROR = 8
    REFUSED = 9
    NOBODY = 10
    NOT_THERE = 11


# Okabe and Ito's colours where they are; remembered updates fade with age, also without colours
KINDS: dict[int, tuple[str, str]] = {
    Presence.CAME: (OUTCOME_COLOURS[Outcome.CAME], "came"),
    Presence.LATE: ("#56B4E9", "late"),
    Presence.REMEMBERED: ("#00664B", "remembered, 1 round old"),
    Presence.REMEMBERED_2: ("#009E73", "remembered, 2 to 4"),
    Presence.REMEMBERED_5: ("#66C9AB", "remembered, 5 to 16"),
    Presence.REMEMBERED_17: ("#C2E9DD", "remembered, older"),
    Presence.OTHERS: ("#CC79A7", "another's update"),
    Presence.MIXTURE: ("#E69F00", "a mean, or a model"),
    Presence.ERROR: (OUTCOME_COLOURS[Outcome.ERROR], "error"),
    Presence.REFUSED: (OUTCOME_COLOURS[Outcome.REFUSED], "refused"),
    Presence.NOBODY: ("#DADADA", "nobody"),
    Presence.NOT_THERE: ("#FFFFFF", "not there yet"),
}


def represented(runs: Any, *, title: str | None = None) -> Figure:
    """Rounds × clients: who came, and what represented whoever did not.

    Parameters
    ----------
    runs : a run, a dict of runs, or the logs of one
        Runs bring the groups and the names of their clients along; each has a panel.
    title : str, optional
        Written above.
    """
    if is_runs(runs):
        panels = {
            (label, position): (
                presence(played(run).logs), run.federation.groups, run.federation.names
            )
            for position, (label, run) in enumerate(labelled(runs))
        }  # fmt: skip
    else:
        panels = {(None, 0): (presence(runs), None, None)}
    if not panels or any(0 in table.shape for table, _, _ in panels.values()):
        raise ValueError("runs: expected at least one run with rounds, got none")
    return client_map(panels, title, KINDS)


def presence(logs: Iterable[RoundLog]) -> npt.NDArray[np.int8]:
    """(rounds, N) of `Presence`."""
    counted, rows = Representation(), []
    for log in logs:
        counted.add(log)
        row = np.full(len(log.outcome), Presence.NOBODY, dtype=np.int8)
        row[counted.voice == Voice.MIXTURE] = Presence.MIXTURE
        row[counted.voice == Voice.OTHERS] = Presence.OTHERS
        remembered = counted.voice == Voice.REMEMBERED
        older = np.searchsorted(AGES, counted.age[remembered], side="right")
        row[remembered] = Presence.REMEMBERED + older
        row[np.isin(log.outcome, (Outcome.ERROR, Outcome.RESTARTED))] = Presence.ERROR
        row[log.outcome == Outcome.REFUSED] = Presence.REFUSED
        row[log.outcome == Outcome.LATE] = Presence.LATE
        row[log.outcome == Outcome.CAME] = Presence.CAME
        rows.append(row)
    width = max(map(len, rows), default=0)
    table = np.full((len(rows), width), Presence.NOT_THERE, dtype=np.int8)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table

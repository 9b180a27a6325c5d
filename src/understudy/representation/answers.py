"""What a run's rounds tell of answers: how long late ones took, and what was refused again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from understudy.core.types import Floats, Ints, Outcome, RoundLog

Numbers = TypeVar("Numbers", Floats, Ints)
MOST_STRANGERS = 100  # ids of no client that are counted


class AnswerTimes:
    """How long the last late answer of each client took, in seconds.

    Exactly where whoever adds a round knows it; from the clocks of the rounds' ends in which a
    client was asked and answered, it is known up to the length of a round.

    Attributes
    ----------
    least, most : (N,) arrays
        Between these; NaN for clients that were never late.
    """

    def __init__(self) -> None:
        self.least = self.most = self._asked_at = np.full(0, np.nan)
        self._clock = 0.0  # at the end of the round before

    def add(self, log: RoundLog, seconds: Mapping[int, float] | None = None) -> None:
        """One more round; `seconds` until answers that came in it, by client."""
        more = len(log.outcome) - len(self.least)
        if more > 0:
            for name in ("least", "most", "_asked_at"):
                grown = np.pad(getattr(self, name), (0, more), constant_values=np.nan)
                setattr(self, name, grown)
        late = log.outcome == Outcome.LATE
        self.least[late] = np.maximum(self._clock - self._asked_at[late], 0.0)
        self.most[late] = np.maximum(log.clock - self._asked_at[late], 0.0)
        for client in np.flatnonzero(late).tolist():
            if seconds is not None and client in seconds:
                self.least[client] = self.most[client] = seconds[client]
        self._asked_at[log.outcome == Outcome.MISSING] = self._clock
        self._clock = log.clock

    def median(self, clients: list[int]) -> tuple[float, float]:
        """Between which seconds the median of some clients lies; NaN where it is not known."""
        least, most = self.least[clients], self.most[clients]
        known = ~np.isnan(most)
        if not known.any():
            return np.nan, np.nan
        return float(np.median(least[known])), float(np.median(most[known]))


class RefusedUpdates:
    """Rounds in a row in which a client's update was refused and none taken, and the last reason.

    Attributes
    ----------
    rounds : (N,) ints
        Since its update came last.
    reason : dict
        Client → the last one.
    strangers : dict
        Ids that are no client's → how often one was refused, and the last reason.
    """

    def __init__(self) -> None:
        self.rounds = np.zeros(0, dtype=np.int64)
        self.reason: dict[int, str] = {}
        self.strangers: dict[str, tuple[int, str]] = {}

    def add(self, log: RoundLog) -> None:
        """One more round."""
        n = len(log.outcome)
        self.rounds = _padded(self.rounds, n)
        self.rounds[log.outcome == Outcome.CAME] = 0
        refused = set()
        for one in log.refusals:
            words = f"{one.reason.value}: {one.detail}" if one.detail else one.reason.value
            if isinstance(one.id, int) and 0 <= one.id < n:
                if log.outcome[one.id] != Outcome.CAME:
                    refused.add(one.id)
                    self.reason[one.id] = words
            else:
                name = str(one.id)
                if name in self.strangers or len(self.strangers) < MOST_STRANGERS:
                    times = self.strangers.get(name, (0, ""))[0]
                    self.strangers[name] = times + 1, words
        self.rounds[list(refused)] += 1


class OneRow:
    """What a client's row carried for others in the last steps, as a share of all.

    Parameters
    ----------
    steps : int
        How many steps are looked at.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._last: list[tuple[Floats, Floats]] = []  # per step: share by client, others by client

    def add(self, log: RoundLog) -> None:
        """One more round, in which a step was taken."""
        n = len(log.outcome)
        source, coef, others = log.by_source
        own = log.ids == log.source
        of_itself = np.bincount(log.ids[own], weights=log.coef[own], minlength=n)
        client = source >= 0
        carried, counts = np.zeros(n), np.zeros(n)
        carried[source[client]] = np.abs(coef[client] - of_itself[source[client]])
        counts[source[client]] = others[client]
        whole = np.abs(coef).sum()
        share = carried / whole if np.isfinite(whole) and whole > 0 else np.zeros(n)
        self._last = [*self._last, (share, counts)][-self.steps :]

    def largest(self) -> tuple[int, float, float] | None:
        """The client whose row carried most: it, its mean share, for how many others on average."""
        if len(self._last) < self.steps:
            return None
        n = max(len(share) for share, _ in self._last)
        share, counts = (
            np.sum([_padded(step[part], n) for step in self._last], axis=0) / self.steps
            for part in (0, 1)
        )
        client = int(np.argmax(share))
        return client, float(share[client]), float(counts[client])


def _padded(values: Numbers, n: int) -> Numbers:
    """With zeros for clients that joined since; mostly nobody has, and `np.pad` copies anyway."""
    return values if len(values) >= n else np.pad(values, (0, n - len(values)))

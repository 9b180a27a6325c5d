"""Sums over the rounds of a run, one number per client."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Ints, Outcome, RoundLog
from understudy.studies.store.log_codec import ASKED, WANTED


class ClientCounts:
    """Counts while rounds are added; clients may join on the way.

    `wanted`, `asked`, `came`, `late` and `refused` are rounds in which the client was so;
    `stood_in_for_it` rounds in which another's row (or a mixture) spoke for it; `spoke_for_others`
    how often its row spoke for another client, over all rounds. Whoever speaks with a coefficient
    of 0 does not.
    """

    def __init__(self) -> None:
        self._became = np.zeros((0, len(Outcome)), dtype=np.int64)
        self._stood_in = np.zeros(0, dtype=np.int64)
        self._spoke = np.zeros(0, dtype=np.int64)

    def add(self, log: RoundLog) -> None:
        """One more round."""
        n = len(log.outcome)
        missing = n - len(self._became)
        if missing > 0:
            self._became = np.pad(self._became, ((0, missing), (0, 0)))
            self._stood_in = np.pad(self._stood_in, (0, missing))
            self._spoke = np.pad(self._spoke, (0, missing))
        self._became[np.arange(n), log.outcome] += 1
        others = (log.ids != log.source) & (log.coef != 0)
        spoken_for = np.zeros(len(self._stood_in), dtype=np.bool_)
        spoken_for[log.ids[others]] = True  # once a round, by however many
        self._stood_in += spoken_for
        speakers, _, times = log.by_source
        self._spoke[speakers[speakers >= 0]] += times[speakers >= 0]

    def counts(self) -> dict[str, Ints]:
        """(N,) each."""
        return {
            "wanted": self._became[:, WANTED].sum(axis=1),
            "asked": self._became[:, ASKED].sum(axis=1),
            "came": self._became[:, Outcome.CAME],
            "late": self._became[:, Outcome.LATE],
            "refused": self._became[:, Outcome.REFUSED],
            "stood_in_for_it": self._stood_in,
            "spoke_for_others": self._spoke,
        }

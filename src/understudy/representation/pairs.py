"""Who stood in for whom in a run, and how often: pairs of clients, counted as rounds come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.core.types import Ints, Outcome, RoundLog

MERGED_AT = 100_000  # pairs that wait until they are counted, or as many as are known by then


class StoodIn(NamedTuple):
    """How often an absent client was represented by the same client's row."""

    absent: int
    source: int  # the absent itself: its own last update; -1: a mixture, or a model
    rounds: int


class Pairs:
    """Rounds in which a client's row represented one that did not come; one number a pair."""

    def __init__(self) -> None:
        self._waiting: list[Ints] = []
        self._n_waiting = 0
        self._pairs = self._rounds = np.zeros(0, dtype=np.int64)

    def add(self, log: RoundLog) -> None:
        """One more round."""
        heard = (log.coef != 0) & (log.outcome[log.ids] != Outcome.CAME)
        # one number per pair: Python's objects would take a hundred times as long
        pairs = np.unique((log.ids[heard] << 32) + log.source[heard] + 1)
        self._waiting.append(pairs)
        self._n_waiting += len(pairs)
        if self._n_waiting > max(MERGED_AT, len(self._pairs)):
            self._merge()

    def _merge(self) -> None:
        pairs = np.concatenate([self._pairs, *self._waiting])
        rounds = np.concatenate([self._rounds, np.ones(self._n_waiting, dtype=np.int64)])
        self._pairs, place = np.unique(pairs, return_inverse=True)
        self._rounds = np.bincount(place, weights=rounds, minlength=len(self._pairs)).astype(
            np.int64
        )
        self._waiting, self._n_waiting = [], 0

    def most(self, at_most: int | None = None) -> list[StoodIn]:
        """The pairs of most rounds first, then by their numbers."""
        self._merge()
        order = np.argsort(-self._rounds, kind="stable")[:at_most]
        absent, source = self._pairs[order] >> 32, (self._pairs[order] & 0xFFFFFFFF) - 1
        rows = zip(absent.tolist(), source.tolist(), self._rounds[order].tolist(), strict=True)
        return [StoodIn(*row) for row in rows]

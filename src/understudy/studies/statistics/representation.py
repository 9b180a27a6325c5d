"""Which clients were represented in a run, which were left out, and who stood in for whom."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from understudy.core.types import Ints, Outcome, RoundLog
from understudy.studies.store.log_codec import WANTED


class Heard(NamedTuple):
    """How often one client had a say."""

    client: int
    wanted: int  # rounds in which it was wanted
    came: int  # rounds in which its own update came
    spoken_for: int  # rounds in which it did not come, and something stood in for it


class StoodIn(NamedTuple):
    """How often an absent client was spoken for by the same client's update."""

    absent: int
    source: int  # the absent itself: its own last update; -1: a mixture, or a model
    rounds: int


@dataclass(frozen=True, eq=False)
class Representation:
    """Counts over the rounds of a run."""

    n_rounds: int
    there: Ints  # (N,) rounds since it has a number: all, unless it joined a live run later
    wanted: Ints  # (N,)
    came: Ints  # (N,)
    spoken_for: Ints  # (N,)
    stood_in: tuple[StoodIn, ...]  # most rounds first
    n_cut: int = 0  # rounds of which only the largest of each client's stand-ins are kept

    @classmethod
    def of(cls, logs: Iterable[RoundLog]) -> Representation:
        """Count the rounds of `logs`."""
        n_rounds = n_cut = 0
        there = wanted = came = spoken_for = np.zeros(0, dtype=np.int64)
        pairs: dict[tuple[int, int], int] = {}
        for log in logs:
            n_clients = len(log.outcome)
            if n_clients > len(wanted):  # the first round, or clients that joined
                there, wanted, came, spoken_for = (
                    np.pad(counts, (0, n_clients - len(counts)))
                    for counts in (there, wanted, came, spoken_for)
                )
            n_rounds += 1
            n_cut += log.totals is not None
            there[:n_clients] += 1
            here = log.outcome == Outcome.CAME
            wanted[:n_clients] += np.isin(log.outcome, WANTED)
            came[:n_clients] += here
            heard = log.coef != 0
            ids, source = log.ids[heard], log.source[heard]
            represented = np.zeros(n_clients, dtype=bool)
            represented[ids] = True
            spoken_for[:n_clients] += represented & ~here
            away = ~here[ids]
            distinct = set(zip(ids[away].tolist(), source[away].tolist(), strict=True))
            for pair in distinct:
                pairs[pair] = pairs.get(pair, 0) + 1
        ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
        stood_in = tuple(StoodIn(absent, source, n) for (absent, source), n in ranked)
        return cls(n_rounds, there, wanted, came, spoken_for, stood_in, n_cut)

    def left_out(self, at_most: int = 5, gone: Container[int] = ()) -> list[Heard]:
        """Clients with the smallest share of rounds in which they or a stand-in had a say.

        Parameters
        ----------
        at_most : int
            How many; the smallest share first.
        gone : container of int
            Clients that have left: they are not counted.
        """
        n_heard = self.came + self.spoken_for
        order = np.lexsort((self.came, n_heard / np.maximum(self.there, 1)))
        short = [k for k in order.tolist() if n_heard[k] < self.there[k] and k not in gone]
        return [
            Heard(k, int(self.wanted[k]), int(self.came[k]), int(self.spoken_for[k]))
            for k in short[:at_most]
        ]

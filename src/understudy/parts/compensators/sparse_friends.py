"""What `FDMS` remembers of very many clients: of each, its best candidates only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Floats, Ints, Setup
from understudy.memory.rows import RowStore

CHUNK = 512  # clients looked at together
NOBODY = 0  # in `candidates`: an empty place; what rows that are not there hold


@dataclass
class SparseFriends:
    """The k best candidates of each client: who, the mean similarity, of how many rounds.

    A pair that is not among the best of a client is forgotten there, and begins anew when it comes
    together again. The friends that are found differ from those of complete tables only where a
    friend was forgotten, or where none of the k came.
    """

    candidates: RowStore  # (N, k) 1 + client, 0: nobody
    score: RowStore  # (N, k) R
    count: RowStore  # (N, k) rounds behind each mean

    @classmethod
    def empty(cls, setup: Setup, k: int) -> SparseFriends:
        """Nobody was seen yet."""
        return cls(
            candidates=setup.rows(width=k, dtype=torch.int32),
            score=setup.rows(width=k, dtype=torch.float64),
            count=setup.rows(width=k, dtype=torch.int32),
        )

    def friends(self, came: Ints, absent: Ints) -> Ints:
        """For each absent client the position of its friend in `came`, -1 where none came."""
        position = np.full(self.candidates.n_rows + 1, -1, dtype=np.int64)
        position[came + 1] = np.arange(len(came))
        found = [self._friends(position, ids) for ids in _chunks(absent)]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _friends(self, position: Ints, ids: Ints) -> Ints:
        who = position[self.candidates.gather(ids).numpy()]  # (b, k), -1: did not come
        score = np.where(who >= 0, self.score.gather(ids).numpy(), -np.inf)
        best = score.max(axis=1, keepdims=True)
        # of equals the first in the order of clients, as in a complete table
        first = np.where((score == best) & (who >= 0), who, len(position)).min(axis=1)
        return np.where(first < len(position), first, -1)

    def take_in(self, came: Ints, similarity: Floats) -> None:
        """The similarities (k, k) of those who came together: means (eq. 15), and the best kept."""
        position = np.full(self.candidates.n_rows + 1, -1, dtype=np.int64)
        position[came + 1] = np.arange(len(came))
        for rows in _chunks(np.arange(len(came))):
            ids = came[rows]
            now = similarity[rows].copy()
            now[np.arange(len(rows)), rows] = -np.inf  # nobody is its own friend
            who, score, count = (
                store.gather(ids).numpy() for store in (self.candidates, self.score, self.count)
            )
            place = position[who]
            row, column = np.nonzero(place >= 0)
            again = place[row, column]
            count[row, column] += 1
            score[row, column] += (now[row, again] - score[row, column]) / count[row, column]
            now[row, again] = -np.inf  # known already
            self._keep(ids, came, (who, score, count), now)

    def _keep(self, ids: Ints, came: Ints, old: tuple[Ints, Floats, Ints], now: Floats) -> None:
        """The best of what was known and of what is new."""
        who, score, count = old
        k = self.candidates.width
        everybody = np.concatenate([who, np.broadcast_to(came + 1, now.shape)], axis=1)
        scores = np.concatenate([np.where(who == NOBODY, -np.inf, score), now], axis=1)
        counts = np.concatenate([count, np.ones(now.shape, dtype=count.dtype)], axis=1)
        best = np.sort(np.argpartition(-scores, k - 1, axis=1)[:, :k], axis=1)
        kept = np.take_along_axis(scores, best, axis=1)
        there = np.isfinite(kept)
        for store, values in (
            (self.candidates, everybody),
            (self.score, scores),
            (self.count, counts),
        ):
            new = np.where(there, np.take_along_axis(values, best, axis=1), 0)
            store.scatter(ids, torch.from_numpy(new).to(store.dtype))

    def forget(self, client: int) -> None:
        """Erase who left from what others remember."""
        for ids in _chunks(np.flatnonzero(self.candidates.known)):
            who = self.candidates.gather(ids)
            held = who == client + 1
            for row in np.flatnonzero(held.any(dim=1).numpy()).tolist():
                for store in (self.candidates, self.score, self.count):
                    values = store.get(int(ids[row])).clone()
                    values[held[row]] = 0
                    store.put(int(ids[row]), values)


def _chunks(ids: Ints) -> Iterator[Ints]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))

"""The models that late updates may have started from: a few, while somebody may still answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Floats, Ints, RoundEnd, Setup
from understudy.memory.rows import RowStore

AT_MOST = 16  # rounds


@dataclass
class StartModels:
    """The model at the beginning of each of the newest rounds with requests that are still open."""

    rows: RowStore  # the first few rows; which client they are "of" means nothing
    rounds: Ints  # (N,) the round of the model in each row, -1: none

    @classmethod
    def empty(cls, setup: Setup) -> StartModels:
        n = setup.population.n_clients
        return cls(setup.rows(slots=AT_MOST), np.full(n, -1, dtype=np.int64))

    def at(self, t: int) -> torch.Tensor | None:
        """The (d,) model at the beginning of round `t`, if it is kept."""
        found = np.flatnonzero(self.rounds == t)
        return self.rows.get(int(found[0])) if len(found) else None

    def keep(self, end: RoundEnd) -> None:
        """Keep this round's model if somebody asked has not come; drop what nobody waits for."""
        waited_for = np.unique(end.cohort.pending[:, 1])
        for row in np.flatnonzero((self.rounds >= 0) & ~np.isin(self.rounds, waited_for)):
            self._drop(int(row))
        if not len(np.setdiff1d(end.cohort.asked, end.came)):
            return
        place = int(np.argmin(self.rounds[:AT_MOST]))  # a free one has -1: else the oldest
        self.rows.put(place, end.params)
        self.rounds[place] = end.t

    def _drop(self, row: int) -> None:
        self.rows.drop(row)
        self.rounds[row] = -1


def gone_along(rows: torch.Tensor, step: torch.Tensor, n_parameters: int) -> Floats:
    """(k,) scalar product of each row with a change of the model, over the parameters."""
    moved = step[:n_parameters].to("cpu", torch.float64)
    found: Floats = (rows[:, :n_parameters].to("cpu", torch.float64) @ moved).numpy()
    return found

"""Updates on their way: those that missed their round's deadline and arrive in a later one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Arrivals, Bools, Floats, Ints


@dataclass
class InFlight:
    """m updates and when each is due, in seconds of the simulated clock."""

    ids: Ints  # (m,)
    start: Ints  # (m,) the round they were asked in
    due: Floats  # (m,)
    deltas: torch.Tensor  # (m, d) copies: rows of a round are borrowed
    n_examples: Floats  # (m,)
    n_steps: Floats  # (m,)
    losses: Floats  # (m,)

    @classmethod
    def none(cls, params: torch.Tensor) -> InFlight:
        ints, floats = np.zeros(0, dtype=np.int64), np.zeros(0)
        deltas = params.new_zeros((0, len(params)))
        return cls(ints, ints.copy(), floats, deltas, floats.copy(), floats.copy(), floats.copy())

    def busy(self, n_clients: int) -> Bools:
        """(N,) who still works on an earlier request, and cannot be asked."""
        busy = np.zeros(n_clients, dtype=np.bool_)
        busy[self.ids] = True
        return busy

    def add(self, arrivals: Arrivals, chosen: Bools, due: Floats, t: int) -> None:
        """Some of a round's updates are under way; `due` is aligned with `arrivals`."""
        if not chosen.any():
            return

        def joined(old: Floats, new: object) -> Floats:
            return np.concatenate([old, np.asarray(new, dtype=np.float64)[chosen]])

        self.ids = np.concatenate([self.ids, np.asarray(arrivals.ids)[chosen]])
        self.start = np.concatenate([self.start, np.full(int(chosen.sum()), t)])
        rows = [arrivals.deltas[int(i)] for i in np.flatnonzero(chosen)]
        self.deltas = torch.cat([self.deltas, torch.stack(rows)])
        self.due = joined(self.due, due)
        self.n_examples = joined(self.n_examples, arrivals.n_examples)
        self.n_steps = joined(self.n_steps, arrivals.n_steps)
        self.losses = joined(self.losses, arrivals.losses)

    def land(self, clock: float) -> Arrivals:
        """Take out what is due by now."""
        if not len(self.ids):
            return Arrivals.none()
        due = self.due <= clock
        landed = Arrivals(
            ids=self.ids[due],
            deltas=[self.deltas[int(i)] for i in np.flatnonzero(due)],
            n_examples=self.n_examples[due],
            n_steps=self.n_steps[due],
            losses=self.losses[due],
            start_round=self.start[due],
        )
        for name in ("ids", "start", "due", "n_examples", "n_steps", "losses"):
            setattr(self, name, getattr(self, name)[~due])
        self.deltas = self.deltas[torch.from_numpy(~due).to(self.deltas.device)]
        return landed


def without_failed(pending: Ints, failed: Ints, t: int) -> Ints:
    """(p, 2) open requests without those of round `t` whose clients failed: nothing will come."""
    is_open: Bools = (pending[:, 1] != t) | ~np.isin(pending[:, 0], failed)
    return pending[is_open]


def together(fresh: Arrivals, chosen: Bools, late: Arrivals, t: int) -> Arrivals:
    """This round's updates that are in time, and those that landed."""
    if chosen.all() and not len(late):
        return fresh
    keep = np.flatnonzero(chosen)

    def column(name: str) -> Floats:
        columns = [getattr(fresh, name), getattr(late, name)]
        now, then = (np.asarray([] if c is None else c, dtype=np.float64) for c in columns)
        return np.concatenate([now[keep], then])

    start = np.asarray([] if late.start_round is None else late.start_round, dtype=np.int64)
    return Arrivals(
        ids=np.concatenate([np.asarray(fresh.ids)[keep], np.asarray(late.ids)]).astype(np.int64),
        deltas=[fresh.deltas[int(i)] for i in keep] + [late.deltas[i] for i in range(len(late))],
        n_examples=column("n_examples"),
        n_steps=column("n_steps"),
        losses=column("losses"),
        start_round=np.concatenate([np.full(len(keep), t), start]).astype(np.int64),
    )

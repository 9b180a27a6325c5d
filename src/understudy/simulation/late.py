"""Updates on their way: those that missed their round's deadline and arrive in a later one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Arrivals, Bools, Floats, Ints
from understudy.memory.rows import RowStore


@dataclass
class InFlight:
    """m updates and when each is due, in seconds of the simulated clock; one a client at most."""

    ids: Ints  # (m,)
    start: Ints  # (m,) the round they were asked in
    due: Floats  # (m,)
    n_examples: Floats  # (m,)
    n_steps: Floats  # (m,)
    losses: Floats  # (m,)
    rows: RowStore | None  # their updates; None where nobody is ever late
    deltas: torch.Tensor  # (m, d) the updates in checkpoints from before `rows`; now (0, d)
    seconds: Floats  # (m,) that each takes; NaN in checkpoints from before it was kept

    @classmethod
    def none(cls, params: torch.Tensor, rows: RowStore | None) -> InFlight:
        ints, floats = np.zeros(0, dtype=np.int64), np.zeros(0)
        due, sizes, steps, losses, seconds = (floats.copy() for _ in range(5))
        none = params.new_zeros((0, len(params)))
        return cls(ints, ints.copy(), due, sizes, steps, losses, rows, none, seconds)

    def store_rows(self) -> None:
        """Put what an older checkpoint held beside the rows into them, and what it lacked."""
        if len(self.seconds) < len(self.ids):
            self.seconds = np.full(len(self.ids), np.nan)
        if self.rows is not None and len(self.deltas):
            self.rows.scatter(self.ids, self.deltas)
            self.deltas = self.deltas[:0]

    def busy(self, n_clients: int) -> Bools:
        """(N,) who still works on an earlier request, and cannot be asked."""
        busy = np.zeros(n_clients, dtype=np.bool_)
        busy[self.ids] = True
        return busy

    def add(self, arrivals: Arrivals, chosen: Bools, due: Floats, t: int) -> None:
        """Some of a round's updates are under way; `due` is aligned with `arrivals`."""
        if not chosen.any():
            return
        assert self.rows is not None

        def joined(old: Floats, new: object) -> Floats:
            return np.concatenate([old, np.asarray(new, dtype=np.float64)[chosen]])

        self.ids = np.concatenate([self.ids, np.asarray(arrivals.ids)[chosen]])
        self.start = np.concatenate([self.start, np.full(int(chosen.sum()), t)])
        for place in np.flatnonzero(chosen).tolist():
            self.rows.put(int(arrivals.ids[place]), arrivals.deltas[place])
        self.due = joined(self.due, due)
        self.n_examples = joined(self.n_examples, arrivals.n_examples)
        self.n_steps = joined(self.n_steps, arrivals.n_steps)
        self.losses = joined(self.losses, arrivals.losses)
        self.seconds = joined(self.seconds, arrivals.seconds)

    def land(self, clock: float) -> Arrivals:
        """Take out what is due by now."""
        due = self.due <= clock
        if not due.any() or self.rows is None:
            return Arrivals.none()
        here = self.ids[due]
        landed = Arrivals(
            ids=here,
            deltas=list(self.rows.gather(here).to(self.deltas.device)),  # copies
            n_examples=self.n_examples[due],
            n_steps=self.n_steps[due],
            losses=self.losses[due],
            start_round=self.start[due],
            seconds=self.seconds[due],
        )
        for name in ("ids", "start", "due", "n_examples", "n_steps", "losses", "seconds"):
            setattr(self, name, getattr(self, name)[~due])
        for client in here.tolist():
            self.rows.drop(client)
        return landed


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
        seconds=column("seconds"),
        start_round=np.concatenate([np.full(len(keep), t), start]).astype(np.int64),
    )

"""`Memory`, for MIFA, FedAR and others: each client's last update, and the step it was made with.

A remembered update is rescaled to the current local step, by η_t/η_s. MIFA and FedAR sum over
everyone they remember, wanted this round or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from understudy.core.types import Block, Contributions, Floats, Ints, RoundEnd, Setup
from understudy.memory.precision import DecodedRows, RowFormat
from understudy.memory.rows import RowStore


@dataclass
class Memory:
    """The last update of each client seen, the round it started from, and its local step.

    For compensators that remember: made by `init` (as the state, or as a field of it), read by
    `fill`, and given each round by `learn`. It is saved, resumed and grown without a line of
    yours; in a run with a folder its rows are in a file.

    Parameters
    ----------
    rows : RowStore
        The updates: ``rows.known`` (N,) says of whom there is one, and ``block()`` is the block
        whose row ``rows.slot[i]`` is client i's.
    last_seen : (N,) ints
        The round that each client's update started from; -1: never seen.
    made_with : (N,) array
        η_s, the local learning rate of that round.

    Examples
    --------
    The mean of what came and of what is remembered, if it is not older than `patience` rounds:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from understudy import Memory
    >>> from understudy.testing import check_compensator
    >>> @dataclass(frozen=True)
    ... class Recent:
    ...     patience: int = 5
    ...     signed = False  # no coefficient is negative
    ...     normalised = False  # a remembered update is rescaled to the current step
    ...
    ...     def init(self, setup):
    ...         return Memory.empty(setup)
    ...
    ...     def fill(self, memory, end):
    ...         young = end.t - memory.last_seen <= self.patience
    ...         young[end.came] = True
    ...         weight = end.base * (young & memory.seen(end))
    ...         return memory.sum(end, weight / weight.sum())
    ...
    ...     def learn(self, memory, end, step):
    ...         memory.store(end)
    >>> check_compensator(Recent())
    """

    rows: RowStore
    last_seen: Ints  # (N,) start round, -1 never
    made_with: Floats  # (N,) η_s
    _form: RowFormat | None = None  # how rows are kept; None: as they are

    @classmethod
    def empty(cls, setup: Setup, precision: str = "full") -> Memory:
        """Nobody was seen yet.

        Parameters
        ----------
        setup : Setup
            What the part got at `init`.
        precision : {"full", "float16", "bfloat16", "int8"}
            How updates are kept: as the model is, in half of the room, or in a quarter. What a
            method sums is then what was kept, not what came.
        """
        n = setup.population.n_clients
        form = RowFormat(precision, len(setup.params), setup.params.dtype)
        rows = setup.rows(width=form.stored_width, dtype=form.stored_dtype)
        kept = None if form.is_full else form
        return cls(rows, np.full(n, -1, dtype=np.int64), np.ones(n), kept)

    def put(self, client: int, row: torch.Tensor) -> None:
        """Remember a row, in the memory's precision."""
        self.rows.put(client, row if self._form is None else self._form.encoded(row))

    def block(self) -> Block:
        """All rows as one block: the row of client i is number ``rows.slot[i]``."""
        stored = self.rows.block()
        if self._form is None:
            return stored
        return replace(stored, data=DecodedRows(stored.data, self._form))

    def gather(self, clients: Ints) -> torch.Tensor:
        """(len(clients), d): a copy of their rows, zeros where there is none."""
        form = self._form
        if form is None:
            return self.rows.gather(clients)
        return torch.stack([form.decoded(self.rows.get(int(client))) for client in clients])

    def store(self, end: RoundEnd) -> None:
        """Take in the round: a late update where it is newer than what is known, then the fresh."""
        if len(end.late):
            assert end.late.start_round is not None
            for (client, delta), start in zip(end.late, end.late.start_round, strict=True):
                if start > self.last_seen[client]:
                    self._keep(client, delta, int(start), end)
        for client, delta in end.arrivals:
            self._keep(client, delta, end.t, end)

    def _keep(self, client: int, delta: torch.Tensor, start: int, end: RoundEnd) -> None:
        self.put(client, delta)
        self.last_seen[client] = start
        self.made_with[client] = end.lr(start)

    def sum(self, end: RoundEnd, coef: Floats) -> Contributions:
        """Σ coef_i × (this round's update of i if it came, else the remembered one).

        coef (N,) is per unit of the update at the current step; clients with 0 are left out.
        """
        came = end.came
        others = np.setdiff1d(np.flatnonzero(self.rows.known & (coef != 0)), came)
        rescaled = coef[others] * end.lr(end.t) / self.made_with[others]
        remembered = (others, self.block(), self.rows.slot[others], rescaled)
        if not len(came):  # a block of no rows is none
            return Contributions.of(remembered) if len(others) else Contributions.none()
        return Contributions.of((came, end.fresh(), np.arange(len(came)), coef[came]), remembered)

    def rescaled(self, end: RoundEnd, ids: Ints) -> Floats:
        """(len(ids),) η_t/η_s: what makes old updates of the current step's size."""
        return np.asarray(end.lr(end.t) / self.made_with[ids])

    def seen(self, end: RoundEnd) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(N,) active clients seen at least once, counting this round."""
        seen = self.rows.known.copy()
        seen[end.came] = True
        return seen & end.active

"""A map of rounds × clients, reduced to what a screen can show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.core.types import Ints
from understudy.views.columns import CAME, Bytes, Columns

SAMPLED = 4  # rounds and clients of a pixel that are looked at, each
ORDERS = ("number", "cluster", "attendance", "left out")


def ordered(columns: Columns, order: str, groups: Sequence[int] | None) -> Ints:
    """(N,) clients from the top of the map to its bottom."""
    n_clients = columns.n_clients
    if order == "cluster" and _are_numbers(groups, n_clients):
        return np.argsort(np.asarray(groups)[:n_clients], kind="stable")
    cells = columns.cells()
    if order == "attendance":
        return np.argsort(-(cells & 15 == CAME).sum(axis=0), kind="stable")
    if order == "left out":
        return np.argsort(-((cells != 0) & (cells >> 4 == 0)).sum(axis=0), kind="stable")
    return np.arange(n_clients)


def _are_numbers(groups: object, n_clients: int) -> bool:
    """Whether there is one for each client: what a journal keeps of a run may be anything."""
    if not isinstance(groups, list | np.ndarray) or len(groups) < n_clients:
        return False
    return all(isinstance(one, int | np.integer) for one in groups)


def reduced(cells: Bytes, rows: int, columns: int) -> tuple[Bytes, int, int]:
    """At most (rows, columns) of `cells`; and how many a cell of it stands for, in each direction.

    A pixel shows the commonest of the cells below it; of very many, up to 4 × 4 at even distances
    are looked at. Ties go to the smaller code.
    """
    down = max(1, -(-cells.shape[0] // rows))
    right = max(1, -(-cells.shape[1] // columns))
    if down == right == 1:
        return cells, 1, 1
    sampled = cells[:: max(1, down // SAMPLED), :: max(1, right // SAMPLED)]
    high, wide = min(down, SAMPLED), min(right, SAMPLED)
    # strides that are no divisors shift a pixel by less than its own width
    tall, broad = -(-cells.shape[0] // down), -(-cells.shape[1] // right)
    at_rows = (np.arange(tall)[:, None] * down + np.arange(high) * max(1, down // SAMPLED)).clip(
        max=cells.shape[0] - 1
    ) // max(1, down // SAMPLED)
    at_columns = (
        np.arange(broad)[:, None] * right + np.arange(wide) * max(1, right // SAMPLED)
    ).clip(max=cells.shape[1] - 1) // max(1, right // SAMPLED)
    best = np.zeros((tall, broad), dtype=np.uint8)
    most = np.zeros((tall, broad), dtype=np.uint8)
    stacked = [
        sampled[at_rows[:, i]][:, at_columns[:, j]] for i in range(high) for j in range(wide)
    ]
    for code in np.unique(sampled):
        n = np.zeros((tall, broad), dtype=np.uint8)
        for one in stacked:
            n += one == code
        best[n > most] = code
        most = np.maximum(most, n)
    return best, down, right

"""What a partition returned, checked: somebody's own may return anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.core.shown import shown
from understudy.core.types import Ints
from understudy.simulation.data.partitions import Partition


class BadPartition(ValueError):
    """A partition returned something else than who holds what; says which partition, and what."""


def checked_partition(name: str, returned: Any, n_examples: int) -> Partition:
    """A `Partition` of index arrays, or an error that names the partition.

    Parameters
    ----------
    name : str
        What the partition is called.
    returned : object
        What it returned; a plain pair will do.
    n_examples : int
        How many labels it was given.
    """

    def bad(place: str, expected: str, got: str) -> BadPartition:
        return BadPartition(f"partition {name}: {place}: expected {expected}, got {got}")

    if not isinstance(returned, tuple) or len(returned) != 2:
        raise bad("what it returned", "Partition(clients, groups)", shown(returned))
    clients, groups = returned
    if (
        not isinstance(clients, Sequence | np.ndarray)
        or isinstance(clients, str)
        or not len(clients)
    ):
        raise bad("clients", "a list of index arrays", shown(clients))
    arrays: list[Ints] = []
    for place, held in enumerate(clients):
        indices = np.asarray(held)
        if indices.ndim != 1 or (len(indices) and indices.dtype.kind not in "iu"):
            raise bad(f"clients[{place}]", "an array of whole numbers", shown(held))
        if not len(indices):
            raise bad(f"clients[{place}]", "at least one example", "none")
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= n_examples:
            raise bad(f"clients[{place}]", f"indices in 0 .. {n_examples - 1}", f"{low} .. {high}")
        arrays.append(indices.astype(np.int64))
    if groups is not None and np.shape(groups) != (len(arrays),):
        raise bad("groups", f"{len(arrays)} whole numbers, or None", shown(groups))
    return Partition(tuple(arrays), groups)

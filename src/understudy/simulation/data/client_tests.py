"""A test set for each client: its own held-out examples, or a draw that matches its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.core.rng import generator
from understudy.core.types import Ints
from understudy.simulation.data.partitions import apportion

if TYPE_CHECKING:
    from understudy.simulation.data.federation import Federation


def own_tests(test: Ints, owners: Ints, n_clients: int) -> tuple[Ints, ...]:
    """The test examples of each client, ascending; empty for whoever has none."""
    return tuple(np.sort(test[owners == client]) for client in range(n_clients))


def matched_tests(federation: Federation, seed: int) -> tuple[Ints, ...]:
    """Examples of the common test set in the proportions of each client's labels, ascending."""
    label_counts = federation.label_counts
    if label_counts is None:
        raise ValueError("client_tests: a client's own test set needs classes; y has none")
    labels = federation.y.cpu().numpy()[federation.test]
    by_class = [federation.test[labels == label] for label in range(federation.n_classes)]
    supply = np.array([len(examples) for examples in by_class])
    drawn = []
    for client, held in enumerate(label_counts):
        mine = np.where(supply > 0, held, 0).astype(np.int64)
        if not mine.any():
            raise ValueError(f"test: it has no example of the classes of client {client}")
        drawn.append(_matched(mine, by_class, supply, generator(seed, "client test", 0, client)))
    return tuple(drawn)


def _matched(mine: Ints, by_class: list[Ints], supply: Ints, rng: np.random.Generator) -> Ints:
    total = int(mine.sum())
    n_drawn = min(int(supply[c]) * total // int(mine[c]) for c in np.flatnonzero(mine))
    counts = apportion(n_drawn, mine)
    drawn = [
        rng.permutation(examples)[:count]
        for examples, count in zip(by_class, counts, strict=True)
        if count
    ]
    return np.sort(np.concatenate(drawn))

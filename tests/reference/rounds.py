"""Random rounds: attendance, empty rounds, late arrivals, example counts, updates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass
class Round:
    """What would happen in a round; a client that was not asked stays silent."""

    t: int
    available: np.ndarray  # (N,) bool
    shows_up: np.ndarray  # (N,) bool: its update, if asked, arrives in time
    delivers_late: np.ndarray  # (N,) bool: an older update it still owes arrives now
    deltas: np.ndarray  # (N, d) what it would send if it started in this round
    n_examples: np.ndarray  # (N,)
    n_steps: np.ndarray  # (N,)
    losses: np.ndarray  # (N,) distinct
    p: np.ndarray  # (N,) in [0.2, 1]


def random_rounds(
    rng: np.random.Generator,
    n_clients: int,
    d: int,
    n_rounds: int = 36,
    *,
    reach: float = 0.75,
    show: float = 0.75,
    late: float = 0.3,
) -> Iterator[Round]:
    """Clients in groups of three point the same way, so that friendships can be told apart."""
    centres = rng.normal(size=(n_clients // 3 + 1, d))
    p = rng.uniform(0.2, 1.0, size=n_clients)
    examples = rng.integers(1, 60, size=n_clients).astype(float)
    for t in range(n_rounds):
        available = rng.random(n_clients) < reach
        shows_up = rng.random(n_clients) < show
        if t in (5, 17):
            shows_up[:] = False  # reachable, but nobody comes
        if t in (11, 23):
            available[:] = False  # nobody can be reached
        if t == 14:
            shows_up[1:] = False  # at most one comes
        if t == 20:
            available[:] = True
            shows_up[:] = True  # full
        noise = rng.normal(size=(n_clients, d))
        deltas = centres[np.arange(n_clients) // 3] + 0.7 * noise
        deltas *= rng.uniform(0.5, 2.0, size=(n_clients, 1))
        deltas[rng.random(n_clients) < 0.05] *= 30.0  # a few explode
        if t == 24:  # data is collected on the way, to at most the tenfold, which is believed
            examples = np.minimum(examples + rng.integers(0, 20, size=n_clients), 10 * examples)
        yield Round(
            t=t,
            available=available,
            shows_up=shows_up,
            delivers_late=rng.random(n_clients) < late,
            deltas=deltas,
            n_examples=examples.copy(),
            n_steps=rng.integers(1, 9, size=n_clients),
            losses=rng.permutation(n_clients) + rng.random(n_clients) * 0.5,
            p=np.clip(p * rng.uniform(0.8, 1.2, size=n_clients), 0.2, 1.0),
        )

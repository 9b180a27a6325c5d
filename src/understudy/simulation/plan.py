"""Which examples form each local step: decided by address, before anything is trained."""

from __future__ import annotations

import numpy as np

from understudy.local import Local
from understudy.types import Ints


def n_steps_of(n_examples: int, local: Local, t: int) -> int:
    """How many local steps a client with so many examples makes in round `t`."""
    if local.steps is not None:
        return local.steps
    return local.epochs * -(-n_examples // local.batch_size_at(t))


def batch_plan(n_examples: int, local: Local, t: int, rng: np.random.Generator) -> list[Ints]:
    """Which of a client's examples (0 .. n-1) form each step of its round.

    Each pass over the data is a new shuffle; its last batch is as short as it comes out. With
    `local.steps`, passes follow each other until there are enough batches.
    """
    size = local.batch_size_at(t)
    per_pass = -(-n_examples // size)
    n_steps = n_steps_of(n_examples, local, t)
    batches: list[Ints] = []
    while len(batches) < n_steps:
        order = rng.permutation(n_examples)
        n_more = min(per_pass, n_steps - len(batches))
        batches += [order[first * size : (first + 1) * size] for first in range(n_more)]
    return batches

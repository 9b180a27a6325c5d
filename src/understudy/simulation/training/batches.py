"""Which examples form each local step: decided by address, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import overload

import numpy as np

from understudy.core.types import Ints
from understudy.parts.local import Local


@dataclass(frozen=True, eq=False)
class Drawn:
    """The examples of all steps of a client's round, one after the other."""

    examples: Ints  # (Σ lengths,)
    lengths: Ints  # (steps,) how many of them form each step

    def __len__(self) -> int:
        return len(self.lengths)


@overload
def n_steps_of(n_examples: int, local: Local, t: int) -> int: ...
@overload
def n_steps_of(n_examples: Ints, local: Local, t: int) -> Ints: ...
def n_steps_of(n_examples: int | Ints, local: Local, t: int) -> int | Ints:
    """How many local steps a client with so many examples makes in round `t`; or of several."""
    if local.steps is not None:
        return local.steps if isinstance(n_examples, int) else np.full_like(n_examples, local.steps)
    return local.epochs * -(-n_examples // local.batch_size_at(t))


def drawn(n_examples: int, local: Local, t: int, rng: np.random.Generator) -> Drawn:
    """Which of a client's examples (0 .. n-1) it steps through in its round.

    Each pass over the data is a new shuffle; its last batch is as short as it comes out. With
    `local.steps`, passes follow each other until there are enough batches.
    """
    size, n_steps = local.batch_size_at(t), n_steps_of(n_examples, local, t)
    lengths, n_drawn = _lengths(n_examples, size, n_steps)
    n_passes = -(-n_drawn // n_examples)
    if n_passes == 1:
        return Drawn(rng.permutation(n_examples)[:n_drawn], lengths)
    # the same as that many permutations one after the other, and quicker
    each = np.broadcast_to(np.arange(n_examples), (n_passes, n_examples))
    return Drawn(rng.permuted(each, axis=1).reshape(-1)[:n_drawn], lengths)


def n_drawn_of(n_examples: int, local: Local, t: int) -> int:
    """How many examples a client with so many steps through in round `t`, each pass counted."""
    n_steps = n_steps_of(n_examples, local, t)
    return _lengths(n_examples, local.batch_size_at(t), n_steps)[1]


def batch_plan(n_examples: int, local: Local, t: int, rng: np.random.Generator) -> list[Ints]:
    """Which of a client's examples (0 .. n-1) form each step of its round: see `drawn`."""
    plan = drawn(n_examples, local, t, rng)
    ends = np.cumsum(plan.lengths).tolist()
    return [plan.examples[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


@lru_cache(maxsize=1024)
def _lengths(n_examples: int, batch_size: int, n_steps: int) -> tuple[Ints, int]:
    """How many examples each step has, and all together."""
    per_pass = -(-n_examples // batch_size)
    lengths = np.full(n_steps, batch_size)
    lengths[per_pass - 1 :: per_pass] = n_examples - (per_pass - 1) * batch_size
    lengths.flags.writeable = False  # it is everybody's
    return lengths, int(lengths.sum())

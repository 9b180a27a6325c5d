"""Randomness with an address.

No generator is stored anywhere: whoever draws names the run's seed, its own role, the round and
the client, and gets the same numbers whatever else was drawn before. Two strategies with the same
seed therefore face the same attendance and the same batches, and a resumed run needs no saved
generator.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

from understudy.core import checks


def _sequence(seed: int, role: str, t: int, client: int) -> np.random.SeedSequence:
    if not (type(seed) is type(t) is type(client) is int and seed >= 0 <= t and client >= -1):
        checks.integer("seed", seed, low=0)
        checks.integer("t", t, low=0)
        checks.integer("client", client, low=-1)
    # entropy words must not be negative: "no client" (-1) becomes 0
    words = [int(seed), crc32(role.encode()), int(t), int(client) + 1]
    if max(words) >= 2**32:
        return np.random.SeedSequence(words)  # it cuts a long one into several of 32 bits
    return np.random.SeedSequence(np.array(words, dtype=np.uint32))  # the same, and quicker


def generator(seed: int, role: str, t: int = 0, client: int = -1) -> np.random.Generator:
    """The generator that lives at an address.

    `role` says who draws, such as ``"sampler"`` or ``"batches"``; what `init` draws has a role of
    its own. `client` is -1 where the draw belongs to none.
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, role, t, client)))


def torch_seed(seed: int, role: str, t: int = 0, client: int = -1) -> int:
    """A seed for torch at the same kind of address (dropout layers, initial weights)."""
    return int(_sequence(seed, role, t, client).generate_state(1, np.uint64)[0] >> np.uint64(1))

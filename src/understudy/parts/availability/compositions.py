"""`Compositions`: how many of each group are present, all ways to fill places equally likely.

A composition is a vector n with 1 <= n_c <= s_c and Σ n_c = P, for groups of sizes s_c and P
clients present. Compositions are counted group by group, as logarithms: there are soon too many of
them for a float.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.core.types import Floats, Ints


@dataclass(frozen=True)
class Compositions:
    """The uniform law over the compositions of `total` into groups of the given sizes."""

    sizes: Ints  # (G,)
    total: int
    before: Floats  # (G+1, P+1) log of the ways in which groups 0 .. c-1 hold r clients
    after: Floats  # (G+1, P+1) the same for groups c .. G-1

    @classmethod
    def count(cls, sizes: Ints, total: int) -> Compositions:
        """Count them; there must be at least one, G <= total <= Σ sizes."""
        after = _ways(sizes[::-1], total)[::-1]
        return cls(sizes, total, _ways(sizes, total), after)

    def draw(self, rng: np.random.Generator) -> Ints:
        """(G,) one composition."""
        chosen = np.zeros(len(self.sizes), dtype=np.int64)
        left = self.total
        for c, uniform in enumerate(rng.random(len(self.sizes))):
            most = min(int(self.sizes[c]), left)
            chances = _normalised(self.after[c + 1, left - np.arange(1, most + 1)])
            cumulated = chances.cumsum()
            at = np.searchsorted(cumulated, uniform * cumulated[-1], side="right")
            chosen[c] = 1 + min(int(at), most - 1)
            left -= int(chosen[c])
        return chosen

    @cached_property
    def means(self) -> Floats:
        """(G,) the expected number of clients of each group; groups of one size have the same."""
        means = np.zeros(len(self.sizes))
        for size in np.unique(self.sizes):
            same = self.sizes == size
            means[same] = self._mean(int(np.flatnonzero(same)[0]))
        return means

    def _mean(self, c: int) -> float:
        counts = np.arange(1, min(int(self.sizes[c]), self.total) + 1)
        ways = np.array(
            [
                _log_sum(self.before[c, : left + 1] + self.after[c + 1, left::-1])
                for left in (self.total - counts).tolist()
            ]
        )
        return float(counts @ _normalised(ways))


def _ways(sizes: Ints, total: int) -> Floats:
    """(G+1, P+1) log of the ways in which the first c groups hold r clients."""
    ways = np.full((len(sizes) + 1, total + 1), -np.inf)
    ways[0, 0] = 0.0
    for c, size in enumerate(sizes.tolist()):
        for count in range(1, min(size, total) + 1):
            reached = ways[c, : total + 1 - count]
            ways[c + 1, count:] = np.logaddexp(ways[c + 1, count:], reached)
    return ways


def _log_sum(logarithms: Floats) -> float:
    largest = logarithms.max()
    return (
        float(largest + np.log(np.exp(logarithms - largest).sum()))
        if largest > -np.inf
        else -np.inf
    )


def _normalised(logarithms: Floats) -> Floats:
    chances = np.exp(logarithms - logarithms.max())
    return np.asarray(chances / chances.sum())

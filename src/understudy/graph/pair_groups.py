"""Which rows to multiply together when only some pairs' scalar products are needed.

One product of m rows gives all m(m − 1)/2 pairs of them. Where few pairs are needed, products of
small groups, each of rows that all need each other, compute no pair in vain. A row in several
groups is read several times; so the choice is made by counted work, and never by the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.core.types import Bools, Ints

__all__ = ["n_pairs", "pair_groups"]

# What reading one row for a product counts, in pairs. With ten clients a whole product is a
# millisecond whatever is chosen; with hundreds, reading rows again is what costs.
READING = 3


def pair_groups(needed: Bools) -> list[Ints]:
    """Groups of rows such that every needed pair lies within one of them.

    Parameters
    ----------
    needed : (k, k) bools
        Symmetric, False on the diagonal: the pairs whose scalar product someone needs.

    Returns
    -------
    list of (m,) ints
        Ascending positions, m >= 2. Rows that are linked by needed pairs, directly or through
        others, form a component; each is covered by groups in which all pairs are needed, or is
        one group where that is less work. Work is the number of pairs computed, and `READING` for
        each row of each group.

    Notes
    -----
    The cover is greedy: the first pair not yet covered is joined, in ascending order, by every row
    that needs all of the group. A pair may be computed in two groups, if rarely.

    Examples
    --------
    >>> needed = np.zeros((5, 5), dtype=bool)
    >>> for i, j in [(0, 2), (0, 4), (2, 4), (1, 3)]:
    ...     needed[i, j] = needed[j, i] = True
    >>> [group.tolist() for group in pair_groups(needed)]
    [[0, 2, 4], [1, 3]]
    """
    found: list[Ints] = []
    for component in _components(needed):
        among = needed[np.ix_(component, component)]
        cover = _cover(among, budget=_work(len(component)))
        found += [component] if cover is None else [component[group] for group in cover]
    return found


def n_pairs(groups: Sequence[Ints]) -> int:
    """Pairs that the products of these groups compute."""
    return sum(len(group) * (len(group) - 1) // 2 for group in groups)


def _work(m: int) -> int:
    """Of one product of m rows."""
    return m * (m - 1) // 2 + READING * m


def _components(needed: Bools) -> list[Ints]:
    """Rows that are linked, each component ascending; rows that need nobody are in none."""
    left = needed.any(axis=1)
    found = []
    while left.any():
        inside = np.zeros(len(needed), dtype=np.bool_)
        edge = np.array([left.argmax()])
        while len(edge):
            inside[edge] = True
            edge = np.flatnonzero(needed[edge].any(axis=0) & ~inside)
        left &= ~inside
        found.append(np.flatnonzero(inside))
    return found


def _cover(needed: Bools, budget: int) -> list[Ints] | None:
    """Groups that cover all needed pairs and compute no other; None where the work is not below
    the budget."""
    missing = np.triu(needed)
    groups: list[Ints] = []
    work = 0
    while missing.any():
        first = int(missing.any(axis=1).argmax())
        group = [first, int(missing[first].argmax())]
        fits = needed[group[0]] & needed[group[1]]
        while fits.any():
            group.append(int(fits.argmax()))
            fits &= needed[group[-1]]
        members = np.sort(np.array(group, dtype=np.int64))
        work += _work(len(members))
        if work >= budget:
            return None
        missing[np.ix_(members, members)] = False
        groups.append(members)
    return groups

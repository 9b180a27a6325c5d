"""Which contributions of a round its log keeps: all up to a bound, above it each client's largest.

A stand-in that spreads over all who came (`Capped`) makes |absent| × |came| contributions: 0.5 GB
in a round of 10,000 clients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.types import Bools, Contributions, Floats, Ints, SourceTotals

WHOLE = 100_000  # contributions that are kept whole: ten for each of 10,000 clients, 2.4 MB
LARGEST = 16  # of each client above that: more than a table or a picture of pairs shows
LEFT_OUT = "coef_left_out"  # note: sum of the absolute coefficients that are not kept


def bounded(
    contributions: Contributions, errors: Floats | None = None
) -> tuple[dict[str, Any], dict[str, float]]:
    """Fields of a `RoundLog` by their names, and the note on what they leave out, if anything."""
    ids, source, coef = contributions.ids, contributions.source, contributions.coef
    fields: dict[str, Any] = {"ids": ids, "source": source, "coef": coef, "errors": errors}
    if len(ids) <= WHOLE:
        return fields, {}
    kept = largest(ids, source, coef, LARGEST)
    if kept.all():
        return fields, {}
    fields = {name: None if array is None else array[kept] for name, array in fields.items()}
    fields["totals"] = SourceTotals.of(ids, source, coef)
    return fields, {LEFT_OUT: float(np.abs(coef[~kept]).sum())}


def largest(ids: Ints, source: Ints, coef: Floats, k: int) -> Bools:
    """(c,) the k contributions of each client that have the largest absolute coefficients.

    The largest of each kind (the client's own row, a mixture, another client's row) comes first, so
    that by what a client is represented is known for certain; ties go by the order of mention.
    """
    kept = np.ones(len(ids), dtype=np.bool_)
    kind = np.where(source == ids, 0, np.where(source < 0, 1, 2)).astype(np.int8)
    order = np.argsort(ids, kind="stable")
    begins = np.flatnonzero(np.diff(ids[order])) + 1
    for mine in np.split(order, begins):
        if len(mine) > k:
            mine = mine[np.argsort(-np.abs(coef[mine]), kind="stable")]
            _, firsts = np.unique(kind[mine], return_index=True)
            rest = np.delete(mine, firsts)
            kept[rest[k - len(firsts) :]] = False
    return kept

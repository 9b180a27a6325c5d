"""Capped: what one row carries for others is limited, its own weight never cut."""

from __future__ import annotations

import numpy as np

from tests.reference.twin import Facts, Part, Twin


def capped_totals(
    parts: list[Part], came: list[int], q: np.ndarray, share: float
) -> tuple[dict[int, float], float]:
    """What each of those who came carries in all, and what other rows carry."""
    own = dict.fromkeys(came, 0.0)
    for_others = dict.fromkeys(came, 0.0)
    elsewhere = 0.0  # mixtures and memories: exempt
    total = 0.0
    for k, (kind, source), coef, _ in parts:
        total += coef
        if kind != "came":
            elsewhere += coef
        elif k == source:
            own[source] += coef
        else:
            for_others[source] += coef
    limit = max(share, 1.0 / len(came)) * total
    for _ in range(10_000):
        over = [i for i in came if for_others[i] > limit + 1e-13]
        if not over:
            break
        rest = 0.0
        for i in over:
            rest += for_others[i] - limit
            for_others[i] = limit
        # to the others who came, in proportion to q; one who is full would only pass it on
        room = [i for i in came if for_others[i] < limit - 1e-13]
        weight = sum(q[i] for i in room)
        for i in room:
            for_others[i] += rest * q[i] / weight
    return {i: own[i] + for_others[i] for i in came}, elsewhere


class CappedTwin(Twin):
    def __init__(self, inner: Twin, share: float) -> None:
        super().__init__(inner.n_clients, inner.d)
        self.inner = inner
        self.share = share
        self.n_cut = 0  # rounds in which a row carried too much

    def fill(self, facts: Facts) -> list[Part]:
        parts = self.inner.fill(facts)
        totals, _ = capped_totals(parts, list(facts.came), facts.q, self.share)
        uncut, _ = capped_totals(parts, list(facts.came), facts.q, 1.0)
        self.n_cut += any(totals[i] < uncut[i] - 1e-9 for i in totals)
        kept = [part for part in parts if part[1][0] != "came"]
        return kept + [(i, ("came", i), totals[i], facts.came[i]) for i in facts.came]

    def learn(self, facts: Facts) -> None:
        self.inner.learn(facts)

"""Stale: an absent client is replaced by the last thing it sent."""

from __future__ import annotations

import numpy as np

from tests.reference.twin import Facts, LastUpdates, Part, Twin


class StaleTwin(Twin):
    """kind="update": the last update. kind="model": the last local model."""

    def __init__(self, n_clients: int, d: int, kind: str = "update") -> None:
        super().__init__(n_clients, d)
        self.kind = kind
        self.last = LastUpdates()
        self.model: dict[int, np.ndarray] = {}

    def fill(self, facts: Facts) -> list[Part]:
        total = 0.0
        for k in facts.wanted:
            total += facts.q[k]
        parts: list[Part] = []
        for k in facts.wanted:
            share = facts.q[k] / total
            if k in facts.came:
                parts.append((k, ("came", k), share, facts.came[k]))
            elif self.kind == "update" and k in self.last.update:
                rescale = facts.lr(facts.t) / facts.lr(self.last.last_seen[k])
                parts.append((k, ("memory", k), share * rescale, self.last.update[k]))
            elif self.kind == "model" and k in self.model:
                # the average of models is params + the average of (model - params)
                parts.append((k, ("model", k), share, self.model[k] - facts.params))
            # never seen: contributes zero, and its weight stays in the total
        return parts

    def learn(self, facts: Facts) -> None:
        if self.kind == "update":
            self.last.learn(facts)
            return
        for k, delta in facts.came.items():
            self.model[k] = facts.params + delta
        # a late model belongs to a global model that is gone: dropped

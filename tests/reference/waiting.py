"""FedAvg with S devices that waits: S of all, no step until each has come, one mean, S anew."""

from __future__ import annotations

import numpy as np


class WaitingTwin:
    """Keeps its own list of who was drawn, and what those who came have sent."""

    def __init__(self, d: int) -> None:
        self.d = d
        self.drawn: list[int] = []  # empty: nobody is waited for
        self.sent: dict[int, tuple[float, np.ndarray]] = {}

    def wanted(self) -> list[int]:
        return [i for i in self.drawn if i not in self.sent]

    def round(self, came: dict[int, np.ndarray], q: np.ndarray) -> np.ndarray | None:
        for i, delta in came.items():
            self.sent[i] = (float(q[i]), delta.copy())
        if self.wanted() or not came:
            return None
        update, total = np.zeros(self.d), 0.0
        for weight, delta in self.sent.values():
            update += weight * delta
            total += weight
        self.drawn, self.sent = [], {}
        return update / total

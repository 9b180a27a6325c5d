"""Ignore: the mean of those who came (the benchmark "Dropout" of FL-FDMS)."""

from __future__ import annotations

from tests.reference.twin import Facts, Part, Twin


class IgnoreTwin(Twin):
    def fill(self, facts: Facts) -> list[Part]:
        # sum_{i in A_t} q_i Delta_i / sum_{i in A_t} q_i
        total = 0.0
        for i in facts.came:
            total += facts.q[i]
        parts: list[Part] = []
        for i, delta in facts.came.items():
            parts.append((i, ("came", i), facts.q[i] / total, delta))
        return parts

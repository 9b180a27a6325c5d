"""Oort's utilities, clients to choose from and pacer, by loops over clients."""

from __future__ import annotations

import math


class OortTwin:
    def __init__(self, n_clients, epsilon, decay, least, alpha, percentile, window, pace, clip):
        self.epsilon, self.decay, self.least, self.alpha = epsilon, decay, least, alpha
        self.percentile, self.window, self.pace, self.clip = percentile, window, pace, clip
        self.loss: dict[int, float] = {}
        self.last: dict[int, int] = {}  # rounds counted from 1
        self.seconds: dict[int, float] = {}
        self.utilities: list[float] = []  # mean utility of the exploited, one each round
        self.moves: list[float] = []

    def preferred(self) -> float:
        if self.percentile >= 100 or not self.seconds:
            return math.inf
        known = sorted(self.seconds.values())
        return known[min(int(len(known) * self.percentile / 100), len(known) - 1)]

    def scores(self, reachable: list[int], sizes, t: int) -> dict[int, float]:
        """Of those whose loss is known."""
        utility = {i: sizes[i] * self.loss[i] for i in reachable if i in self.loss}
        if not utility:
            return {}
        ordered = sorted(utility.values())
        most = ordered[min(int(len(ordered) * self.clip), len(ordered) - 1)]
        least = 0.999 * ordered[0]
        score = {}
        for i, value in utility.items():
            score[i] = (min(value, most) - least) / max(ordered[-1] - least, 1e-4)
            score[i] += math.sqrt(0.1 * math.log(t + 1) / self.last[i])
            if i in self.seconds and self.seconds[i] > self.preferred():
                score[i] *= (self.preferred() / self.seconds[i]) ** self.alpha
        return score

    def split(self, m: int, seen: int, unseen: int, t: int) -> tuple[int, int]:
        """How many are exploited, how many explored."""
        epsilon = max(self.epsilon * self.decay**t, min(self.least, self.epsilon))
        exploit = min(int(m * (1 - epsilon) + 1e-9), seen)
        explore = min(m - exploit, unseen)
        return m - explore, explore

    def learn(self, t: int, came: list[int], told, sizes) -> None:
        """`told`: (client, loss, seconds), the late ones first."""
        exploited = [i for i in came if i in self.loss]
        for i, loss, seconds in told:
            self.loss[i], self.last[i] = loss, t + 1
            if not math.isnan(seconds):
                self.seconds[i] = seconds
        mean = sum(sizes[i] * self.loss[i] for i in exploited) / max(len(exploited), 1)
        self.utilities.append(mean)
        w = self.window
        if (t + 1) % w == 0 and t + 1 >= 2 * w:
            before, now = sum(self.utilities[-2 * w : -w]), sum(self.utilities[-w:])
            if abs(now - before) <= 0.1 * before:
                self.percentile = min(100.0, self.percentile + self.pace)
            elif abs(now - before) >= 5 * before:
                self.percentile = max(self.pace, self.percentile - self.pace)
            self.moves.append(self.percentile)

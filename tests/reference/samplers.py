"""Oldest first (FedLaAvg), power of choice and F3AST, by sorting."""

from __future__ import annotations


def oldest_first(reachable: list[int], last_pick: dict[int, int], m: int) -> list[int]:
    """The rounds of last pick that the m oldest have (never = -1), ascending.

    Who is taken among equally old ones is free, so the ages are what is compared.
    """
    ages = sorted(last_pick.get(k, -1) for k in reachable)
    return ages[:m]


def power_of_choice(reachable: list[int], losses, m: int) -> set[int]:
    """The m reachable clients with the largest loss; losses must differ."""
    ordered = sorted(reachable, key=lambda k: -losses[k])
    return set(ordered[:m])


def least_available(
    reachable: list[int], chances, last_pick, t: int, rest: int
) -> dict[int, tuple]:
    """What each is sorted by, the smallest first: whether it rests, and how likely it is there."""
    order = {}
    for k in reachable:
        rests = k in last_pick and t - last_pick[k] <= rest
        order[k] = (rests, float(chances[k]))
    return order


class F3ASTTwin:
    """The m largest p_i^2/r_i^2, where r_i <- (1 - b) r_i + b [picked] is the rate of picks."""

    def __init__(self, sizes: list[float], m: int, b: float) -> None:
        self.m = m
        self.b = b
        self.rate = [m * size / sum(sizes) for size in sizes]

    def gains(self, reachable: list[int], sizes: list[float]) -> list[float]:
        """Those of the m best, descending: who is taken among equals is free."""
        gain = {i: (sizes[i] / sum(sizes)) ** 2 / self.rate[i] ** 2 for i in reachable}
        return sorted(gain.values(), reverse=True)[: self.m]

    def gain(self, i: int, sizes: list[float]) -> float:
        return (sizes[i] / sum(sizes)) ** 2 / self.rate[i] ** 2

    def weights(self, picked: list[int]) -> list[float]:
        """The rates take in the pick, then weigh."""
        for i in range(len(self.rate)):
            self.rate[i] = (1 - self.b) * self.rate[i] + self.b * (i in picked)
        return [1 / self.rate[i] for i in picked]

"""Oldest first (FedLaAvg) and power of choice, by sorting."""

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

"""Learning-rate schedules: ``schedule(t)`` is the factor on `lr` after t = 0, 1, … updates."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core import checks


def constant(t: int) -> float:
    """The same step in every round."""
    return 1.0


def inverse_time(t: int) -> float:
    """1 / (t + 1), as in MIFA's experiments."""
    return 1.0 / (t + 1)


@dataclass(frozen=True)
class Exponential:
    """``decay ** t``; FedGS multiplies its step by 0.998 in each round."""

    decay: float = 0.998

    def __post_init__(self) -> None:
        checks.number("decay", self.decay, low=0, high=1, low_open=True)

    def __call__(self, t: int) -> float:
        return float(self.decay**t)


@dataclass(frozen=True)
class InverseRoot:
    """``1 / sqrt(t / period + 1)``; FedAWE's experiments have a period of 10."""

    period: float = 10.0

    def __post_init__(self) -> None:
        checks.number("period", self.period, low=0, low_open=True)

    def __call__(self, t: int) -> float:
        return float((t / self.period + 1) ** -0.5)


@dataclass(frozen=True)
class InverseRootHorizon:
    """``1 / sqrt(rounds)`` in every round: the step that rates of O(1/√T) are stated for.

    Parameters
    ----------
    rounds : int
        T, the rounds of the whole run. The step is constant; it is smaller the longer one means to
        train.
    """

    rounds: int = 100

    def __post_init__(self) -> None:
        checks.integer("rounds", self.rounds, low=1)

    def __call__(self, t: int) -> float:
        return float(self.rounds**-0.5)

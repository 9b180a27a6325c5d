"""`Thresholds`: when a run warns of who is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.core import checks

GIVEN = "warn"  # what the facts of a run call the thresholds it was given


@dataclass(frozen=True)
class Thresholds:
    """When a run warns.

    Parameters
    ----------
    rounds : int
        A client is left out that nobody represented in so many steps in a row, or in more: see
        `chance`.
    rounds_never : int
        The same, for a client that was never represented.
    chance : float
        How probable a gap may be if all clients were represented as often as the others are, over
        all clients and rounds so far. Where a sampler picks a few each round, or most are away,
        gaps are longer before anything is wrong.
    examples : float
        Share of the examples that those who are left out must have together.
    late, refused, failed : int
        Answers in a row that were late, refused or errors, since the client came last.
    one_row, one_row_others : float
        One client's row carries this share of the step for others, and for so many of them, on
        average over `rounds` steps.
    empty : int
        Rounds in a row in which nobody came, or more: `chance` counts as for gaps.
    age : int, optional
        Age, in rounds, of a remembered update that represents a client; None: none is too old.
    """

    rounds: int = 10
    rounds_never: int = 5
    chance: float = 0.01
    examples: float = 0.01
    late: int = 3
    refused: int = 3
    failed: int = 3
    one_row: float = 0.3
    one_row_others: float = 3.0
    empty: int = 5
    age: int | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "rounds_never", "late", "refused", "failed", "empty"):
            checks.integer(name, getattr(self, name), low=1)
        if self.age is not None:
            checks.integer("age", self.age, low=1)
        checks.number("chance", self.chance, low=0, high=1, low_open=True)
        checks.number("examples", self.examples, low=0, high=1)
        checks.number("one_row", self.one_row, low=0, high=1)
        checks.number("one_row_others", self.one_row_others, low=0)

    @classmethod
    def told(cls, facts: Mapping[str, Any]) -> Thresholds:
        """Those that a run was given, from the facts that a journal keeps of it; else the usual."""
        given = facts.get(GIVEN)
        try:
            return cls(**given) if isinstance(given, Mapping) else cls()
        except (TypeError, ValueError):  # nothing in a journal is sure
            return cls()

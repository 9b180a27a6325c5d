"""What a live federation keeps beside the strategy's state, and where its rounds are logged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from understudy.core.types import RoundLog


class LiveLedger(Protocol):
    """Where the rounds of a live federation are logged, such as `understudy.studies.LiveLog`."""

    def begin(self, run: str, resolved: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """A run begins, resumes, or has other clients than before; `run` is its permanent name."""

    def append(self, log: RoundLog) -> None: ...

    def flush(self) -> None:
        """Return when all logs are on disk: then the state that follows them is committed."""

    def finish(self) -> None: ...

    def fail(self, error: str) -> None: ...


@dataclass
class LiveState:
    """What a live federation remembers beside the server's state; committed with it."""

    run: str  # its name in the store
    model: str  # JSON: names, shapes and types of the arrays
    roster: str  # JSON: who the clients are
    busy: str  # JSON: who was asked and has not answered
    clock: float  # seconds that rounds took so far


@dataclass(frozen=True)
class Busy:
    """A client that may still be working on a request of an earlier run."""

    client: int
    node: int
    activated: str
    asked_at: float  # wall clock

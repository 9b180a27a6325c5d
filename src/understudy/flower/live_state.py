"""What a live federation keeps beside the strategy's state, and where its rounds are logged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

from understudy.core import checks
from understudy.core.shown import shown
from understudy.core.types import RoundLog

Record = TypeVar("Record")


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
    asked_at: float  # by the process's own clock, `Clock.now`; in a checkpoint by the wall clock


def busy_text(busy: Iterable[Busy], now: float, wall: float) -> str:
    """Those who are busy as a checkpoint keeps them; `now` and `wall` are what the clocks show."""
    return json.dumps([{**vars(one), "asked_at": wall - (now - one.asked_at)} for one in busy])


def read_busy(text: str, n_clients: int, now: float, wall: float) -> list[Busy]:
    """Those that a checkpoint calls busy; an error where it cannot be one of ours.

    Who seems to have been asked in the future was asked before the wall clock was set back: at the
    latest now.
    """
    busy = records(Busy, text)
    for one in busy:
        checks.integer("busy: client", one.client, low=0, high=n_clients - 1)
    return [replace(one, asked_at=now - max(0.0, wall - one.asked_at)) for one in busy]


def records(kind: type[Record], text: str) -> list[Record]:
    """Objects of a flat dataclass from JSON, each field of the type that it was written with."""
    plain = json.loads(text)
    if not isinstance(plain, list):
        raise ValueError(f"{kind.__name__}: expected a list, got {shown(plain)}")
    found = [kind(**one) for one in plain]
    for one in found:
        for item in fields(one):  # type: ignore[arg-type]
            name, value = f"{kind.__name__}.{item.name}", getattr(one, item.name)
            if item.type == "float":
                checks.number(name, value)
            elif type(value).__name__ != item.type:
                raise ValueError(f"{name}: expected {item.type}, got {shown(value)}")
    return found

"""`LiveState`: what a live federation keeps beside the strategy's state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from understudy.core import checks
from understudy.flower.clients.stored_records import records


@dataclass
class LiveState:
    """What a live federation remembers beside the server's state; committed with it."""

    run: str  # its name in the store
    model: str  # JSON: names, shapes and types of the arrays
    roster: str  # JSON: who the clients are
    busy: str  # JSON: who was asked and has not answered
    clock: float  # seconds that rounds took so far
    availability: str = ""  # JSON: what simulates absence, whose state `attendance` is
    attendance: Any = None


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

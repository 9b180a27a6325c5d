"""`LiveRound`: a round of a live federation, from who was asked to its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict

from understudy.core.printable import one_line
from understudy.core.types import (
    LONGEST_DETAIL,
    Applied,
    Arrivals,
    Cohort,
    Contributions,
    Outcome,
    Reason,
    Refusal,
)
from understudy.flower.clients.roster import Client
from understudy.flower.messages.model_arrays import Unreadable
from understudy.flower.messages.reply_checks import Update
from understudy.flower.messages.requests import NODE_UNAVAILABLE, Collected, Request, last_line
from understudy.flower.rounds.outcomes import ClientOutcome

TOO_SLOW = "no answer in time"
Read = Callable[[Request, Message], Update]  # raises Unreadable


_NONE = np.zeros(0, dtype=np.int64)
_NOBODY = Cohort(t=0, wanted=_NONE, weight=np.zeros(0), asked=_NONE, pending=_NONE.reshape(0, 2))
_NOTHING = Applied(0, Contributions.none(), _NONE.astype(np.int8), (), {}, False, {})


@dataclass
class LiveRound:
    """What is known of a round while it runs.

    One that passes before any client is known is logged once the federation has begun.
    """

    t: int
    began: float  # on the clock that `lasted` is measured by
    cohort: Cohort = _NOBODY
    trains: bool = False  # whether clients are known, and asked to train
    found: Collected = field(default_factory=Collected)  # answers that our own loop waited for
    evaluation: list[tuple[Message, Request]] = field(default_factory=list)
    evaluation_sent: dict[str, Request] = field(default_factory=dict)  # message id → request
    lasted: float = 0.0  # seconds
    messages: list[tuple[Message, Request]] = field(default_factory=list)
    early: list[tuple[Request, Message]] = field(default_factory=list)  # answered beforehand
    sent: dict[str, Request] = field(default_factory=dict)  # message id → request
    came: list[tuple[Request, Update, RecordDict]] = field(default_factory=list)
    late: list[tuple[Request, Update]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    closed: set[tuple[int, int]] = field(default_factory=set)  # (client, round): nothing will come
    became: dict[int, Outcome] = field(default_factory=dict)  # more exact than what `apply` finds
    why: dict[int, str] = field(default_factory=dict)  # details for a person
    seconds: dict[int, float] = field(default_factory=dict)  # until each answered
    megabytes_down: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    applied: Applied = _NOTHING

    # -- what came -----------------------------------------------------------------------------

    def take(self, late: Sequence[tuple[Request, Message]], read: Read) -> None:
        """Sort answers into updates, refusals and errors; nothing of it raises."""
        found = self.found
        for request, reply in self.early:
            self._take(request, reply, read)
        for name, request in self.sent.items():
            client = request.client
            if name in found.seconds:
                self.seconds[client] = found.seconds[name]
            if name in found.replies:
                self._take(request, found.replies[name], read)
            elif name in found.restarted:
                self._lost(request, Outcome.RESTARTED, "its node restarted")
            elif name in found.unreadable:
                self._refuse(request, Reason.UNREADABLE, found.unreadable[name])
            elif name in found.lost:
                words = f"its reply was lost with others of the same call ({found.lost[name]})"
                self._lost(request, Outcome.MISSING, words)
            elif name in found.failed:
                self.why[client] = one_line(
                    f"{TOO_SLOW} (the last pull failed: {found.failed[name]})", LONGEST_DETAIL
                )
            else:
                self.why[client] = TOO_SLOW
        reached = {request.client for request in self.sent.values()}
        reached |= {request.client for request, _ in self.early}
        for client in set(self.cohort.asked.tolist()) - reached:
            self.closed.add((client, self.t))
            self.why[client] = "the message could not be sent"
        for request, reply in late:
            self._take_late(request, reply, read)

    def _take(self, request: Request, reply: Message, read: Read) -> None:
        if reply.has_error():
            code = reply.error.code
            if code != NODE_UNAVAILABLE:
                words = f"error {code}: {last_line(reply.error.reason)}"
                self._lost(request, Outcome.ERROR, words)
            else:
                self._lost(request, Outcome.MISSING, "its node left")
            return
        try:
            self.came.append((request, _update(request, reply, read), reply.content))
        except Unreadable as error:
            self._refuse(request, error.reason, error.detail)

    def _take_late(self, request: Request, reply: Message, read: Read) -> None:
        """An update to learn from, or an error that nobody waits for any more."""
        if reply.has_error():
            self.closed.add((request.client, request.t))
            return
        try:
            self.late.append((request, _update(request, reply, read)))
            before = self.t - request.t
            if request.answered_at is not None:
                self.seconds.setdefault(request.client, request.answered_at - request.asked_at)
            self.why[request.client] = f"asked {before} round{'s' * (before != 1)} before"
        except Unreadable as error:
            self.closed.add((request.client, request.t))
            self.refusals.append(Refusal(request.client, error.reason, f"late: {error.detail}"))

    def _lost(self, request: Request, outcome: Outcome, why: str) -> None:
        self.closed.add((request.client, request.t))
        self.became[request.client] = outcome
        self.why[request.client] = one_line(why, LONGEST_DETAIL)

    def _refuse(self, request: Request, reason: Reason, detail: str) -> None:
        self._lost(request, Outcome.REFUSED, f"{reason}: {detail}")
        self.refusals.append(Refusal(request.client, reason, detail))

    def arrivals(self) -> Arrivals:
        """What `Strategy.apply` takes."""
        taken = [*((request, update) for request, update, _ in self.came), *self.late]
        if not taken:
            return Arrivals.none()
        updates = [update for _, update in taken]
        return Arrivals(
            ids=[request.client for request, _ in taken],
            deltas=[update.delta for update in updates],
            n_examples=[update.n_examples for update in updates],
            n_steps=[update.n_steps for update in updates],
            losses=[update.loss for update in updates],
            label_counts=[update.label_counts for update in updates],
            start_round=[request.t for request, _ in taken],
            # of a late one it is not known: its question may have been another process's
            seconds=[
                self.seconds.get(request.client, np.nan) if request.t == self.t else np.nan
                for request, _ in taken
            ],
        )

    # -- what became of it ---------------------------------------------------------------------

    def close(self, applied: Applied) -> None:
        """The step is taken: set every client's outcome."""
        exact = applied.outcome.copy()
        for client, outcome in self.became.items():
            if exact[client] == Outcome.MISSING:
                exact[client] = outcome
        for refusal in applied.refusals:
            if isinstance(refusal.id, int):
                self.why[refusal.id] = f"{refusal.reason}: {refusal.detail}"
        refusals = (*self.refusals, *applied.refusals)
        self.applied = replace(applied, outcome=exact, refusals=refusals)

    @property
    def is_too_short(self) -> bool:
        """Whether all who were asked in this round are still working on it."""
        return bool(self.sent) and set(self.cohort.asked.tolist()) <= {
            client for client, words in self.why.items() if words == TOO_SLOW
        }

    def refused_besides(self) -> list[tuple[int, str]]:
        """Answers that were refused of clients with another outcome, late ones; and why."""
        return [
            (one.id, f"{one.reason}: {one.detail}")
            for one in self.applied.refusals
            if isinstance(one.id, int) and self.applied.outcome[one.id] != Outcome.REFUSED
        ]

    def senders(self) -> set[int]:
        """Clients whose update was read, fresh or late."""
        came = {request.client for request, _, _ in self.came}
        return came | {request.client for request, _ in self.late}

    def taken(self, clients: Sequence[Client]) -> dict[str, RecordDict]:
        """Replies whose update was used, by the ids of their clients."""
        return {
            clients[request.client].id: content
            for request, _, content in self.came
            if self.applied.outcome[request.client] == Outcome.CAME
        }

    @property
    def late_seconds(self) -> dict[int, float]:
        """How long the late answers took that came in this round, by client."""
        late = np.flatnonzero(self.applied.outcome == Outcome.LATE).tolist()
        return {one: self.seconds[one] for one in late if one in self.seconds}

    def outcomes(self, clients: Sequence[Client]) -> tuple[ClientOutcome, ...]:
        """One record for each client that the round was about."""
        return tuple(
            ClientOutcome(
                t=self.t,
                client=number,
                id=clients[number].id,
                outcome=Outcome(int(outcome)),
                detail="" if outcome == Outcome.CAME else self.why.get(number, ""),
                seconds=self.seconds.get(number),
            )
            for number, outcome in enumerate(self.applied.outcome)
            if outcome != Outcome.NOT_WANTED
        )

    def measured(self) -> dict[str, Any]:
        """What the round's log holds besides what the server says of it."""
        updates = [*(update for _, update, _ in self.came), *(update for _, update in self.late)]
        clipped = sum(update.clipped for update in updates)
        return {
            "notes": {"clipped": float(clipped)} if clipped else {},
            "metrics": self.metrics,
            "megabytes_up": sum(update.megabytes for update in updates),
            "megabytes_down": self.megabytes_down,
            "timings": {**self.timings, **self.applied.timings, "round": self.lasted},
        }


def _update(request: Request, reply: Message, read: Read) -> Update:
    """What a reply holds; `Unreadable`, whatever else it makes our reader raise."""
    try:
        return read(request, reply)
    except Unreadable:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"[:200]
        raise Unreadable(Reason.UNREADABLE, words) from error

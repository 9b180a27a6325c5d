"""`Warnings`: who is left out of a run, told when it becomes true, while it is, and afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from understudy.core.types import RoundLog
from understudy.representation.facts import ClientFacts
from understudy.representation.representation import Representation
from understudy.representation.rules import RULES, Found, Seen
from understudy.representation.thresholds import Thresholds

__all__ = ["RunWarning", "Thresholds", "Warnings", "warnings_of"]

TOLD_AGAIN = 1.25  # a warning is told again when it is about so many times as many clients
MOST_PAST = 100  # warnings that no longer hold, kept


@dataclass(frozen=True)
class RunWarning:
    """Something that whoever runs a federation should know.

    Parameters
    ----------
    kind : str
        ``"left out"``, ``"waiting"``, ``"nobody"``, ``"late"``, ``"refused"``, ``"failed"``, ``"one
        row"`` or ``"old"``.
    clients : tuple of int
        Whom it is about; empty where it is about all, or about somebody who is no client.
    since : int
        The round with which it became true.
    until : int, optional
        The last round in which it was true; None where it is.
    text : str
        The warning in words, fit to be printed: names in it steer no terminal.
    """

    kind: str
    clients: tuple[int, ...]
    since: int
    until: int | None
    text: str

    def __str__(self) -> str:
        if self.until is None:
            return self.text
        return f"rounds {self.since + 1} to {self.until + 1}: {self.text}"


@dataclass
class _Episode:
    """A warning from when it became true until it no longer is."""

    since: int
    found: Found  # as it is now
    widest: Found  # when it was about most clients
    told: set[int] = field(default_factory=set)


class Warnings:
    """The warnings of a run, whose rounds are added as they come.

    Parameters
    ----------
    facts : ClientFacts, optional
        What is known of the clients; may be replaced between two rounds (``warnings.facts = …``).
    limits : Thresholds, optional
        When to warn.

    Examples
    --------
    Of a run that is kept in a folder, also while it goes on:

    >>> from understudy.journal.follow import Follower
    >>> from understudy.representation import Warnings
    >>> warnings = Warnings()
    >>> for log in Follower("runs/mine"):
    ...     for warning in warnings.add(log):  # those that became true with this round
    ...         print(f"round {log.t + 1}: {warning}")
    >>> warnings.current
    ()
    """

    def __init__(self, facts: ClientFacts | None = None, limits: Thresholds | None = None) -> None:
        self._seen = Seen(facts or ClientFacts(), limits or Thresholds())
        self._now: dict[tuple[str, str], _Episode] = {}
        self._past: list[RunWarning] = []
        self._told: dict[
            tuple[str, str], dict[int, int]
        ] = {}  # what → client → last round it was true of

    @classmethod
    def told(cls, facts: Mapping[str, Any], resolved: Mapping[str, Any] | None = None) -> Warnings:
        """With what a journal keeps of a run: see `ClientFacts.told`."""
        return cls(ClientFacts.told(facts, resolved), Thresholds.told(facts))

    @property
    def limits(self) -> Thresholds:
        """When it warns."""
        return self._seen.limits

    @property
    def facts(self) -> ClientFacts:
        """What is known of the clients."""
        return self._seen.facts

    @facts.setter
    def facts(self, facts: ClientFacts) -> None:
        self._seen.facts = facts

    @property
    def representation(self) -> Representation:
        """What was counted; not to be added to."""
        return self._seen.counted

    def add(
        self, log: RoundLog, seconds: Mapping[int, float] | None = None
    ) -> tuple[RunWarning, ...]:
        """One more round; the warnings that became true with it, or grew much.

        Parameters
        ----------
        log : RoundLog
            Of a round that was added before, nothing happens.
        seconds : mapping, optional
            Client → how long its answer took that came in this round, late or not.
        """
        last = self.representation.last
        if last is not None and log.t <= last:
            return ()
        self._seen.add(log, None if seconds is None else dict(seconds))
        found = [one for rule in RULES for one in rule(self._seen)]
        keys = {one.key for one in found}
        for key in [key for key in self._now if key not in keys]:
            over = self._now.pop(key)
            past = replace(_warning(over.widest, over.since), until=log.t - 1)
            self._past = [*self._past, past][-MOST_PAST:]
        new = [one for one in found if self._is_new(one, log.t)]
        return tuple(_warning(one, self._now[one.key].since) for one in new)

    def _is_new(self, found: Found, t: int) -> bool:
        """Keep what a rule found; whether it is worth telling now."""
        known, clients = self._now.get(found.key), set(found.clients)
        if known is None:
            known = self._now[found.key] = _Episode(t, found, found)
            begins = True
        else:
            known.found, begins = found, False
            if len(clients) >= len(known.widest.clients):
                known.widest = found
        # who is left out now and then is told once
        told, pause = self._told.setdefault(found.key, {}), 2 * self._seen.limits.rounds
        others = {one for one in clients if one not in told or told[one] < t - pause}
        told |= dict.fromkeys(clients, t)
        if begins:
            known.told = clients
            return bool(others) or not clients
        if others and len(clients) >= TOLD_AGAIN * len(known.told):
            known.told = clients
            return True
        return False

    @property
    def current(self) -> tuple[RunWarning, ...]:
        """Those that hold after the last round."""
        found = sorted(self._now.values(), key=lambda one: _rank(one.found.kind))
        return tuple(_warning(one.found, one.since) for one in found)

    @property
    def past(self) -> tuple[RunWarning, ...]:
        """Those that held for a time, the latest last."""
        return tuple(self._past)

    def __len__(self) -> int:
        return len(self._now) + len(self._past)

    def __str__(self) -> str:
        """One line for each."""
        return "\n".join(map(str, self)) or "nobody was left out"

    def __repr__(self) -> str:
        rounds = self.representation.n_rounds
        return f"<{len(self._now)} warnings, {len(self._past)} past, of {rounds} rounds>"

    def __iter__(self) -> Iterator[RunWarning]:
        """Those that hold, then those that held for a time."""
        return iter((*self.current, *self.past))


def warnings_of(
    logs: Iterable[RoundLog],
    facts: ClientFacts | None = None,
    limits: Thresholds | None = None,
) -> Warnings:
    """The warnings of a run: `Warnings` with all these rounds added."""
    found = Warnings(facts, limits)
    for log in logs:
        found.add(log)
    return found


def _warning(found: Found, since: int) -> RunWarning:
    return RunWarning(found.kind, found.clients, since, None, found.text)


def _rank(kind: str) -> int:
    return [rule.__name__ for rule in RULES].index(kind.replace(" ", "_"))

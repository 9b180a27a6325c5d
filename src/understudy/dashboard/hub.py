"""What is known of all runs, kept up to date, and who is told when something changes."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from starlette.concurrency import run_in_threadpool

from understudy.dashboard.places import FAULTS, Places, resolved_of, without_folder
from understudy.dashboard.runs import RunInfo, Trouble
from understudy.views.columns import Columns

EVERY = 0.5  # seconds between two looks at the folders
REST = 10  # times what a look took, before the next one: large folders are looked at less often
FIRST, FURTHER = 0.25, 1.0  # seconds of reading before what was read is shown: at first, later
MOST_BYTES = 256 * 2**20  # of columns that are kept
FEWEST_SECONDS = 3.0  # of rounds that came, before time left is told


class UnreadableRun(Exception):
    """A run's rounds cannot be read; says why, without a path of the machine."""


@dataclass(eq=False)
class Listener:
    """One open page: what it has not been told yet. Its size does not grow with time."""

    runs: Collection[str] | None  # None: all
    changed: set[str] = field(default_factory=set)
    event: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, ids: Collection[str]) -> None:
        """Note that runs have changed."""
        mine = ids if self.runs is None else set(ids) & set(self.runs)
        if mine:
            self.changed |= set(mine)
            self.event.set()


class Hub:
    """All that pages are told, read once for all of them.

    Parameters
    ----------
    places : Places
        Where runs are.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self.runs: dict[str, RunInfo] = {}
        self.troubles: list[Trouble] = []
        self.listeners: set[Listener] = set()
        self._columns: OrderedDict[str, Columns] = OrderedDict()
        self._lock, self._look = Lock(), Lock()
        self._stamp: object = None
        self._begun: dict[str, tuple[float, int]] = {}  # when a run was first seen, its rounds then

    # -- looking -------------------------------------------------------------------------------

    def refresh(self) -> set[str]:
        """Look at the folders; which runs have changed since the last time."""
        with self._look:
            stamp = self._places.stamp()
            if stamp == self._stamp:
                return set()
            runs, troubles = self._places.look()
            found = {run.id: run for run in runs}
            changed = {
                name for name, run in found.items() if _told(self.runs.get(name)) != _told(run)
            }
            changed |= self.runs.keys() - found.keys()
            if troubles != self.troubles:
                changed.add("")
            self.runs, self.troubles, self._stamp = found, troubles, stamp
            now = time.monotonic()
            for name, run in found.items():
                begun = self._begun.get(name)
                if run.status != "running":
                    self._begun.pop(name, None)
                elif begun is None or begun[1] > run.rounds:
                    self._begun[name] = now, run.rounds
            return changed

    async def news(self) -> None:
        """Look now, and tell everyone who listens: whoever looks first takes what has changed."""
        changed = await run_in_threadpool(self.refresh)
        for listener in tuple(self.listeners):
            listener.tell(changed)

    async def watch(self) -> None:
        """Look again and again, as long as somebody has a page open."""
        while True:
            begin = time.monotonic()
            if self.listeners:
                with suppress(OSError):  # a folder that vanishes meanwhile
                    await self.news()
            await asyncio.sleep(max(EVERY, REST * (time.monotonic() - begin)))

    def seconds_left(self, run: RunInfo) -> float | None:
        """Until a run's last round, at the pace seen so far; else as its rounds tell of theirs."""
        begun, columns = self._begun.get(run.id), self._columns.get(run.id)
        if begun is None or run.n_rounds is None or run.status != "running":
            return None
        missing = max(0, run.n_rounds - run.rounds)
        seconds, rounds = time.monotonic() - begun[0], run.rounds - begun[1]
        if rounds >= 1 and seconds >= FEWEST_SECONDS:
            return missing * seconds / rounds
        pace = None if columns is None else columns.pace()
        return None if pace is None else missing * pace

    def n_warnings(self, run: RunInfo) -> int | None:
        """How many warnings hold; None for runs whose rounds nobody has looked at yet."""
        known = self._columns.get(run.id)
        return None if known is None else len(known.warnings.current)

    # -- rounds --------------------------------------------------------------------------------

    def columns(self, run: RunInfo) -> Columns:
        """The rounds of a run, of a long one that was never looked at the first of them.

        What was looked at longest ago is given up where it is too much.
        """
        with self._lock:
            if run.id not in self._columns:
                self._columns[run.id] = Columns(run.place)
            columns = self._columns[run.id]
            self._columns.move_to_end(run.id)
        try:
            if not columns.n or run.resolved:  # of a stored cell they stay as they are
                columns.resolved = resolved_of(run)
            columns.tell(run.facts)
            columns.seconds = _seconds(run)
            columns.update(FURTHER if columns.n else FIRST)
        except FAULTS as error:
            raise UnreadableRun(without_folder(error, run.folder)) from error
        with self._lock:
            kept = sum(one.n_bytes for one in self._columns.values())
            while kept > MOST_BYTES and len(self._columns) > 1:
                kept -= self._columns.popitem(last=False)[1].n_bytes
        return columns


def _seconds(run: RunInfo) -> dict[int, dict[int, float]]:
    """Round → client → seconds until it answered, of a live federation."""
    found: dict[int, dict[int, float]] = {}
    for one in run.told_outcomes():
        if one.seconds is not None:
            found.setdefault(one.t, {})[one.client] = one.seconds
    return found


def _told(run: RunInfo | None) -> Any:
    return None if run is None else (run.status, run.rounds, run.error, run.facts, run.labels)

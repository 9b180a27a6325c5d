"""`RoundLoop`: the rounds of a run, for whoever drives them: a simulation, or a live federation.

A driver finds out who can be reached, has them trained, and measures. Who is asked, the step, the
log, when the state is committed, and how a run is resumed and closed, are the loop's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from understudy.core.rng import generator
from understudy.core.roles import Availability
from understudy.core.types import Applied, Arrivals, Bools, Cohort, Ints, Population, RoundLog
from understudy.journal.protocol import Journal
from understudy.journal.rounds import log_of
from understudy.memory.commits import COMMIT_EVERY
from understudy.server import checkpoint
from understudy.server.state import ServerState, grow_part, grown_facts, leaves, owner_of
from understudy.server.strategy import Filled, Strategy

_log = logging.getLogger("understudy")


class DriverState(Protocol):
    """What every driver keeps in `ServerState.extra`, beside what is its own."""

    attendance: Any  # the availability's state
    clock: float  # seconds that rounds took so far


class RoundLoop:
    """One round after another: `begin`, then `step`, then `end`.

    The state's `extra` is a `DriverState`. The availability draws among those that the driver can
    reach. Journals are flushed before the state that follows is committed.
    """

    def __init__(
        self,
        strategy: Strategy,
        state: ServerState,
        availability: Availability | None = None,
        journals: Sequence[Journal] = (),
    ) -> None:
        self.strategy, self.state, self.availability = strategy, state, availability
        self.journals = tuple(journals)
        self.available: Bools = np.zeros(0, dtype=np.bool_)  # (N,) in the round that was begun
        self.is_whole = True  # False from the first change of a round to its end
        state.commit_every = None  # logs come first: see `commit`

    @property
    def driver(self) -> DriverState:
        """What is kept beside the server's state, and committed with it."""
        found: DriverState = self.state.extra
        return found

    # -- a round -------------------------------------------------------------------------------

    def begin(
        self,
        reachable: Bools | None = None,
        losses: Callable[[Ints], npt.ArrayLike] | None = None,
    ) -> Cohort:
        """Whom the coming round is about; `available` says afterwards who could be asked.

        By default the driver can reach everyone; `losses` is as in `Strategy.select`.
        """
        state, p = self.state, None
        everyone = np.ones(state.n_clients, dtype=np.bool_)
        self.available = everyone if reachable is None else reachable
        if self.availability is not None:
            attendance, t = self.driver.attendance, state.t
            p = self.availability.rates(attendance, t)
            drawn = self.availability.draw(attendance, t, self._rng(t))
            self.available = drawn & self.available
        return self.strategy.select(state, self.available, p=p, losses=losses)

    def step(
        self,
        cohort: Cohort,
        arrivals: Arrivals,
        look: Callable[[Filled], None] | None = None,
        closed: Iterable[tuple[int, int]] = (),
    ) -> Applied:
        """Take what came, fresh and late, and step.

        `look` is called with the rows, before the memories take in the round. `closed` are
        requests, (client, round), that no answer will come to, or none that can be used.
        """
        self.is_whole = False
        filled = self.strategy.fill(self.state, cohort, arrivals)
        if look is not None:
            look(filled)
        applied = self.strategy.finish(self.state, filled)
        self.close_requests(closed)
        return applied

    def end(
        self,
        applied: Applied,
        notes: Mapping[str, float] | None = None,
        every: float | None = None,
        **measured: Any,
    ) -> RoundLog:
        """Log the round, and commit the state that follows where that is due.

        `every` is the seconds between two commits, by default `COMMIT_EVERY`; `measured` are the
        other fields of a `RoundLog`.
        """
        log = log_of(applied, notes or {}, **measured)
        self.driver.clock = log.clock
        for journal in self.journals:
            journal.append(log)
        self.is_whole = True
        self.commit(COMMIT_EVERY if every is None else every)
        return log

    def close_requests(self, closed: Iterable[tuple[int, int]]) -> None:
        """Forget requests (client, round): nothing will come, or it cannot be used."""
        over, pending = set(closed), self.state.pending
        if over:
            is_open = [(int(client), int(t)) not in over for client, t in pending]
            self.state.pending = pending[np.array(is_open, dtype=np.bool_)]

    def _rng(self, t: int) -> np.random.Generator:
        return generator(self.state.seed, "availability", t)

    # -- clients -------------------------------------------------------------------------------

    def check_grow(self, population: Population) -> None:
        """Raise what `grow` would raise where a part refuses the population; change nothing."""
        self.strategy.check_grow(self.state, population)
        if self.availability is not None:
            self._init(grown_facts(self.state, population)[0])

    def grow(self, population: Population) -> None:
        """Take in new clients; see `Strategy.grow`, which commits."""
        driver, before = self.driver, self.driver.attendance
        if self.availability is not None:
            grown = grown_facts(self.state, population)[0]
            driver.attendance = grow_part(before, self._init(grown))
            self._renew_numbers(before, self._init(grown))
        try:
            self.strategy.grow(self.state, population)
        except BaseException:
            driver.attendance = before
            raise

    def _init(self, population: Population) -> Any:
        """The availability's state for these clients, whatever is not known of those who left."""
        assert self.availability is not None
        gone = np.zeros(population.n_clients, dtype=np.bool_)
        gone[: self.state.n_clients] = ~self.state.active
        return self.availability.init(with_facts_of_others(population, gone))

    def _renew_numbers(self, before: Any, larger: Any) -> None:
        """Numbers that only depend on the clients, such as how many are present, are the larger's.

        A number that the rounds have changed, such as the last one drawn, stays.
        """
        first = dict(leaves(self._init(self.state.population)))
        now = dict(leaves(before))
        for path, value in leaves(larger):
            is_number = isinstance(value, int | float | np.number)
            if is_number and path in now and now[path] == first.get(path):
                owner, name = owner_of(self.driver.attendance, path)
                setattr(owner, name, value)

    def draw_again(self) -> None:
        """Attendance as if it had been drawn from round 0 on, with today's clients.

        For runs whose attendance was not committed. Each draw has its own generator.
        """
        if self.availability is not None:
            self.driver.attendance = self._init(self.state.population)
            for t in range(self.state.t):
                self.availability.draw(self.driver.attendance, t, self._rng(t))

    # -- what survives -------------------------------------------------------------------------

    def describe(self, run: str, resolved: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Tell the journals what the run is; again when it has other clients."""
        for journal in self.journals:
            journal.begin(run, resolved, facts)

    def commit(self, every: float = 0.0) -> None:
        """Logs first, then the state that follows them; never in the middle of a round."""
        if not self.journals or not self.is_whole:
            return
        if checkpoint.commit_is_due(self.state, every):
            for journal in self.journals:
                journal.flush()
            checkpoint.commit(self.state)

    def finish(self) -> None:
        """All rounds are finished."""
        for journal in self.journals:
            journal.finish()

    def fail(self, error: BaseException) -> None:
        """The run ends with an error; the last committed round stays."""
        for journal in self.journals:
            try:
                journal.fail(f"{type(error).__name__}: {error}")
            except Exception as other:  # what ends the run is the error to be told
                _log.warning("%s could not note the error: %s", type(journal).__name__, other)

    def close(self) -> None:
        """Commit, and release the folder: another process may continue the run."""
        try:
            self.commit()
        finally:
            self.release()

    def release(self) -> None:
        """Release the folder as it is."""
        self.state.close()
        self.journals = ()


def with_facts_of_others(population: Population, whose: Bools) -> Population:
    """Facts that are not known of some clients are the mean of the others'.

    For those who left: an availability needs facts of all, and theirs are erased.
    """
    changes: dict[str, Any] = {}
    for name in ("n_examples", "label_counts"):
        facts = getattr(population, name)
        if facts is not None:
            unknown = np.isnan(facts.reshape(len(facts), -1)).any(axis=1)
            if (unknown & whose).any() and not unknown.all():
                changes[name] = facts.copy()
                changes[name][unknown & whose] = facts[~unknown].mean(axis=0)
    return replace(population, **changes) if changes else population

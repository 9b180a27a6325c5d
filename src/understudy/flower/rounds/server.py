"""The server of a live federation without its messages: state, clients, checkpoints and logs."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from understudy.core import checks
from understudy.core.describe import describe
from understudy.core.roles import Availability
from understudy.core.types import Population, RoundLog, Setup
from understudy.flower.clients.declared import Declared, confirm
from understudy.flower.clients.members import Members
from understudy.flower.clients.newcomers import refused_newcomers
from understudy.flower.clients.roster import Client, Roster
from understudy.flower.log import logger
from understudy.flower.messages.metrics import RESULTS, ResultFile
from understudy.flower.messages.model_arrays import ModelArrays
from understudy.flower.messages.reply_checks import Report
from understudy.flower.messages.requests import Clock
from understudy.flower.rounds import known_facts
from understudy.flower.rounds.live_round import LiveRound
from understudy.flower.rounds.live_state import Busy, LiveState, busy_text, read_busy
from understudy.flower.rounds.outcomes import FILE as OUTCOMES
from understudy.flower.rounds.outcomes import OutcomeFile
from understudy.flower.rounds.run_description import facts_of, resolved_run
from understudy.journal.file import LogFile
from understudy.journal.follow import follow
from understudy.journal.protocol import Journal
from understudy.memory.run_folder import ROUNDS, STATE
from understudy.memory.tensor_stream import named_faults
from understudy.memory.writer_lock import FolderInUse
from understudy.representation import ClientFacts, Thresholds, Warnings
from understudy.server import checkpoint
from understudy.server.loop import RoundLoop, with_facts_of_others
from understudy.server.state import ServerState, erase_free_rows
from understudy.server.strategy import Strategy

PATIENCE = 60.0  # seconds until the ServerApp of a killed run has released the folder


class LiveServer:
    """A strategy's state in a live federation; see `UnderstudyStrategy` for the parameters."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        folder: str | Path | None,
        seed: int,
        members: Members,
        availability: Availability | None,
        ledger: Journal | None,
        clock: Clock,
        limits: Thresholds | None = None,
    ) -> None:
        checks.integer("seed", seed, low=0)
        if ledger is not None:
            checks.part("ledger", ledger, "begin", "append", "flush", "finish", "fail")
        self.strategy, self.folder, self.seed = strategy, _absolute(folder), seed
        clients = members.clients
        self.roster, self._n_expected = Roster(clients, members.keys), len(clients)
        self.busy: list[Busy] = []  # of the run before
        self.missed: list[LiveRound] = []  # before anybody was known
        self.n_rounds = 0  # how many are wanted, for the log
        self.timing: dict[str, float] = {}  # when a round ends, for who watches; {}: not our loop's
        self.warnings = Warnings(limits=limits)
        self._declared, self._ids = Declared(clients, members.population), frozenset(clients)
        self._availability, self._ledger = availability, ledger
        self._clock = clock
        self._reports: dict[int, Report] = {}
        self._loop: RoundLoop | None = None
        self._outcomes: OutcomeFile | None = None
        self.results: ResultFile | None = None
        self._is_over = False  # whether the folder was released

    # -- beginning and resuming ----------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        return self._loop is not None

    @property
    def loop(self) -> RoundLoop:
        """The rounds; an error before any client is known."""
        if self._loop is None:
            raise RuntimeError("the federation has not begun: no client is known yet")
        return self._loop

    @property
    def state(self) -> ServerState:
        return self.loop.state

    @property
    def t(self) -> int:
        """The round that is next."""
        return len(self.missed) if self._loop is None else self._loop.state.t

    @property
    def own(self) -> LiveState:
        own: LiveState = self.state.extra
        return own

    def refuse_if_over(self) -> None:
        """Refuse to go on with a state that is closed: it has no lock, and commits nothing."""
        if self._is_over:
            how = (
                "With a `folder` it would resume after that round"
                if self.folder is None
                else f"With folder={str(self.folder)!r} it resumes after that round"
            )
            raise RuntimeError(
                "start: this UnderstudyStrategy has ended its run, after round "
                f"{self.t}; make a new one. {how}"
            )

    def resume(self, model: ModelArrays) -> ModelArrays | None:
        """Resume from the folder, if it holds a state; then the model's format there."""
        if self.folder is None or not (self.folder / "server" / STATE).is_file():
            return None
        state = self._resumed(self.folder / "server")
        template: LiveState = state.extra
        try:
            with named_faults(self.folder / "server" / STATE):
                found = model.ordered_as(json.loads(template.model), self.folder)
                self.roster = Roster.from_json(template.roster, self.roster.keys)
                clocks = self._clock.now(), self._clock.wall()
                self.busy = read_busy(template.busy, state.n_clients, *clocks)
                if len(self.roster) != state.n_clients:
                    raise ValueError(
                        f"roster: expected {state.n_clients} clients, got {len(self.roster)}"
                    )
            state.population = known_facts.with_claims(state.population)
            confirm(state, self._declared_of(self.roster.clients, state.population))
            if any(client.retired for client in self.roster.clients):
                erase_free_rows(state)  # a crash may have come between retiring and erasing
            self._kept(state)
            self._expect()
        except BaseException:
            state.close()
            raise
        logger.info("resuming at round %d from %s", state.t + 1, self.folder)
        return found

    def _resumed(self, folder: Path) -> ServerState:
        stored = checkpoint.numbers_of(folder).get("extra.availability")
        is_same = self._availability is not None and stored == self._simulated

        def own(setup: Setup) -> LiveState:
            return self._new_state(setup) if is_same else LiveState("", "", "", "", 0.0)

        end = time.monotonic() + PATIENCE
        while True:
            try:
                return checkpoint.resume(folder, self.strategy, own)
            except FolderInUse:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    @property
    def _simulated(self) -> str:
        """What simulates absence, as a checkpoint tells it."""
        return "" if self._availability is None else json.dumps(describe(self._availability))

    def _new_state(self, setup: Setup) -> LiveState:
        known, everyone = setup.population, np.ones(setup.population.n_clients, dtype=np.bool_)
        attendance = None
        if self._availability is not None:  # a template, where a run resumes
            attendance = self._availability.init(with_facts_of_others(known, everyone))
        return LiveState("", "", "", "[]", 0.0, self._simulated, attendance)

    def _expect(self) -> None:
        """Take in what is declared now and was not when the run began; warn of what cannot be."""
        if self.roster.expect(self._declared.ids, self.t):
            for client, why in self.grow():
                logger.warning("clients: %r cannot join the run that resumes: %s", client.id, why)
        state, clients = self.state, self.roster.clients
        called = enumerate(map(self._called, clients))
        numbers = {one: number for number, one in called if not clients[number].retired}
        differences = self._declared.differences(numbers, state.population)
        if differences:
            logger.warning(
                "population: the run that resumes keeps what it knows; not used: %s",
                "; ".join(differences),
            )

    def _declared_of(self, clients: Sequence[Client], stored: Population | None) -> Population:
        return self._declared.of([self._called(client) for client in clients], stored)

    def _called(self, client: Client) -> str:
        """What a client is declared as: its id, or its registered name where it kept another id."""
        is_by_name = client.id not in self._ids and client.name in self._ids
        return client.name if is_by_name else client.id

    def begin(self, model: ModelArrays, params: torch.Tensor) -> list[tuple[Client, str]]:
        """The state before round 0, for the clients that are known by now.

        Returned are newcomers that a part does not accept, and why: they were turned away. A
        strategy that accepts nobody is an error.
        """

        def accept(population: Population) -> None:
            self.strategy.footprint(population, len(params), dtype=params.dtype)
            if self._availability is not None:
                self._availability.init(population)

        turned_away = self._turn_away(self._n_expected, accept)

        def own(setup: Setup) -> LiveState:
            run, arrays, roster = uuid.uuid4().hex, json.dumps(model.about()), self.roster.to_json()
            return replace(self._new_state(setup), run=run, model=arrays, roster=roster)

        state = self.strategy.init(
            self._population(),
            params,
            seed=self.seed,
            n_parameters=model.n_parameters,
            folder=None if self.folder is None else self.folder / "server",
            extra=own,
        )
        try:
            self._kept(state)
        except BaseException:
            state.close()
            raise
        return turned_away

    def _kept(self, state: ServerState) -> None:
        journals: list[Journal] = [] if self._ledger is None else [self._ledger]
        if self.folder is not None:
            journals.insert(0, LogFile(self.folder / ROUNDS, state.t))
        self._loop = RoundLoop(self.strategy, state, self._availability, journals)
        if self.own.availability != self._simulated:
            self.own.availability = self._simulated
            self._loop.draw_again()  # a checkpoint without it, or of another availability
        if self.folder is not None:
            self._outcomes = OutcomeFile(self.folder / OUTCOMES, state.t)
            self.results = ResultFile(self.folder / RESULTS, state.t)
        self._describe()
        for log in self._earlier(state.t):
            self.warnings.add(log)

    def _earlier(self, n_rounds: int) -> Iterator[RoundLog]:
        """Rounds of earlier runs with this folder."""
        return iter(()) if self.folder is None else islice(follow(self.folder), n_rounds)

    # -- clients -------------------------------------------------------------------------------

    def learn(self, client: int, report: Report) -> None:
        """Keep what a client reports of itself before it trains."""
        self._reports[client] = report

    @property
    def is_closed(self) -> bool:
        """Whether nobody can join: see `known_facts.is_closed`."""
        known = self._declared.known if self._loop is None else self.state.population
        return known_facts.is_closed(known)

    def grow(self) -> list[tuple[Client, str]]:
        """Add those who have joined since.

        Returned are those that a part refuses to grow for, and why: they were turned away.
        """
        state = self.state
        turned_away = self._turn_away(state.n_clients, self.loop.check_grow)
        if len(self.roster) == state.n_clients:
            return turned_away
        before, population = state.n_clients, self._population()
        self.own.roster = self.roster.to_json()  # `grow` commits
        self.loop.grow(population)
        joined = [client.id for client in self.roster.clients[before:]]
        logger.info("%d joined: %s", len(joined), ", ".join(joined))
        self._describe()
        return turned_away

    def _turn_away(
        self, before: int, accept: Callable[[Population], None]
    ) -> list[tuple[Client, str]]:
        """Take newcomers that are not accepted off the roster; them, and why.

        `before` clients are no newcomers; `accept` raises where a part cannot have a population.
        """
        refused = refused_newcomers(
            before, len(self.roster), lambda numbers: accept(self._population(numbers))
        )
        kept = [number for number in range(len(self.roster)) if number not in refused]
        self._reports = self._reports_of(kept)
        removed = self.roster.remove(refused)
        return list(zip(removed, refused.values(), strict=True))

    def _reports_of(self, numbers: Sequence[int]) -> dict[int, Report]:
        """What some clients reported, by their places among these."""
        found = enumerate(numbers)
        return {place: self._reports[one] for place, one in found if one in self._reports}

    def retire(self, client_id: str) -> bool:
        """A client leaves for good: never asked again, what is remembered of it erased."""
        number = self.roster.now(client_id)
        if number is None:
            return False
        client = self.roster.clients[number]
        if client.retired:
            client.forgotten = False  # it may not come back
            return False
        self._check_erase(number)
        client.retired = True
        self._erase(number)
        also = "" if client.id == client_id else f", which continues {client_id},"
        logger.info("%s%s is retired, its stored data erased", client.id, also)
        return True

    def forget(self, number: int) -> None:
        """A client that was not seen for long leaves: erased as if retired, but may come back."""
        self._check_erase(number)
        self.roster.forget(number)
        self._erase(number)

    def continue_as(self, old: int, new: int) -> None:
        """The client of number `old` continues under id and node of `new`, which is erased."""
        if new < self.state.n_clients:
            self._check_erase(new)
        self.roster.continue_as(old, new)
        if new in self._reports:
            self._reports[old] = self._reports.pop(new)
        self.busy = [replace(one, client=old) if one.client == new else one for one in self.busy]
        if new < self.state.n_clients:
            self.roster.clients[new].retired = True
            self._erase(new)
            return
        kept = [number for number in range(len(self.roster)) if number != new]
        self._reports = self._reports_of(kept)
        self.roster.remove({new})  # it has just joined: no state holds anything of it
        self.own.roster = self.roster.to_json()
        self._describe()

    def renamed(self) -> None:
        """A client has another id: the next commit keeps it, and tables show it."""
        self.own.roster = self.roster.to_json()
        self._describe()

    def _check_erase(self, number: int) -> None:
        """Raise where a part refuses to erase a client, before roster and facts have changed."""
        state = self.state
        self.strategy.check_retire(state, known_facts.without(state.population, number))

    def _erase(self, number: int) -> None:
        """Erase what is remembered of a client that has left."""
        self.own.roster = self.roster.to_json()
        self._reports.pop(number, None)
        known_facts.forget(self.state, number)
        self.strategy.retire(self.state, number)  # commits
        self._describe()  # the store no longer has its size

    def _population(self, numbers: Sequence[int] | None = None) -> Population:
        """Of these clients, by default of all."""
        clients = self.roster.clients
        numbers = range(len(clients)) if numbers is None else numbers
        stored = None if self._loop is None else self.state.population
        return known_facts.population(
            len(numbers),
            [place for place, number in enumerate(numbers) if clients[number].retired],
            self._declared_of([clients[number] for number in numbers], stored),
            self._reports_of(numbers),
            None if stored is None else stored.label_counts,
        )

    # -- rounds --------------------------------------------------------------------------------

    def end_round(self, round_: LiveRound, busy: Sequence[Busy]) -> None:
        """Write the logs, then commit the state that follows: a crash leaves both consistent."""
        self.own.roster = self.roster.to_json()
        self.own.busy = busy_text(busy, self._clock.now(), self._clock.wall())
        if self._outcomes is not None:
            self._outcomes.append(round_.outcomes(self.roster.clients))
        clock = self.own.clock + round_.lasted
        log = self.loop.end(round_.applied, every=0.0, clock=clock, **round_.measured())
        self.warnings.facts = self._client_facts()
        for one in self.warnings.add(log, round_.late_seconds):
            logger.warning("\t> %s", one)

    def finish(self) -> None:
        """All rounds are finished."""
        if self.has_begun:
            self._describe()  # sizes are known now
            self.loop.finish()

    def fail(self, error: BaseException) -> None:
        """The run ends with an error; the last committed round stays."""
        if self.has_begun:
            with suppress(Exception):  # what ends the run is the error to be told
                self._describe()
            self.loop.fail(error)

    def close(self) -> None:
        """Release the folder; the run is over."""
        self._is_over = True
        if self._loop is not None:
            self.state.close()

    def _describe(self) -> None:
        """Settings and clients, for tables and reports."""
        n_arrays = len(json.loads(self.own.model)["names"])
        resolved = {
            **resolved_run(self.strategy, self._availability, n_arrays),
            "rounds": self.n_rounds,
            "seed": self.seed,
            **({"timing": self.timing} if self.timing else {}),
        }
        facts = facts_of(self.state, self._names, self.warnings.limits)
        self.loop.describe(self.own.run, resolved, facts)

    @property
    def _names(self) -> list[str]:
        return [client.id for client in self.roster.clients[: self.state.n_clients]]

    def _client_facts(self) -> ClientFacts:
        """What warnings tell of the clients."""
        state = self.state
        return ClientFacts(
            self._names,
            state.n_examples,
            state.label_counts,
            left=np.flatnonzero(~state.active).tolist(),
            deadline=self.timing.get("deadline"),
        )


def _absolute(folder: str | Path | None) -> Path | None:
    if folder is None:
        return None
    path = Path(folder).expanduser()
    if not path.is_absolute():
        raise ValueError(
            "folder: expected an absolute path, since the working directory of a ServerApp is "
            f"Flower's, got {str(folder)!r}"
        )
    return path

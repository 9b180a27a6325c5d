"""The server's side of a live federation that has nothing to do with messages: its state, who its
clients are, what is kept on the disk, and the logs."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from understudy.core import checks
from understudy.core.describe import describe
from understudy.core.rng import generator
from understudy.core.roles import Availability
from understudy.core.types import Bools, Floats, Population, RoundLog
from understudy.flower.door import Report
from understudy.flower.model_arrays import ModelArrays
from understudy.flower.outcomes import FILE as OUTCOMES
from understudy.flower.outcomes import ClientOutcome, OutcomeFile
from understudy.flower.roster import Roster
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import CheckpointError
from understudy.memory.writer_lock import FolderInUse
from understudy.server import checkpoint
from understudy.server.state import ServerState, grow_part, row_stores
from understudy.server.strategy import Strategy
from understudy.simulation.logs import LogFile

logger = logging.getLogger("flwr")

PATIENCE = 60.0  # seconds that the ServerApp of a run that was killed may take to let go


class LiveLedger(Protocol):
    """Where the rounds of a live federation are told, such as `understudy.studies.LiveLog`."""

    def begin(self, run: str, resolved: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """A run begins, goes on, or has more clients than before; `run` is its name for ever."""

    def append(self, log: RoundLog) -> None: ...

    def flush(self) -> None:
        """Come back when all logs are safe: then the state that follows them is committed."""

    def finish(self) -> None: ...

    def fail(self, error: str) -> None: ...


@dataclass
class LiveState:
    """What a live federation remembers beside the server's state; committed with it."""

    run: str  # its name in the store
    model: str  # JSON: what the arrays look like
    roster: str  # JSON: who the clients are
    busy: str  # JSON: who was asked and owes an answer
    clock: float  # seconds that rounds took so far


@dataclass(frozen=True)
class Busy:
    """A client that may still be at work on a request of a run that is gone."""

    client: int
    node: int
    activated: str
    asked_at: float  # wall clock


class LiveServer:
    """A strategy's state in a live federation; see `UnderstudyStrategy` for the parameters."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        folder: str | Path | None,
        seed: int,
        clients: Sequence[str],
        population: Population | None,
        keys: bool | None,
        availability: Availability | None,
        ledger: LiveLedger | None,
    ) -> None:
        checks.integer("seed", seed, low=0)
        if population is not None and population.n_clients != len(clients):
            raise ValueError(
                f"population: expected one of {len(clients)} clients, as many as `clients` names, "
                f"got {population.n_clients}"
            )
        self.strategy, self.folder, self.seed = strategy, _absolute(folder), seed
        self.roster = Roster(clients, keys)
        self.busy: list[Busy] = []  # of the run before
        self.n_rounds = 0  # how many are wanted, for the log
        self._declared, self._availability, self._ledger = population, availability, ledger
        self._reports: dict[int, Report] = {}
        self._state: ServerState | None = None
        self._own: LiveState | None = None
        self._attendance: Any = None
        self._logs: LogFile | None = None
        self._outcomes: OutcomeFile | None = None

    # -- beginning and going on ----------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        return self._state is not None

    @property
    def state(self) -> ServerState:
        if self._state is None:
            raise RuntimeError("the federation has not begun: no client is known yet")
        return self._state

    @property
    def own(self) -> LiveState:
        assert self._own is not None
        return self._own

    def resume(self, model: ModelArrays) -> ModelArrays | None:
        """Go on with what the folder holds, if it holds anything; then the model's format there."""
        if self.folder is None or not (self.folder / "server" / STATE).is_file():
            return None
        template = LiveState("", "", "", "", 0.0)
        state = self._taken_up(self.folder / "server", template)
        try:
            found = _format_of(json.loads(template.model), model, self.folder)
            self.roster = Roster.from_json(template.roster, self.roster.keys)
            self.busy = [Busy(**plain) for plain in json.loads(template.busy)]
            self._kept(state, template)
        except BaseException:
            state.close()
            raise
        logger.info("going on from %s: %d rounds are done", self.folder, state.t)
        return found

    def _taken_up(self, folder: Path, template: LiveState) -> ServerState:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return checkpoint.resume(folder, self.strategy, template)
            except FolderInUse:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def begin(self, model: ModelArrays, params: torch.Tensor) -> None:
        """The state before round 0, for the clients that are known by now."""
        own = LiveState(uuid.uuid4().hex, json.dumps(model.about()), "", "[]", 0.0)
        own.roster = self.roster.to_json()
        state = self.strategy.init(
            self._population(),
            params,
            seed=self.seed,
            n_parameters=model.n_parameters,
            folder=None if self.folder is None else self.folder / "server",
            extra=own,
        )
        self._kept(state, own)

    def _kept(self, state: ServerState, own: LiveState) -> None:
        state.commit_every = None  # logs come first: see `commit`
        self._state, self._own = state, own
        if self._availability is not None:
            # what it drew before is drawn again: randomness has an address
            self._attendance = self._availability.init(state.population)
            for t in range(state.t):
                self._availability.draw(self._attendance, t, self._rng(t))
        if self.folder is not None:
            self._logs = LogFile(self.folder / "rounds.jsonl", state.t)
            self._outcomes = OutcomeFile(self.folder / OUTCOMES, state.t)
        self._tell()

    # -- clients -------------------------------------------------------------------------------

    def learn(self, client: int, report: Report) -> None:
        """What a client says of itself before it trains."""
        self._reports[client] = report

    @property
    def is_closed(self) -> bool:
        """Whether the declared population says things that nobody could say of a newcomer."""
        known = self._declared
        return known is not None and any(
            getattr(known, name) is not None for name in ("features", "similarity", "p", "groups")
        )

    def grow(self) -> None:
        """Take in those who have joined since."""
        state = self.state
        if len(self.roster) == state.n_clients:
            return
        before, population = state.n_clients, self._population()
        self.own.roster = self.roster.to_json()  # `grow` commits
        self.strategy.grow(state, population)
        if self._availability is not None:
            larger = self._availability.init(state.population)
            self._attendance = grow_part(self._attendance, larger)
        joined = [client.id for client in self.roster.clients[before:]]
        logger.info("%d joined: %s", len(joined), ", ".join(joined))
        self._tell()

    def retire(self, client_id: str) -> bool:
        """A client leaves for good: wanted no more, what is remembered of it erased."""
        number = self.roster.number(client_id)
        if number is None or self.roster.clients[number].retired:
            return False
        state = self.state
        self.roster.clients[number].retired = True
        self.own.roster = self.roster.to_json()
        self._reports.pop(number, None)
        _forget_facts(state, number)
        self.strategy.retire(state, number)  # commits
        for _, store in row_stores(state):
            store.erase_free()
        logger.info("%s was retired: what was remembered of it is erased", client_id)
        return True

    def _population(self) -> Population:
        """Everyone by now, with what was declared and what they said of themselves."""
        n, declared = len(self.roster), self._declared
        known = Population(n) if declared is None else declared
        sizes = _longer(known.n_examples, n)
        for number, report in self._reports.items():
            if report.n_examples is not None and np.isnan(sizes[number]):
                sizes[number] = report.n_examples
        counts = self._histograms(known.label_counts, n)
        left = [number for number, client in enumerate(self.roster.clients) if client.retired]
        sizes[left] = np.nan
        if counts is not None:
            counts[left] = np.nan
        given = sizes if not np.isnan(sizes).all() else None
        if known.n_clients == n:
            return replace(known, n_examples=given, label_counts=counts)
        return Population(n, n_examples=given, label_counts=counts)

    def _histograms(self, declared: Floats | None, n: int) -> Floats | None:
        told = {
            number: report.label_counts
            for number, report in self._reports.items()
            if report.label_counts is not None
        }
        before = declared
        if self._state is not None and self._state.population.label_counts is not None:
            before = self._state.population.label_counts
        if before is None and not told:
            return None
        if before is not None:
            width = before.shape[1]
        else:  # one odd client must not decide the number of classes
            width = Counter(len(counts) for counts in told.values()).most_common(1)[0][0]
        table = np.full((n, width), np.nan)
        if before is not None:
            table[: len(before)] = before
        for number, counts in told.items():
            if len(counts) == width and np.isnan(table[number]).any():
                table[number] = counts
        return table

    # -- rounds --------------------------------------------------------------------------------

    def reachable(self, connected: Bools) -> tuple[Bools, Floats | None]:
        """Who can be asked, after the drill where there is one; and the drill's probabilities."""
        if self._availability is None:
            return connected, None
        t = self.state.t
        p = self._availability.rates(self._attendance, t)
        return connected & self._availability.draw(self._attendance, t, self._rng(t)), p

    def settle(self, requests: Iterable[tuple[int, int]]) -> None:
        """These (client, round) will not be answered any more, or were answered in vain."""
        settled, pending = set(requests), self.state.pending
        is_open = [(int(client), int(t)) not in settled for client, t in pending]
        self.state.pending = pending[np.array(is_open, dtype=np.bool_)]

    def finish_round(
        self, log: RoundLog, outcomes: Sequence[ClientOutcome], busy: Sequence[Busy]
    ) -> None:
        """Logs first, then the state that follows them: what a crash leaves is whole."""
        self.own.clock = log.clock
        self.own.roster = self.roster.to_json()
        self.own.busy = json.dumps([vars(one) for one in busy])
        if self._logs is not None and self._outcomes is not None:
            self._logs.append(log)
            self._logs.flush()
            self._outcomes.append(outcomes)
        if self._ledger is not None:
            self._ledger.append(log)
            self._ledger.flush()
        checkpoint.commit(self.state)

    def finish(self) -> None:
        """All rounds are played."""
        if self._ledger is not None and self.has_begun:
            self._tell()  # sizes are known now
            self._ledger.finish()

    def fail(self, error: BaseException) -> None:
        """The run ends by an error; the last committed round stays."""
        if self._ledger is not None and self.has_begun:
            self._ledger.fail(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Let go of the folder."""
        if self._state is not None:
            self._state.close()

    def _rng(self, t: int) -> np.random.Generator:
        return generator(self.seed, "availability", t)

    def _tell(self) -> None:
        if self._ledger is None:
            return
        state, availability = self.state, self._availability
        sizes = state.n_examples
        counts = state.label_counts
        resolved = {
            "data": {"class": "live"},
            "model": {"class": "arrays", "names": len(json.loads(self.own.model)["names"])},
            "strategy": describe(self.strategy),
            "availability": {"class": "live"} if availability is None else describe(availability),
            "rounds": self.n_rounds,
            "evaluate_every": 1,
            "analysis": [],
            "seed": self.seed,
        }
        facts = {
            "n_clients": state.n_clients,
            "names": [client.id for client in self.roster.clients],
            "groups": None,
            "sizes": None if np.isnan(sizes).any() else sizes.tolist(),
            "n_parameters": state.n_parameters,
            "n_classes": None if counts is None else counts.shape[1],
            "data": "live federation",
        }
        self._ledger.begin(self.own.run, resolved, facts)


def _format_of(stored: dict[str, Any], given: ModelArrays, folder: Path) -> ModelArrays:
    """The stored order of the arrays; another model is refused."""

    def forms(names: Iterable[str], shapes: Iterable[Any], dtypes: Iterable[str]) -> dict[str, Any]:
        rows = zip(names, shapes, dtypes, strict=True)
        return {name: (list(shape), dtype) for name, shape, dtype in rows}

    there = forms(stored["names"], stored["shapes"], stored["dtypes"])
    here = forms(given.names, given.shapes, given.dtypes)
    odd = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
    if odd:
        raise CheckpointError(
            f"{folder}: holds another model: {odd[0]!r} is {there.get(odd[0])} there, "
            f"{here.get(odd[0])} here"
        )
    return replace(
        given,
        names=tuple(stored["names"]),
        shapes=tuple(tuple(shape) for shape in stored["shapes"]),
        dtypes=tuple(stored["dtypes"]),
        in_vector=tuple(stored["in_vector"]),
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


def _forget_facts(state: ServerState, number: int) -> None:
    """Sizes and histograms too, also those in the file of the population."""
    state.n_examples[number] = np.nan
    if state.label_counts is not None:
        state.label_counts[number] = np.nan
    known = state.population
    changes: dict[str, Any] = {}
    for name in ("n_examples", "label_counts"):
        values = getattr(known, name)
        if values is not None:
            changes[name] = values.copy()
            changes[name][number] = np.nan
    if changes:
        state.population = replace(known, **changes)


def _longer(values: Floats | None, n: int) -> Floats:
    """(n,) the values, NaN beyond them."""
    result = np.full(n, np.nan)
    if values is not None:
        result[: len(values)] = values
    return result

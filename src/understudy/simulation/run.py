"""The loop: who can be reached, who is asked, what they learnt, what the server makes of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core.brief import brief
from understudy.core.describe import differences
from understudy.core.flat import Layout
from understudy.core.rng import generator
from understudy.core.roles import Availability
from understudy.core.types import Applied, Arrivals, Cohort, Floats, Ints, RoundLog
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import CheckpointError
from understudy.parts.delay import Delay, round_seconds
from understudy.server import checkpoint
from understudy.server.state import ServerState, row_stores
from understudy.server.strategy import Filled, Strategy
from understudy.simulation import oracle as true_round
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.models import Model
from understudy.simulation.data.shared_memory import IN_MEMORY
from understudy.simulation.late import InFlight, together
from understudy.simulation.logs import KeptLogs, LogFile
from understudy.simulation.settings import Question, prepare
from understudy.simulation.training.evaluation import Evaluator, Metric
from understudy.simulation.training.local_sgd import Loss
from understudy.simulation.training.trainer import LocalTrainer
from understudy.strategies import strategy_of

if TYPE_CHECKING:
    import pandas

__all__ = ["COMMIT_EVERY", "Ledger", "Question", "Run", "SimulationState", "prepare", "simulate"]

COMMIT_EVERY = 2.0  # seconds between two commits of a run that has a folder


@dataclass
class SimulationState:
    """What a simulation remembers beside the server's state; committed with it."""

    attendance: Any
    delay: Any
    flight: InFlight
    clock: float  # simulated seconds
    about: str  # what the run is, as JSON: anything else that differs is refused


class Ledger(Protocol):
    """Where the logs of a run with a folder are kept."""

    def append(self, log: RoundLog) -> None: ...

    def flush(self) -> None:
        """Come back when all logs are safe: then the state that follows them is committed."""

    def stored(self, at_most: int) -> Iterator[RoundLog]:
        """The logs of the rounds that were played before."""


class Run:
    """A simulation that is iterated: each turn plays one round and yields its `RoundLog`.

    Made by `simulate`. Stop early with `break`; iterating again goes on where it stopped.
    """

    def __init__(
        self,
        strategy: Strategy,
        question: Question,
        folder: Path | None,
        ledger: Ledger | None = None,
    ) -> None:
        self.strategy, self._question = strategy, question
        federation, device = question.federation, question.device
        self._layout = Layout.of(question.module)
        self._rows: list[dict[str, float]] = []
        self._kept = KeptLogs()
        self.last: RoundLog | None = None  # of the rounds yielded so far
        start = self._layout.vector(question.module).to(device)
        population = federation.population()
        attendance = question.availability.init(population)
        delay = question.delay
        waiting = None if delay is None else delay.init(population, len(start), strategy.local)
        about = ""
        if folder is not None:
            onednn = LocalTrainer.rule(question.module, federation, strategy.local)
            about = question.about(start.cpu(), onednn)
        self._own = SimulationState(attendance, waiting, InFlight.none(start), 0.0, about)
        self._logs: Ledger | None = ledger
        self._stored: Iterator[RoundLog] = iter(())  # of rounds played before, not yet yielded
        if folder is not None and (folder / "server" / STATE).is_file():
            self.state = self._resumed(folder, about)
        else:
            known = replace(population, p=question.availability.rates(attendance, 0))
            self.state = strategy.init(
                known,
                start,
                seed=question.seed,
                n_parameters=self._layout.n_parameters,
                folder=None if folder is None else folder / "server",
                extra=self._own,
                round_memory=IN_MEMORY,
            )
        if folder is not None:
            self._open_logs(folder / "rounds.jsonl")
        self.state.commit_every = None  # logs come first: see _commit
        self._trainer = LocalTrainer(
            federation,
            question.module,
            strategy.local,
            question.seed,
            question.loss,
            question.workers,
            device,
        )
        outputs = self._trainer.outputs
        self._evaluator = Evaluator(federation, question.loss, question.metrics, outputs)
        self._whole = True  # False while the state is being changed
        self._last_commit = monotonic()

    def _resumed(self, folder: Path, about: str) -> ServerState:
        stored = checkpoint.numbers_of(folder / "server").get("extra.about", "{}")
        found = differences(json.loads(about), json.loads(stored))
        if found:
            raise CheckpointError(f"{folder}: holds another run: {'; '.join(found)}")
        return checkpoint.resume(folder / "server", self.strategy, self._own)

    def _open_logs(self, path: Path) -> None:
        if self._logs is None:
            try:
                self._logs = LogFile(path, self.state.t)
            except BaseException:
                self.state.close()
                raise
        # rounds after the last commit are played again, whether or not their logs were kept
        self._stored = self._logs.stored(min(self._question.rounds, self.state.t))

    # -- rounds --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[RoundLog]:
        if not self._whole:
            raise RuntimeError(
                f"round {self.state.t} was broken off by an error; make the run anew by the same "
                "call (with a folder it goes on from the last commit)"
            )
        try:
            for log in self._stored:
                yield self._noted(log)
            while self.state.t < self._question.rounds:
                yield self._noted(self._round())
            self.close()
        finally:
            self._commit(every=0.0)

    def _round(self) -> RoundLog:
        question, own, state, t = self._question, self._own, self.state, self.state.t
        begin = clock = perf_counter()
        rng = generator(question.seed, "availability", t)
        p = question.availability.rates(own.attendance, t)
        available = question.availability.draw(own.attendance, t, rng)
        available = available & ~own.flight.busy(len(available))
        cohort = self.strategy.select(
            state, available, p=p, losses=lambda ids: self._trainer.losses(state.params, ids)
        )
        seconds, deadline = self._seconds(cohort)
        timings = {"select": perf_counter() - clock}

        clock = perf_counter()
        comes = np.isfinite(seconds)  # whoever never answers need not be trained
        trained = self._trainer.train(state.params, replace(cohort, asked=cohort.asked[comes]), t)
        seconds_of_trained = seconds[comes]
        in_time = seconds_of_trained <= deadline
        timings["train"] = perf_counter() - clock

        self._whole = False
        begun, own.clock = own.clock, own.clock + round_seconds(seconds, deadline)
        landed = own.flight.land(own.clock)
        own.flight.add(trained, ~in_time, begun + seconds_of_trained, t)
        arrivals = together(trained, in_time, landed, t)
        filled = self.strategy.fill(state, cohort, arrivals)
        clock = perf_counter()
        notes, errors = self._oracle(filled, cohort, trained) if question.oracle else ({}, None)
        timings["oracle"] = perf_counter() - clock
        applied = self.strategy.finish(state, filled)
        timings |= applied.timings

        clock = perf_counter()
        metrics, client_metrics = self._metrics(t)
        timings["evaluate"] = perf_counter() - clock
        timings["round"] = perf_counter() - begin
        log = self._log(cohort, arrivals, applied, notes, timings)
        log = replace(log, metrics=metrics, client_metrics=client_metrics, errors=errors)
        if self._logs is not None:
            self._logs.append(log)
        self._whole = True
        self._commit(every=COMMIT_EVERY)
        return log

    def _seconds(self, cohort: Cohort) -> tuple[Floats, float]:
        """When each of the asked answers, and when the server stops waiting."""
        delay = self._question.delay
        if delay is None:
            return np.zeros(len(cohort.asked)), np.inf
        rng = generator(self._question.seed, "delay", cohort.t)
        return delay.delay(self._own.delay, cohort.asked, cohort.t, rng), delay.deadline

    def _oracle(
        self, filled: Filled, cohort: Cohort, trained: Arrivals
    ) -> tuple[dict[str, float], Floats]:
        """Train everyone else too, into rows of their own, and compare."""
        state = self.state
        ids = np.flatnonzero(state.active)
        others = np.setdiff1d(ids, np.asarray(trained.ids, dtype=np.int64))
        rest = self._trainer.train(
            state.params, replace(cohort, asked=others), cohort.t, into="oracle"
        )
        true = dict(trained) | dict(rest)
        groups = self._question.federation.groups
        return true_round.compare(filled, ids, [true[int(i)] for i in ids], groups)

    def _metrics(self, t: int) -> tuple[dict[str, float], dict[str, Floats]]:
        question, last = self._question, t + 1 == self._question.rounds
        metrics: dict[str, float] = {}
        clients: dict[str, Floats] = {}
        if question.evaluate and (last or (t + 1) % question.evaluate_every == 0):
            metrics = self._evaluator.scores(self.state.params, question.evaluate)
        every = question.per_client_every
        if every and (last or (t + 1) % every == 0):
            clients = self._evaluator.per_client(self.state.params)
        return metrics, clients

    def _log(
        self,
        cohort: Cohort,
        arrivals: Arrivals,
        applied: Applied,
        notes: Mapping[str, float],
        timings: dict[str, float],
    ) -> RoundLog:
        megabytes = self.state.params.nbytes / 1e6
        vectors_down = 1 if cohort.correction is None else 2
        return RoundLog(
            t=applied.t,
            outcome=applied.outcome,
            refusals=applied.refusals,
            ids=applied.contributions.ids,
            source=applied.contributions.source,
            coef=applied.contributions.coef,
            notes={**applied.notes, **notes},
            megabytes_up=megabytes * len(arrivals),
            megabytes_down=megabytes * vectors_down * len(cohort.asked),
            timings=timings,
            clock=self._own.clock,
        )

    def _noted(self, log: RoundLog) -> RoundLog:
        came = float((log.outcome == 0).sum())
        row = {"t": log.t, "came": came, "clock": log.clock, "megabytes_up": log.megabytes_up}
        row |= {"megabytes_down": log.megabytes_down, "refused": len(log.refusals)}
        self._rows.append({**row, **log.metrics, **log.notes})
        self._kept.keep(log)
        self.last = log
        return log

    # -- what is left --------------------------------------------------------------------------

    def module(self) -> nn.Module:
        """A copy of the model as it is now."""
        module = copy.deepcopy(self._question.module)
        self._layout.load(module, self.state.params.cpu())
        return module

    @property
    def federation(self) -> Federation:
        """The data, and who holds it."""
        return self._question.federation

    def start(self) -> torch.Tensor:
        """(d,) the model before the first round."""
        return self._layout.vector(self._question.module).to(self._question.device)

    def train(self, params: torch.Tensor, ids: Ints, t: int) -> Arrivals:
        """What clients would send from round `t`, had it begun with these parameters.

        The updates are borrowed until the next call; the run is not changed.
        """
        nobody = np.zeros((0, 2), dtype=np.int64)
        cohort = Cohort(t, wanted=ids, weight=np.ones(len(ids)), asked=ids, pending=nobody)
        return self._trainer.train(params, cohort, t, into="analysis")

    def scores(self, params: torch.Tensor, parts: Sequence[str] = ("test",)) -> dict[str, float]:
        """``test_loss``, ``test_accuracy`` and the like, of a model with these parameters."""
        return self._evaluator.scores(params, parts)

    @property
    def worker_deaths(self) -> int:
        """How often worker processes died and their work was done again."""
        return self._trainer.deaths

    @property
    def logs(self) -> Sequence[RoundLog]:
        """The logs of the rounds yielded so far, in order.

        They stay in memory as long as the run does, large ones compressed: at most some 6 bytes for
        each client and round. What takes a while to look through, take once: ``list(run.logs)``.
        """
        return self._kept

    def __repr__(self) -> str:
        """The strategy, how many rounds are played, and the last accuracy (or loss)."""
        words = f"{self.state.t} of {self._question.rounds} rounds played"
        for name in ("test_accuracy", "test_loss"):
            known = [row[name] for row in self._rows if name in row]
            if known:
                words += f", {name} {known[-1]:.4f}"
                break
        return f"<Run of {brief(self.strategy)}: {words}>"

    def frame(self) -> pandas.DataFrame:
        """One row per round so far: metrics, who came, clock, megabytes, notes of the parts."""
        import pandas

        return pandas.DataFrame(self._rows)

    def _commit(self, every: float) -> None:
        """Logs first, then the state that follows them; never in the middle of a round."""
        if self._logs is None or not self._whole or self.state._run_folder is None:
            return
        crowded = any(store.crowded for _, store in row_stores(self.state))
        if not crowded and monotonic() - self._last_commit < every:
            return
        self._logs.flush()
        checkpoint.commit(self.state)
        self._last_commit = monotonic()

    def close(self) -> None:
        """Commit, and let go of shared memory and of the folder."""
        self._commit(every=0.0)
        self._trainer.close()
        if self._logs is not None and self.state._run_folder is not None:
            self.state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def simulate(
    federation: Federation,
    strategy: Strategy | str,
    *,
    model: Model,
    availability: Availability | None = None,
    delay: Delay | None = None,
    rounds: int,
    seed: int = 0,
    loss: Loss = cross_entropy,
    metrics: Mapping[str, Metric] | None = None,
    evaluate: Sequence[str] = ("test",),
    evaluate_every: int = 1,
    per_client_every: int = 0,
    oracle: bool = False,
    device: str = "cpu",
    workers: int | None = None,
    folder: str | Path | None = None,
) -> Run:
    """Simulate a federation, round by round.

    Parameters
    ----------
    federation : Federation
        The data, and who holds it.
    strategy : Strategy or str
        The server's side, and how clients train; or a method's name, such as ``"fdms"``, for the
        method as its paper sets it.
    model : str, torch.nn.Module, class or function
        A name such as ``"mlp"``; a module, whose weights are the start for every seed; a class or
        function that makes a module, called under the seed's generator.
    availability : Availability, optional
        Who can be reached; everyone by default.
    delay : Delay, optional
        What happens after being asked: failures, slow clients, a deadline. A client that still
        works on an earlier request cannot be reached.
    rounds : int
        T, the number of rounds.
    seed : int
        Decides first weights, attendance, batches and all that the strategy draws. Two strategies
        with the same seed face the same attendance and the same batches.
    loss : function
        Of outputs and labels; the mean over a batch.
    metrics : dict of functions, optional
        Of outputs and labels of a whole data set, each giving a number.
    evaluate : sequence of {"test", "validation", "train"}
        What the model is evaluated on; nothing where empty.
    evaluate_every, per_client_every : int
        After every so many rounds, and after the last; 0: never per client. Per client means on a
        test set in the proportions of its own labels.
    oracle : bool
        Train the absent too, and log how far each round was from the one with everybody.
    device : str
        ``"cpu"``, or what torch calls another device.
    workers : int, optional
        Processes; by default one per core. The bits do not depend on it.
    folder : path, optional
        Where the run is kept. The same call goes on where it stopped, first yielding the stored
        logs; `rounds`, `workers` and `evaluate_every` may change. With fewer rounds than are
        stored, only these are yielded, while `state` and `module` stay those of the last one.

    Returns
    -------
    Run
        To be iterated; ``run.state`` is the server's state, ``run.module()`` the model,
        ``run.frame()`` a table of the rounds, ``run.logs`` their logs.

    Examples
    --------
    >>> from understudy import FixedDropout, fdms
    >>> from understudy.simulation import clustered_digits, simulate
    >>> run = simulate(
    ...     clustered_digits(), fdms(), model="softmax", availability=FixedDropout(0.7), rounds=3
    ... )
    >>> [log.t for log in run]
    [0, 1, 2]
    """
    question = prepare(
        federation,
        model=model,
        availability=availability,
        delay=delay,
        rounds=rounds,
        seed=seed,
        loss=loss,
        metrics=metrics,
        evaluate=evaluate,
        evaluate_every=evaluate_every,
        per_client_every=per_client_every,
        oracle=oracle,
        device=device,
        workers=workers,
    )
    return Run(strategy_of(strategy), question, None if folder is None else Path(folder))

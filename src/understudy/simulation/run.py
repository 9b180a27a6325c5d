"""The loop: who can be reached, who is asked, what they learnt, what the server makes of it."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import numpy as np
import torch
from torch import nn

from understudy.core import checks
from understudy.core.describe import describe, differences, told_fields
from understudy.core.files import refuse_link
from understudy.core.flat import Layout
from understudy.core.rng import generator
from understudy.core.shown import part_text
from understudy.core.threads import one_thread
from understudy.core.types import Arrivals, Cohort, Floats, Ints, RoundLog, Setup
from understudy.journal.file import LogFile
from understudy.journal.memory import KeptLogs
from understudy.journal.protocol import Journal
from understudy.journal.rounds import row_of
from understudy.memory.run_folder import ROUNDS, STATE
from understudy.memory.tensor_stream import CheckpointError, named_faults
from understudy.parts.delay import round_seconds, tell_of_cohort
from understudy.registry import imported
from understudy.representation import Warnings
from understudy.server import checkpoint
from understudy.server.loop import RoundLoop
from understudy.server.round import decoded_by
from understudy.server.state import ServerState
from understudy.server.strategy import Filled, Strategy
from understudy.simulation import oracle
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.models import Model
from understudy.simulation.data.shared_memory import IN_MEMORY
from understudy.simulation.facts import client_facts, run_facts
from understudy.simulation.first_graph import meet_everybody, with_answers
from understudy.simulation.late import InFlight, together
from understudy.simulation.references import constant_scores
from understudy.simulation.settings import ENGINE_BEFORE, Options, Simulation, shows_settings
from understudy.simulation.training.evaluation import PARTS, Evaluator
from understudy.simulation.training.jobs import EngineChoice
from understudy.simulation.training.preparation import with_inputs_for
from understudy.simulation.training.trainers.choice import trainer_of
from understudy.simulation.training.trainers.task import TrainingTask
from understudy.strategies import strategy_of

if TYPE_CHECKING:
    import pandas

__all__ = ["OtherEngine", "Run", "SimulationState", "simulate"]

FEW = 16  # rows of late updates that there is room for at first
_log = logging.getLogger("understudy")


@dataclass
class SimulationState:
    """What a simulation remembers beside the server's state; committed with it."""

    attendance: Any
    delay: Any
    flight: InFlight
    clock: float  # simulated seconds
    about: str  # what the run is, as JSON: anything else that differs is refused
    recent: torch.Tensor  # (r, d) models of the rounds before, where a mean of several is evaluated


class OtherEngine(CheckpointError):
    """A run was trained by another engine than would train it now."""

    def __init__(self, folder: Path, theirs: str, ours: EngineChoice) -> None:
        self.theirs, self.ours = theirs, ours.name
        because = f" ({ours.reason})" if ours.reason else ""
        super().__init__(
            f"{folder}: its rounds were trained by the engine {theirs!r}, and here {ours.name!r} "
            f"would train{because}. Their last bits differ. "
            + (
                'With engine="loop" (or UNDERSTUDY_ENGINE=loop) the run can be resumed'
                if theirs == "loop"
                else "Resume it where that engine is, or run it again in another folder"
            )
        )


class RunByAnotherThread(RuntimeError):
    """A run is iterated by two threads at a time."""


class Run:
    """A simulation that is iterated: each iteration runs one round and yields its `RoundLog`.

    Stop early with `break`; iterating again continues where it stopped.

    Parameters
    ----------
    federation : Federation
        The data, and who holds it.
    strategy : Strategy
        The server's side, and how clients train.
    settings : Simulation
        All else. `simulate` takes them one by one.
    folder : path, optional
        Where the run is kept.
    journal : Journal, optional
        What keeps the logs; by default a file in the folder.
    """

    @one_thread()  # a forked child has no other, and larger arrays would wait for them
    def __init__(
        self,
        federation: Federation,
        strategy: Strategy,
        settings: Simulation,
        folder: str | Path | None = None,
        journal: Journal | None = None,
    ) -> None:
        settings.check(federation)
        if journal is not None:
            checks.part("journal", journal, "begin", "append", "flush", "finish", "fail", "stored")
        federation = settings.fitted(federation)
        self._first = settings.module(federation)  # never trained
        federation = with_inputs_for(self._first, federation)
        strategy = with_answers(strategy, self._first, federation, settings.seed)
        self.federation, self.strategy, self.settings = federation, strategy, settings
        self._layout = Layout.of(self._first)
        kept = None
        if folder is not None:
            refuse_link(Path(folder) / "server")
            kept = _stored_about(Path(folder))
        self._task = TrainingTask.of(
            federation,
            self._first,
            strategy.local,
            settings.seed,
            settings.loss,
            settings.workers,
            settings.device,
            _engine_for(settings, kept),
        )
        self._trainer = trainer_of(self._task, settings.trainer)
        engine = self._task.recipe.engine
        because = f" ({engine.reason})" if engine.reason else ""
        _log.info("clients are trained by: %s%s", engine.name, because)
        self._evaluator = Evaluator(federation, settings, self._trainer.outputs)
        self._rows: list[dict[str, float]] = []
        self._kept = KeptLogs()
        self._warnings = Warnings(client_facts(federation, settings.delay))
        self.last: RoundLog | None = None  # of the rounds yielded so far
        self._stored: Iterator[RoundLog] = iter(())  # of rounds run before, not yet yielded
        self._playing = threading.Lock()
        self._has_failed = False  # the journal was told so
        self._loop = self._opened(None if folder is None else Path(folder), journal)
        try:
            meet_everybody(strategy, self.state, lambda ids: self.train(self.start(), ids, 0))
        except BaseException:
            self.close()
            raise

    def _opened(self, folder: Path | None, journal: Journal | None) -> RoundLoop:
        """The loop before the first round, or after that of the last commit in the folder."""
        settings, start, about = self.settings, self.start(), ""
        if folder is not None or journal is not None:
            onednn = self._task.recipe.onednn
            about = settings.about(self.federation, self._first, start.cpu(), onednn, self.engine)
        population = self.federation.population()
        attendance, waiting = settings.availability.init(population), None
        if settings.delay is not None:
            waiting = settings.delay.init(population, len(start), self.strategy.local)

        def own(setup: Setup) -> SimulationState:
            rows = None if settings.delay is None else setup.rows(slots=FEW)
            flight = InFlight.none(start, rows)
            none = start.new_zeros((0, len(start)))
            return SimulationState(attendance, waiting, flight, 0.0, about, none)

        if folder is not None and (folder / "server" / STATE).is_file():
            _refuse_other_run(folder, about, self._task.recipe.engine)
            state = checkpoint.resume(folder / "server", self.strategy, own)
        else:
            state = self.strategy.init(
                # checkpoints keep no names, so that a resumed strategy would not have them
                replace(population, p=settings.availability.rates(attendance, 0), names=None),
                start,
                seed=settings.seed,
                n_parameters=self._layout.n_parameters,
                folder=None if folder is None else folder / "server",
                extra=own,
                round_memory=IN_MEMORY,
            )
        try:
            state.extra.flight.store_rows()
            if journal is None and folder is not None:
                journal = LogFile(folder / ROUNDS, state.t)
            journals = () if journal is None else (journal,)
            loop = RoundLoop(self.strategy, state, settings.availability, journals)
            if folder is not None and journal is not None:
                # rounds after the last commit are run again, whether or not their logs were kept
                self._stored = journal.stored(min(settings.rounds, state.t))
            if state.t <= settings.rounds:  # else it is opened to be looked at
                self._describe(loop)
                if state.t == settings.rounds:
                    loop.finish()
        except BaseException:
            state.close()
            raise
        return loop

    def _describe(self, loop: RoundLoop) -> None:
        """Tell the journal, if there is one, what the run is."""
        if loop.journals:
            run = hashlib.sha256(loop.state.extra.about.encode()).hexdigest()
            facts = run_facts(self.federation, loop.state.n_parameters, self.engine)
            loop.describe(run, self._resolved(), facts)

    def _resolved(self) -> dict[str, Any]:
        """What a study would say of the run."""
        fields = (item.name for item in told_fields(self.settings))
        told = [name for name in fields if name not in ("model", "trainer")]
        return {
            "data": {"class": "simulation"},
            "model": {"class": type(self._first).__name__},
            "strategy": describe(self.strategy),
            "analysis": [],
            **{name: describe(getattr(self.settings, name)) for name in told},
        }

    @property
    def state(self) -> ServerState:
        """The server's."""
        return self._loop.state

    @property
    def _own(self) -> SimulationState:
        own: SimulationState = self.state.extra
        return own

    # -- rounds --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[RoundLog]:
        if not self._loop.is_whole:
            raise RuntimeError(
                f"round {self.state.t} was interrupted by an error; make the run again by the same "
                "call (with a folder it resumes from the last commit)"
            )
        if self._has_failed:
            self._has_failed = False
            self._describe(self._loop)
        try:
            for log in self._stored:
                yield self._noted(log)
            while self.state.t < self.settings.rounds:
                yield self._noted(self._round_alone())
            self._loop.commit()
            self._loop.finish()
        except RunByAnotherThread:
            raise  # what it does, and what became of it, is that thread's
        except Exception as error:
            self._has_failed = True
            self._loop.fail(error)
            self._leave()
            raise
        except BaseException:  # left by the caller, or Ctrl-C
            self._leave()
            raise
        self.close()

    def _leave(self) -> None:
        """Commit the rounds so far; after half a round the run has to be opened again."""
        if self._loop.is_whole:
            self._loop.commit()
        else:
            self.close()

    def _round_alone(self) -> RoundLog:
        """A round, unless another thread plays one: the two would write to the same state."""
        if not self._playing.acquire(blocking=False):
            raise RunByAnotherThread(
                f"round {self.state.t} of this run is being run by another thread; make a run "
                "for each thread, or iterate this one in one of them"
            )
        try:
            with one_thread():  # the bits of a round are those of one, whoever measures what
                return self._round()
        finally:
            self._playing.release()

    def _round(self) -> RoundLog:
        settings, own, state, t = self.settings, self._own, self.state, self.state.t
        begin = clock = perf_counter()
        cohort = self._loop.begin(
            ~own.flight.busy(state.n_clients),
            losses=lambda ids: self._trainer.losses(state.params, ids),
        )
        seconds, deadline = self._seconds(cohort)
        timings = {"select": perf_counter() - clock}

        clock = perf_counter()
        comes = np.isfinite(seconds)  # whoever never answers need not be trained
        trained = self._trainer.train(state.params, replace(cohort, asked=cohort.asked[comes]))
        if settings.delay is not None:
            trained = replace(trained, seconds=seconds[comes])
        in_time = seconds[comes] <= deadline
        timings["train"] = perf_counter() - clock

        self._loop.is_whole = False
        now = own.clock + round_seconds(seconds, deadline)
        landed = own.flight.land(now)
        own.flight.add(trained, ~in_time, own.clock + seconds[comes], t)
        arrivals = together(trained, in_time, landed, t)
        notes: dict[str, float] = {}
        errors: Floats | None = None

        def look(filled: Filled) -> None:
            nonlocal notes, errors
            clock = perf_counter()
            notes, errors = self._oracle(filled, cohort, trained) if settings.oracle else ({}, None)
            timings["oracle"] = perf_counter() - clock

        failed = ((client, t) for client in cohort.asked[~comes].tolist())  # nothing will come
        applied = self._loop.step(cohort, arrivals, look, closed=failed)
        timings |= applied.timings

        clock = perf_counter()
        metrics, client_metrics = self._evaluator.after(t, self._evaluated())
        timings["evaluate"] = perf_counter() - clock
        timings["round"] = perf_counter() - begin
        megabytes = state.params.nbytes / 1e6
        return self._loop.end(
            applied,
            notes,
            metrics=metrics,
            client_metrics=client_metrics,
            errors=errors,
            megabytes_up=megabytes * len(arrivals),
            megabytes_down=megabytes * cohort.vectors_down * len(cohort.asked),
            timings=timings,
            clock=now,
        )

    def _seconds(self, cohort: Cohort) -> tuple[Floats, float]:
        """When each of the asked answers, and when the server stops waiting."""
        delay, state = self.settings.delay, self._own.delay
        if delay is None:
            return np.zeros(len(cohort.asked)), np.inf
        tell_of_cohort(delay, state, cohort)
        rng = generator(self.settings.seed, "delay", cohort.t)
        return delay.delay(state, cohort.asked, cohort.t, rng), delay.deadline

    def _oracle(
        self, filled: Filled, cohort: Cohort, trained: Arrivals
    ) -> tuple[dict[str, float], Floats]:
        """Train everyone else too, into rows of their own, and compare."""
        ids = np.flatnonzero(self.state.active)
        others = np.setdiff1d(ids, np.asarray(trained.ids, dtype=np.int64))
        rest = self._trainer.train(self.state.params, replace(cohort, asked=others), into="oracle")
        sent = {**dict(trained), **dict(rest)}
        all_of_them = Arrivals(ids, [sent[int(i)] for i in ids])
        none = Arrivals.none()
        true = dict(decoded_by(self.strategy, self.state, cohort, all_of_them, none)[0])
        return oracle.compare(filled, ids, [true[int(i)] for i in ids], self.federation.groups)

    def _evaluated(self) -> torch.Tensor:
        """What is evaluated: the model, or the mean of the last models there are."""
        params, models = self.state.params, self.settings.evaluate_mean_of
        if models == 1:
            return params
        recent = torch.cat([self._own.recent, params[None]])
        self._own.recent = recent[-(models - 1) :].clone()
        return recent.mean(dim=0)

    def _noted(self, log: RoundLog) -> RoundLog:
        self._rows.append(row_of(log))
        self._kept.append(log)
        self.last = log
        return log

    # -- what is left --------------------------------------------------------------------------

    @one_thread()
    def module(self) -> nn.Module:
        """A copy of the model as it is now."""
        module = copy.deepcopy(self._first)
        self._layout.load(module, self.state.params.cpu())
        return module

    @one_thread()
    def start(self) -> torch.Tensor:
        """(d,) the model before the first round."""
        return self._layout.vector(self._first).to(self.settings.device)

    @one_thread()
    def train(self, params: torch.Tensor, ids: Ints, t: int) -> Arrivals:
        """What clients would send from round `t`, had it begun with these parameters.

        The updates are borrowed until the next call; the run is not changed.
        """
        ids, n_clients = checks.array("ids", ids, (None,), int), self.federation.n_clients
        if len(ids) and not 0 <= ids.min() <= ids.max() < n_clients:
            raise IndexError(
                f"ids: expected clients 0 .. {n_clients - 1}, got {ids.min()} .. {ids.max()}"
            )
        nobody = np.zeros((0, 2), dtype=np.int64)
        lr = self.strategy.local.lr_at(self.state.updates_before(t))
        cohort = Cohort(t, wanted=ids, weight=np.ones(len(ids)), asked=ids, pending=nobody, lr=lr)
        return self._trainer.train(params, cohort, into="analysis")

    @one_thread()
    def scores(self, params: torch.Tensor, parts: Sequence[str] = ("test",)) -> dict[str, float]:
        """``test_loss``, ``test_accuracy`` and the like, of a model with these parameters."""
        for part in parts:
            checks.choice("parts", part, PARTS)
        return self._evaluator.scores(params, parts)

    @one_thread()
    def constant_scores(self) -> dict[str, float]:
        """Test scores of always predicting the most frequent class, or the mean of the targets.

        The class, or the mean, of all training examples; a model that learnt something is better.
        """
        return constant_scores(self.federation, self.settings)

    @property
    def engine(self) -> str:
        """Which engine trains the clients: ``"loop"``, or ``"kernels"`` and their version."""
        return self._task.recipe.engine.name

    @property
    def logs(self) -> Sequence[RoundLog]:
        """The logs of the rounds yielded so far, in order.

        They stay in memory as long as the run does, large ones compressed: at most some 6 bytes for
        each client and round. What takes a while to look through, take once: ``list(run.logs)``.
        """
        return self._kept

    @property
    def warnings(self) -> Warnings:
        """Who was left out of the rounds yielded so far, and what else to know of them.

        Iterated, it gives what holds now, then what held for a time; ``warnings.current`` is the
        former. Nothing of a run depends on it: it is computed from the logs when it is asked for.
        """
        for place in range(self._warnings.representation.n_rounds, len(self._kept)):
            self._warnings.add(self._kept[place])  # one at a time: large ones are compressed
        return self._warnings

    def __repr__(self) -> str:
        """The strategy, how many rounds are done, and the last accuracy (or loss)."""
        words = f"{self.state.t} of {self.settings.rounds} rounds done"
        for name in ("test_accuracy", "test_loss"):
            known = [row[name] for row in self._rows if name in row]
            if known:
                words += f", {name} {known[-1]:.4f}"
                break
        return f"<Run of {part_text(self.strategy)}: {words}>"

    def _repr_html_(self) -> str:
        """As a notebook shows it: with the attendance map and the warnings so far."""
        shown: str = imported("understudy.plots.run_page:html_of")(self)
        return shown

    def frame(self) -> pandas.DataFrame:
        """One row per round so far: metrics, who came, clock, megabytes, notes of the parts."""
        import pandas

        return pandas.DataFrame(self._rows)

    def close(self) -> None:
        """Commit, and let go of shared memory and of the folder."""
        try:
            self._loop.commit()
        finally:
            try:
                self._trainer.close()
            finally:
                if self.state._run_folder is not None:
                    self._loop.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _stored_about(folder: Path) -> dict[str, Any] | None:
    """What the run is that a folder holds; None where it holds none."""
    if not (folder / "server" / STATE).is_file():
        return None
    with named_faults(folder / "server" / STATE):
        told = checkpoint.numbers_of(folder / "server").get("extra.about", "{}")
        return dict(json.loads(told))


def _refuse_other_run(folder: Path, about: str, engine: EngineChoice) -> None:
    """Refuse to resume what is not this run, naming each difference."""
    own, stored = json.loads(about), _stored_about(folder) or {}
    stored.setdefault("engine", ENGINE_BEFORE)
    found = differences(own, stored)
    if own["engine"] != stored["engine"] and len(found) == 1:
        raise OtherEngine(folder, stored["engine"], engine)
    if found:
        raise CheckpointError(f"{folder}: holds another run: {'; '.join(found)}")


def _engine_for(settings: Simulation, stored: dict[str, Any] | None) -> str:
    """The setting; a run that was stored without its engine is resumed by the one of that time."""
    unnamed = stored is not None and "engine" not in stored
    return ENGINE_BEFORE if unnamed and settings.engine == "auto" else settings.engine


@shows_settings
def simulate(
    federation: Federation,
    strategy: Strategy | str,
    *,
    model: Model,
    rounds: int,
    folder: str | Path | None = None,
    **options: Unpack[Options],
) -> Run:
    """Simulate a federation, round by round.

    Parameters
    ----------
    federation : Federation
        The data, and who holds it.
    strategy : Strategy or str
        The server's side, and how clients train; or a method's name, such as ``"fdms"``, for the
        method with the parts and the local training of its paper.
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
        Of outputs and labels; the mean over a batch. A regression needs one, such as torch's
        ``mse_loss``; where it would broadcast outputs against targets of another shape, that is an
        error.
    metrics : list of str, or dict of functions, optional
        What is measured beside loss and accuracy. By name ``"auc"``, ``"f1"``,
        ``"balanced_accuracy"`` and ``"recall"`` of each class; of a regression ``"r2"``, ``"mae"``
        and ``"rmse"``. Or label → name or function of outputs and labels of a whole data set, which
        gives a number, or one for each class.
    evaluate : sequence of {"test", "validation", "train"}
        What the model is evaluated on; nothing where empty.
    evaluate_every, per_client_every : int
        After every so many rounds, and after the last; 0: never per client. Per client means on a
        test set in the proportions of its own labels.
    evaluate_mean_of : int
        What is evaluated, for clients too: the mean of the models after this many last rounds, or
        of those there are; 1: the model itself. FedExP's paper evaluates the mean of two. It
        changes no round, and ``run.module()`` is the last model.
    oracle : bool
        Train the absent too, and log how far each round was from the one with everybody.
    device : str
        ``"cpu"``, or what torch calls another device.
    workers : int, optional
        How many clients are trained at a time: in threads by the compiled kernels, in processes by
        the loop; by default one per core. The bits do not depend on it.
    engine : {"auto", "loop", "kernels"}
        What trains the clients: by default compiled kernels where they are installed and the model
        is a plain chain of small layers, else the loop, which trains any module. The two differ in
        last bits. ``"kernels"`` is an error where they cannot train the model.
    trainer : class or function, or "ray", optional
        Makes a `Trainer` from a `TrainingTask`: where clients are trained, if not in threads and
        processes of this machine. ``RayTrainer(address)`` does so on a Ray cluster; ``"ray"``
        stands for ``RayTrainer()``. The bits do not depend on it.
    folder : path, optional
        Where the run is kept. The same call continues where it stopped, first yielding the stored
        logs; `rounds`, `workers`, `trainer` and `evaluate_every` may change. With fewer rounds than
        are stored, only these are yielded; `state` and `module` stay those of the last one.

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
    settings = Simulation(model=model, rounds=rounds, **cast(Any, options))
    return Run(federation, strategy_of(strategy), settings, folder)

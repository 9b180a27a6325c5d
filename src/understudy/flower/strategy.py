"""A Flower strategy that drives any Understudy strategy, with deadlines and resumption.

`select` in `configure_train`, `apply` in `aggregate_train`. Flower's own loop has one timeout and
does not resume, so `start` has a loop of its own; called by another loop (such as that of a privacy
wrapper) the four methods do the same without deadlines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy import Strategy as FlowerStrategy

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.roles import Availability
from understudy.core.types import Arrivals, Outcome, Population
from understudy.flower import log as logged
from understudy.flower.clients.identity import Node
from understudy.flower.clients.members import Members
from understudy.flower.log import logger
from understudy.flower.messages import metrics as reported
from understudy.flower.messages import names
from understudy.flower.messages.local_config import local_values
from understudy.flower.messages.model_arrays import BUFFERS
from understudy.flower.messages.reply_checks import Limits, Update, read_update
from understudy.flower.messages.requests import (
    MOST_FAILED_ROUNDS,
    PUSH,
    Clock,
    Collected,
    ReplyBox,
    Request,
    Timing,
    connected,
    wait_for_nodes,
)
from understudy.flower.rounds.global_model import GlobalModel
from understudy.flower.rounds.live_round import TOO_SLOW, LiveRound
from understudy.flower.rounds.live_state import Busy
from understudy.flower.rounds.membership import Answer, Membership
from understudy.flower.rounds.outcomes import ClientOutcome
from understudy.flower.rounds.sampled import Sampled
from understudy.flower.rounds.server import LiveServer
from understudy.journal.protocol import Journal
from understudy.parts.local import UPDATE, reply_of
from understudy.parts.samplers.uniform import Everyone
from understudy.representation import Thresholds
from understudy.server.strategy import Strategy

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
Value = TypeVar("Value")


class UnderstudyStrategy(FlowerStrategy):
    """An Understudy strategy in a Flower federation.

    Parameters
    ----------
    strategy : Strategy, optional
        Such as ``fdms()``; by default FedAvg: those who come are averaged by their examples.
    timing : Timing, optional
        When a round ends. The `timeout` given to `start` bounds the deadline.
    members : Members, optional
        Which clients are expected, what is known of them, who leaves, how ids are found out.
    folder : path, optional
        Where the run is kept, absolute. The next run with the same folder resumes after the last
        finished round.
    seed : int
        Of all that is drawn.
    limits : Limits, optional
        What a reply may be at most.
    buffers : sequence of str
        Patterns of the names of arrays that are buffers, not parameters.
    availability : Availability, optional
        Simulated absence: who cannot be asked, besides those who are not connected.
    ledger : Journal, optional
        Where rounds are logged besides the folder, such as `understudy.studies.LiveLog`.
    fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes, min_available_nodes
        As in Flower's FedAvg, but waiting is bounded by `wait`. A `fraction_train` below 1 needs a
        strategy that wants everyone: in others the sampler decides.
    weighted_by_key, arrayrecord_key, configrecord_key
        As in Flower's FedAvg.
    train_metrics_aggr_fn, evaluate_metrics_aggr_fn : function, optional
        As in Flower's FedAvg; called with replies of the same keys only.
    warn : Thresholds, optional
        When it is told who is left out, in the log and by whatever shows the run; see
        `understudy.representation`.
    clock : Clock, optional
        Time, for tests.
    deadline, quorum, grace, late_for, wait, poll
        Fields of `timing` one by one, in its place.
    clients, population, retired, same_as, forget_after, keys, introduce
        Fields of `members` one by one, in its place.
    """

    def __init__(
        self,
        strategy: Strategy | None = None,
        *,
        timing: Timing | None = None,
        members: Members | None = None,
        folder: str | Path | None = None,
        seed: int = 0,
        limits: Limits | None = None,
        buffers: Sequence[str] = BUFFERS,
        availability: Availability | None = None,
        ledger: Journal | None = None,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = names.N_EXAMPLES,
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: reported.Aggregate | None = None,
        evaluate_metrics_aggr_fn: reported.Aggregate | None = None,
        warn: Thresholds | None = None,
        clock: Clock | None = None,
        deadline: float | None = None,
        quorum: float | None = None,
        grace: float | None = None,
        late_for: float | None = None,
        wait: float | None = None,
        poll: float | None = None,
        clients: Sequence[str] | None = None,
        population: Population | None = None,
        retired: Sequence[str] | None = None,
        same_as: Mapping[str, str] | None = None,
        forget_after: int | None = None,
        keys: bool | None = None,
        introduce: bool | None = None,
    ) -> None:
        timing = _value(
            "timing",
            timing,
            Timing,
            deadline=deadline,
            quorum=quorum,
            grace=grace,
            late_for=late_for,
            wait=wait,
            poll=poll,
        )
        members = _value(
            "members",
            members,
            Members,
            clients=clients,
            population=population,
            retired=retired,
            same_as=same_as,
            forget_after=forget_after,
            keys=keys,
            introduce=introduce,
        )
        if warn is not None and not isinstance(warn, Thresholds):
            raise TypeError(f"warn: expected Thresholds, got {warn!r}")
        for name, share in (("train", fraction_train), ("evaluate", fraction_evaluate)):
            checks.number(f"fraction_{name}", share, low=0, high=1)
        self.fraction_train, self.fraction_evaluate = fraction_train, fraction_evaluate
        self.min_train_nodes = min_train_nodes if fraction_train else 0
        self.min_evaluate_nodes = min_evaluate_nodes if fraction_evaluate else 0
        self.min_available_nodes = min_available_nodes
        self.weighted_by_key = weighted_by_key
        self.arrayrecord_key, self.configrecord_key = arrayrecord_key, configrecord_key
        self.train_metrics_aggr_fn = train_metrics_aggr_fn
        self.evaluate_metrics_aggr_fn = evaluate_metrics_aggr_fn
        self.limits = Limits() if limits is None else limits
        self.strategy = self._with_sampler(strategy or Strategy())
        clock = Clock() if clock is None else clock
        self.server = LiveServer(
            self.strategy,
            folder=folder,
            seed=seed,
            members=members,
            availability=availability,
            ledger=ledger,
            clock=clock,
            limits=warn,
        )
        self.outcomes: tuple[ClientOutcome, ...] = ()  # of the last round
        self._mailbox = ReplyBox(timing, clock)
        self._members = Membership(
            self.server,
            self._mailbox,
            self.limits,
            weighted_by_key,
            replace(members, introduce=members.introduce and fraction_train > 0),
        )
        self._model = GlobalModel(self.server, buffers)
        self._waits = False  # whether our own loop sends messages and waits for answers
        self._round = LiveRound(0, 0.0)

    def _with_sampler(self, strategy: Strategy) -> Strategy:
        if not isinstance(strategy, Strategy):
            raise TypeError(f"strategy: expected an understudy.Strategy, got {strategy!r}")
        if reply_of(strategy.local) != UPDATE:
            raise ValueError(
                "strategy.local.rule: expected one whose clients send updates, got "
                f"{strategy.local.rule!r}, which simulations only can train"
            )
        if self.fraction_train not in (0, 1):
            if strategy.sampler != Everyone():
                raise ValueError(
                    f"fraction_train: expected 1.0 with {strategy.sampler!r}, which decides itself "
                    f"who is wanted, got {self.fraction_train!r}"
                )
            sampler = Sampled(float(self.fraction_train), self.min_train_nodes)
            strategy = replace(strategy, sampler=sampler)
        return strategy

    @property
    def timing(self) -> Timing:
        """When a round ends."""
        return self._mailbox.timing

    # -- the loop ------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run rounds until `num_rounds` are finished, those of earlier runs included.

        Parameters
        ----------
        grid : Grid
            Flower's.
        initial_arrays : ArrayRecord
            The model, whatever arrays it has; not used where the folder holds a later one.
        num_rounds : int
            All together.
        timeout : float
            Seconds that a round waits at most, if the deadline is longer.
        train_config, evaluate_config : ConfigRecord, optional
            Sent to the clients. Values that are in `train_config` take precedence over those of
            ``strategy.local``.
        evaluate_fn : function, optional
            Of the round and the arrays: called before the first round and after each.

        Raises
        ------
        RuntimeError
            It was called before: an object plays one run. A new one with the same folder resumes.
        """
        self.server.refuse_if_over()
        train_config = ConfigRecord() if train_config is None else train_config
        evaluate_config = ConfigRecord() if evaluate_config is None else evaluate_config
        deadline = min(self.timing.deadline, float(timeout))
        self._mailbox.timing = replace(self.timing, deadline=deadline)
        self.server.n_rounds = num_rounds
        self.server.timing = {
            "deadline": deadline,
            "quorum": self.timing.quorum,
            "grace": self.timing.grace,
        }
        logger.info("Starting %s:", type(self).__name__)
        self.summary()
        result = Result()
        try:
            self._model.open(initial_arrays)
            result.arrays = self._model.returned()
            self._waits = True
            if self.server.results is not None:
                self.server.results.restore(result)
            if self.server.has_begun:
                self._members.retire()  # also where no round is left
            if evaluate_fn is not None and self.server.t == 0:
                _keep(result.evaluate_metrics_serverapp, 0, evaluate_fn(0, result.arrays))
            for number in range(self.server.t + 1, num_rounds + 1):
                logger.info("")
                logger.info("[ROUND %d/%d]", number, num_rounds)
                self._play(number, grid, result, train_config, evaluate_config, evaluate_fn)
            if self.server.missed:
                raise RuntimeError(self._nobody(f"after {num_rounds} rounds"))
            self.server.finish()
        except BaseException as error:
            self.server.fail(error)
            raise
        finally:
            self.server.close()
        logged.log_result(result)
        logged.log_warnings(self.server.warnings)
        return result

    def _play(
        self,
        number: int,
        grid: Grid,
        result: Result,
        train_config: ConfigRecord,
        evaluate_config: ConfigRecord,
        evaluate_fn: Evaluate | None,
    ) -> None:
        """One round; `result.arrays` is the model before and after it."""
        self.configure_train(number, result.arrays, train_config, grid)
        round_ = self._round
        if round_.trains:
            round_.sent = self._mailbox.send(grid, round_.messages)
            if not round_.sent and self._mailbox.owed:
                logger.info("nobody is free: the round waits for answers to earlier requests")
            round_.found = self._mailbox.collect(grid, round_.sent, or_earlier=True)
            arrays, means = self.aggregate_train(number, round_.found.replies.values())
            result.arrays = result.arrays if arrays is None else arrays
            _keep(result.train_metrics_clientapp, number, means)

        self.configure_evaluate(number, result.arrays, evaluate_config, grid)
        round_.evaluation_sent = self._mailbox.send(grid, round_.evaluation)
        answers = self._mailbox.collect(grid, round_.evaluation_sent)
        means = self.aggregate_evaluate(number, answers.replies.values())
        _keep(result.evaluate_metrics_clientapp, number, means)

        if evaluate_fn is not None:
            measured = evaluate_fn(number, result.arrays)
            logger.info("\t└──> Global evaluation: %s", measured)
            _keep(result.evaluate_metrics_serverapp, number, measured)
            self._measured(names.BY_SERVER, measured)
        self._end_round(result)

    # -- Flower's four methods -----------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Whom the round asks, and what they are sent."""
        round_ = self._round = LiveRound(self.server.t, self._mailbox.clock.now())
        self._model.open(arrays)
        if not self.fraction_train:
            return []
        begin = perf_counter()
        nodes, early = self._gather(grid, config, self.min_train_nodes)
        if not self.server.has_begun:
            return []
        server, state, model = self.server, self.server.state, self._model
        model.adopt(arrays)
        there = {node.id: node for node in nodes}
        free, why = self._members.free(there)
        cohort = server.loop.begin(free)
        absent = np.flatnonzero(free & ~server.loop.available).tolist()
        round_ = self._round = LiveRound(state.t, self._mailbox.clock.now(), cohort, trains=True)
        round_.why = why | dict.fromkeys(absent, "simulated absence")
        round_.refusals = self._members.take_refused()
        current, megabytes = model.record(), model.format.megabytes
        values = self._values(config, server_round)
        for number in cohort.asked.tolist():
            node = there[server.roster.clients[number].node]
            start = state.params if cohort.start is None else cohort.start(number)
            request = Request("train", node, state.t, self._mailbox.clock.now(), number, start)
            if node.id in early and early[node.id][0].t == state.t:
                round_.early.append((request, early[node.id][1]))
                continue
            own = current if cohort.start is None else model.record(start)
            settings = ConfigRecord({**values, names.CLIENT_NUMBER: number})
            content = RecordDict({self.arrayrecord_key: own, self.configrecord_key: settings})
            round_.megabytes_down += megabytes
            if cohort.correction is not None:
                content[names.CORRECTION] = model.record(cohort.correction(number))
                round_.megabytes_down += megabytes
            round_.messages.append((self._message(content, node, MessageType.TRAIN), request))
        round_.timings["select"] = perf_counter() - begin
        logger.info(
            "configure_train: %d of %d clients wanted, %d asked; %d nodes connected",
            len(cohort.wanted),
            int(state.active.sum()),  # not those who have left
            len(cohort.asked),
            len(nodes),
        )
        return [message for message, _ in round_.messages]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take what came, fresh and late, and step."""
        round_, server = self._round, self.server
        if not round_.trains:
            return None, None
        if not self._waits:  # another loop has waited
            round_.found = Collected(replies=_by_request(replies))
            round_.sent = {message.metadata.message_id: one for message, one in round_.messages}
            gone = set(round_.found.replies)
            self._mailbox.owed |= {n: one for n, one in round_.sent.items() if n not in gone}
        round_.take(self._mailbox.take_late(), self._read)
        arrivals = round_.arrivals()
        round_.close(server.loop.step(round_.cohort, arrivals, closed=round_.closed))
        for number in np.flatnonzero(round_.applied.outcome == Outcome.CAME).tolist():
            server.roster.clients[number].came = round_.t
        self._members.adopt({request.client: content for request, _, content in round_.came})
        self._log_outcomes(round_)
        means = reported.aggregate(
            round_.taken(server.roster.clients), self.weighted_by_key, self.train_metrics_aggr_fn
        )
        self._measured(names.BY_CLIENTS_IN_TRAINING, means)
        return (self._model.returned() if round_.applied.stepped else None), means

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Ask some of those who are free how good the model is."""
        round_ = self._round
        if not self.fraction_evaluate:
            return []
        if self.fraction_train:
            nodes = connected(grid, self._mailbox.calls)
        else:
            self._model.open(arrays)
            nodes, _ = self._gather(grid, config, self.min_evaluate_nodes)
        if not self.server.has_begun:
            return []
        server, state, clock = self.server, self.server.state, self._mailbox.clock
        there = {node.id: node for node in nodes}
        free = np.flatnonzero(self._members.free(there)[0] & state.active)
        wanted = max(int(len(free) * self.fraction_evaluate), self.min_evaluate_nodes)
        rng = generator(server.seed, "flower/evaluate", server_round)
        chosen = np.sort(rng.choice(free, size=min(wanted, len(free)), replace=False))
        settings = ConfigRecord({**config, names.ROUND: server_round})
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: settings})
        for number in chosen.tolist():
            node = there[server.roster.clients[number].node]
            request = Request("evaluate", node, state.t, clock.now(), number)
            message = self._message(content, node, MessageType.EVALUATE)
            round_.evaluation.append((message, request))
        logger.info("configure_evaluate: %d of %d free nodes", len(chosen), len(free))
        return [message for message, _ in round_.evaluation]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Means of what the clients measured, weighted by examples."""
        answers, round_ = _by_request(replies), self._round
        if not self._waits:  # another loop has sent them
            asked = round_.evaluation
            round_.evaluation_sent = {message.metadata.message_id: one for message, one in asked}
        clients, sent = self.server.roster.clients, round_.evaluation_sent
        valid = {
            clients[sent[name].client].id if name in sent else name: reply.content
            for name, reply in answers.items()
            if not reply.has_error()
        }
        if round_.evaluation:
            logger.info(
                "aggregate_evaluate: %d results and %d failures, %d without an answer",
                len(valid),
                len(answers) - len(valid),
                len(round_.evaluation) - len(answers),
            )
        means = reported.aggregate(valid, self.weighted_by_key, self.evaluate_metrics_aggr_fn)
        self._measured(names.BY_CLIENTS, means)
        if not self._waits:  # another loop: its round ends here
            self._mailbox.owed |= {n: one for n, one in sent.items() if n not in answers}
            self._end_round()
        return means

    def summary(self) -> None:
        """Log the settings of the strategy."""
        for line in logged.settings(self):
            logger.info("%s", line)

    # -- clients -------------------------------------------------------------------------------

    def retire(self, client_id: str) -> None:
        """Retire a client before the next round begins; see also `request_retirement`."""
        self._members.to_retire(client_id)

    def _gather(
        self, grid: Grid, config: ConfigRecord, at_least: int
    ) -> tuple[list[Node], dict[int, Answer]]:
        """Wait for nodes and find out who they are; early updates, see `Membership.meet`.

        Where all are slow to say so, the federation has not begun: the round is one without them.
        """
        server, mailbox = self.server, self._mailbox
        needed, content = max(self.min_available_nodes, at_least, 1), self._introduction(config)
        for _ in range(MOST_FAILED_ROUNDS):
            nodes = wait_for_nodes(grid, needed, self.timing, mailbox.clock, mailbox.calls)
            self._members.drop_lost(nodes, grid)
            early = self._members.meet(
                nodes, grid, lambda node: self._message(content, node, MessageType.TRAIN)
            )
            is_sent = not mailbox.calls.never_worked(PUSH)
            if is_sent or server.has_begun or len(server.roster):
                break  # else nobody could be asked, and there is no round to play without them
            mailbox.clock.sleep(self.timing.poll)
        trouble = mailbox.calls.trouble
        if server.has_begun:
            self._members.match(nodes)
            self._members.turn_away(server.grow())
        elif len(server.roster):
            self._members.check_start(nodes)
            self._members.turn_away(server.begin(self._model.format, self._model.first))
            self._log_missed(early)
        elif mailbox.owed and not trouble:
            server.missed.append(self._round)
            logger.warning("round %d is empty: %s", server.t, self._nobody("so far"))
            return nodes, {}
        else:
            raise RuntimeError(
                f"no client to start with: {len(nodes)} nodes are connected, none introduced "
                "itself, and `clients` is empty" + (f" ({trouble})" if trouble else "")
            )
        self._members.retire()
        self._members.look_after(nodes)
        return nodes, early

    def _nobody(self, until: str) -> str:
        """That nobody has said who it is, and what to do."""
        return (
            f"no client is known {until}: {len(self._mailbox.owed)} nodes were asked, and none "
            f"answered within the deadline of {self.timing.deadline:g} s. An app without the mod "
            "trains when it is asked who it is: set `deadline` above what that takes, add "
            "mods=[introduction()] to the ClientApp, or do not ask (`introduce=False`)"
        )

    def _log_missed(self, early: Mapping[int, Answer]) -> None:
        """Play the rounds that nobody was known in: empty ones, by now with their clients.

        Who trained when it was asked who it is was asked in that round, and its update is late.
        """
        server, mailbox = self.server, self._mailbox
        known = [
            (client, request, reply)
            for node, (request, reply) in early.items()
            if (client := server.roster.of_node(node)) is not None
        ]
        missed, server.missed = server.missed, []
        for passed in missed:
            state, free = server.state, np.zeros(server.state.n_clients, dtype=np.bool_)
            free[[client for client, request, _ in known if request.t == state.t]] = True
            passed.cohort = server.loop.begin(free)
            passed.why = dict.fromkeys(range(state.n_clients), "had not said who it is")
            passed.why |= dict.fromkeys(passed.cohort.asked.tolist(), TOO_SLOW)
            passed.close(server.loop.step(passed.cohort, Arrivals.none()))
            server.end_round(passed, [])
        asked = {(int(client), int(t)) for client, t in server.state.pending}
        for client, request, reply in known:
            if (client, request.t) in asked:
                of_it = replace(request, kind="train", client=client, start=self._model.first)
                mailbox.late.append((of_it, reply))

    # -- messages ------------------------------------------------------------------------------

    def _message(self, content: RecordDict, node: Node, kind: str) -> Message:
        patience, group = self.timing.patience, str(self.server.t + 1)
        return Message(content, node.id, kind, ttl=patience, group_id=group)

    def _values(self, config: ConfigRecord, server_round: int) -> dict[str, Any]:
        """How clients train; values of the app's own config take precedence."""
        updates = self.server.state.updates if self.server.has_begun else 0
        local = local_values(self.strategy.local, self.server.t, self.server.seed, updates)
        return {**local, **config, names.ROUND: server_round}

    def _introduction(self, config: ConfigRecord) -> RecordDict:
        values = {**self._values(config, self.server.t + 1), names.INTRODUCE: True}
        settings, model = ConfigRecord(values), self._model.record()
        return RecordDict({self.arrayrecord_key: model, self.configrecord_key: settings})

    def _read(self, request: Request, reply: Message) -> Update:
        assert request.start is not None
        return read_update(
            reply.content,
            self._model.format,
            request.start,
            self.limits,
            arrays_key=self.arrayrecord_key,
            examples_key=self.weighted_by_key,
        )

    # -- the log -------------------------------------------------------------------------------

    def _measured(self, prefix: str, record: MetricRecord | None) -> None:
        """Numbers for the round's log; their prefix says who measured them."""
        if record is not None:
            self._round.metrics |= reported.named(record, prefix)

    def _log_outcomes(self, round_: LiveRound) -> None:
        present = round_.applied.outcome[self.server.state.active]  # without those who have left
        counts = np.bincount(present, minlength=len(Outcome))
        words = [
            f"{counts[one]} {one.name.lower().replace('_', ' ')}" for one in Outcome if counts[one]
        ]
        logger.info("aggregate_train: %s", ", ".join(words))
        for one in round_.outcomes(self.server.roster.clients):
            if one.outcome != Outcome.CAME:
                why = f" ({one.detail})" if one.detail else ""
                logger.info("\t> %s: %s%s", one.id, one.outcome.name.lower(), why)
        for number, why in round_.refused_besides():
            client_id = self.server.roster.clients[number].id
            logger.info("\t> %s: a late answer is refused (%s)", client_id, why)
        if round_.is_too_short:
            logger.warning(
                "\t> nobody answered within the deadline of %g s: what comes later is late; for "
                "clients that need longer, set a longer `deadline`",
                self.timing.deadline,
            )
        if told := logged.stand_ins(round_.applied, self.server.roster.clients):
            logger.info("\t> stood in: %s", told)
        for line in logged.warnings(
            round_.applied, self.server.state, self.server.roster.clients, round_.senders()
        ):
            logger.warning("\t> %s", line)

    def _end_round(self, result: Result | None = None) -> None:
        """Log the round, and commit the state that follows it; `result` is our own loop's."""
        self._mailbox.calls.end_round()  # an empty round too many is not committed
        round_, now = self._round, self._mailbox.clock.now()
        self._round = LiveRound(self.server.t, now)
        round_.lasted = now - round_.began
        if not round_.trains:
            return
        self.outcomes = round_.outcomes(self.server.roster.clients)
        busy = [
            Busy(one.client, one.node.id, one.node.activated, one.asked_at)
            for one in self._mailbox.owed.values()
            if one.client >= 0
        ]
        if self.server.results is not None and result is not None:
            self.server.results.append(result, round_.t + 1)
        self.server.end_round(round_, [*busy, *self.server.busy])


def _value(name: str, given: Value | None, kind: type[Value], **fields: Any) -> Value:
    """A value given as such, or by its fields, but not by both."""
    told = {field: value for field, value in fields.items() if value is not None}
    if given is None:
        return kind(**told)
    if not isinstance(given, kind):
        raise TypeError(f"{name}: expected a {kind.__name__}, got {given!r}")
    if told:
        raise ValueError(
            f"{name}: expected it alone, got it with {', '.join(told)}, which are fields of it"
        )
    return given


def _by_request(replies: Iterable[Message]) -> dict[str, Message]:
    """By the message they answer, never by who seems to have sent them."""
    return {reply.metadata.reply_to_message_id: reply for reply in replies}


def _keep(there: dict[int, MetricRecord], number: int, record: MetricRecord | None) -> None:
    if record is not None:
        there[number] = record

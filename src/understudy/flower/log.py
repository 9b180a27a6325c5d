"""What a live federation logs: lines that no client can steer by its words; settings and result."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from flwr.serverapp.strategy import Result

from understudy.core.printable import one_line
from understudy.core.types import Applied, Outcome
from understudy.flower.clients.roster import Client
from understudy.representation import Warnings
from understudy.server.state import ServerState
from understudy.server.strategy import Strategy

if TYPE_CHECKING:
    from understudy.flower.strategy import UnderstudyStrategy


MOST_PAIRS = 10  # stand-ins in a line


def _one_line(record: logging.LogRecord) -> bool:
    """Much in a line may be a client's words: it can neither end the line nor steer a terminal."""
    record.msg, record.args = one_line(record.getMessage()), ()
    return True


logger = logging.getLogger("flwr.understudy")  # below Flower's, so that `flwr log` shows it
logger.addFilter(_one_line)


def settings(strategy: UnderstudyStrategy) -> Iterator[str]:
    """The settings of a strategy, as Flower logs those of its own: a tree of lines."""
    parts, timing = strategy.strategy, strategy.timing
    limits, folder = strategy.limits, strategy.server.folder
    yield "\t├──> Parts:"
    yield f"\t│\t├──Sampler: {_short(parts.sampler)}"
    yield f"\t│\t├──Compensator: {_short(parts.compensator)}"
    yield f"\t│\t├──Aggregator and server: {_short(parts.aggregator)} | {_short(parts.server)}"
    yield f"\t│\t├──The server suggests: {_short(parts.local)}"
    yield f"\t│\t├──Weighting: by {parts.weighting}"
    yield f"\t│\t└──Examples that no population confirms: {_claims(parts)}"
    yield "\t├──> Rounds:"
    yield f"\t│\t├──Deadline: {timing.deadline:g} s"
    yield f"\t│\t├──Quorum: {timing.quorum:.0%}, then {timing.grace:g} s of grace"
    yield f"\t│\t└──Late updates wanted for: {timing.patience - timing.deadline:g} s"
    yield "\t├──> Sampling:"
    yield (
        f"\t│\t├──Fraction: train ({strategy.fraction_train:.2f}) | "
        f"evaluate ({strategy.fraction_evaluate:.2f})"
    )
    yield (
        f"\t│\t├──Minimum nodes: train ({strategy.min_train_nodes}) | "
        f"evaluate ({strategy.min_evaluate_nodes})"
    )
    yield (
        f"\t│\t└──Minimum available nodes: {strategy.min_available_nodes}, waited for at most "
        f"{timing.wait:g} s"
    )
    norm = "any norm" if limits.norm is None else f"norm up to {limits.norm:g}"
    most = "any number of" if limits.n_clients is None else f"at most {limits.n_clients}"
    yield f"\t├──> Checks: {norm}{', clipped' if limits.clip else ''}; {most} clients"
    yield f"\t├──> Folder: {'none, a crash loses the run' if folder is None else folder}"
    yield "\t└──> Keys in records:"
    yield f"\t\t├── Weighted by: '{strategy.weighted_by_key}'"
    yield f"\t\t├── ArrayRecord key: '{strategy.arrayrecord_key}'"
    yield f"\t\t└── ConfigRecord key: '{strategy.configrecord_key}'"


def _claims(parts: Strategy) -> str:
    """What they count, whoever uses them: the mean, or a sampler."""
    if parts.ignores_claims:
        return "one vote each, whatever is reported"
    return f"at most {parts.claim_factor:g} times the median of those known"


def warnings(
    applied: Applied, state: ServerState, clients: Sequence[Client], came: Iterable[int]
) -> Iterator[str]:
    """What whoever runs the federation should know of a round's weights.

    `state` is that after the round, `came` are those whose updates were taken, fresh or late.
    """
    notes, strategy = applied.notes, state.made_by
    robust = type(strategy.aggregator).__name__
    if notes.get("claims_capped"):
        counted = state.believed_examples()
        for number in sorted(set(came)):
            if counted[number] < state.n_examples[number]:
                yield (
                    f"{clients[number].id} reports {state.n_examples[number]:g} examples, which no "
                    f"population confirms: they count as {counted[number]:g}, "
                    f"{strategy.claim_factor:g} times the median of those known"
                )
    if "too_few_rows" in notes:
        least = getattr(strategy.aggregator, "min_rows", 1)
        yield f"no step: {notes['too_few_rows']:g} rows of clients, {robust} wants at least {least}"
    if notes.get("rows_held") == 0:
        yield f"one client alone can move this round's {robust} anywhere (note rows_held)"


def stand_ins(applied: Applied, clients: Sequence[Client]) -> str:
    """Who stood in for whom in a round, by their ids; empty where nobody did."""
    told = applied.contributions
    others = (told.coef != 0) & (applied.outcome[told.ids] != Outcome.CAME)
    absent, source = told.ids[others], told.source[others]
    # one number per pair, not an object: there may be |absent| × |came| of them
    _, first = np.unique(absent * (len(applied.outcome) + 1) + source, return_index=True)
    words = [
        f"{_whose(int(source[place]), int(absent[place]), clients)} for {clients[absent[place]].id}"
        for place in np.sort(first)[:MOST_PAIRS]
    ]
    more = f" and {len(first) - MOST_PAIRS} more" if len(first) > MOST_PAIRS else ""
    return ", ".join(words) + more


def _whose(source: int, absent: int, clients: Sequence[Client]) -> str:
    if source == absent:
        return "its own last update"
    return "a mean, or a model" if source < 0 else clients[source].id


def _short(part: object) -> str:
    """A part in its own words, functions by their names."""
    return re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", repr(part))


def log_result(result: Result) -> None:
    """Log the result as Flower does."""
    logger.info("")
    logger.info("Final results:")
    for line in io.StringIO(str(result)):
        logger.info("\t%s", line.rstrip("\n"))


def log_warnings(warnings: Warnings) -> None:
    """Log who was left out of the run: what holds at its end, then what held for a time."""
    rounds = warnings.representation.n_rounds
    if len(warnings):
        logger.warning("")
        logger.warning("Who was left out, and other warnings of %d rounds:", rounds)
        for one in warnings:
            logger.warning("\t> %s", one)

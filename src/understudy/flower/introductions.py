"""Strangers: asking new nodes who they are, and giving them their numbers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flwr.app import Message

from understudy.core.types import Reason, Refusal
from understudy.flower.door import Limits, Report, read_report
from understudy.flower.requests import ReplyBox, Request, last_line
from understudy.flower.roster import ClaimRefused, Node, identity, order
from understudy.flower.server import LiveServer

logger = logging.getLogger("flwr")


@dataclass(frozen=True)
class Met:
    """A node, and what it said of itself."""

    node: Node
    report: Report = field(default_factory=Report)


def strangers(nodes: Sequence[Node], server: LiveServer, mailbox: ReplyBox) -> list[Node]:
    """Nodes nobody knows, and that were not asked yet."""
    busy = mailbox.busy
    return [node for node in nodes if not server.roster.is_known(node) and node.id not in busy]


def read(
    answers: Iterable[tuple[Request, Message]], limits: Limits, examples_key: str
) -> list[Met]:
    """What nodes said of themselves: nothing, where the app knows no introductions.

    Who answered with an error stays a stranger, and is asked again.
    """
    met = []
    for request, reply in answers:
        if reply.has_error():
            words = last_line(reply.error.reason)
            logger.warning("node %d could not say who it is: %s", request.node.id, words)
        else:
            met.append(Met(request.node, read_report(reply.content, limits, examples_key)))
    return met


def early_updates(answers: Iterable[tuple[Request, Message]]) -> dict[int, Message]:
    """Node id → its update, where an app that knows no introductions has trained instead."""
    return {
        request.node.id: reply
        for request, reply in answers
        if not reply.has_error() and reply.content.array_records
    }


def place(met: Sequence[Met], nodes: Sequence[Node], server: LiveServer, t: int) -> list[Refusal]:
    """Give each its number, in an order that does not depend on who was first; the refused."""
    refused = []
    for one in sorted(met, key=lambda one: order(identity(one.node, one.report.client_id))):
        node, report = one.node, one.report
        client_id = identity(node, report.client_id)
        try:
            if server.is_closed and server.roster.number(client_id) is None:
                server.roster.turn_away(node)
                raise ClaimRefused(f"{client_id!r} is not in the population that was declared")
            number = server.roster.place(node, report.client_id, t, nodes)
        except ClaimRefused as error:
            logger.warning("refused: %s", error)
            refused.append(Refusal(f"node {node.id}", Reason.CLAIMED_ID, str(error)))
            continue
        server.learn(number, report)
    return refused

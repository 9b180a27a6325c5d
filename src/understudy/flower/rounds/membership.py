"""Who takes part: new nodes introduce themselves, clients restart, are busy, or are retired."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from understudy.core.shown import shown
from understudy.core.types import Bools, Reason, Refusal
from understudy.flower.clients.identity import ClaimRefused, Node, order, registered_names
from understudy.flower.clients.members import Members
from understudy.flower.clients.retirement import requested_matches, requested_retirements
from understudy.flower.clients.roster import Client, Placed
from understudy.flower.clients.vanished import (
    count_unseen,
    ids_that_do_not_last,
    may_have_restarted,
    why_not_matched,
)
from understudy.flower.log import logger
from understudy.flower.messages.reply_checks import Limits, Report, read_report
from understudy.flower.messages.requests import ReplyBox, Request, last_line
from understudy.flower.rounds.server import LiveServer

Answer = tuple[Request, Message]


class Introduced(NamedTuple):
    """A node, and what it reported of itself."""

    node: Node
    report: Report


class Membership:
    """The clients of a live federation, and the nodes that they are reached by.

    `examples_key` is the metric that holds the number of examples.
    """

    def __init__(
        self,
        server: LiveServer,
        mailbox: ReplyBox,
        limits: Limits,
        examples_key: str,
        members: Members,
    ) -> None:
        self._server, self._mailbox = server, mailbox
        self._limits, self._examples_key = limits, examples_key
        self._introduce, self._to_retire = members.introduce, list(members.retired)
        self._same_as, self._forget_after = dict(members.same_as), members.forget_after
        self._unknown: set[str] = set()  # ids to retire that nobody has
        self._told: set[str] = set()  # what was said of clients that vanish, once
        self._has_warned = False  # that ids do not last
        self._has_met = False  # whether this process has asked who is there
        self._refused: list[Refusal] = []  # nodes, since the last round
        self._misnamed: dict[int, str] = {}  # node → why it is none of a closed population

    # -- who is there --------------------------------------------------------------------------

    def drop_lost(self, nodes: Sequence[Node], grid: Grid) -> None:
        """Take what came since the last round; close the requests of nodes that restarted."""
        server, mailbox = self._server, self._mailbox
        mailbox.poll(grid)
        server.roster.refresh(nodes)
        lost = mailbox.drop_lost(nodes)
        if server.has_begun:
            server.loop.close_requests((one.client, one.t) for one in lost if one.kind == "train")
        now, there = mailbox.clock.now(), {node.id: node.activated for node in nodes}
        server.busy = [
            one
            for one in server.busy
            if now <= one.asked_at + mailbox.timing.patience
            and there.get(one.node, one.activated) == one.activated
        ]

    def meet(
        self, nodes: Sequence[Node], grid: Grid, introduction: Callable[[Node], Message]
    ) -> dict[int, Answer]:
        """Find out who new nodes are; a round waits for answers only as long as nobody is known.

        (And the first one of a process, since the nodes may be others than those of the last.)
        Returned are, by node id, what nodes were asked whose app trained instead of introducing
        itself, and their updates.
        """
        mailbox = self._mailbox
        self._release(nodes)
        answers: list[Answer] = mailbox.take_introduced()
        self._place(self._read(answers), nodes)
        new = self._new_nodes(nodes)
        if not self._introduce:
            self._place([Introduced(node, Report()) for node in new], nodes)
        else:
            t, now = self._server.t, mailbox.clock.now()
            asked = [(introduction(node), Request("introduce", node, t, now)) for node in new]
            sent = mailbox.send(grid, asked)
            if new and not sent:
                return {}  # the Grid failed: they are asked again, as if for the first time
            if self._has_met and len(self._server.roster):
                mailbox.owed |= sent  # they join when they have answered
            else:
                sent |= mailbox.take_open_introductions()
                found = mailbox.collect(grid, sent)
                met = [(sent[name], reply) for name, reply in found.replies.items()]
                self._place(self._read(met), nodes)
                answers += met
        self._has_met = True
        return {
            request.node.id: (request, reply)
            for request, reply in answers
            if not reply.has_error() and reply.content.array_records
        }

    def free(self, there: dict[int, Node]) -> tuple[Bools, dict[int, str]]:
        """(N,) connected and without an open request; and why the others are not."""
        roster, busy = self._server.roster, self._mailbox.busy
        free = np.zeros(self._server.state.n_clients, dtype=np.bool_)
        # by node too: a client that is back under a new id has restarted, and forgot the request
        held, why = {(one.client, one.node) for one in self._server.busy}, {}
        for number, client in enumerate(roster.clients):
            if client.node not in there or roster.of_node(client.node) != number:
                why[number] = "not connected"
            elif client.node in busy or (number, client.node) in held:
                why[number] = "busy with an earlier request"
            else:
                free[number] = True
        return free, why

    def take_refused(self) -> list[Refusal]:
        """Nodes that were refused since the last call."""
        refused, self._refused = self._refused, []
        return refused

    def _new_nodes(self, nodes: Sequence[Node]) -> list[Node]:
        """Not known, and not asked yet."""
        roster, busy = self._server.roster, self._mailbox.busy
        return [node for node in nodes if not roster.is_known(node) and node.id not in busy]

    def _read(self, answers: Iterable[Answer]) -> list[Introduced]:
        """What nodes reported, which may be nothing; a node that failed to is asked again."""
        introduced = []
        for request, reply in answers:
            if reply.has_error():
                words = last_line(reply.error.reason)
                logger.warning("%s could not introduce itself: %s", request.node, words)
            else:
                report = read_report(reply.content, self._limits, self._examples_key)
                introduced.append(Introduced(request.node, report))
        return introduced

    def _place(self, introduced: Sequence[Introduced], nodes: Sequence[Node]) -> None:
        """Give each its number, in an order that does not depend on who answered first."""
        server, roster, names = self._server, self._server.roster, registered_names(nodes)
        called = [
            (roster.identity(node, report.client_id, names).id, node, report)
            for node, report in introduced
        ]
        for client_id, node, report in sorted(called, key=lambda one: order(one[0])):
            try:
                known = roster.number(client_id)
                is_back = known is not None and roster.clients[known].forgotten
                if known is None or is_back:
                    self._refuse_without_room(client_id, node, report.client_id)
                before = roster.now(client_id)
                placed = roster.place(node, report.client_id, server.t, names)
            except ClaimRefused as error:
                self._refuse(node.id, error.reason, str(error))
                continue
            if placed.refused:
                self._refuse(node.id, Reason.CLAIMED_ID, placed.refused)
            if is_back:
                logger.warning("%s is back, and was forgotten: it joins as a newcomer", client_id)
            if known is None and before is not None:
                logger.warning(
                    "%s is connected again, though %s continues it: they are two clients after "
                    "all, and it joins as a newcomer",
                    client_id,
                    roster.clients[before].id,
                )
            if placed.ousted:
                self._won_back(client_id, node, placed)
            server.learn(placed.number, replace(report, client_id=None))

    def adopt(self, replies: Mapping[int, RecordDict]) -> None:
        """Ids that clients report with their updates, for those whose own do not last.

        Such as those of an app that has the mod only now, on SuperNodes that were asked before.
        """
        roster = self._server.roster
        for number, content in replies.items() if self._introduce else ():
            before = roster.clients[number].id
            claim = read_report(content, self._limits, self._examples_key).client_id
            if claim and roster.adopt(number, claim):
                logger.info("%s reports the id %s, and is called so from now on", before, claim)
                self._server.renamed()

    def check_start(self, nodes: Sequence[Node]) -> None:
        """Refuse to begin where all who are there would be members, were `clients` their names."""
        if nodes and all(node.id in self._misnamed for node in nodes):
            raise ValueError(
                f"clients: no connected node is one of them: {self._misnamed[nodes[0].id]}"
            )

    def _refuse_without_room(self, client_id: str, node: Node, claim: str | None) -> None:
        """Whether a newcomer may join at all; whether the parts take it in, `LiveServer` says."""
        most, why = self._limits.n_clients, ""
        if self._server.is_closed:
            why = f"{shown(client_id)} is not in the declared population"
            hint = self._server.roster.misnamed(node, claim)
            if hint:
                why = self._misnamed[node.id] = why + hint
        elif most is not None and len(self._server.roster) >= most:
            why = f"{shown(client_id)} would be one more than Limits(n_clients={most}) allows"
        if why:
            self._server.roster.turn_away(node)
            raise ClaimRefused(why, Reason.NO_ROOM)

    def _won_back(self, client_id: str, node: Node, placed: Placed) -> None:
        """A client has its number again: what the node that used it still sends is not its."""
        logger.warning(
            "%s has its number %d back, which node %d used under its id",
            client_id,
            placed.number,
            placed.ousted,
        )
        self._refuse(placed.ousted, Reason.CLAIMED_ID, f"the id {client_id!r} belongs to {node}")
        self._disown(placed.number)

    def _release(self, nodes: Sequence[Node]) -> None:
        """Take expected ids from nodes without a name, once a registered name was seen."""
        for number, node_id in self._server.roster.release(registered_names(nodes)):
            client_id = self._server.roster.clients[number].id
            words = f"the id {client_id!r} is expected under a registered name"
            self._refuse(node_id, Reason.CLAIMED_ID, f"node {node_id} has no such name: {words}")
            self._disown(number)

    def _disown(self, number: int) -> None:
        """What this client was asked for went to a node that was not it."""
        disowned = self._mailbox.disown(number)
        if self._server.has_begun:
            self._server.loop.close_requests(
                (number, one.t) for one in disowned if one.kind == "train"
            )

    def turn_away(self, newcomers: Iterable[tuple[Client, str]]) -> None:
        """Note those for whom a part refused to grow, and why."""
        for client, why in newcomers:
            self._refuse(client.node, Reason.NO_ROOM, f"{client.id!r} cannot join: {why}")

    def _refuse(self, node_id: int, reason: Reason, words: str) -> None:
        logger.warning("refused: %s", words)
        self._refused.append(Refusal(f"node {node_id}", reason, words))

    # -- who vanishes --------------------------------------------------------------------------

    def match(self, nodes: Sequence[Node]) -> None:
        """Continue vanished clients as those that took their places, as the user says.

        Whoever is not there yet is waited for.
        """
        roster, here = self._server.roster, {node.id for node in nodes}
        for new_id, old_id in self._matches().items():
            new, old, now = roster.number(new_id), roster.number(old_id), roster.now(new_id)
            if now is not None and old_id in roster.clients[now].former:
                continue
            if now is None or roster.now(old_id) is None:
                unknown = new_id if now is None else old_id
                self._tell(f"same_as: there is no client {unknown!r} so far; it is waited for")
                continue
            why_not = why_not_matched(roster, new_id, old_id)
            if why_not or new is None or old is None:
                self._tell(
                    f"same_as: {new_id!r} cannot be the same client as {old_id!r}: {why_not}"
                )
            elif roster.is_at(old, here):
                self._tell(f"same_as: {old_id} still looks connected; {new_id} is not it before")
            else:
                self._disown(new)
                self._disown(old)
                self._server.continue_as(old, new)
                logger.warning(
                    "%s is the same client as %s was: it continues under that number, %d, with all "
                    "that is remembered of it",
                    new_id,
                    old_id,
                    old,
                )

    def _matches(self) -> dict[str, str]:
        """New id → the one that it had, as the user says here or in the folder's file."""
        return {**self._same_as, **requested_matches(self._server.folder)}

    def look_after(self, nodes: Sequence[Node]) -> None:
        """Count who is not there, let those go that were not for long, and warn of ghosts."""
        server, roster = self._server, self._server.roster
        count_unseen(roster, nodes)
        for number, client in enumerate(roster.clients):
            after = self._forget_after
            if after is not None and client.unseen >= after and not client.retired:
                self._mailbox.forget(number)
                server.forget(number)
                logger.warning(
                    "%s leaves: not connected for %d rounds (forget_after=%d), its stored data "
                    "erased; should it come back, it joins as a newcomer",
                    client.id,
                    client.unseen,
                    after,
                )
        if not self._has_warned and (words := ids_that_do_not_last(roster, nodes)):
            self._has_warned = True
            logger.warning("%s", words)
        if words := may_have_restarted(
            roster, nodes, server.folder, self._forget_after, self._told
        ):
            logger.warning("%s", words)

    def _tell(self, words: str) -> None:
        """Warn, once."""
        if words not in self._told:
            self._told.add(words)
            logger.warning("%s", words)

    # -- who leaves ----------------------------------------------------------------------------

    def to_retire(self, client_id: str) -> None:
        """Retire a client before the next round begins."""
        self._to_retire.append(client_id)

    def retire(self) -> None:
        """Retire those that were named by the user, here or in the folder's file.

        An id that nobody has yet is kept: it is retired when somebody joins under it. Whoever is
        said to be the same client leaves too, whether it was matched already or not.
        """
        roster = self._server.roster
        named = dict.fromkeys([*self._to_retire, *requested_retirements(self._server.folder)])
        for match in self._matches().items() if named else ():
            if any(one in named for one in match) and not why_not_matched(roster, *match):
                named |= dict.fromkeys(match)
        self._to_retire = [one for one in named if roster.now(one) is None]
        for client_id in self._to_retire:
            if client_id not in self._unknown:
                logger.warning("retired: there is no client %r so far", client_id)
        self._unknown = set(self._to_retire)
        for client_id in named:
            number = roster.now(client_id)
            if number is not None and self._server.retire(client_id):
                self._mailbox.forget(number)

"""Clients that are gone, and nodes that may have taken their places."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from understudy.flower.clients.identity import Node
from understudy.flower.clients.roster import Client, Roster

MOST_NAMED = 5  # clients in a line of the log
MOST_MATCHED = 20  # where the reader has to choose among them


def count_unseen(roster: Roster, nodes: Iterable[Node]) -> None:
    """A round more for those who are not connected; where nobody is, it is no client's fault."""
    here = {node.id for node in nodes}
    seen = [roster.is_at(number, here) for number in range(len(roster))]
    for client, is_seen in zip(roster.clients, seen, strict=True) if any(seen) else ():
        client.unseen = 0 if is_seen else client.unseen + 1


def why_not_same(client: Client, before: Client) -> str:
    """Why a client cannot continue as one that was there before; empty where it can."""
    if client is before:
        return "expected two clients"
    if before.key:
        return f"{before.id!r} belongs to a registered key, and only that key can be it"
    if not before.is_throwaway:
        return (
            f"{before.id!r} is an id that SuperNodes report: the one that reports it is that "
            "client, whichever node it is"
        )
    if before.retired:
        return (
            f"{before.id!r} has left, and nothing is remembered of it; should {client.id!r} leave "
            "too, retire it"
        )
    if client.retired:
        return f"{client.id!r} has left, and nothing is remembered of it"
    if before.came >= client.joined:
        return (
            f"both took part: {before.id!r} sent an update in round {before.came + 1}, and "
            f"{client.id!r} had joined by round {client.joined + 1}"
        )
    return ""


def why_not_matched(roster: Roster, new_id: str, old_id: str) -> str:
    """Why one id cannot continue another, of two that clients have or had; empty where it can."""
    for one in (new_id, old_id):
        number = roster.now(one)
        if number is not None and roster.number(one) is None:
            return f"{one!r} is {roster.clients[number].id!r} by now, which continues it"
    new, old = roster.number(new_id), roster.number(old_id)
    if new is None or old is None:
        return f"there is no client {new_id if new is None else old_id!r} so far"
    return why_not_same(roster.clients[new], roster.clients[old])


def ids_that_do_not_last(roster: Roster, nodes: Iterable[Node]) -> str:
    """A warning that clients have ids for one start of their SuperNodes only; empty if none has."""
    here = {node.id for node in nodes}
    found = [
        client.id
        for number, client in enumerate(roster.clients)
        if client.is_throwaway and not client.retired and roster.is_at(number, here)
    ]
    if not found:
        return ""
    return (
        f"client ids that do not last: {_listed(found)}. They rest on keys that Flower makes anew "
        "when a SuperNode starts, so a client that restarts counts as a new one, and the old one "
        "stays wanted. Either add ClientApp(mods=[introduction()]) (from understudy.flower import "
        "introduction) and start each with flower-supernode --node-config "
        "\"client-id='hospital-0'\"; or register keys with names (flwr supernode register KEY.pub "
        "SUPERLINK --name hospital-0; flower-supernode --auth-supernode-private-key KEY). Where "
        "these are registered keys without names, declare it: UnderstudyStrategy(keys=True)"
    )


def may_have_restarted(
    roster: Roster,
    nodes: Iterable[Node],
    folder: Path | None,
    forget_after: int | None,
    told: set[str],
) -> str:
    """A warning of newcomers that may be clients which are gone; empty where there are none.

    Each newcomer is in `told` from then on.
    """
    here = {node.id for node in nodes}
    gone = [
        client
        for client in roster.clients
        if client.is_throwaway and not client.retired and client.unseen
    ]
    new: list[Client] = []
    old: dict[str, Client] = {}
    for number, client in enumerate(roster.clients):
        is_new = client.joined and not client.retired and client.id not in told
        if not is_new or not roster.is_at(number, here):
            continue
        before = {one.id: one for one in gone if not why_not_same(client, one)}
        if before:
            told.add(client.id)
            new.append(client)
            old |= before
    if not new:
        return ""
    is_pair = len(new) == len(old) == 1
    ids = (new[0].id, next(iter(old))) if is_pair else ("NEW", "OLD")
    how = "same_as={{{!r}: {!r}}}".format(*ids) if is_pair else "same_as={NEW: OLD}"
    if folder is not None:
        how = f"understudy same-as {folder} {ids[0]} {ids[1]}, or {how}"
    rounds = max(one.unseen for one in old.values())
    have, stay = ("has", "stays") if len(old) == 1 else ("have", "stay")
    gone_for = f"{have} not been connected for {rounds} round{'s' * (rounds != 1)}, and {stay}"
    whether = "If it is that client" if is_pair else "For each that is one of them"
    which = "" if is_pair else " (a SuperNode logs its node's id when it starts)"
    if forget_after is None:
        leave = "forget_after=20 lets ids leave that were unseen for 20 rounds"
    else:
        leave = f"Else ids leave that were unseen for {forget_after} rounds (forget_after)"
    return (
        f"{_with_nodes(new)} joined, and {_with_nodes(old.values())} {gone_for} wanted. {whether} "
        f"after a restart: {how}, continues it{which}. {leave}"
    )


def _with_nodes(clients: Iterable[Client]) -> str:
    return _listed([f"{one.id} (node {one.node})" for one in clients], MOST_MATCHED)


def _listed(ids: list[str], most: int = MOST_NAMED) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more

"""Clients that are gone, and nodes that may have taken their places."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from understudy.flower.clients.identity import Node
from understudy.flower.clients.roster import Client, Roster

MOST_NAMED = 5  # clients in a line of the log


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
    for one in (client, before):
        if one.retired:
            return f"{one.id!r} has left, and nothing is remembered of it"
    if before.came >= client.joined:
        return (
            f"both took part: {before.id!r} sent an update in round {before.came + 1}, and "
            f"{client.id!r} had joined by round {client.joined + 1}"
        )
    return ""


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
    roster: Roster, nodes: Iterable[Node], folder: Path | None, told: set[str]
) -> Iterable[str]:
    """Warnings of newcomers that may be clients which are gone; each is in `told` from then on."""
    here = {node.id for node in nodes}
    gone = [
        client
        for client in roster.clients
        if client.is_throwaway and not client.retired and client.unseen
    ]
    for number, client in enumerate(roster.clients):
        if (
            client.retired
            or not client.joined
            or client.id in told
            or not roster.is_at(number, here)
        ):
            continue
        before = [one for one in gone if not why_not_same(client, one)]
        if before:
            told.add(client.id)
            old = before[0].id
            how = f"same_as={{{client.id!r}: {old!r}}}"
            how = (
                how
                if folder is None
                else f"understudy same-as {folder} {client.id} {old}, or {how}"
            )
            yield (
                f"{client.id} joined, and {_listed([one.id for one in before])} has not been "
                f"connected for {before[0].unseen} rounds, and stays wanted. If it is that client "
                f"after a restart: {how}, continues it. forget_after=20 lets ids leave that were "
                "unseen for 20 rounds"
            )


def _listed(ids: list[str]) -> str:
    more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
    return ", ".join(ids[:MOST_NAMED]) + more

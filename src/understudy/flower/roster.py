"""Client ids that survive restarts, and the nodes that clients are reached by.

A node id lasts as long as a SuperNode process, or as its registered key. What a server remembers of
a client must outlive both, so it is kept under an id of our own, and nodes are only places to
which messages are sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from understudy.core.brief import shown
from understudy.flower.live_state import records


class ClaimRefused(Exception):
    """A node claims the id of a client that belongs to another key."""


@dataclass(frozen=True)
class Node:
    """A SuperNode that is connected."""

    id: int
    name: str = ""  # given by the administrator who registered its key
    key: str = ""  # sha256 of its public key
    activated: str = ""  # when it connected: changes when it restarts

    @classmethod
    def of(cls, info: Any) -> Node:
        """From Flower's ``NodeInfo``."""
        key = sha256(info.public_key).hexdigest() if info.public_key else ""
        return cls(int(info.node_id), info.name, key, info.last_activated_at)


@dataclass
class Client:
    """A client, and where it was last heard of."""

    id: str
    key: str = ""  # the only one that may use this id; empty: not bound to a key
    node: int = 0  # 0: never seen
    activated: str = ""
    joined: int = 0  # round
    retired: bool = False


class Roster:
    """All clients by number, and their nodes.

    Parameters
    ----------
    ids : sequence of str
        Clients that are expected, in the order of their numbers.
    keys : bool, optional
        Whether SuperNodes authenticate with registered keys, so that an id belongs to a key. By
        default they do where they have a registered name, which only an administrator can give.
        (A public key alone says nothing: without authentication a SuperNode makes up a new one.)
    """

    def __init__(self, ids: Sequence[str] = (), keys: bool | None = None) -> None:
        self.keys = keys
        self.clients: list[Client] = []
        self._number: dict[str, int] = {}
        self._by_node: dict[int, int] = {}
        self._turned_away: dict[int, str] = {}  # node → when it connected
        for client_id in ids:
            if client_id in self._number:
                raise ValueError(f"clients: expected distinct ids, got {client_id!r} twice")
            self._add(client_id, 0)

    def __len__(self) -> int:
        return len(self.clients)

    def number(self, client_id: str) -> int | None:
        """0 .. N-1, or None for an id nobody has."""
        return self._number.get(client_id)

    def of_node(self, node_id: int) -> int | None:
        """The client that a node speaks for."""
        return self._by_node.get(node_id)

    def is_known(self, node: Node) -> bool:
        """Whether it is settled who this is, or that it may not be who it says."""
        return node.id in self._by_node or self._turned_away.get(node.id) == node.activated

    def place(self, node: Node, claim: str | None, t: int, others: Iterable[Node] = ()) -> int:
        """The number of the client that a node speaks for from now on; a new one for a newcomer.

        Parameters
        ----------
        node : Node
            Who is there.
        claim : str, optional
            Who it says it is. A claim proves nothing: where keys are on, the first one binds.
        t : int
            The round.
        others : iterable of Node
            The other nodes that are connected.
        """
        client_id = identity(node, claim)
        named = {other.name for other in others if other.id != node.id and other.name}
        if client_id in named and client_id != node.name:
            self.turn_away(node)
            raise ClaimRefused(f"{_said(node)} claims the id {client_id!r}, another node's name")
        number = self._number.get(client_id)
        if number is not None:
            bound = self.clients[number].key
            if bound and bound != node.key:
                self.turn_away(node)
                raise ClaimRefused(
                    f"{_said(node)} claims the id {client_id!r}, which belongs to another key"
                )
        else:
            number = self._add(client_id, t)
        client = self.clients[number]
        if client.node and self._by_node.get(client.node) == number:
            del self._by_node[client.node]
            if client.node != node.id:
                self._turned_away[client.node] = client.activated  # the newest place counts
        client.node, client.activated = node.id, node.activated
        if self.keys or (self.keys is None and node.name):
            client.key = node.key
        self._by_node[node.id] = number
        self._turned_away.pop(node.id, None)
        return number

    def turn_away(self, node: Node) -> None:
        """Ask this node no more, until it connects anew."""
        self._turned_away[node.id] = node.activated

    def refresh(self, nodes: Iterable[Node]) -> list[int]:
        """Note when nodes connected; the numbers of clients that restarted since the last time."""
        restarted = []
        for node in nodes:
            number = self._by_node.get(node.id)
            if number is not None and self.clients[number].activated != node.activated:
                restarted.append(number)
                self.clients[number].activated = node.activated
        return restarted

    def _add(self, client_id: str, t: int) -> int:
        number = len(self.clients)
        self.clients.append(Client(client_id, joined=t))
        self._number[client_id] = number
        return number

    def to_json(self) -> str:
        """What a checkpoint keeps."""
        return json.dumps([asdict(client) for client in self.clients])

    @classmethod
    def from_json(cls, text: str, keys: bool | None = None) -> Roster:
        """What `to_json` wrote. Nodes are those of the last run: some may be there still."""
        roster = cls(keys=keys)
        for client in records(Client, text):
            if client.id in roster._number:
                raise ValueError(f"Client.id: expected distinct ids, got {shown(client.id)} twice")
            roster._number[client.id] = len(roster.clients)
            if client.node:
                roster._by_node[client.node] = len(roster.clients)
            roster.clients.append(client)
        return roster


def identity(node: Node, claim: str | None) -> str:
    """What a node's client is called: what it says, its registered name, its key, its node id."""
    return claim or node.name or (f"key-{node.key[:16]}" if node.key else f"node-{node.id}")


def order(client_id: str) -> tuple[bool, int, str]:
    """To sort by, so that numbers do not depend on who came first: 2, 10, then words."""
    is_word = not client_id.isdecimal()
    return is_word, 0 if is_word else len(client_id), client_id


def _said(node: Node) -> str:
    return f"node {node.name or node.id}"

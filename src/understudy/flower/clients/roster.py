"""Client ids that survive restarts, and the nodes that clients are reached by.

A node id lasts as long as a SuperNode process, or as its registered key. What a server remembers of
a client must outlive both, so it is kept under an id of our own, and nodes are only places to
which messages are sent.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from understudy.core.shown import shown
from understudy.core.types import Reason
from understudy.flower.clients.identity import (
    LONGEST_ID,
    OF_A_START,
    ClaimRefused,
    Names,
    Node,
    check_id,
    is_one_line,
    key_id,
)
from understudy.flower.clients.stored_records import records


@dataclass
class Client:
    """A client, and where it was last heard of."""

    id: str
    key: str = ""  # the only one that may use this id; empty: not bound to a key
    node: int = 0  # 0: never seen
    activated: str = ""
    joined: int = 0  # round
    retired: bool = False
    name: str = ""  # that its key is registered under, also where its id is another
    unseen: int = 0  # rounds in a row in which others were connected and it was not
    came: int = -1  # the last round that its update came in
    forgotten: bool = False  # retired because it was unseen; it may join again, as a newcomer
    was: str = ""  # ids of the clients that it continues, separated by commas

    @property
    def former(self) -> tuple[str, ...]:
        """Ids that it had before."""
        return tuple(self.was.split(",")) if self.was else ()

    @property
    def is_throwaway(self) -> bool:
        """Whether its id is that of a key or a node that a SuperNode may have for one start only.

        Never an id that belongs to a key: these are bound.
        """
        return not self.key and OF_A_START.fullmatch(self.id) is not None


class Identity(NamedTuple):
    """What a node's client is called."""

    id: str
    is_proven: bool  # by its key or its registered name; else it is only what the node says


class Placed(NamedTuple):
    """Where a node was placed."""

    number: int
    ousted: int = 0  # the node that used this number without a right to it; 0: none did
    refused: str = ""  # why what the node reported as its id was not taken


class Roster:
    """All clients by number, and their nodes.

    Parameters
    ----------
    ids : sequence of str
        Clients that are expected, in the order of their numbers.
    keys : bool, optional
        Whether SuperNodes authenticate with registered keys, so that an id belongs to a key. By
        default they do where they have a registered name, which only an administrator can give;
        the name is then the id. (A public key alone says nothing: without authentication a
        SuperNode makes up a new one.) False: names do not count, an id is what a node reports.
    """

    def __init__(self, ids: Sequence[str] = (), keys: bool | None = None) -> None:
        self.keys = keys
        self.clients: list[Client] = []
        self._number: dict[str, int] = {}
        self._former: dict[str, int] = {}  # id that a client had before → its number
        self._by_node: dict[int, int] = {}
        self._by_key: dict[str, list[int]] = {}
        self._by_name: dict[str, set[int]] = {}  # registered name → numbers
        self._turned_away: dict[int, str] = {}  # node → when it connected
        for client_id in ids:
            check_id("clients", client_id)
            if client_id in self._number:
                raise ValueError(f"clients: expected distinct ids, got {client_id!r} twice")
            self._add(client_id, 0)
        self._expected = frozenset(ids)

    def __len__(self) -> int:
        return len(self.clients)

    def number(self, client_id: str) -> int | None:
        """0 .. N-1, or None for an id nobody has."""
        return self._number.get(client_id)

    def now(self, client_id: str) -> int | None:
        """The number of whoever has this id, or else of whoever had it and continues under another.

        Only for what the user says of clients: a node is never placed by an id of before.
        """
        return self._number.get(client_id, self._former.get(client_id))

    def is_at(self, number: int, nodes: Container[int]) -> bool:
        """Whether a client's node is among these."""
        client = self.clients[number]
        return client.node in nodes and self._by_node.get(client.node) == number

    def of_node(self, node_id: int) -> int | None:
        """The client that a node speaks for."""
        return self._by_node.get(node_id)

    def is_known(self, node: Node) -> bool:
        """Whether it is known who this is, or that it may not be who it says."""
        return node.id in self._by_node or self._turned_away.get(node.id) == node.activated

    # -- who is who ----------------------------------------------------------------------------

    def identity(self, node: Node, claim: str | None, names: Names) -> Identity:
        """What a node's client is called; whether it may have that id is for `place` to say.

        An id that is bound to its key, else its registered name, else what it says, else its key or
        its node id. Of several that are bound to its key: its name, what it says, the first.
        """
        if self.keys is not False:
            numbers = self._by_key.get(node.key, ()) if node.key else ()
            bound = [self.clients[number].id for number in numbers]
            kept = [one for one in bound if not self._is_name_of_another(one, node, names)]
            if kept:
                found = [one for one in (node.name, claim) if one in kept]
                return Identity(found[0] if found else kept[0], True)
            if node.name and node.key:
                return Identity(node.name, True)
        if claim:
            return Identity(claim, False)
        if node.name:
            return Identity(node.name, False)
        if node.key:
            return Identity(key_id(node), bool(self.keys))
        return Identity(f"node-{node.id}", False)

    def place(self, node: Node, claim: str | None, t: int, names: Names | None = None) -> Placed:
        """The client that a node speaks for from now on; a new one for a newcomer.

        Parameters
        ----------
        node : Node
            Who is there.
        claim : str, optional
            Who it says it is. A claim proves nothing: it counts only for a node without a
            registered name; where keys are on, the first one binds.
        t : int
            The round.
        names : mapping, optional
            Of all connected nodes: see `registered_names`.

        Raises
        ------
        ClaimRefused
            The node is turned away, and nothing has changed.
        """
        names = {} if names is None else names
        who = self.identity(node, claim, names)
        try:
            self._refuse_unless_its_own(node, who, names)
        except ClaimRefused:
            self.turn_away(node)
            raise
        number = self._number.get(who.id)
        if number is None:
            number = self._add(who.id, t)
        elif self.clients[number].forgotten:
            number = self._add_again(number, t)
        client, ousted = self.clients[number], 0
        if client.node and self._by_node.get(client.node) == number:
            del self._by_node[client.node]
            if client.node != node.id:
                if who.is_proven and client.key != node.key:
                    ousted = client.node  # not turned away: it may have an id of its own
                else:
                    self._turned_away[client.node] = client.activated  # the newest place counts
        elif client.key and client.key != node.key:
            ousted = client.node
        client.node, client.activated = node.id, node.activated
        if node.key and (self.keys or (self.keys is None and node.name)):
            self._bind(number, node)
        self._by_node[node.id] = number
        self._turned_away.pop(node.id, None)
        refused = ""
        if who.is_proven and claim and claim != who.id and self._belongs(claim, node, names):
            refused = f"{node} claims the id {shown(claim)}, which is not its own; it is {who.id!r}"
            refused += self.misnamed(node, claim)
        return Placed(number, ousted, refused)

    def _refuse_unless_its_own(self, node: Node, who: Identity, names: Names) -> None:
        number = self._number.get(who.id)
        if number is None:
            try:
                check_id(f"{node}: id", who.id)
            except ValueError as error:
                raise ClaimRefused(str(error), Reason.BAD_ID) from error
        client = None if number is None else self.clients[number]
        claims = f"{node} claims the id {shown(who.id)}"
        if who.is_proven:
            # whoever was bound to it by claiming it gives way; not a key of the same name
            if client is not None and client.key not in ("", node.key) and client.name == who.id:
                raise ClaimRefused(
                    f"{node} (id {node.id}) has a name that another key was registered under "
                    f"before: the id {who.id!r} belongs to that key"
                )
        elif self._is_name_of_another(who.id, node, names):
            raise ClaimRefused(f"{claims}, another node's name")
        elif client is None:
            return
        elif client.key and client.key != node.key:
            raise ClaimRefused(f"{claims}, which belongs to another key")
        elif not client.node and self.keys is not False and (names or self._by_name):
            raise ClaimRefused(
                f"{claims}, which is expected under a registered name; it has no such name"
            )

    def misnamed(self, node: Node, claim: str | None) -> str:
        """What to do where `clients` names what a node reports, and not the name that is its id."""
        number = None if claim not in self._expected else self._number.get(claim)
        is_free = number is not None and not self.clients[number].node
        if not is_free or not node.name or node.name in self._expected or self.keys is False:
            return ""
        return (
            f"; `clients` names {claim!r}, but a node's registered name is its id: if it is that "
            f"client, name {shown(node.name)} there instead"
        )

    def release(self, names: Names) -> list[tuple[int, int]]:
        """Take expected ids from nodes that claimed them before any registered name was seen.

        Where there are names, expected ids are for these. Returned are (number, node).
        """
        if self.keys is False or not (names or self._by_name):
            return []
        released = []
        for number, client in enumerate(self.clients):
            is_claimed = client.id in self._expected and not client.key
            is_held = self._by_node.get(client.node) == number
            if is_claimed and is_held and client.node not in names.get(client.id, ()):
                released.append((number, client.node))
                del self._by_node[client.node]
                client.node, client.activated = 0, ""
        return released

    def _is_name_of_another(self, client_id: str, node: Node, names: Names) -> bool:
        """Whether another node, or a client of another key, is registered under this name."""
        if client_id == node.name:
            return False
        others = self._by_name.get(client_id, ())
        return bool(names.get(client_id, set()) - {node.id}) or any(
            self.clients[number].key != node.key for number in others
        )

    def _belongs(self, claim: str, node: Node, names: Names) -> bool:
        """Whether an id that is not the node's own is somebody's."""
        number = self._number.get(claim)
        if number is not None and self.clients[number].key != node.key:
            return True
        return self._is_name_of_another(claim, node, names)

    # -- nodes ---------------------------------------------------------------------------------

    def turn_away(self, node: Node) -> None:
        """Ask this node no more, until it connects anew."""
        self._turned_away[node.id] = node.activated

    def refresh(self, nodes: Iterable[Node]) -> list[int]:
        """Note when nodes connected, and their names; the numbers of clients that restarted."""
        restarted = []
        for node in nodes:
            number = self._by_node.get(node.id)
            if number is None:
                continue
            client = self.clients[number]
            if self.keys is not False and client.key and client.key != node.key:
                del self._by_node[node.id]  # of a run before: who has this key must say who it is
                continue
            if client.activated != node.activated:
                restarted.append(number)
                client.activated = node.activated
            is_noted = node.name == client.name or client.key != node.key
            if client.key and not is_noted:
                self._bind(number, node)  # earlier versions did not note it
            elif self.keys and node.key and not client.key:
                self._bind(number, node)  # that keys are registered is declared only now
        return restarted

    # -- clients -------------------------------------------------------------------------------

    def remove(self, numbers: Container[int]) -> list[Client]:
        """Newcomers that there is no room for: they have no number, and are asked no more.

        Only for those of whom no state holds anything yet: later ones get other numbers.
        """
        removed = [client for number, client in enumerate(self.clients) if number in numbers]
        self._renumber([one for number, one in enumerate(self.clients) if number not in numbers])
        for client in removed:
            if client.node:
                self._turned_away[client.node] = client.activated
        return removed

    def _renumber(self, clients: Sequence[Client]) -> None:
        """These clients, in the order of their numbers from now on."""
        here = {id(self.clients[number]) for number in self._by_node.values()}
        self.clients, self._number, self._by_node = [], {}, {}
        self._by_key, self._by_name, self._former = {}, {}, {}
        for client in clients:
            self._keep(client, id(client) in here)

    # -- clients that vanish ---------------------------------------------------------------------

    def forget(self, number: int) -> None:
        """It leaves because it was not seen; whoever has the right to its id may have it anew."""
        client = self.clients[number]
        client.retired = client.forgotten = True
        if self._by_node.get(client.node) == number:
            del self._by_node[client.node]

    def _add_again(self, number: int, t: int) -> int:
        """A forgotten client is back: its id and its key are those of a new number."""
        before = self.clients[number]
        again = Client(before.id, before.key, joined=t, name=before.name)
        before.id = _of_no_node(before.id, f"forgotten, number {number}")
        before.key, before.name, before.forgotten = "", "", False
        self._renumber([*self.clients, again])
        return len(self.clients) - 1

    def continue_as(self, old: int, new: int) -> None:
        """The client of number `old` is from now on called as `new` is, and reached by its node.

        The other number keeps the rounds that the client has played under it. Should the node of
        the vanished one come back, it is a newcomer.
        """
        client, before = self.clients[new], self.clients[old]
        if self.is_at(old, (before.node,)):
            del self._by_node[before.node]
        client.joined, client.came = before.joined, before.came
        client.was = ",".join([*client.former, *before.former, before.id])
        before.id = _of_no_node(client.id, f"until its match, number {new}")
        before.node, before.activated, before.was = 0, "", ""
        swapped = list(self.clients)
        swapped[old], swapped[new] = client, before
        self._renumber(swapped)

    def adopt(self, number: int, claim: str) -> bool:
        """Call a client by the id that its node reports, where its own lasts for one start only.

        It is the same node, so the same client. Ids that somebody has or had, and registered names,
        are not to be had so.
        """
        client = self.clients[number]
        is_taken = self.now(claim) is not None or bool(self._by_name.get(claim))
        if not client.is_throwaway or client.retired or is_taken or OF_A_START.fullmatch(claim):
            return False
        try:
            check_id("id", claim)
        except ValueError:
            return False
        client.was = ",".join([*client.former, client.id])
        client.id = claim
        self._renumber(self.clients)
        return True

    def expect(self, ids: Sequence[str], t: int) -> list[str]:
        """These clients are expected from now on; those among them that are new."""
        self._expected = frozenset(ids)
        new = [one for one in ids if one not in self._number and not self._by_name.get(one)]
        for client_id in new:
            self._add(client_id, t)
        return new

    def _add(self, client_id: str, t: int) -> int:
        self._keep(Client(client_id, joined=t), False)
        return len(self.clients) - 1

    def _keep(self, client: Client, is_here: bool) -> None:
        number = len(self.clients)
        self.clients.append(client)
        self._number[client.id] = number
        self._former |= dict.fromkeys(client.former, number)
        if is_here:
            self._by_node[client.node] = number
        if client.key:
            self._by_key.setdefault(client.key, []).append(number)
        if client.name:
            self._by_name.setdefault(client.name, set()).add(number)

    def _bind(self, number: int, node: Node) -> None:
        """From now on the id belongs to this node's key."""
        client = self.clients[number]
        if client.key:
            self._by_key[client.key].remove(number)
        if client.name:
            self._by_name[client.name].discard(number)
        client.key, client.name = node.key, node.name
        self._by_key[node.key] = sorted([*self._by_key.get(node.key, ()), number])
        if node.name:
            self._by_name.setdefault(node.name, set()).add(number)

    def to_json(self) -> str:
        """What a checkpoint keeps."""
        return json.dumps([asdict(client) for client in self.clients])

    @classmethod
    def from_json(cls, text: str, keys: bool | None = None) -> Roster:
        """What `to_json` wrote. Nodes are those of the last run: some may be there still."""
        roster = cls(keys=keys)
        for client in records(Client, text):
            if not is_one_line(client.id):  # it goes into logs
                raise ValueError(f"Client.id: expected a line of text, got {shown(client.id)}")
            if client.id in roster._number:
                raise ValueError(f"Client.id: expected distinct ids, got {shown(client.id)} twice")
            roster._keep(client, bool(client.node) and not client.forgotten)
        return roster


def _of_no_node(client_id: str, words: str) -> str:
    """An id under which a number and its rounds stay, and that nobody can come back with."""
    return f"{client_id[: LONGEST_ID - len(words) - 3]} ({words})"

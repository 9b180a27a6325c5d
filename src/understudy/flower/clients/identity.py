"""Client ids: what one may look like, and what a node's client is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from understudy.core.shown import shown
from understudy.core.types import Reason

LONGEST_ID = 200  # characters
OF_A_START = re.compile(r"key-[0-9a-f]{16}|node-\d+")  # ids that last as long as a SuperNode's key

Names = Mapping[str, set[int]]  # registered name → ids of the connected nodes that have it


class ClaimRefused(Exception):
    """A node cannot have the id that it claims, and has no other."""

    def __init__(self, words: str, reason: Reason = Reason.CLAIMED_ID) -> None:
        super().__init__(words)
        self.reason = reason


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

    def __str__(self) -> str:
        return f"node {shown(self.name)}" if self.name else f"node {self.id}"


def registered_names(nodes: Iterable[Node]) -> dict[str, set[int]]:
    """The registered names of nodes, and which nodes have them."""
    names: dict[str, set[int]] = {}
    for node in nodes:
        if node.name:
            names.setdefault(node.name, set()).add(node.id)
    return names


def key_id(node: Node) -> str:
    """What a node's client is called after its key; empty where it has none."""
    return f"key-{node.key[:16]}" if node.key else ""


def check_id(name: str, client_id: object) -> None:
    """Refuse what cannot be an id: it is a line in files and logs, where commas separate ids."""
    size = ""
    if isinstance(client_id, str):
        size = f" ({len(client_id):,} characters)"
        if "," not in client_id and client_id == client_id.strip() and is_one_line(client_id):
            return
    raise ValueError(
        f"{name}: expected 1 to {LONGEST_ID} printable characters in one line, without commas and "
        f"without spaces around them, got {shown(client_id)}{size}"
    )


def is_one_line(client_id: str) -> bool:
    """Whether something can be a line in files and logs, as each id in a roster is."""
    return 0 < len(client_id) <= LONGEST_ID and client_id.isprintable()


def order(client_id: str) -> tuple[bool, int, str]:
    """To sort by, so that numbers do not depend on who came first: 2, 10, then words."""
    is_word = not client_id.isdecimal()
    return is_word, 0 if is_word else len(client_id), client_id

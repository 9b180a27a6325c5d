"""What the clients of a cell are called, as it was stored with the cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.core.printable import is_seen, one_line

LONGEST = 80  # characters


def client_names(facts: Mapping[str, Any], n_clients: int) -> list[str]:
    """N names; the number as text where a client has none, as where clients joined later.

    `facts` are what is stored of the cell's clients.
    """
    known = stored_names(facts)[:n_clients]
    return known + [str(number) for number in range(len(known), n_clients)]


def stored_names(facts: Mapping[str, Any]) -> list[str]:
    """The names that are stored, fit to be printed; none where clients have none."""
    names = facts.get("names")
    if not isinstance(names, list):
        return []
    return [
        one_line(name, LONGEST) if is_seen(str(name)) else str(number)
        for number, name in enumerate(names)
    ]

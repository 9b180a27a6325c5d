"""`Members`: who may take part in a live federation, and who leaves it, as its operator says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from understudy.core import checks
from understudy.core.types import Population
from understudy.flower.clients.identity import check_id


@dataclass(frozen=True)
class Members:
    """Who may take part, and who leaves.

    Parameters
    ----------
    clients : sequence of str
        Ids of clients that are expected, in the order of their numbers; others may join.
    population : Population, optional
        What is known of these beforehand.
    retired : sequence of str
        Ids of clients that have left for good: never asked again, what is remembered of them
        erased. See also `request_retirement`.
    same_as : mapping of str to str
        Id of a client → the id that it had before its SuperNode restarted with a new key: it
        continues as that client. See also `request_same_as`.
    forget_after : int, optional
        Rounds after which a client leaves that was connected in none of them (rounds in which
        nobody is do not count). Should it come back, it joins as a newcomer. By default never.
    keys : bool, optional
        Whether SuperNodes authenticate with registered keys: see `Roster`.
    introduce : bool
        Ask each new node who it is. Without it, a client is its registered name, its key or its
        node id. An app without the mod trains when asked; in the first round that counts as its
        update.
    """

    clients: tuple[str, ...] = ()
    population: Population | None = None
    retired: tuple[str, ...] = ()
    same_as: Mapping[str, str] = field(default_factory=dict)
    forget_after: int | None = None
    keys: bool | None = None
    introduce: bool = True

    def __post_init__(self) -> None:
        for name in ("clients", "retired"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.population is not None and self.population.n_clients != len(self.clients):
            raise ValueError(
                f"population: expected one of {len(self.clients)} clients, as many as `clients` "
                f"names, got {self.population.n_clients}"
            )
        if self.forget_after is not None:
            checks.integer("forget_after", self.forget_after, low=1)
        for ids in self.same_as.items():
            for one in ids:
                check_id("same_as", one)
        for before, n in Counter(self.same_as.values()).items():
            if n > 1:
                raise ValueError(f"same_as: expected distinct clients, got {before!r} {n} times")

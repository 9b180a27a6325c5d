"""`Gone`, `leave_one_out`: clients that never come, by number or by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.printable import one_line
from understudy.core.roles import Availability
from understudy.core.suggestions import closest
from understudy.core.types import Bools, Floats, Population
from understudy.parts.availability.always import Always

MOST_LISTED = 10  # names in an error


class Named(Protocol):
    """Clients with names, or without: a `Federation`, or a `Population`."""

    @property
    def n_clients(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...] | None: ...


@dataclass
class GoneState:
    left: Bools  # (N,) whose turn to be gone comes
    inner: Any


@dataclass(frozen=True)
class Gone:
    """The listed clients never come, or not in some rounds; `inner` decides for the others.

    Parameters
    ----------
    clients : list of int or str
        Who is gone: numbers 0 .. N-1, or names, where the federation has them. A number is never
        taken for a name, nor a name for a number.
    since : int
        The first round without them; 0: they never come.
    inner : Availability
        Attendance of everybody else, and of these until then. It is drawn for all, so that the
        others come as they do without this wrapper.
    until : int, optional
        The round in which they come (again) like the others; with ``since=0`` nobody has seen them
        before. None: never.
    """

    clients: tuple[int | str, ...] = ()
    since: int = 0
    inner: Availability = field(default_factory=Always)
    until: int | None = added("0.4", None)

    def __post_init__(self) -> None:
        given: Any = self.clients
        if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
            raise TypeError(f"clients: expected a list of numbers or names, got {given!r}")
        plain = tuple(one if isinstance(one, str) else _number(one) for one in given)
        if len(set(plain)) != len(plain):
            raise ValueError(f"clients: expected each of them once, got {plain}")
        if type(given) is not tuple or any(
            one is not own for one, own in zip(given, plain, strict=True)
        ):
            object.__setattr__(self, "clients", plain)
        checks.integer("since", self.since, low=0)
        if self.until is not None:
            checks.integer("until", self.until, low=self.since)
        checks.part("inner", self.inner, "init", "draw", "rates")
        if not plain:
            raise ValueError("clients: expected at least one number or name, got ()")

    def init(self, population: Population) -> GoneState:
        left = np.zeros(int(population.n_clients), dtype=np.bool_)
        left[[_place(one, population) for one in self.clients]] = True
        return GoneState(left, self.inner.init(population))

    def draw(self, state: GoneState, t: int, rng: np.random.Generator) -> Bools:
        drawn = np.asarray(self.inner.draw(state.inner, t, rng))
        return drawn & ~state.left if self._gone(t) else drawn

    def rates(self, state: GoneState, t: int) -> Floats | None:
        rates = self.inner.rates(state.inner, t)
        return np.where(state.left, 0.0, rates) if rates is not None and self._gone(t) else rates

    def _gone(self, t: int) -> bool:
        return t >= self.since and (self.until is None or t < self.until)


def leave_one_out(
    federation: Named, *, since: int = 0, inner: Availability | None = None
) -> dict[str, Availability]:
    """For each client the availability without it, and one in which nobody is gone.

    For `Study`'s `availability`: what becomes of the others when one client leaves.

    Parameters
    ----------
    federation : Federation or Population
        Whose clients; labels have their names where it has names.
    since, inner
        As of `Gone`.

    Examples
    --------
    >>> from understudy import Population
    >>> from understudy.parts.availability import leave_one_out
    >>> list(leave_one_out(Population(2, names=("north", "south"))))
    ['nobody gone', 'without north', 'without south']
    """
    base = Always() if inner is None else inner
    n = int(federation.n_clients)
    who: Sequence[int | str] = range(n) if federation.names is None else federation.names
    words = [f"client {one}" if isinstance(one, int) else one_line(one) for one in who]
    return {
        "nobody gone": base,
        **{
            f"without {word}": Gone((one,), since, base)
            for word, one in zip(words, who, strict=True)
        },
    }


def _number(value: object) -> int:
    checks.integer("clients", value, low=0)
    return int(value)  # type: ignore[call-overload, no-any-return]


def _place(client: int | str, population: Population) -> int:
    """The number of a client."""
    if not isinstance(client, str):
        checks.integer("clients", client, low=0, high=int(population.n_clients) - 1)
        return client
    if population.names is None:
        raise ValueError(
            f"clients: expected numbers, since these clients have no names, got {client!r}"
        )
    found = population.names.count(client)
    if found > 1:
        raise ValueError(f"clients: {found} clients are named {client!r}; give their numbers")
    if not found:
        meant = closest(client, population.names)
        listed = ", ".join(repr(name) for name in population.names[:MOST_LISTED])
        more = ", …" if population.n_clients > MOST_LISTED else ""
        raise ValueError(
            f"clients: no client named {client!r}; "
            + ("" if meant is None else f"did you mean {meant!r}? ")
            + f"known: {listed}{more}"
        )
    return population.names.index(client)

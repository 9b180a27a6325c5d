"""What the user declares of clients, by their ids: a run that resumes has numbers of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.core.shown import shown
from understudy.core.types import Population
from understudy.server.state import ServerState

CLOSED = ("features", "similarity", "p", "groups")  # no newcomer could report them of itself
MOST_SHOWN = 5  # ids in a warning


@dataclass(frozen=True, eq=False)
class Declared:
    """Expected clients, and what the user says of them."""

    ids: tuple[str, ...] = ()
    known: Population | None = None  # of these, in the same order

    def of(self, ids: Sequence[str], stored: Population | None) -> Population:
        """What was declared of these clients, in their order.

        Parts of a run that has begun were made for the facts in `stored`: all but sizes are its.
        """
        n, known = len(ids), self.known
        if known is None:
            result = Population(n)
        elif stored is None and tuple(ids) == self.ids:
            return known
        else:
            place = {client_id: number for number, client_id in enumerate(ids)}
            found = [(place[one], here) for here, one in enumerate(self.ids) if one in place]
            numbers, places = [number for number, _ in found], [here for _, here in found]
            result = Population(
                n,
                n_examples=_spread(known.n_examples, places, numbers, n),
                label_counts=_spread(known.label_counts, places, numbers, n),
                claimed=None if known.claimed is None else _marked(known, places, numbers, n),
            )
        if stored is None:
            return result
        kept = {name: getattr(stored, name) for name in CLOSED} if n == stored.n_clients else {}
        return replace(result, label_counts=None, **kept)

    def differences(self, numbers: Mapping[str, int], stored: Population) -> list[str]:
        """What a run that resumes cannot take over, in words.

        Parameters
        ----------
        numbers : mapping
            Id → number, of the clients that have not left.
        stored : Population
            What the run knows.
        """
        if self.known is None:
            return []
        found = [(numbers[one], here) for here, one in enumerate(self.ids) if one in numbers]
        rows, places = [number for number, _ in found], [here for _, here in found]
        words = []
        for name in ("label_counts", *CLOSED):
            given, kept = getattr(self.known, name), getattr(stored, name)
            if given is None:
                continue
            if kept is None:
                words.append(f"{name} (the run began without)")
                continue
            given, kept = given[places], kept[rows]
            if name == "similarity":
                given, kept = given[:, places], kept[:, rows]
            if given.shape != kept.shape:
                words.append(f"{name} (expected {kept.shape[1:]} values for each client)")
                continue
            differ = (given != kept) & ~np.isnan(given)
            who = [
                self.ids[places[i]] for i in np.flatnonzero(differ.reshape(len(found), -1).any(1))
            ]
            if who:
                more = ", …" if len(who) > MOST_SHOWN else ""
                words.append(f"{name} of {', '.join(map(shown, who[:MOST_SHOWN]))}{more}")
        return words


def confirm(state: ServerState, declared: Population) -> None:
    """Let a run know the sizes that were declared, where it knows others or has them as claims.

    A client of which none is declared stays as it is. A new size counts until its client reports
    fewer examples.
    """
    if declared.n_examples is None:
        return
    known = state.population
    told = ~np.isnan(declared.n_examples) & state.active
    sizes = np.full(state.n_clients, np.nan) if known.n_examples is None else known.n_examples
    is_other = told & (sizes != declared.n_examples)
    is_new = told & (known.confirmed != declared.confirmed)
    if not (is_other | is_new).any():
        return
    claimed = ~known.confirmed
    claimed[told] = ~declared.confirmed[told]
    state.population = replace(
        known, n_examples=np.where(told, declared.n_examples, sizes), claimed=claimed
    )
    state.n_examples[is_new] = np.fmin(state.n_examples, declared.n_examples)[is_new]
    state.n_examples[is_other] = declared.n_examples[is_other]


def _spread(values: Any, places: list[int], numbers: list[int], n: int) -> Any:
    """(n, …) the values at these places under other numbers, NaN elsewhere."""
    if values is None:
        return None
    result = np.full((n, *values.shape[1:]), np.nan)
    result[numbers] = values[places]
    return result


def _marked(known: Population, places: list[int], numbers: list[int], n: int) -> Any:
    claimed = np.zeros(n, dtype=np.bool_)
    claimed[numbers] = ~known.confirmed[places]
    return claimed

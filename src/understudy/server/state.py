"""All that a server remembers between two rounds, and how it grows."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.core.claims import believed
from understudy.core.types import Arrivals, Bools, Floats, Ints, Population
from understudy.memory.commits import COMMIT_EVERY, CommitTimer
from understudy.memory.rows import RowStore

if TYPE_CHECKING:
    from understudy.memory.run_folder import RunFolder
    from understudy.server.strategy import Strategy

# Requests of one client that may be open at once; a client that never answers would otherwise
# add one in every round for ever.
MOST_PENDING = 32


@dataclass(eq=False)
class ServerState:
    """What changes from round to round. `params` is the flat model; `t` the round that comes next.

    The states of the parts are theirs alone. Facts learnt during the run (`n_examples`,
    `label_counts`) live here as they were told, NaN where unknown.
    """

    population: Population = field(metadata={"saved": False})  # kept in a file of its own
    params: torch.Tensor  # (d,) dtype and device as given
    n_parameters: int
    seed: int
    t: int
    active: Bools  # (N,) not retired
    n_examples: Floats  # (N,)
    label_counts: Floats | None  # (N, C)
    pending: Ints  # (p, 2) rows of (id, round asked)
    sampler: Any
    compensator: Any
    server: Any
    local: Any
    guard: Any
    made_by: Strategy = field(metadata={"saved": False})
    # seconds between two commits that `apply` makes by itself; None: only `commit` commits
    commit_every: float | None = field(default=COMMIT_EVERY, metadata={"saved": False})
    # (r,) rounds in which the model stood still, ascending: schedules do not count them
    idle: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    extra: Any = None  # what whoever runs the rounds wants to be committed with them
    _run_folder: RunFolder | None = None
    _commits: CommitTimer = field(default_factory=CommitTimer)
    _open: bool = False  # a round is being taken in: half of it is no state to go on from

    @property
    def n_clients(self) -> int:
        return len(self.active)

    @property
    def updates(self) -> int:
        """How often the model was changed so far: the clock of schedules."""
        return self.updates_before(self.t)

    def updates_before(self, t: int) -> int:
        """How often the model was changed before round `t`, a past or the coming one."""
        return int(t - np.searchsorted(self.idle, t))

    def known_population(self) -> Population:
        """The population with the facts learnt so far, claims at what they count."""
        sizes = self.believed_examples()
        known = None if np.isnan(sizes).all() else sizes
        return _with_facts(self.population, known, self.label_counts)

    def believed_examples(self) -> Floats:
        """(N,) what each client's number of examples counts: see `understudy.core.claims`."""
        strategy = self.made_by
        return believed(
            self.population,
            self.n_examples,
            self.active,
            factor=strategy.claim_factor,
            ignored=strategy.ignores_claims,
        )

    def refuse_half_a_round(self) -> None:
        """Raise where a round was broken off: memories may have taken in a part of it."""
        if self._open:
            raise RuntimeError(
                f"state: round {self.t} was interrupted; resume from the last commit "
                "by resume(), or from a saved state"
            )

    def close(self) -> None:
        """Let go of the folder, so that another process may continue the run."""
        for _, store in row_stores(self):
            store.close()
        if self._run_folder is not None:
            self._run_folder.close()
            self._run_folder = None


def _with_facts(
    population: Population, n_examples: Floats | None, label_counts: Floats | None
) -> Population:
    same = population.n_examples is n_examples and population.label_counts is label_counts
    if same:
        return population
    # facts were checked when they came in; checking N x N similarities each round would cost
    known = object.__new__(Population)
    for item in fields(Population):
        object.__setattr__(known, item.name, getattr(population, item.name))
    object.__setattr__(known, "n_examples", n_examples)
    object.__setattr__(known, "claimed", ~population.confirmed)
    object.__setattr__(known, "label_counts", label_counts)
    return known


def learn_facts(state: ServerState, arrivals: Arrivals) -> None:
    """Remember what arrivals say of their clients."""
    ids = np.asarray(arrivals.ids, dtype=np.int64)
    if arrivals.n_examples is not None:
        state.n_examples[ids] = arrivals.n_examples
    if arrivals.label_counts is not None:
        counts = np.asarray(arrivals.label_counts, dtype=np.float64)
        if state.label_counts is None:
            state.label_counts = np.full((state.n_clients, counts.shape[1]), np.nan)
        if counts.shape[1] == state.label_counts.shape[1]:
            told = ~np.isnan(counts).any(axis=1)
            state.label_counts[ids[told]] = counts[told]


def still_pending(
    pending: Ints, asked: Ints, t: int, answered: frozenset[tuple[int, int]], active: Bools
) -> Ints:
    """(p, 2) requests that may still be answered after round `t`."""
    if len(answered) == len(pending) + len(asked):  # each was a request, and only once
        return pending[:0]
    now = np.stack([asked, np.full(len(asked), t)], axis=1) if len(asked) else pending[:0]
    requests: Ints = np.concatenate([pending, now])
    requests = requests[active[requests[:, 0]]]
    if answered:
        over = np.array(sorted(answered), dtype=np.int64)
        span = int(requests.max(initial=0)) + t + 2  # one number per request
        keys, done = requests @ [span, 1], over @ [span, 1]
        requests = requests[~np.isin(keys, done)]
    if len(requests) and np.bincount(requests[:, 0]).max() > MOST_PENDING:
        requests = requests[np.lexsort((-requests[:, 1], requests[:, 0]))]
        first = np.searchsorted(requests[:, 0], requests[:, 0])  # where each client's own begin
        requests = requests[np.arange(len(requests)) - first < MOST_PENDING]
    return np.asarray(requests[np.lexsort((requests[:, 1], requests[:, 0]))])


def row_stores(state: Any, prefix: str = "") -> Iterator[tuple[str, RowStore]]:
    """All RowStores in a state, with their places."""
    for path, value in leaves(state, prefix):
        if isinstance(value, RowStore):
            yield path, value


def erase_free_rows(state: ServerState) -> None:
    """Overwrite what was remembered of clients that are gone."""
    for _, store in row_stores(state):
        store.erase_free()


def leaves(state: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(place, value) of all that is saved in a state, in the order of its fields."""
    if state is None:
        return
    for item in saved_fields(state):
        value, path = getattr(state, item.name), f"{prefix}{item.name}"
        if is_dataclass(value):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def part_copy(state: Any) -> dict[str, Any]:
    """Place → copy of each array and number of a part's state; rows are not copied."""
    found: dict[str, Any] = {}
    for path, value in leaves(state):
        if isinstance(value, torch.Tensor):
            found[path] = value.clone()
        elif not isinstance(value, RowStore):
            found[path] = copy(value)
    return found


def restore_part(state: Any, values: dict[str, Any]) -> None:
    """Give a part's state the arrays and numbers that `part_copy` took."""
    for path, value in values.items():
        owner, name = owner_of(state, path)
        setattr(owner, name, value)


def owner_of(state: Any, path: str) -> tuple[Any, str]:
    """The object that holds a place, and the name that it has there."""
    *places, name = path.split(".")
    for place in places:
        state = getattr(state, place)
    return state, name


def saved_fields(state: Any) -> list[Any]:
    """Fields that are neither derived (`_x`) nor kept elsewhere."""
    return [
        item
        for item in fields(state)
        if not item.name.startswith("_") and item.metadata.get("saved", True)
    ]


def grow_part(old: Any, new: Any) -> Any:
    """A part's state for a larger population: `new`, with the old values in the leading corner."""
    if old is None or new is None:
        return new
    if type(old) is not type(new):
        raise ValueError(
            f"state: expected a {type(old).__name__} for the larger population too, got a "
            f"{type(new).__name__}: a part keeps something else of so many clients"
        )
    for item in saved_fields(old):
        before, after = getattr(old, item.name), getattr(new, item.name)
        setattr(new, item.name, _grown(before, after))
    return new


def _grown(before: Any, after: Any) -> Any:
    if before is None or (after is None and isinstance(before, RowStore)):
        return after  # what the part needs for the larger population, or no longer needs
    if is_dataclass(before):
        return grow_part(before, after)
    if isinstance(before, RowStore):
        if after.width == before.width:
            before.grow(after.n_rows)  # nothing is copied
            return before
        for client in np.flatnonzero(before.known):
            row = after.get(int(client)).clone()
            row[: before.width] = before.get(int(client))
            after.put(int(client), row)
        return after
    if isinstance(before, np.ndarray | torch.Tensor):
        same_kind = isinstance(after, np.ndarray | torch.Tensor) and after.ndim == before.ndim
        if same_kind and all(b <= a for b, a in zip(before.shape, after.shape, strict=True)):
            after[tuple(slice(0, size) for size in before.shape)] = before
            return after
    return before  # numbers, and lists whose length is not a number of clients


def erase_client(state: Any, blank: Any, resized: Any, client: int) -> None:
    """Give a client a newcomer's entries in all that a part's state holds over clients.

    Over clients are the axes that grow with the population: those in which new states for as many
    clients (`blank`) and for another number of them (`resized`) differ. What others hold of the
    client is erased too: its column in a table (N, N), be it an array or rows.
    """
    if state is None or blank is None or resized is None:
        return
    forget = getattr(state, "forget", None)  # for what is over clients, but in no axis
    if forget is not None:
        forget(client)
    for item in saved_fields(state):
        now, new, other = (getattr(one, item.name) for one in (state, blank, resized))
        if is_dataclass(now):
            erase_client(now, new, other, client)
        elif isinstance(now, RowStore):
            now.drop(client)
            if isinstance(other, RowStore) and other.width != now.width:
                now.erase_column(client)
        elif isinstance(now, np.ndarray | torch.Tensor):
            for axis in _axes_over_clients(now, new, other):
                place: Any = (*[slice(None)] * axis, client)
                now[place] = new[place]


def _axes_over_clients(now: Any, new: Any, other: Any) -> list[int]:
    """Which axes have the population's size: those that differ where that does."""
    if not type(now) is type(new) is type(other) or now.ndim != other.ndim:
        return []
    if now.shape != new.shape:
        return []
    return [axis for axis in range(now.ndim) if now.shape[axis] != other.shape[axis]]


def resized_populations(population: Population) -> Iterator[Population]:
    """The same clients and one more like the last; without the last."""
    n = population.n_clients
    for places in (np.append(np.arange(n), n - 1), np.arange(n - 1)):
        if len(places):
            known: dict[str, Any] = {
                item.name: value[np.ix_(places, places) if item.name == "similarity" else places]
                for item in fields(population)
                if isinstance(value := getattr(population, item.name), np.ndarray)
            }
            yield Population(len(places), **known)


def grown_facts(
    state: ServerState, population: Population
) -> tuple[Population, Floats, Floats | None]:
    """The larger population as given, and what is known of everyone by now.

    What the old clients' population said, and the larger one leaves out, is kept; newcomers are
    then unknown. Facts learnt in rounds do not become part of what was given.
    """
    n, old = population.n_clients, state.n_clients
    if n < old:
        raise ValueError(
            f"population.n_clients: expected at least the {old} clients there are, got {n}; "
            "clients leave by retire()"
        )
    for name in ("features", "similarity", "p", "groups"):
        if getattr(state.population, name) is not None and getattr(population, name) is None:
            raise ValueError(f"population.{name}: the population had it, the larger one has none")
    sizes = _carried(state.population.n_examples, population.n_examples, n)
    counts = _carried(state.population.label_counts, population.label_counts, n)
    given = replace(
        population,
        n_examples=sizes,
        label_counts=counts,
        claimed=_carried_claims(state.population, population),
    )
    n_examples = _carried(state.n_examples, sizes, n, learnt=True)
    assert n_examples is not None
    return given, n_examples, _carried(state.label_counts, counts, n, learnt=True)


def _carried(
    old: Floats | None, new: Floats | None, n_clients: int, *, learnt: bool = False
) -> Floats | None:
    """`new`, with the old clients' entries where it has none; where they were learnt, they win."""
    if old is None:
        return None if new is None else new.copy()
    if new is None or new.shape[1:] != old.shape[1:]:
        new = np.full((n_clients, *old.shape[1:]), np.nan)
    result, known = new.copy(), ~np.isnan(old)
    corner = result[: len(old)]
    take = known if learnt else known & np.isnan(corner)
    corner[take] = old[take]
    return result


def _carried_claims(old: Population, new: Population) -> Bools | None:
    """(N,) whose size is a claim: as the larger population says, or the old one where it is silent.

    A larger population that has no size of a client neither confirms nor doubts it.
    """
    if old.claimed is None and new.claimed is None:
        return None
    claimed = np.zeros(new.n_clients, dtype=np.bool_)
    claimed[: old.n_clients] = False if old.claimed is None else old.claimed
    if new.n_examples is not None:
        told = ~np.isnan(new.n_examples)
        claimed[told] = False if new.claimed is None else new.claimed[told]
    return claimed

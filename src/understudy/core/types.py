"""What passes between the parts of a round: small, frozen, with the shapes at the fields.

N clients, d entries of the flat model, k arrivals, C classes. Arrays over clients are NumPy,
arrays over parameters are torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from understudy.core import checks
from understudy.core.printable import one_line
from understudy.core.shown import shown

if TYPE_CHECKING:
    from understudy.memory.rows import RowStore

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
LONGEST_ID, LONGEST_DETAIL = 200, 1000  # characters of a refusal
Vectors = torch.Tensor | Sequence[torch.Tensor]  # (k, d), or k vectors of length d


class Outcome(IntEnum):
    """What became of a client in a round."""

    CAME = 0  # its valid update arrived in time
    LATE = 1  # an update it was asked for in an earlier round arrived now
    ERROR = 2  # it answered with an error
    UNAVAILABLE = 3  # wanted, but known to be out of reach: not asked
    MISSING = 4  # asked, and nothing came
    RESTARTED = 5  # asked, but it restarted and forgot
    REFUSED = 6  # an update came and was not valid
    NOT_WANTED = 7


class Reason(StrEnum):
    """Why an arrival was refused."""

    UNKNOWN_ID = "unknown id"
    NOT_ASKED = "not asked"
    DUPLICATE = "duplicate"
    WRONG_TYPE = "wrong type"
    WRONG_LENGTH = "wrong length"
    NOT_FINITE = "not finite"
    BAD_EXAMPLES = "bad n_examples"
    BAD_STEPS = "bad n_steps"
    BAD_START = "bad start_round"
    UNREADABLE = "unreadable"  # this and those after it are for live federations
    TOO_LARGE = "too large"
    CLAIMED_ID = "claims another's id"
    BAD_ID = "bad client id"
    NO_ROOM = "no room"


@dataclass(frozen=True)
class Refusal:
    """One refused arrival: the id as it was given, the reason, and the details for a person."""

    id: object
    reason: Reason
    detail: str

    def __post_init__(self) -> None:
        # logs keep refusals for ever: what a client sends in place of an id may be of any size
        words = shown(self.id, LONGEST_ID)
        try:
            short = " ".join(repr(self.id).split()) == words
        except Exception:  # whatever somebody's object raises
            short = False
        if not short:
            object.__setattr__(self, "id", words)
        object.__setattr__(self, "detail", one_line(self.detail, LONGEST_DETAIL))

    def __str__(self) -> str:
        return f"client {one_line(self.id)}: {self.reason} ({self.detail})"


@dataclass(frozen=True, eq=False)
class Population:
    """What is known of the clients before (or while) they train; all but `n_clients` optional.

    Parameters
    ----------
    n_clients : int
        N. Clients are the integers 0 .. N-1.
    n_examples : (N,) array, optional
        Training examples of each client, > 0; NaN where unknown. What is given here is confirmed;
        what clients report beyond it are claims, see `Strategy`.
    label_counts : (N, C) array, optional
        Label histogram of each client; a row of NaN where unknown.
    features : (N, f) array, optional
        Anything that describes a client's data, for the graph of FedGS.
    similarity : (N, N) array, optional
        A ready similarity matrix, which then takes precedence over `features` and `label_counts`.
    p : (N,) array, optional
        Known probability of being available, in [0, 1].
    groups : (N,) array of int, optional
        Cluster of each client: for availability, oracle and pictures. No sampler or compensator
        reads it.
    claimed : (N,) array of bool, optional
        Whose entry in `n_examples` is only what the client reports of itself: it is not confirmed.
    names : N strings, optional
        What people call the clients: for parts whose settings name some (`Gone`), and for pictures.
        Not kept in checkpoints.
    """

    n_clients: int
    n_examples: Floats | None = None
    label_counts: Floats | None = None
    features: Floats | None = None
    similarity: Floats | None = None
    p: Floats | None = None
    groups: Ints | None = None
    claimed: Bools | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        checks.integer("n_clients", self.n_clients, low=1)
        n = int(self.n_clients)
        shapes: dict[str, tuple[tuple[int | None, ...], type]] = {
            "n_examples": ((n,), float),
            "label_counts": ((n, None), float),
            "features": ((n, None), float),
            "similarity": ((n, n), float),
            "p": ((n,), float),
            "groups": ((n,), int),
        }
        for name, (shape, kind) in shapes.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checks.array(name, value, shape, kind))
        if self.claimed is not None:
            object.__setattr__(self, "claimed", checks.mask("claimed", self.claimed, n))
        if self.names is not None:
            if len(self.names) != n:
                raise ValueError(f"names: expected {n} of them, got {shown(self.names)}")
            object.__setattr__(self, "names", tuple(self.names))
        self._check_values()

    @property
    def confirmed(self) -> Bools:
        """(N,) whose number of examples is given, and not by the client itself."""
        if self.n_examples is None:
            return np.zeros(self.n_clients, dtype=np.bool_)
        known: Bools = ~np.isnan(self.n_examples)
        return known if self.claimed is None else known & ~self.claimed

    def called(self, client: int) -> str:
        """A client's name; its number where it has none."""
        return str(client) if self.names is None else one_line(self.names[client])

    def _check_values(self) -> None:
        if self.n_examples is not None:
            bad: Bools = ~(np.isnan(self.n_examples) | (self.n_examples > 0))
            bad |= np.isinf(self.n_examples)
            _refuse_entry("n_examples", self.n_examples, bad, "a number > 0 (NaN: unknown)")
        if self.label_counts is not None:
            bad = np.asarray(((self.label_counts < 0) | np.isinf(self.label_counts)).any(axis=1))
            _refuse_entry("label_counts", self.label_counts, bad, "counts >= 0 (NaN: unknown)")
        if self.p is not None:
            bad = ~((self.p >= 0) & (self.p <= 1))
            _refuse_entry("p", self.p, bad, "a probability in [0, 1]")
        if self.similarity is not None:
            known = np.nan_to_num(self.similarity)
            if not np.allclose(known, known.T, rtol=1e-6, atol=1e-9):
                raise ValueError("similarity: expected a symmetric matrix, got an asymmetric one")
            bad = np.asarray(np.isinf(self.similarity).any(axis=1))
            _refuse_entry("similarity", self.similarity, bad, "finite numbers (NaN: unknown)")


def _refuse_entry(name: str, values: npt.NDArray[Any], bad: Bools, expected: str) -> None:
    if bad.any():
        client = int(np.argmax(bad))
        raise ValueError(f"{name}[{client}]: expected {expected}, got {values[client]}")


@dataclass(frozen=True, eq=False)
class Setup:
    """What a part gets at `init`."""

    population: Population
    params: torch.Tensor  # (d,)
    n_parameters: int  # the first n_parameters entries are parameters, the rest floating buffers
    t: int  # 0, or the round in which the population grew
    rng: np.random.Generator
    rows: Callable[..., RowStore]  # rows(width=d, dtype=params.dtype) -> an empty RowStore


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Updates that reached the server, unchecked: `Strategy.apply` refuses bad ones one by one.

    Parameters
    ----------
    ids : (k,) ints
        Who sent each update.
    deltas : (k, d) tensor, or a list of k vectors
        Local model minus the model the client started from.
    n_examples : (k,) numbers, optional
        Examples each client trained on.
    n_steps : (k,) ints, optional
        Local steps each client made; SCAFFOLD needs them.
    losses : (k,) numbers, optional
        Loss each client reports.
    label_counts : (k, C) numbers, optional
        Label histograms, where clients are willing to tell.
    start_round : (k,) ints, optional
        The round whose model each client started from; before the current one: a late update.
        Without it, all are of the current round.
    seconds : (k,) numbers, optional
        How long each answer took, from the question to its arrival; NaN where that is not known.
    """

    ids: Sequence[Any] | npt.NDArray[Any]
    deltas: Vectors
    n_examples: Sequence[Any] | npt.NDArray[Any] | None = None
    n_steps: Sequence[Any] | npt.NDArray[Any] | None = None
    losses: Sequence[Any] | npt.NDArray[Any] | None = None
    label_counts: Sequence[Any] | npt.NDArray[Any] | None = None
    start_round: Sequence[Any] | npt.NDArray[Any] | None = None
    seconds: Sequence[Any] | npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor]]:
        """(id, delta) pairs."""
        for position, client in enumerate(self.ids):
            yield int(client), self.deltas[position]

    @classmethod
    def none(cls) -> Arrivals:
        """No arrivals at all."""
        return cls(ids=np.zeros(0, dtype=np.int64), deltas=[])


@dataclass(frozen=True, eq=False)
class Cohort:
    """Whom a round is about."""

    t: int
    wanted: Ints  # (w,) the clients the round should represent, ascending
    weight: Floats  # (w,) aligned with wanted
    asked: Ints  # (a,) those of the wanted that can be reached
    pending: Ints  # (p, 2) rows of (id, round asked): asked earlier, may still arrive
    p: Floats | None = None  # (N,) this round's availability, where known
    start: Callable[[int], torch.Tensor] | None = None  # id -> (d,) model to start from
    correction: Callable[[int], torch.Tensor] | None = None  # id -> (d,) added to each gradient
    lr: float | None = None  # η, the local learning rate; None: by the round's number
    available: Bools | None = None  # (N,) who could be reached, wanted or not

    @property
    def vectors_down(self) -> int:
        """How many (d,) vectors are sent to each of the asked: a model, and a correction."""
        return 1 if self.correction is None else 2


@dataclass(frozen=True, eq=False)
class RoundStart:
    """What a sampler may look at."""

    t: int
    population: Population
    active: Bools  # (N,) not retired
    available: Bools  # (N,) reachable now, and active
    params: torch.Tensor  # (d,)
    p: Floats | None  # (N,)
    losses: Callable[[Ints], npt.ArrayLike] | None  # ids -> losses of the current model there
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class RoundEnd:
    """What compensators, samplers, local rules may look at once the round's arrivals are in."""

    t: int
    population: Population
    active: Bools  # (N,)
    cohort: Cohort
    arrivals: Arrivals  # fresh and valid, by ascending id
    late: Arrivals  # valid, asked for in an earlier round, by ascending (id, start round)
    params: torch.Tensor  # (d,) before the step
    q: Floats  # (N,) cohort weight (1 if not wanted) x base
    base: Floats  # (N,) n_i or 1 by `weighting`, 0 if retired: for memories, which span all rounds
    lr: Callable[[int], float]  # local learning rate of a round, this one or a past one
    p: Floats | None  # (N,)
    n_parameters: int
    rng: np.random.Generator

    @property
    def came(self) -> Ints:
        """(k,) ids of those whose valid update arrived in time, ascending."""
        return np.asarray(self.arrivals.ids, dtype=np.int64)

    @property
    def absent(self) -> Ints:
        """Wanted, but did not come; ascending."""
        return np.setdiff1d(self.cohort.wanted, self.came)

    def fresh(self) -> Block:
        """The updates that came, as a block whose row r belongs to `came[r]`."""
        return Block(owner=self.came, data=self.arrivals.deltas)


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that contributions point into: borrowed until the round's `learn`, never copied."""

    owner: Ints  # (r,) the client whose update a row is; -1 for a mixture or a model
    data: Vectors  # (r, d)
    ahead: Callable[[Ints], None] | None = None  # tells the disk which rows are read next

    def __len__(self) -> int:
        return len(self.owner)


Term = tuple[npt.ArrayLike, Block, npt.ArrayLike, npt.ArrayLike]  # ids, block, row, coef


@dataclass(frozen=True, eq=False)
class Contributions:
    """A weighted sum of rows: who is represented, by which row, with what coefficient.

    A client's **stand-in** is Σ coef/share · row over its entries: the update that is taken for
    its own (which it is, where it came), and the sum is that of all stand-ins, weighted by shares.
    """

    ids: Ints  # (c,) represented client, may repeat
    row: Ints  # (c,) counted through the blocks in order
    coef: Floats  # (c,) need not sum to one, may be negative
    rows: tuple[Block, ...]
    notes: Mapping[str, float] = field(default_factory=dict)
    share: Floats | None = None  # (c,) of the represented client; None: the sum of its coefficients
    buffer_coef: Floats | None = None  # (c,) for the entries from n_parameters on; None: coef
    n_parameters: int | None = None  # where the buffers begin; given with buffer_coef

    def __post_init__(self) -> None:
        if self.buffer_coef is not None and self.n_parameters is None:
            raise ValueError("n_parameters: expected a number with buffer_coef, got None")

    @classmethod
    def of(cls, *terms: Term, notes: Mapping[str, float] | None = None) -> Contributions:
        """Contributions from (ids, block, row within that block, coef) groups.

        `row` and `coef` may be scalars. A block mentioned twice is one block: a row is one row,
        however many clients it represents.
        """
        if not terms:
            return cls.none(notes)
        ids, rows, coefs = [], [], []
        blocks: list[Block] = []
        offsets: dict[int, int] = {}
        size = 0
        for represented, block, row, coef in terms:
            if id(block) not in offsets:
                offsets[id(block)] = size
                blocks.append(block)
                size += len(block)
            clients = np.atleast_1d(np.asarray(represented, dtype=np.int64))
            within = np.broadcast_to(np.asarray(row, dtype=np.int64), clients.shape)
            ids.append(clients)
            rows.append(within + offsets[id(block)])
            coefs.append(np.broadcast_to(np.asarray(coef, dtype=np.float64), clients.shape))
        return cls(
            ids=np.concatenate(ids),
            row=np.concatenate(rows),
            coef=np.concatenate(coefs),
            rows=tuple(blocks),
            notes=dict(notes or {}),
        )

    @classmethod
    def none(cls, notes: Mapping[str, float] | None = None) -> Contributions:
        """No contributions: the round takes no step."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, np.zeros(0), (), dict(notes or {}))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def source(self) -> Ints:
        """(c,) owner of each row: whose row represents `ids`; -1 for a mixture or a model."""
        if not self.rows:
            return np.zeros(0, dtype=np.int64)
        return np.concatenate([block.owner for block in self.rows])[self.row]

    def vector(self, row: int) -> torch.Tensor:
        """The (d,) row that number `row` points to."""
        for block in self.rows:
            if row < len(block):
                return block.data[row]
            row -= len(block)
        raise IndexError(f"row {row} is beyond the last block")

    def with_shares(self, share: Floats) -> Contributions:
        """The same, told what share each client (N,) has in the sum."""
        return replace(self, share=share[self.ids])

    def vectors(self, rows: Ints) -> list[torch.Tensor]:
        """The (d,) rows that some numbers point to."""
        which, within = self._places(rows)
        pairs = zip(which.tolist(), within.tolist(), strict=True)
        return [self.rows[block].data[row] for block, row in pairs]

    def read_ahead(self, rows: Ints) -> None:
        """Begin to read rows that are in a file and will be asked for soon."""
        if all(block.ahead is None for block in self.rows) or not len(rows):
            return
        which, within = self._places(rows)
        for number, block in enumerate(self.rows):
            if block.ahead is not None and (which == number).any():
                block.ahead(within[which == number])

    def _places(self, rows: Ints) -> tuple[Ints, Ints]:
        """The block of each row, and its number there."""
        first = np.cumsum([0, *(len(block) for block in self.rows)])
        if len(rows) and rows.max() >= first[-1]:
            raise IndexError(f"row {rows.max()} is beyond the last block")
        which = np.maximum(np.searchsorted(first, rows, side="right") - 1, 0)
        return which, rows - first[which]

    def by_row(self) -> tuple[Ints, Floats]:
        """Distinct rows in the order of first mention, and the sum of each one's coefficients."""
        distinct, first, inverse = np.unique(self.row, return_index=True, return_inverse=True)
        order = np.argsort(first)
        total = np.zeros(len(distinct))
        np.add.at(total, inverse, self.coef)
        return distinct[order], total[order]


@dataclass(frozen=True)
class RowSpread:
    """How far the updates of a round disagree, for servers that declare `needs_rows`.

    Both are over the parameters alone; the weights p are not negative and sum to one.
    """

    mean_square: float  # Σ p ‖Δ‖²
    square_mean: float  # ‖Σ p Δ‖²


@dataclass(frozen=True, eq=False)
class Applied:
    """What `Strategy.apply` did."""

    t: int
    contributions: Contributions
    outcome: npt.NDArray[np.int8]  # (N,) of Outcome
    refusals: tuple[Refusal, ...]
    notes: Mapping[str, float]
    stepped: bool  # False: nobody contributed, the model stayed as it was
    timings: Mapping[str, float]  # seconds of admit, guard, fill, aggregate, step, learn, commit


class SourceTotals(NamedTuple):
    """Sums over the contributions of a round, by whose row they are."""

    source: Ints  # (s,) owners of rows, ascending; -1 for mixtures and models
    coef: Floats  # (s,) sum of the coefficients
    others: Ints  # (s,) contributions to another client than the owner, coefficients of 0 apart

    @classmethod
    def of(cls, ids: Ints, source: Ints, coef: Floats) -> SourceTotals:
        """The sums; the arguments are aligned, (c,) each."""
        place = source + 1  # a mixture's is -1
        known = np.flatnonzero(np.bincount(place))
        total: Floats = np.bincount(place, weights=coef).astype(np.float64)
        others = np.bincount(place[(ids != source) & (coef != 0)], minlength=len(total))
        return cls(known - 1, total[known], others[known])


@dataclass(frozen=True, eq=False)
class RoundLog:
    """One round, as it is kept: everything but the rows.

    Of a round with very many contributions, `ids`, `source` and `coef` are the largest of each
    client, and `totals` is there; `understudy.journal.bounded` says when.
    """

    t: int
    outcome: npt.NDArray[np.int8]  # (N,) of Outcome
    refusals: tuple[Refusal, ...]
    ids: Ints  # (c,) represented client
    source: Ints  # (c,) whose row represents it; -1 a mixture or a model
    coef: Floats  # (c,)
    notes: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict)  # such as test_loss, test_accuracy
    megabytes_up: float = 0.0
    megabytes_down: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)  # seconds
    clock: float = 0.0  # simulated seconds at the end of the round
    client_metrics: Mapping[str, Floats] = field(default_factory=dict)  # each (N,), where asked for
    errors: Floats | None = None  # (c,) ‖stand-in − true update‖², NaN for one's own; oracle only
    totals: SourceTotals | None = None  # of all contributions, where not all are kept

    @property
    def by_source(self) -> SourceTotals:
        """Sums over all contributions of the round, kept or not."""
        return self.totals or SourceTotals.of(self.ids, self.source, self.coef)

    @property
    def stand_ins(self) -> list[tuple[int, int, float]]:
        """(absent client, who stood in, coefficient), where somebody else's row spoke."""
        others = self.ids != self.source
        return [
            (int(i), int(s), float(c))
            for i, s, c in zip(
                self.ids[others], self.source[others], self.coef[others], strict=True
            )
        ]

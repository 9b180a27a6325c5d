"""What warnings tell of clients: their names, how much data they have, which labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.core.printable import is_seen, one_line
from understudy.core.types import Bools, Floats, Ints

LONGEST_NAME = 80  # characters
MOST_NAMED = 3  # clients in a sentence
MOST_COUNTS = 10_000  # numbers of label histograms that are kept with a run


@dataclass(frozen=True, eq=False)
class ClientFacts:
    """What is known of the clients of a run; all optional, and of fewer than there are by now.

    Parameters
    ----------
    names : strings
        What people call them; without, clients are numbers.
    examples : array
        How many training examples each has; NaN where unknown.
    label_counts : (…, C) array, optional
        Their label histograms; NaN where unknown.
    classes : strings
        What the labels are called; without, they are numbers.
    left : ints
        Who has left: no warning is about them.
    deadline : float, optional
        Seconds that a round waits.
    """

    names: Sequence[str] = ()
    examples: Floats = field(default_factory=lambda: np.zeros(0))
    label_counts: Floats | None = None
    classes: Sequence[str] = ()
    left: Sequence[int] = ()
    deadline: float | None = None

    @classmethod
    def told(
        cls, facts: Mapping[str, Any], resolved: Mapping[str, Any] | None = None
    ) -> ClientFacts:
        """From the facts and the settings that a journal keeps of a run; nothing in them is sure.

        Parameters
        ----------
        facts : mapping
            Such as `StoredCell.facts`, or ``facts`` in ``run.json``.
        resolved : mapping, optional
            The run's settings, for the deadline.
        """
        settings = {} if resolved is None else resolved
        deadline = _mapping(settings.get("timing")).get("deadline")  # of a live federation
        if deadline is None:
            deadline = _deadline(settings.get("delay"))
        return cls(
            [str(name) for name in _list(facts.get("names"))],
            np.array([_number(size) for size in _list(facts.get("sizes"))], dtype=np.float64),
            _table(facts.get("label_counts")),
            [str(name) for name in _list(facts.get("classes"))],
            [one for one in _list(facts.get("left")) if isinstance(one, int)],
            _number(deadline) if isinstance(deadline, int | float) else None,
        )

    def active(self, n_clients: int) -> Bools:
        """(N,) who has not left."""
        found = np.ones(n_clients, dtype=np.bool_)
        found[[one for one in self.left if 0 <= one < n_clients]] = False
        return found

    def share(self, clients: Sequence[int], n_clients: int) -> tuple[float, str]:
        """Of the examples of those who are there, or, where no sizes are known, of them.

        An unknown size counts as the mean of the known.
        """
        sizes = np.full(n_clients, np.nan)
        known = min(n_clients, len(self.examples))
        sizes[:known] = self.examples[:known]
        active = self.active(n_clients)
        of = "examples"
        if np.isnan(sizes[active]).all():
            sizes[:], of = 1.0, "clients"
        sizes = np.where(np.isnan(sizes), np.nanmean(sizes[active]), sizes) * active
        total = sizes.sum()
        return (float(sizes[list(clients)].sum() / total) if total > 0 else 0.0), of

    def called(self, client: int) -> str:
        """A client's name, fit to be printed; its number where it has none."""
        if client < len(self.names) and is_seen(self.names[client]):
            return one_line(self.names[client], LONGEST_NAME)
        return f"client {client}"

    def listed(self, clients: Sequence[int]) -> str:
        """A few of them by name, and how many more there are."""
        first = list(clients[:MOST_NAMED])
        more = len(clients) - len(first)
        numbers = all(one >= len(self.names) for one in first)
        words = [str(one) if numbers else self.called(one) for one in first]
        ends = [f"{more} more"] if more else []
        text = joined([*words, *ends])
        return f"client{'s' * (len(clients) > 1)} {text}" if numbers else text

    def label(self, number: int) -> str:
        """What a label is called."""
        known = number < len(self.classes)
        return one_line(self.classes[number], LONGEST_NAME) if known else str(number)

    def labels(self, clients: Sequence[int]) -> Ints:
        """The labels that make up at least a tenth of what they hold together; most first."""
        counts = self.label_counts
        members = [one for one in clients if counts is not None and one < len(counts)]
        if counts is None or not members:
            return np.zeros(0, dtype=np.int64)
        held = np.nansum(counts[members], axis=0)
        order = np.argsort(-held, kind="stable")
        return np.asarray(order[held[order] >= 0.1 * max(held.sum(), 1e-300)])

    def share_of_label(self, label: int, clients: Sequence[int]) -> float:
        """How much of all examples of a label these clients have."""
        assert self.label_counts is not None
        column = np.nan_to_num(self.label_counts[:, label])
        members = [one for one in clients if one < len(column)]
        total = column.sum()
        return float(column[members].sum() / total) if total > 0 else 0.0


def kept_label_counts(counts: Floats | None) -> list[list[float | None]] | None:
    """Label histograms as a journal keeps them; None where there are none, or too many."""
    if counts is None or counts.size > MOST_COUNTS:
        return None
    return [[None if np.isnan(one) else float(one) for one in row] for row in counts]


def joined(words: Sequence[str]) -> str:
    """``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _table(rows: object) -> Floats | None:
    """Rows of numbers of one length, or None."""
    table = [[_number(one) for one in _list(row)] for row in _list(rows)]
    if not table or not table[0] or len({len(row) for row in table}) != 1:
        return None
    return np.array(table, dtype=np.float64)


def _deadline(delay: object) -> float | None:
    """The earliest of a delay as it is described: `Deadline`, also within `Combined`."""
    parts = _mapping(delay)
    found = [_deadline(part) for part in parts.values() if isinstance(part, Mapping)]
    if parts.get("class") == "Deadline":
        found.append(_number(parts.get("seconds")))
    known = [one for one in found if one is not None and not np.isnan(one)]
    return min(known, default=None)

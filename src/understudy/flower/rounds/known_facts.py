"""What is known of the clients: declared by the user, or reported by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from understudy.core.types import Floats, Population
from understudy.flower.clients.declared import CLOSED
from understudy.flower.messages.reply_checks import Report
from understudy.server.state import ServerState

Reports = Mapping[int, Report]


def population(
    n_clients: int,
    retired: list[int],
    declared: Population,
    reports: Reports,
    earlier_counts: Floats | None,
) -> Population:
    """Everyone known by now, and of the retired nothing.

    `declared` is what the user gave (see `Declared.of`), `earlier_counts` are the (N, C) label
    histograms known before.
    """
    known = declared
    for number in retired:
        known = without(known, number)
    unknown = np.full(n_clients, np.nan)
    sizes = unknown if known.n_examples is None else known.n_examples.copy()
    claimed = ~known.confirmed  # not the user's word: not declared, or declared as a claim
    for number, report in reports.items():
        if report.n_examples is not None and np.isnan(sizes[number]):
            sizes[number] = report.n_examples
            claimed[number] = True
    before = known.label_counts if earlier_counts is None else earlier_counts
    counts = _histograms(n_clients, before, reports)
    sizes[retired] = np.nan
    if counts is not None:
        counts[retired] = np.nan
    given = sizes if not np.isnan(sizes).all() else None
    return replace(known, n_examples=given, label_counts=counts, claimed=claimed)


def with_claims(known: Population) -> Population:
    """A population as older versions stored it, without a word on whose sizes were declared."""
    if known.claimed is not None:
        return known
    return replace(known, claimed=np.ones(known.n_clients, dtype=np.bool_))


def is_closed(known: Population | None) -> bool:
    """Whether the population holds facts that no newcomer could report of itself."""
    return known is not None and any(getattr(known, name) is not None for name in CLOSED)


def forget(state: ServerState, number: int) -> None:
    """Erase what is known of a client, also from the population that is stored."""
    state.n_examples[number] = np.nan
    if state.label_counts is not None:
        state.label_counts[number] = np.nan
    state.population = without(state.population, number)


def without(known: Population, number: int) -> Population:
    """The population with nothing known of one client; the same one where nothing was."""
    if number >= known.n_clients:
        return known
    changes: dict[str, Any] = {
        name: getattr(known, name).copy()
        for name in ("n_examples", "label_counts", "features", "similarity", "p", "groups")
        if getattr(known, name) is not None
    }
    for name, values in changes.items():
        if name == "p":
            values[number] = 0.0  # it never comes
        elif name == "groups":
            # one that others are in: another number would be a group more, and shift their turns
            others = np.delete(values, number)
            values[number] = others.min() if len(others) else 0
        else:
            values[number] = np.nan
            if name == "similarity":
                values[:, number] = np.nan
    return replace(known, **changes) if changes else known


def _histograms(n: int, before: Floats | None, reports: Reports) -> Floats | None:
    reported = {
        number: report.label_counts
        for number, report in reports.items()
        if report.label_counts is not None
    }
    if before is None and not reported:
        return None
    if before is not None:
        width = before.shape[1]
    else:  # one odd client must not decide the number of classes
        width = Counter(len(counts) for counts in reported.values()).most_common(1)[0][0]
    table = np.full((n, width), np.nan)
    if before is not None:
        table[: len(before)] = before
    for number, counts in reported.items():
        if len(counts) == width and np.isnan(table[number]).any():
            table[number] = counts
    return table

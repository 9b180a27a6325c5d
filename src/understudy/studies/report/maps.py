"""Attendance maps of some cells and the casts of their rounds, as data inside a report."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.core.types import RoundLog
from understudy.studies.report.figure_data import MOST_GROUPS, FigureData, title_of, titled
from understudy.studies.store.client_names import client_names, stored_names
from understudy.studies.store.store import Store, StoredCell
from understudy.views import inline
from understudy.views.cast import refusals_of
from understudy.views.columns import CAME, Columns
from understudy.views.reduced import ORDERS, ordered, reduced
from understudy.views.wire import packed

MOST_MAPS = 12
MOST_BYTES = 1_500_000  # of all maps and casts together, as they stand in the file
SMALLEST = 64  # rounds and clients of a map: one that has to be smaller is left out
MOST_REFUSALS = 20  # of a round
MOST_ROWS = 100_000  # contributions of a run that are looked at: more would not fit

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Maps:
    """What a page needs to show them."""

    runs: tuple[dict[str, str], ...]  # title, note, data
    keys: frozenset[str]  # of their cells
    note: str  # which there are
    script: str
    styles: str

    @property
    def policy(self) -> str:
        """The source of scripts that a page with this one lets in."""
        return inline.hash_source(self.script)


@cache
def _script() -> str:
    entry = (files("understudy.studies.report") / "maps.js").read_text("utf-8")
    return inline.script(entry)


def maps_of(data: FigureData) -> Maps | None:
    """The map of each strategy's first seed, of a few; None where no run has clients.

    Those in which somebody was absent come first.
    """
    titles = _titles(data)
    chosen = [cell for cell in data.cells if cell.key in titles][:MOST_MAPS]
    found = []
    for cell in chosen:
        place = _Read(data.store, cell.key)
        columns = Columns(place)
        columns.update()
        text = _fitted(cell, columns, place, MOST_BYTES // len(chosen))
        if text is not None:
            everyone = bool((columns.cells() & 15 == CAME).all())
            found.append((everyone, cell.key, titles[cell.key], *text))
    if not found:
        return None
    found.sort(key=lambda one: one[0])
    runs = tuple({"title": one[2], "note": one[4], "data": one[3]} for one in found)
    more = len(titles) - len(found)
    note = f"The first seed of each strategy{f'; {more} more are not shown' if more else ''}."
    return Maps(runs, frozenset(one[1] for one in found), note, _script(), inline.styles())


def _titles(data: FigureData) -> dict[str, str]:
    """Key → title, of the first seed of each strategy in each group, in the order of the groups."""
    found: dict[str, str] = {}
    for group in data.groups[:MOST_GROUPS]:
        for cell in data.firsts(group):
            if data.is_pooled(cell):
                continue
            strategy = str(cell.labels["strategy"])
            # a cell that is in several groups is of none of them
            alone = cell.key in found
            found[cell.key] = strategy if alone else titled(title_of(group), strategy)
    return found


@dataclass
class _Read:
    """A cell's rounds as a place to read from, which counts what it gave.

    Rounds are read again where they are needed again: all at once take much more than their map.
    """

    store: Store
    key: str
    n: int = 0  # rounds
    n_contributions: int = 0

    def new(self, since: int) -> Iterator[RoundLog]:
        for log in self.store.logs(self.key, since):
            self.n += 1
            self.n_contributions += len(log.ids)
            yield log

    def some(self, every: int) -> list[RoundLog]:
        """Every so many of the rounds that it gave, and the last."""
        rounds = zip(range(self.n), self.store.logs(self.key), strict=False)  # more may have come
        return [log for t, log in rounds if t % every == 0 or t == self.n - 1]


def _fitted(cell: StoredCell, columns: Columns, place: _Read, most: int) -> tuple[str, str] | None:
    """The data of a cell in so many bytes, and a note; None where even a small map has more.

    The map is reduced until it has half of them, as on the live page; then casts are left out.
    """
    n, n_clients = columns.n, columns.n_clients
    if not n or not n_clients:
        return None
    side = max(n, n_clients)
    while len(text := _encoded(cell, columns, [], side)) > most // 2:
        side //= 2
        if side < SMALLEST:
            return None
    every = max(1, -(-place.n_contributions // MOST_ROWS))
    while len(whole := _encoded(cell, columns, place.some(every), side)) > most:
        every = max(every + 1, every * len(whole) // most)
        if every >= n:
            whole = ""
            break
    down, right = (-(-size // min(size, side)) for size in (n, n_clients))
    told = [f"Seed {cell.seed}. Click a round to see who represented whom in it."]
    if down > 1 or right > 1:
        told.append(
            f"Reduced: a point is the commonest of {down} rounds × {right} clients; the live page "
            "has them all."
        )
    if not whole:
        told[0] = f"Seed {cell.seed}. The casts of its rounds are on the live page only."
    elif every > 1:
        told.append(f"Of its rounds, every {_ordinal(every)} and the last have their cast here.")
    return whole or text, " ".join(told)


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 % 10 != 1 else 0, "th")
    return f"{number}{ending}"


def _encoded(cell: StoredCell, columns: Columns, logs: Sequence[RoundLog], side: int) -> str:
    """Map and casts as the page reads them: columns, compressed, as text."""
    small, down, right = reduced(columns.cells(), side, side)
    groups = cell.facts.get("groups")
    is_whole = down == right == 1
    orders = [
        one for one in ORDERS if one == "number" or (is_whole and (one != "cluster" or groups))
    ]
    head = {
        "names": stored_names(cell.facts) and client_names(cell.facts, columns.n_clients),
        "n": columns.n,
        "clients": columns.n_clients,
        "rounds": down,
        "rows": right,
        "orders": orders,
        "casts": [
            {
                "round": log.t,
                "metrics": dict(log.metrics),
                "cut": log.totals is not None,
                "clients": len(log.outcome),
                "refusals": refusals_of(log)[:MOST_REFUSALS],
            }
            for log in logs
        ],
    }
    arrays: Arrays = {"cells": small}
    for order in orders[1:]:
        arrays[f"order {order}"] = ordered(columns, order, groups)
    arrays["starts"] = np.cumsum([0, *(len(log.ids) for log in logs)])
    arrays["ids"] = _joined([log.ids for log in logs]).astype(np.int32)
    arrays["source"] = _joined([log.source for log in logs]).astype(np.int32)
    arrays["coef"] = _joined([log.coef for log in logs])
    errors = _joined(
        [np.full(len(one.ids), np.nan) if one.errors is None else one.errors for one in logs]
    )
    if np.isfinite(errors).any():
        arrays["errors"] = errors
    if not is_whole:
        arrays["own"] = columns.cells()[[log.t for log in logs]]
    text = zlib.compress(packed(head, arrays))
    return b64encode(text).decode()


def _joined(rows: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(rows) if rows else np.zeros(0)

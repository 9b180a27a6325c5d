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
from understudy.views.cast import cast_of
from understudy.views.columns import CAME, Columns
from understudy.views.reduced import ORDERS, ordered, reduced
from understudy.views.wire import packed

MOST_MAPS = 12
MOST_BYTES = 1_500_000  # of all maps and casts together, as they stand in the file
SMALLEST = 64  # rounds and clients of a map: one that has to be smaller is left out
MOST_REFUSALS = 20  # of a round

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
        columns, casts = _read(data.store, cell)
        text = _fitted(cell, columns, casts, MOST_BYTES // len(chosen))
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


@dataclass(frozen=True)
class _Read:
    """A cell's rounds as a place to read from, which keeps what it gave."""

    store: Store
    key: str
    logs: list[RoundLog]

    def new(self, since: int) -> Iterator[RoundLog]:
        for log in self.store.logs(self.key, since):
            self.logs.append(log)
            yield log


def _read(store: Store, cell: StoredCell) -> tuple[Columns, list[dict[str, Any]]]:
    place = _Read(store, cell.key, [])
    columns = Columns(place)
    columns.update()
    return columns, [
        cast_of(columns, log, ()) | {"clients": len(log.outcome)} for log in place.logs
    ]


def _fitted(
    cell: StoredCell, columns: Columns, casts: Sequence[dict[str, Any]], most: int
) -> tuple[str, str] | None:
    """The data of a cell in so many bytes, and a note; None where even a small map has more.

    The map is reduced until it has half of them, as on the live page; then casts are left out.
    """
    n, n_clients = columns.n, columns.n_clients
    if not n or not n_clients:
        return None
    side, every = max(n, n_clients), 1
    while len(text := _encoded(cell, columns, [], side)) > most // 2:
        side //= 2
        if side < SMALLEST:
            return None
    while len(whole := _encoded(cell, columns, _some(casts, every), side)) > most:
        every = max(every + 1, -(-every * len(whole) // most))
        if every >= n:
            break
    kept = every < n or n == 1
    down, right = (-(-size // min(size, side)) for size in (n, n_clients))
    told = [f"Seed {cell.seed}. Click a round to see who represented whom in it."]
    if down > 1 or right > 1:
        told.append(
            f"Reduced: a point is the commonest of {down} rounds × {right} clients; the live page "
            "has them all."
        )
    if not kept:
        told[0] = f"Seed {cell.seed}. The casts of its rounds are on the live page only."
    elif every > 1:
        told.append(f"Of its rounds, every {every}th and the last have their cast here.")
    return whole if kept else text, " ".join(told)


def _some(casts: Sequence[dict[str, Any]], every: int) -> list[dict[str, Any]]:
    """Every so many rounds, and the last."""
    last = len(casts) - 1
    return [one for t, one in enumerate(casts) if t % every == 0 or t == last]


def _encoded(cell: StoredCell, columns: Columns, casts: Sequence[dict[str, Any]], side: int) -> str:
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
                **{name: one[name] for name in ("round", "clients", "metrics", "cut")},
                "refusals": one["refusals"][:MOST_REFUSALS],
            }
            for one in casts
        ],
    }
    arrays: Arrays = {"cells": small}
    for order in orders[1:]:
        arrays[f"order {order}"] = ordered(columns, order, groups)
    ends = np.cumsum([0, *(len(one["ids"]) for one in casts)])
    arrays["starts"] = ends
    for name in ("ids", "source"):
        arrays[name] = _joined(casts, name).astype(np.int32)
    arrays["coef"] = _joined(casts, "coef")
    errors = _joined(casts, "errors")
    if np.isfinite(errors).any():
        arrays["errors"] = errors
    if not is_whole:
        arrays["own"] = columns.cells()[[one["round"] for one in casts]]
    text = zlib.compress(packed(head, arrays), 9)
    return b64encode(text).decode()


def _joined(casts: Sequence[dict[str, Any]], name: str) -> npt.NDArray[np.float64]:
    rows = [np.array(one[name], dtype=np.float64) for one in casts]
    return np.concatenate(rows) if rows else np.zeros(0)

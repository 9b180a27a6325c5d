"""Every client of a run in a row: a person at a site finds their own, and how it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.core.types import Bools, Ints
from understudy.dashboard.runs import RunInfo
from understudy.representation import Voice
from understudy.studies.store.client_names import client_names
from understudy.views.columns import SILENT, Columns

LAST = 24  # outcomes of a row
MOST_ROWS = 500
MOST_STAND_INS = 5  # of a client, the largest first
MOST_TOLD = 3  # refusals of a client


def client_rows(
    run: RunInfo, columns: Columns, search: str = "", most: int = MOST_ROWS
) -> dict[str, Any]:
    """Rows of the clients whose id has `search` in it; those who are in trouble first."""
    names = client_names(run.facts, columns.n_clients)
    cells = columns.cells()
    counted = columns.counted
    left = ~columns.facts.active(columns.n_clients)
    found = _matching(names, search)
    order = _by_trouble(columns, left)
    shown = [int(k) for k in order if found[k]][:most]
    stand_ins = _stand_ins(columns)
    refusals: dict[int, list[Any]] = {}
    for one in reversed(columns.refusals):
        mine = refusals.setdefault(one.client, [])
        if len(mine) < MOST_TOLD:
            mine.append({"round": one.t, "reason": one.reason, "detail": one.detail, "id": one.who})
    answered = how_answered(run)
    last = cells[-LAST:]
    sized = np.isfinite(columns.facts.examples[: columns.n_clients])
    sized = np.pad(sized, (0, columns.n_clients - len(sized)))
    rows = [
        {
            "client": k,
            "id": names[k],
            "share": columns.facts.share([k], columns.n_clients)[0] if sized[k] else None,
            "attendance": float(counted.attendance[k]),
            "came": int(counted.came[k]),
            "there": int(counted.there[k]),
            "seen": int(columns.answered[k]),
            "taken": int(columns.seen[k]),
            "pending": int(columns.pending[k]),
            "last": last[:, k].tolist(),
            "refusals": refusals.get(k, []),
            "standIns": stand_ins.get(k, []),
            "left": bool(left[k]),
            **answered.get(k, {}),
        }
        for k in shown
    ]
    total = int(found.sum())
    unknown = refusals.get(-1, [])
    return {"rows": rows, "found": total, "of": columns.n_clients, "strangers": unknown}


def how_answered(run: RunInfo) -> dict[int, dict[str, Any]]:
    """Of a live run's clients: how long each takes to answer, and what was said of it last."""
    found: dict[int, dict[str, Any]] = {}
    seconds: dict[int, list[float]] = {}
    for one in run.told_outcomes():
        found[one.client] = {"detail": one.detail, "seconds": None}
        if one.seconds is not None:
            seconds.setdefault(one.client, []).append(one.seconds)
    for client, known in seconds.items():
        found[client]["seconds"] = float(np.median(known))
    return found


def _matching(names: Sequence[str], search: str) -> Bools:
    wanted = search.casefold().strip()
    return np.array([wanted in name.casefold() for name in names], dtype=np.bool_)


def _by_trouble(columns: Columns, left: Bools) -> Ints:
    """Those that nothing represents first, then the longest unseen; who has left comes last."""
    cells = columns.cells()
    if not len(cells):
        return np.arange(columns.n_clients)
    silent = (cells[-1] >> 4 == SILENT) & (cells[-1] != 0)
    return np.lexsort((np.arange(columns.n_clients), columns.seen, ~silent, left))


def _stand_ins(columns: Columns) -> dict[int, list[Any]]:
    """What represented each client in the last round: whose row, with what coefficient."""
    log = columns.newest
    found: dict[int, list[Any]] = {}
    if log is None:
        return found
    for client, source, coef in sorted(
        zip(log.ids.tolist(), log.source.tolist(), log.coef.tolist(), strict=True),
        key=lambda one: -abs(one[2]),
    ):
        mine = found.setdefault(client, [])
        if coef and len(mine) < MOST_STAND_INS:
            mine.append({"source": source, "coef": coef})
    return found


def share_by_voice(columns: Columns) -> dict[str, list[float]]:
    """(N,) shares of the steps in which each client was represented, by what."""
    shares = columns.counted.shares
    return {voice.name.lower(): shares[:, voice].tolist() for voice in Voice}

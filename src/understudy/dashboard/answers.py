"""What pages are told: of all runs, of one, and of its rounds and clients."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.dashboard.clients import client_rows, share_by_voice
from understudy.dashboard.comparison import comparison_of
from understudy.dashboard.hub import Hub, UnreadableRun
from understudy.dashboard.places import FAULTS, without_folder
from understudy.dashboard.runs import RunInfo
from understudy.journal.follow import follow
from understudy.measures import measure
from understudy.studies.store.client_names import client_names
from understudy.studies.store.store import Store
from understudy.views.cast import cast_of
from understudy.views.columns import MAIN, MEASURED, Columns
from understudy.views.reduced import ORDERS, ordered, reduced

MOST_POINTS = 4000  # rounds of a curve; a screen has fewer
WHILE = 1.0  # seconds in which rounds are read for a list's warnings
SPARKS = 60  # points of a sparkline
MOST_PAIRED = 400  # clients up to which a similarity matrix is sent whole
MOST_PAST = 5  # warnings that no longer hold

Sent = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]


# -- lists -----------------------------------------------------------------------------------------


def overview(hub: Hub) -> dict[str, Any]:
    """All runs, as the overview lists them."""
    return {
        "runs": [brief(hub, run) for run in hub.runs.values()],
        "troubles": [
            {"name": one.name, "words": one.words, "empty": one.is_empty} for one in hub.troubles
        ],
    }


def brief(hub: Hub, run: RunInfo) -> dict[str, Any]:
    """A run in a line of a list."""
    return {
        "id": run.id,
        "studyId": run.study_id,
        "study": run.called,
        "title": run.title,
        "strategy": run.strategy,
        "labels": run.labels,
        "seed": run.seed,
        "status": run.status,
        "error": run.error.strip().partition("\n")[0],
        "rounds": run.rounds,
        "of": run.n_rounds,
        "live": run.is_live,
        "changed": run.changed,
        "left": hub.seconds_left(run),
        "clients": run.facts.get("n_clients"),
        "warnings": hub.n_warnings(run),
    }


def sparkline(hub: Hub, run: RunInfo) -> tuple[str, npt.NDArray[np.float64]]:
    """Some of a run's accuracies, or losses where it has none; empty where nothing is known yet.

    First, which of them it is.
    """
    try:
        kind, values = _stored_course(run) if run.key else _course(hub, run)
    except (*FAULTS, UnreadableRun):
        return "", np.zeros(0)
    chosen = np.linspace(0, len(values) - 1, min(SPARKS, len(values))).astype(np.int64)
    return kind, np.asarray(values[chosen], dtype=np.float64)


def _course(hub: Hub, run: RunInfo) -> tuple[str, npt.NDArray[np.float64]]:
    columns = hub.columns(run)
    found = columns.main_measure
    # a part of it would look like the whole
    if found is None or columns.n < run.rounds:
        return "", np.zeros(0)
    return found[0], columns.known(found[1])


def _stored_course(run: RunInfo) -> tuple[str, npt.NDArray[np.float64]]:
    """From the store's table of rounds, without what it keeps of clients."""
    with Store.open(run.folder) as store:
        table = store.rounds(run.key)
    for kind in MAIN:
        for name in table.columns:
            if str(name).endswith(kind):
                values = table[name].to_numpy(dtype=np.float64)
                return kind, np.asarray(values[np.isfinite(values)])
    return "", np.zeros(0)


def warned(hub: Hub, runs: Sequence[RunInfo]) -> dict[str, int | None]:
    """How many warnings hold in each run; None where its rounds are not all read yet."""
    end = time.monotonic() + WHILE
    found: dict[str, int | None] = {}
    for run in runs:
        try:
            is_whole = time.monotonic() < end and hub.columns(run).n >= run.rounds
        except UnreadableRun:
            is_whole = True
        found[run.id] = (hub.n_warnings(run) or 0) if is_whole else None
    return found


# -- one run ---------------------------------------------------------------------------------------


def about_run(hub: Hub, run: RunInfo) -> dict[str, Any]:
    """All about a run but its rounds."""
    told = {**brief(hub, run), "error": run.error}
    if run.status == "damaged":
        return told
    columns = hub.columns(run)
    resolved = columns.resolved
    return {
        **told,
        "names": client_names(run.facts, columns.n_clients),
        "groups": run.facts.get("groups"),
        "sizes": run.facts.get("sizes"),
        "resolved": resolved,
        "timing": resolved.get("timing"),
        "siblings": [brief(hub, one) for one in siblings(hub, run)],
        "warnings": warnings_of(columns, run),
        "measures": {
            name: measure(name.removeprefix(MEASURED)).long_words
            for name in columns.names
            if name.startswith(MEASURED)
        },
        "shares": share_by_voice(columns),
        "clientMetrics": sorted(columns.client_metrics),
    }


def siblings(hub: Hub, run: RunInfo) -> list[RunInfo]:
    """The same situation with the study's other strategies, same seed."""

    def others(one: RunInfo) -> dict[str, Any]:
        # a label without a value is in every group
        own = {name: value for name, value in one.labels.items() if name != "strategy"}
        return {name: value for name, value in own.items() if value is not None}

    mine = others(run)
    return [
        one
        for one in hub.runs.values()
        if one.study_id == run.study_id
        and one.id != run.id
        and one.seed == run.seed
        and all(mine.get(name, value) == value for name, value in others(one).items())
    ]


def warnings_of(columns: Columns, run: RunInfo) -> list[dict[str, Any]]:
    """Whom the run's model does not represent, in plain words."""
    found = columns.warnings
    return [
        {"kind": one.kind, "words": str(one), "clients": one.clients, "now": one.until is None}
        for one in (*found.current, *found.past[-MOST_PAST:][::-1])
    ]


def columns(hub: Hub, run: RunInfo, since: int | None, epoch: int | None) -> Sent:
    """Numbers of the rounds from `since` on; of all, where those before are not the same any more.

    Of very long runs every k-th round, and the last.
    """
    found = hub.columns(run)
    first = (since or 0) if epoch == found.epoch and (since or 0) <= found.n else 0
    n = found.n
    step = max(1, -(-(n - first) // MOST_POINTS))
    chosen = np.arange(first, n, step)
    if step > 1 and chosen[-1] != n - 1:
        chosen = np.append(chosen, n - 1)
    arrays = {name: found.numbers(name)[chosen] for name in found.names}
    head = {"epoch": found.epoch, "first": first, "n": n, "clients": found.n_clients, "step": step}
    return head, {"t": chosen.astype(np.int32), **arrays}


def cell_map(
    hub: Hub,
    run: RunInfo,
    *,
    order: str,
    rows: int,
    columns: int,
    first: int | None,
    last: int | None,
    top: int | None,
    bottom: int | None,
) -> Sent:
    """The attendance map of a window of rounds and clients, reduced to a screen's size."""
    found = hub.columns(run)
    if order not in ORDERS:
        raise ValueError(f"order: expected one of {', '.join(ORDERS)}, got {order[:40]!r}")
    clients = ordered(found, order, run.facts.get("groups"))
    begin, end = first or 0, found.n if last is None else min(last, found.n)
    upper, lower = top or 0, len(clients) if bottom is None else min(bottom, len(clients))
    shown = clients[upper:lower]
    cells = found.cells(begin, end)
    if order != "number" or len(shown) < len(clients):
        cells = cells[:, shown]
    small, down, right = reduced(cells, columns, rows)
    head = {
        "epoch": found.epoch, "n": found.n, "clients": found.n_clients, "first": begin,
        "last": end, "top": upper, "bottom": lower, "rounds": down, "rows": right, "order": order,
    }  # fmt: skip
    return head, {"cells": small, "order": clients.astype(np.int32)}


def cast(hub: Hub, run: RunInfo, t: int) -> dict[str, Any] | None:
    """Who represented whom in a round; None where it is not there."""
    found = hub.columns(run)
    try:
        log = next(iter(follow(run.place, t)), None)
    except FAULTS as error:
        raise UnreadableRun(without_folder(error, run.folder)) from error
    if log is None or log.t != t:
        return None
    return cast_of(found, log, client_names(run.facts, len(log.outcome)))


def clients(hub: Hub, run: RunInfo, search: str) -> dict[str, Any]:
    """Rows of the clients, and how the last round went."""
    found = hub.columns(run)
    newest = found.newest
    return {
        **client_rows(run, found, search),
        "n": found.n,
        "epoch": found.epoch,
        "clock": newest.clock if newest is not None else None,
        "warnings": warnings_of(found, run),
    }


def arrays(hub: Hub, run: RunInfo) -> dict[str, Any]:
    """What analyses found of a run: matrices of clients, and numbers per client."""
    if run.status in ("waiting", "damaged"):
        return {"arrays": {}, "clientMetrics": {}, "counts": {}}
    if not run.key:  # in a folder of its own are its rounds alone
        found = hub.columns(run)
        counts = found.counted.counts()
        return {"arrays": {}, "clientMetrics": found.client_metrics, "counts": counts}
    try:
        with Store.open(run.folder) as store:
            matrices = store.arrays(run.key)
            measured = store.last_client_metrics(run.key)
            counts = store.client_counts(run.key)
    except FAULTS as error:
        raise UnreadableRun(without_folder(error, run.folder)) from error
    return {
        "arrays": {name: values for name, values in matrices.items() if _fits(values)},
        "clientMetrics": measured,
        "counts": counts,
    }


def _fits(values: npt.NDArray[Any]) -> bool:
    return values.ndim < 3 and max(values.shape, default=0) <= MOST_PAIRED


def comparison(
    run: RunInfo, strategies: Sequence[str], metric: str | None, baseline: str | None
) -> Mapping[str, Any]:
    """The paired table of the study that a run belongs to."""
    if not run.key:
        return {"study": run.called, "strategies": [run.strategy], "table": None, "metrics": []}
    try:
        found = comparison_of(run.folder, run.study, strategies, metric, baseline)
        return {**found, "study": run.called}
    except ValueError:
        raise  # what was asked for is not there: it says so
    except FAULTS as error:
        raise UnreadableRun(without_folder(error, run.folder)) from error

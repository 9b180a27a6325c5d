"""The table of clients in a report: who came how often, and who gains or loses by a method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from understudy.measures import measure
from understudy.studies.report.figure_data import MOST_GROUPS, FigureData, title_of
from understudy.studies.report.page_tables import Table
from understudy.studies.statistics.frames import rows_of_clients
from understudy.studies.statistics.groups import Group
from understudy.studies.statistics.text_table import NOTHING, decimals_for, number
from understudy.studies.store.client_names import stored_names

MOST_CLIENTS = 50  # rows of a group; of more, the ends are shown
MOST_METHODS = 6  # columns of methods beside the baseline
METRICS = ("accuracy", "loss")  # the first that was measured for each client
TESTED_ON = {
    "own": "on the client's own held-out examples",
    "matched": "not on the client's own examples: on test data in the proportions of its labels",
}


def tested_on(clients: pd.DataFrame) -> str:
    """What clients' accuracies are measured on, in words; the cautious ones where they differ.

    Parameters
    ----------
    clients : DataFrame
        Rows of `rows_of_clients`; those of cells that measured no client say nothing.
    """
    known = set(clients["tested_on"].dropna()) if "tested_on" in clients else set()
    return TESTED_ON["own" if known == {"own"} else "matched"]


@dataclass(frozen=True, eq=False)
class _Clients:
    """A group's clients: one row each, means over seeds; who loses most first."""

    heading: str
    rows: pd.DataFrame  # name, n_examples, n_test, attendance, one column per method, difference
    best: str | None  # the method that `difference` is of
    seeds: int
    tested_on: str  # in words


def clients_table(data: FigureData) -> Table | None:
    """Clients by name; None where nothing is known of them but how often they came."""
    if not data.cells:
        return None
    metric = _metric(data)
    if metric is None and not any(stored_names(cell.facts) for cell in data.cells):
        return None
    baseline = _baseline(data)
    methods = _methods(data, baseline)
    shown = [
        _clients(data, group, metric, baseline, methods) for group in data.groups[:MOST_GROUPS]
    ]
    sizes = {"n_examples": "examples", "n_test": "test examples"}
    columns = {
        name: head for name, head in sizes.items() if any(name in group.rows for group in shown)
    }
    columns["attendance"] = "attendance, %"
    if metric is not None:
        how = measure(metric)
        columns |= {f"method {method}": f"{method}: {how.head}" for method in methods}
        if any(group.best is not None for group in shown):
            unit = how.unit_of_difference
            columns["difference"] = f"difference, {unit}" if unit else "difference"
    decimals = _decimals(shown, metric, methods)
    tables = tuple(
        (_heading(group, baseline, shown), _words(group.rows, list(columns), decimals))
        for group in shown
    )
    heads = (("client", False), *((head, True) for head in columns.values()))
    return Table("Clients", heads, tables, tuple(_notes(data, shown, metric, baseline)))


def _metric(data: FigureData) -> str | None:
    first = data.clients_of(data.groups[0])
    measured = [name for name in METRICS if name in first and first[name].notna().any()]
    return measured[0] if measured else None


def _baseline(data: FigureData) -> str | None:
    baseline = data.about.get("baseline")
    return baseline if baseline in {cell.labels["strategy"] for cell in data.cells} else None


def _methods(data: FigureData, baseline: str | None) -> list[str]:
    """The baseline, then the others in their order; not too many."""
    cells = [cell for cell in data.cells if not data.is_pooled(cell)]  # it has no clients
    others = dict.fromkeys(str(cell.labels["strategy"]) for cell in cells)
    others.pop(str(baseline), None)
    return [*([] if baseline is None else [baseline]), *list(others)[:MOST_METHODS]]


def _clients(
    data: FigureData, group: Group, metric: str | None, baseline: str | None, methods: list[str]
) -> _Clients:
    cells = [
        cell
        for cell in data.cells_of(group)
        if cell.labels["strategy"] in methods and not data.is_pooled(cell)
    ]
    # where each seed divides the data anew, client 3 is another client with each seed; a name stays
    divisions = {json.dumps(data.store.resolved(cell.key).get("data")) for cell in cells}
    names = {tuple(stored_names(cell.facts)) for cell in cells}
    if len(divisions) > 1 and (() in names or len(names) > 1):
        cells = [cell for cell in cells if cell.seed == cells[0].seed]
    frames = []
    for cell in cells:
        rows = rows_of_clients(data.store, cell)
        rows["attendance"] = 100 * rows["came"] / max(cell.rounds, 1)
        frames.append(rows.assign(strategy=str(cell.labels["strategy"])))
    frame = pd.concat(frames, ignore_index=True)
    references = [str(name) for name in data.about.get("references") or ()]
    own = [name for name in methods if name not in references] or methods
    attended = frame[frame["strategy"] == (baseline or own[0])].groupby("client")
    table = attended[["attendance"]].mean()
    firsts = frame.groupby("client").first()
    for name in ("name", "n_examples", "n_test"):
        if name in firsts:
            table[name] = firsts[name]
    best = None
    if metric is not None:
        how = measure(metric)
        means = frame.groupby(["client", "strategy"])[metric].mean().unstack() * how.scale
        for method in methods:
            table[f"method {method}"] = means.get(method)
        rivals = [name for name in own if name != baseline and name in means]
        if rivals:
            overall = means[rivals].mean()
            chosen = str(overall.idxmin() if how.lower_is_better else overall.idxmax())
            order = f"method {chosen}"
            if baseline is not None:
                best, order = chosen, "difference"
                table["difference"] = means[chosen] - means[baseline]
            table = table.sort_values(order, ascending=not how.lower_is_better, kind="stable")
    else:
        table = table.sort_values("attendance", kind="stable")
    n_seeds = len({cell.seed for cell in cells})
    return _Clients(title_of(group), table, best, n_seeds, tested_on(frame))


def _heading(group: _Clients, baseline: str | None, groups: Sequence[_Clients]) -> str:
    if len(groups) == 1 or group.best is None:
        return group.heading
    return f"{group.heading}; difference: {group.best} − {baseline}"


def _decimals(groups: Sequence[_Clients], metric: str | None, methods: Sequence[str]) -> int | None:
    """Of the numbers of methods: one in percent, else as many as the largest needs."""
    if metric is None or measure(metric).decimals is not None:
        return 1
    tables = [group.rows[[f"method {method}" for method in methods]] for group in groups]
    return decimals_for([float(value) for table in tables for value in table.to_numpy().flat])


def _words(
    rows: pd.DataFrame, columns: Sequence[str], decimals: int | None = 1
) -> tuple[tuple[str, ...], ...]:
    kept, between = rows, len(rows) - MOST_CLIENTS
    if between > 0:
        half = MOST_CLIENTS // 2
        kept = pd.concat([rows[:half], rows[-half:]])
    words = [
        (str(row["name"]), *(_word(row, name, decimals) for name in columns))
        for _, row in kept.iterrows()
    ]
    if between > 0:
        words.insert(half, (f"… {between} more", *("" for _ in columns)))
    return tuple(words)


def _word(row: pd.Series, name: str, decimals: int | None) -> str:
    value = row.get(name)
    if value is None or pd.isna(value):
        return NOTHING
    decimals = 0 if name in ("n_examples", "n_test", "attendance") else decimals
    return number(float(value), decimals, signed=name == "difference")


def _notes(
    data: FigureData, groups: Sequence[_Clients], metric: str | None, baseline: str | None
) -> list[str]:
    under = f" under {baseline}" if baseline is not None else ""
    n_seeds = max(group.seeds for group in groups)
    over = f"means over {n_seeds} seeds" if n_seeds > 1 else "of one seed"
    notes = [f"Attendance: share of the rounds in which its update came{under}; {over}."]
    if metric is None:
        rounds = max(cell.rounds for cell in data.cells)
        notes.append(
            f"Accuracy of each client: not measured (per_client_every = {rounds} does so after the "
            "last round)."
        )
        return notes
    words = measure(metric).words.capitalize()
    where = {group.tested_on for group in groups}
    told = where.pop() if len(where) == 1 else TESTED_ON["matched"]
    notes.append(f"{words}: of the last model, {told}.")
    best = {group.best for group in groups if group.best is not None}
    if best:
        which = best.pop() if len(best) == 1 else "the method"
        notes.append(f"Difference: {which}, best mean over clients, minus {baseline}.")
    if n_seeds < max(data.most_seeds, 1):
        notes.append("Each seed divides the data anew, so only the first is shown.")
    most = max(len(group.rows) for group in groups)
    if most > MOST_CLIENTS:
        notes.append(
            f"Of {most} clients the {MOST_CLIENTS // 2} at either end; "
            'results(…, level="client") has all.'
        )
    if len(data.groups) > len(groups):
        notes.append(f"{len(data.groups) - len(groups)} more groups are not shown.")
    return notes

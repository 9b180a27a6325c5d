"""A look at a table before anything runs: what is learnt from what, what stands in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.shown import shown
from understudy.core.types import Bools
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.table_columns import Column
from understudy.simulation.data.table_file import (
    REGRESSION,
    found,
    how_written,
    kept_rows,
    read_table,
    table,
)
from understudy.tryout.inputs import alike, inputs_of
from understudy.tryout.target import Target, target_of, task_of
from understudy.tryout.trouble import CannotTry, listed, no_column

TEST, VALIDATION = 0.2, 0.2  # shares of each client's rows; validation only where steps are tuned
FEWEST_ROWS = 10  # of a client, below which its own numbers say little
ROWS_OF_A_CLIENT = 3  # on average, below which the column is an id
NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars"}


@dataclass(frozen=True, eq=False)
class Look:
    """What a table is for `understudy try`.

    Parameters
    ----------
    data : dict
        The table of a study that names it: file, columns, and how they become inputs.
    target : Target
        What is predicted.
    sizes : dict
        Clients and their rows, the largest first.
    told : tuple of str
        One line for each thing that was decided or that is odd.
    """

    data: dict[str, Any]
    target: Target
    sizes: dict[str, int]
    told: tuple[str, ...]

    @property
    def clients(self) -> tuple[str, ...]:
        """In the order of the federation."""
        return tuple(sorted(self.sizes))

    def federation(self) -> Federation:
        """As the first seed has it."""
        settings = {key: value for key, value in self.data.items() if key not in ("name", "seed")}
        return table(**settings, seed=0)


def look(
    file: str | Path,
    client: str,
    target: str,
    task: str | None = None,
    drop: Sequence[str] = (),
    *,
    validation: bool = False,
) -> Look:
    """Look at a table; what cannot be tried is a `CannotTry` with a line for each reason."""
    written = how_written(found(file))
    frame = read_table(file, client, written)
    _refuse_columns(frame, client, target, drop)
    told = _of_the_file(written.unusual)
    task_found = task_of(Column(target, np.asarray(frame[target])), task)
    kept = kept_rows(frame, client, target, task_found)
    if not kept.any():
        raise CannotTry(f"no row has both a {shown(client)} and a {shown(target)}")
    told += _gaps(frame, client, target, kept, task_found)
    rows = frame[kept]
    columns = {str(name): Column(str(name), np.asarray(rows[name])) for name in rows.columns}
    sizes, of_clients = _clients(columns[client])
    made = target_of(columns[target], task_found, task is not None)
    others = [column for name, column in columns.items() if name not in (client, target, *drop)]
    inputs = inputs_of(others, drop, columns[target], written.decimal)
    if not inputs.used:
        reasons = listed(inputs.told, 3) if inputs.told else "there are no others"
        raise CannotTry(f"no column is left to learn from: {reasons}")
    data: dict[str, Any] = {"name": "table", "file": str(file), "client": client, "target": target}
    data |= {"task": made.task} | written.unusual
    options = {"drop": inputs.drop, "encode": inputs.encode, "numbers": inputs.numbers}
    data |= {name: names for name, names in options.items() if names}
    if made.task == REGRESSION:
        data |= {"shift": made.shift, "scale": made.scale}
    data |= {"test": TEST} | ({"validation": VALIDATION} if validation else {}) | {"seed": "run"}
    n = len(inputs.used)
    columns_used = f"{n} column{'s' * (n != 1)} to learn from"
    words = f"{len(rows):,} rows, {len(sizes):,} clients, {columns_used}"
    lines = (words, *told, *made.told, *of_clients, *inputs.told)
    seen = Look(data, made, sizes, lines)
    try:
        seen.federation()
    except ValueError as error:  # what only the division shows
        raise CannotTry(*str(error).splitlines()) from error
    return seen


def _refuse_columns(frame: Any, client: str, target: str, drop: Sequence[str]) -> None:
    names = [str(name) for name in frame.columns]
    given = [("client", client), ("target", target), *(("drop", name) for name in drop)]
    wrong = [no_column(what, name, names) for what, name in given if name not in names]
    if client == target and not wrong:
        wrong = [f"target: {shown(target)} is the column of the clients"]
    wrong += [f"drop: {shown(one)} is needed" for one in drop if one in (client, target)]
    if not len(frame) and not wrong:
        wrong = ["the table has a header and no rows"]
    if wrong:
        raise CannotTry(*wrong)


def _gaps(frame: Any, client: str, target: str, kept: Bools, task: str) -> list[str]:
    """Rows that are left out, and for want of what."""
    if kept.all():
        return []
    nobody = Column(client, np.asarray(frame[client])).missing
    what = "number" if task == REGRESSION else "value"
    counts = {
        f"without {client} (empty, NA and the like)": nobody,
        f"without a {what} in {target}": ~kept & ~nobody,
    }
    reasons = [f"{int(rows.sum()):,} {why}" for why, rows in counts.items() if rows.any()]
    return [f"{int((~kept).sum()):,} of {len(kept):,} rows are left out: {listed(reasons)}"]


def _of_the_file(unusual: dict[str, str]) -> list[str]:
    words = []
    if "separator" in unusual:
        words.append(f"columns separated by {NAMES[unusual['separator']]}")
    if "decimal" in unusual:
        words.append("decimal commas")
    if "encoding" in unusual:
        words.append("the encoding Windows-1252")
    return [f"the file has {listed(words)}"] if words else []


def _clients(column: Column) -> tuple[dict[str, int], list[str]]:
    """Clients and their rows, the largest first; what is odd about them."""
    names, counts = np.unique(column.words, return_counts=True)
    place, n = f"client: column {shown(column.name)}", len(column.words)
    if len(names) == 1:
        raise CannotTry(
            f"{place} has one value, {shown(str(names[0]))}: a federation takes at least two "
            "clients"
        )
    if n < ROWS_OF_A_CLIENT * len(names):
        raise CannotTry(
            f"{place} has {len(names):,} different values in {n:,} rows: that is an id of rows, "
            "not of clients"
        )
    order = np.argsort(-counts, kind="stable").tolist()
    sizes = {str(names[k]): int(counts[k]) for k in order}
    told = []
    similar = alike([str(name) for name in names])
    if similar:
        told.append(f"{column.name}: {similar[0]} and {similar[1]} are taken for different clients")
    small = [name for name, size in sizes.items() if size < FEWEST_ROWS]
    if small:
        told.append(
            f"fewer than {FEWEST_ROWS} rows: {listed(small)}: their own numbers rest on one or two "
            "test rows, or on none"
        )
    return sizes, told

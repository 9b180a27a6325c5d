"""The clients of a run as lines of a terminal: who came, who stands in, who was refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from understudy.core.printable import one_line
from understudy.core.types import Outcome
from understudy.dashboard.watched import Watched
from understudy.studies.store.client_names import client_names
from understudy.views.columns import FRIEND, MIXTURE, REMEMBERED, SILENT

LAST = 20  # rounds of a row
NAME = 18  # columns of a client's name
MOST_REFUSALS = 3
# what a letter of a row means, and how it is coloured; letters, so that no colour is needed
ABSENT = {SILENT: ".", FRIEND: "f", MIXTURE: "m"}
LETTERS = {
    "#": ("came", "bold blue"),
    "r": ("remembered", "cyan"),
    "f": ("another's update", "magenta"),
    "m": ("a mean, or a model", "magenta"),
    "l": ("late", "yellow"),
    "e": ("error", "red"),
    "x": ("refused", "bold red"),
    ".": ("nobody", "dim"),
}


def clients(one: Watched, most: int, name: str) -> Iterator[Text]:
    """Those in trouble first: nobody speaks for them, then the longest unseen."""
    columns, counted = one.columns, one.warnings.representation
    if not columns.n or not columns.n_clients:
        return
    names = client_names(one.run.facts, columns.n_clients)
    active = one.warnings.facts.active(columns.n_clients)
    marks = _marks(columns.cells(max(0, columns.n - LAST)))
    order = np.lexsort((np.arange(columns.n_clients), columns.seen, -counted.gap, ~active))
    yield Text()
    if name:
        yield Text(f"clients of {name}", style="bold")
    last = min(LAST, columns.n)
    head = fitted("client", NAME) + "  last seen  came  "
    yield Text(f"  {head}{'last ' + str(last) + ' rounds':<22}  stands in", style="bold")
    for k in order[:most].tolist():
        line = Text(f"  {fitted(names[k], NAME)}  {_seen(columns.answered[k], columns.n):>9}")
        line.append(f"  {100 * counted.attendance[k]:3.0f}%  ")
        for mark in marks[k]:
            line.append(mark, style=LETTERS.get(mark, ("", ""))[1])
        line.append(" " * (22 - len(marks[k])))
        yield line.append(f"  {'left' if not active[k] else _stands_in(one, k, names)}")
    if columns.n_clients > most:
        yield Text(f"  and {columns.n_clients - most} more clients", style="dim")
    used = {mark for row in marks for mark in row}
    legend = Text("  ")
    legend.append("  ".join(f"{mark} {LETTERS[mark][0]}" for mark in LETTERS if mark in used))
    yield legend
    refused = list(columns.refusals)[-MOST_REFUSALS:]
    if refused:
        yield Text()
        yield Text("refused last", style="bold")
        for refusal in reversed(refused):
            who = names[refusal.client] if refusal.client >= 0 else refusal.who
            why = one_line(f"{refusal.reason}: {refusal.detail}", 200)
            yield Text(f"  round {refusal.t + 1}: {one_line(who, NAME)}: {why}")


def _marks(cells: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> list[list[str]]:
    """Letters of each client in each round, the last one at the right."""
    marks = {
        Outcome.CAME + 1: "#",
        Outcome.LATE + 1: "l",
        Outcome.ERROR + 1: "e",
        Outcome.RESTARTED + 1: "e",
        Outcome.REFUSED + 1: "x",
    }
    found = []
    for row in cells.T.tolist():
        voices = ((cell & 15, cell >> 4) for cell in row)
        found.append(
            [
                " " if not became else marks.get(became) or ABSENT.get(voice, "r")
                for became, voice in voices
            ]
        )
    return found


def _seen(t: int, n_rounds: int) -> str:
    if t < 0:
        return "never"
    ago = n_rounds - 1 - t
    return "now" if ago == 0 else f"{ago} ago"


def _stands_in(one: Watched, client: int, names: Sequence[str]) -> str:
    """What represented a client in the last round."""
    log = one.columns.newest
    assert log is not None
    if client >= len(log.outcome):
        return ""
    if log.outcome[client] == Outcome.CAME:
        return ""
    cell = int(one.columns.cells(log.t, log.t + 1)[0, client]) >> 4
    if cell >= REMEMBERED:
        return f"itself, {one.warnings.representation.age[client]} old"
    if cell == MIXTURE:
        return "a mean, or a model"
    mine = np.flatnonzero((log.ids == client) & (log.source != client) & (log.coef != 0))
    if not len(mine):
        return "nobody"
    source = int(log.source[mine[np.argmax(np.abs(log.coef[mine]))]])
    more = f" +{len(mine) - 1}" if len(mine) > 1 else ""
    return f"{fitted(names[source], 12).rstrip()}{more}"


def fitted(words: str, width: int) -> str:
    """Exactly so many columns of a terminal."""
    clean = one_line(words)
    if cell_len(clean) > width:
        return set_cell_size(clean, width - 1) + "…"
    return set_cell_size(clean, width)

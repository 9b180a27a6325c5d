"""Runs as lines of a terminal: what runs, how far it is, who is in it, who is left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from understudy.core.printable import one_line
from understudy.dashboard.runs import RunInfo
from understudy.dashboard.terminal_clients import clients, fitted
from understudy.dashboard.watched import Watch, Watched
from understudy.representation.facts import joined

WIDTH = 80
SPARKS = "▁▂▃▄▅▆▇█"
RUN, SPARKLINE = 21, 8  # columns
MOST_WARNINGS = 6
MOST_RUNS = 8  # lines of one study
STATUSES = ("running", "done", "failed", "stopped", "damaged", "waiting")
STYLES = {
    "running": "bold green",
    "done": "green",
    "failed": "bold red",
    "damaged": "bold red",
    "stopped": "bold yellow",
    "waiting": "dim",
}


def lines(watch: Watch, followed: Sequence[Watched], most_clients: int) -> list[Text]:
    """All that is shown, in lines of at most 80 columns."""
    found: list[Text] = [Text(line) for line in _troubles(watch)]
    studies: dict[str, list[RunInfo]] = {}
    for run in watch.runs:
        studies.setdefault(run.study_id, []).append(run)
    by_id = {one.run.id: one for one in followed}
    alone = [members[0] for members in studies.values() if len(members) == 1]
    for run in alone:
        name = f"{run.called}, live" if run.is_live else f"{run.called}, seed {run.seed}"
        found += _run(run, by_id.get(run.id), name)
    for members in studies.values():
        if len(members) > 1:
            found += [Text(), _heading(members, by_id)]
            found += _runs(members, by_id)
    found += _warnings(followed, len(watch.runs) > 1)
    if followed:
        called = _called(followed[0]) if len(watch.runs) > 1 else ""
        found += clients(followed[0], most_clients, called)
    while found and not found[0].plain:
        found = found[1:]
    return [_cut(line) for line in found]


def _cut(line: Text) -> Text:
    line.truncate(WIDTH, overflow="ellipsis")
    return line


def _troubles(watch: Watch) -> Iterator[str]:
    for one in watch.troubles:
        yield from _wrapped(f"{one_line(one.name)}: {one_line(one.words)}")


# -- runs ----------------------------------------------------------------------------------------


def _heading(members: Sequence[RunInfo], followed: dict[str, Watched]) -> Text:
    heading = Text(one_line(members[0].called, 50), style="bold")
    counts = Counter(run.status for run in members)
    words = ", ".join(f"{counts[name]} {name}" for name in STATUSES if counts[name])
    heading.append(f": {len(members)} runs, {words}", style="not bold")
    left = _study_left(members, followed)
    return heading if left is None else heading.append(f"; {_time(left)} left", style="not bold")


def _study_left(members: Sequence[RunInfo], followed: dict[str, Watched]) -> float | None:
    """Rounds that are left, at the pace of those that run now; as many at a time as now."""
    pace = [one for run in members if (one := followed.get(run.id)) and one.seconds_left]
    known = [run.n_rounds for run in members if run.n_rounds is not None]
    if not pace or not known:
        return None
    usual = max(known)
    rounds = sum(
        max(0, (usual if run.n_rounds is None else run.n_rounds) - run.rounds)
        for run in members
        if run.status not in ("done", "failed", "damaged")
    )
    each = np.mean([_per_round(one) for one in pace])
    return float(rounds * each / max(1, sum(run.status == "running" for run in members)))


def _per_round(one: Watched) -> float:
    left = (one.run.n_rounds or 0) - one.run.rounds
    return (one.seconds_left or 0.0) / max(left, 1)


def _runs(members: Sequence[RunInfo], followed: dict[str, Watched]) -> Iterator[Text]:
    """Of many runs those that are followed, and those with an error; by what they differ in."""
    shown = [run for run in members if run.id in followed or run.error]
    if len(members) <= MOST_RUNS:
        shown = list(members)
    varying = [
        name
        for name in dict.fromkeys(label for run in members for label in run.labels)
        if len({run.labels.get(name) for run in members}) > 1
    ]
    for run in shown[:MOST_RUNS]:
        known = (run.labels.get(name) for name in varying)
        told = [one_line(one) for one in known if one is not None]
        yield from _run(run, followed.get(run.id), ", ".join([*told, f"seed {run.seed}"]))
    more = len(members) - len(shown[:MOST_RUNS])
    if more:
        yield Text(f"  and {more} more", style="dim")


def _run(run: RunInfo, followed: Watched | None, name: str) -> Iterator[Text]:
    """A line for a run, and one for what is wrong with it."""
    yield _run_line(run, followed, name)
    if run.error:
        words = run.error.strip().partition("\n")[0]
        yield Text(f"    {one_line(words)}", style=STYLES.get(run.status, ""))
    if followed is not None and followed.trouble:
        yield Text(f"    {one_line(followed.trouble)}", style="bold red")


def _run_line(run: RunInfo, followed: Watched | None, name: str) -> Text:
    line = Text("  ").append(fitted(name, RUN))
    line.append("  ").append(f"{run.status:<8}", style=STYLES.get(run.status, ""))
    of = f" of {run.n_rounds}" if run.n_rounds is not None else ""
    line.append(f" {f'{run.rounds}{of}':>12}")
    if followed is not None:
        kind, values = followed.measured()
        line.append(f"  {_sparkline(values, SPARKLINE)}", style="blue")
        if values:
            line.append(f" {_value(kind, values[-1])}")
        if followed.seconds_left is not None:
            line.append(f", {_time(followed.seconds_left)} left")
    return line


def _value(kind: str, value: float) -> str:
    return f"{100 * value:.1f} %" if kind == "accuracy" else f"{kind} {value:.3g}"


def _sparkline(values: Sequence[float], width: int) -> str:
    """A few of the values, lowest to highest."""
    if not values:
        return " " * width
    chosen = [values[int(at)] for at in np.linspace(0, len(values) - 1, min(width, len(values)))]
    low, high = min(chosen), max(chosen)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((one - low) * scale)] for one in chosen).ljust(width)


def _time(seconds: float) -> str:
    """About how long."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    if seconds < 90 * 60:
        return f"{math.ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


# -- who is left out -----------------------------------------------------------------------------


def _warnings(followed: Sequence[Watched], is_named: bool) -> Iterator[Text]:
    """What holds now; the same words of several runs are told once."""
    whose: dict[str, list[str]] = {}
    for one in followed:
        for warning in one.warnings.current:
            whose.setdefault(warning.text, []).append(_called(one))
    past = sum(len(one.warnings.past) for one in followed)
    if not whose and not past:
        return
    yield Text()
    yield Text("warnings", style="bold")
    for words, names in list(whose.items())[:MOST_WARNINGS]:
        sentence = f"{joined(names)}: {words}" if is_named else words
        for place, line in enumerate(_wrapped(sentence)):
            yield Text(("  ! " if place == 0 else "    ") + line, style="bold yellow")
    if len(whose) > MOST_WARNINGS:
        yield Text(f"  and {len(whose) - MOST_WARNINGS} more")
    if past:
        words = "no longer holds" if past == 1 else "no longer hold"
        yield Text(f"  {past} {words}; understudy show lists all", style="dim")


def _wrapped(words: str) -> list[str]:
    """Broken at spaces, by the columns that letters take."""
    found, line = [], ""
    for word in words.split(" "):
        if line and cell_len(line) + 1 + cell_len(word) > WIDTH - 4:
            found.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*found, line]


def _called(one: Watched) -> str:
    """A run, among several."""
    if not one.run.key:
        return one_line(one.run.called, 60)
    labels = (one_line(label) for label in one.run.labels.values() if label is not None)
    return ", ".join([*labels, f"seed {one.run.seed}"])

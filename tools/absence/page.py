"""``docs/benchmark.md`` from the exported cells, and the maps beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tools.absence import situations
from tools.absence.cells import (
    FULL,
    KNOWS,
    STUDY,
    TARGET,
    TUNED,
    Place,
    Table,
    blocks,
    data_of,
    in_study,
    tables_of,
)
from tools.absence.costs import price, server_memory
from tools.absence.regret import Spread, Standing, gap, is_level, standings
from tools.absence.regret_map import regret_map
from tools.absence.words import (
    COMMANDS,
    MEMORY,
    ONE_WORDS,
    READING,
    SITUATIONS,
    TARGET_WORDS,
    TITLE,
    TUNED_WORDS,
    listed,
)
from understudy.plots import svg
from understudy.studies.statistics.text_table import NOTHING, number

WORDS, PAGE = "absence-in-words.txt", "benchmark.md"
MEMORY_OF = ("digits", "cifar10")  # 20 clients and 100


def page(docs: Path) -> tuple[str, dict[str, bytes]]:
    """The text of the page, and its pictures by their names in ``results/absence``."""
    tables = tables_of(docs / "results")
    words = docs / "results" / WORDS
    lines, pictures = [TITLE, *not_run(docs, tables)], {}
    if words.is_file():
        lines += [words.read_text(encoding="utf-8").strip(), ""]
    if tables:
        lines += ["## Ten situations", "", *in_situations(tables[0]), "", READING]
    for table in tables:
        lines += [_about_tuning() if table.is_tuned else ONE_WORDS]
        for group in alike(table):
            name = f"map-{'tuned' if table.is_tuned else 'one-server'}-{'-'.join(group)}.svg"
            places = [place for place in table.places() if place[0] in group]
            order = standings(table, places)
            pictures[name] = svg(regret_map(table, _rows(table, order), places))
            lines += [*_of_group(table, group, places, order, name), ""]
    if tables:
        lines += ["## Memory on the server", "", *memory(tables), ""]
        lines += ["## All cells", ""]
        for table in tables:
            for data in table.data:
                lines += [*whole(table, data), ""]
    lines += [COMMANDS]
    return "\n".join(lines), pictures


def _about_tuning() -> str:
    tune = in_study()["scale"]["standard"]["tune"]
    metric = str(tune["metric"]).replace("_", " ")
    seeds = ", ".join(map(str, tune["seeds"]))
    return TUNED_WORDS.format(n=len(tune["server"]), metric=metric, seeds=seeds)


def not_run(docs: Path, tables: Sequence[Table]) -> Iterator[str]:
    """Which parts of the scale `standard` are not there, or not whole."""
    there = {(table.is_tuned, place) for table in tables for place in table.runs}
    standard = in_study()["scale"]["standard"]
    lacking = []
    for block in in_study()["block"]:
        name = str(block["name"])
        if name not in standard["blocks"]:
            continue
        own = standard.get("block", {}).get(name, {})
        absences = own.get("availability", block.get("availability", in_study()["availability"]))
        is_tuned, data = name.endswith(TUNED), data_of(name)
        lost = [label for label in absences if (is_tuned, (data, label)) not in there]
        if lost and len(lost) == len(list(absences)):
            lacking.append(f"`{name}`")
        elif lost:
            lacking.append(f"`{name}`: {', '.join(lost)}")
    if lacking:
        yield f"**Not run yet:** {'; '.join(lacking)}."
        yield ""


def alike(table: Table) -> list[tuple[str, ...]]:
    """Data sets with the same methods, together."""
    groups: dict[frozenset[str], list[str]] = {}
    for data in table.data:
        own = [set(table.runs[place]) for place in table.places(data)]
        known = frozenset(set.intersection(*own) & set(table.methods))
        groups.setdefault(known, []).append(data)
    return [tuple(group) for group in groups.values()]


def in_situations(table: Table) -> Iterator[str]:
    """Which method where, with numbers: of the part with tuned servers, if it is there."""
    (first, *_) = alike(table)
    places = [place for place in table.places() if place[0] in first]
    servers = "each at its tuned server" if table.is_tuned else "at one server for all"
    yield SITUATIONS.format(data=listed(first), servers=servers)
    yield ""
    yield "| situation | cells | least regret | ahead of `fedavg` | next | ahead of that |"
    yield "| --- | ---: | --- | ---: | --- | ---: |"
    yield from situations.rows(table, places)


def _rows(table: Table, order: Sequence[Standing]) -> list[str]:
    names = [one.method for one in order]
    rest = [method for method in table.methods if method not in names]
    known = [name for name in KNOWS if any(name in rows for rows in table.runs.values())]
    return [*names, *rest, *known]


def _of_group(
    table: Table,
    data: Sequence[str],
    places: Sequence[Place],
    order: Sequence[Standing],
    picture: str,
) -> Iterator[str]:
    seeds = sorted({len(table.seeds(place)) for place in places})
    words = " and ".join(map(str, seeds))
    yield f"### {_head(listed(data))}"
    yield ""
    yield f"{len(places)} {'cell' if len(places) == 1 else 'cells'}, {words} seeds in each."
    yield ""
    yield f"```{{image}} results/{STUDY}/{picture}"
    yield f":alt: Regret of each method in each cell of {listed(data)}"
    yield "```"
    yield ""
    priced = [name for name in data if table.target(name) is not None]
    heads = ["method", "mean regret", "largest regret", "in", "best or within noise", "diverged"]
    heads += [f"{listed([name])}: reached, rounds, MB" for name in priced]
    heads += [f"{listed([name])}: ahead of `{situations.OUT}`" for name in data]
    yield f"| {' | '.join(heads)} |"
    yield f"| --- | ---: | ---: | --- | ---: | ---: |{' ---: |' * (len(priced) + len(data))}"
    for one in order:
        cells = [
            f"`{one.method}`", spread(one.mean), spread(one.worst), _named(one.worst_place),
            f"{one.best_or_level} of {len(places)}", str(table.n_diverged(one.method, places)),
            *(_price(table, one.method, name) for name in priced),
            *(
                situations.ahead(table, table.places(name), one.method, situations.OUT)
                for name in data
            ),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    if priced:
        targets = {name: number(100 * (table.target(name) or 0), 1) for name in priced}
        shown = ", ".join(f"{listed([name])} {target} %" for name, target in targets.items())
        yield ""
        yield TARGET_WORDS.format(share=f"{100 * TARGET:.0f}", shown=shown)


def _named(place: Place) -> str:
    data, absence = place
    return f"{listed([data])}, {absence}"


def _head(words: str) -> str:
    return words[:1].upper() + words[1:]


def spread(found: Spread) -> str:
    """A number with its interval."""
    low, high = (number(value, 1) for value in (found.low, found.high))
    return f"{number(found.value, 1)} ({low} to {high})"


def _price(table: Table, method: str, data: str) -> str:
    found = price(table, method, data)
    if found is None:
        return NOTHING
    told = [f"{100 * found.reached:.0f} %"]
    told.append(f"{found.rounds:.0f}" if np.isfinite(found.rounds) else NOTHING)
    if found.megabytes is not None:
        sent = found.megabytes
        told.append(f"{sent:.3g}" if np.isfinite(sent) else NOTHING)
    return ", ".join(told)


def memory(tables: Sequence[Table]) -> Iterator[str]:
    """What each method's server holds, in models."""
    names = [*KNOWS, *dict.fromkeys(method for table in tables for method in table.methods)]
    columns = {block: server_memory(block, names) for block in MEMORY_OF if block in blocks()}
    yield MEMORY
    yield ""
    yield f"| method | {' | '.join(_told_size(block) for block in columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for name in names:
        cells = [number(found[name], 0) if name in found else NOTHING for found in columns.values()]
        yield f"| `{name}` | {' | '.join(cells)} |"


def _told_size(block: str) -> str:
    own = next(one for one in in_study()["block"] if one["name"] == block)
    return f"{listed([block])}, {own['data']['n_clients']} clients"


def whole(table: Table, data: str) -> Iterator[str]:
    """Accuracy and regret in each cell of one data set."""
    places = table.places(data)
    server = "tuned servers" if table.is_tuned else "one server"
    yield f"### {_head(listed([data]))}, {server}: all cells"
    yield ""
    names = [FULL, *_rows(table, standings(table, places))]
    picks = [name for (_, name) in table.servers] if table.is_tuned else []
    more = ["server"] if picks else []
    yield f"| | {' | '.join([*more, *(absence for _, absence in places)])} |"
    yield f"| --- |{' --- |' * len(more)}{' ---: |' * len(places)}"
    for name in names:
        if not any(table.has(name, place) for place in places):
            continue
        own = [_servers(table, data, name)] if picks else []
        cells = [_cell(table, name, place) for place in places]
        yield f"| `{name}` | {' | '.join([*own, *cells])} |"


def _servers(table: Table, data: str, name: str) -> str:
    """The server that was picked, and the one for the trace where that is another."""
    picked = dict.fromkeys(
        server for (block, row), server in table.servers.items()
        if row == name and data_of(block) == data
    )  # fmt: skip
    return ", trace: ".join(picked) or NOTHING


def _cell(table: Table, name: str, place: Place) -> str:
    if not table.has(name, place):
        return NOTHING
    mean = number(100 * float(table.accuracies(name, place).mean()), 1)
    mean += " †" if table.n_diverged(name, [place]) else ""
    if name == FULL:
        return mean
    if name == table.best(place):
        return f"**{mean}**"
    found = gap(table, name, place)
    half = "" if found.half is None else f" ± {number(found.half, 1)}"
    level = "" if name in KNOWS or not is_level(table, name, place) else " ○"
    return f"{mean} ({number(-found.mean, 1, signed=True)}{half}){level}"

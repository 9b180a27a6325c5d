"""`understudy show`: how far a study is, or all about one of its cells."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.commands import stored_study, text
from understudy.core.printable import one_line

if TYPE_CHECKING:
    from understudy.representation import ClientFacts, Representation, RunWarning
    from understudy.representation.pairs import Pairs, StoodIn
    from understudy.studies.store.store import Store, StoredCell

SHORTEST = 4  # digits of a key that are asked for
SHOWN_KEY = 8  # digits of a key in a list
MOST_PAIRS = 5
MOST_WARNINGS = 10
MOST_NAMED = 3  # cells that failed alike
FIRST = ("data", "model", "strategy", "availability")  # of a configuration
ACCURACY, LOSS = (
    "accuracy",
    "loss",
)  # of the last evaluated round; the loss where none has an accuracy
ALWAYS_SHOWN = ("cell", "strategy", "seed", "rounds", ACCURACY, LOSS)
EVERY = "every"  # a label that means "in every group"
STATUSES = ("done", "running", "stopped", "failed", "waiting", "exported")


def show(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", show_default=False)] = None,
    folder: stored_study.Folder = stored_study.RUNS,
) -> None:
    """Show the progress of a study, or one of its cells in full.

    RUN is a study, the first digits of a cell's key, as listed for the
    study, or the folder of a run. For a cell: its configuration, its
    last metrics, which clients are least represented, and who stood in for
    whom.

    understudy show quickstart
    understudy show 3f2a90c1
    understudy show /var/lib/federation/run
    """
    from understudy.studies.store.own_folder import is_run_folder
    from understudy.studies.store.store import Store

    key = None if run is None or Path(run).is_dir() else _key(run, folder)
    if key is None:
        place = stored_study.find(run, folder)
        with Store.open(place.folder) as store:
            lines = list(_study(store, place))
            cells = store.cells(place.study)
            is_run = run is not None and is_run_folder(Path(run))
            if (is_run or store.study(place.study).about.get("live")) and len(cells) == 1:
                lines += ["", *_cell(store, cells[0].key)]
        outdated = stored_study.outdated_report(place)
        lines += [] if outdated is None else ["", *text.wrapped(outdated)]
    else:
        with Store.open(folder) as store:
            lines = list(_cell(store, key))
    text.echo_lines(lines)


def _key(run: str, folder: Path) -> str | None:
    """The key that begins with `run`; None where it is no key, but a study's name."""
    from understudy.studies.store.schema import StoreError
    from understudy.studies.store.store import Store

    if len(run) < SHORTEST or set(run) - set("0123456789abcdef"):
        return None
    with Store.open(folder) as store:
        studies = [study.name for study in store.studies()]
        if run in studies:
            return None
        keys = {cell.key for study in studies for cell in _all_cells(store, study)}
    found = sorted(key for key in keys if key.startswith(run))
    if len(found) > 1:
        raise StoreError(f"{run}: is the beginning of {len(found)} keys: {', '.join(found)}")
    return found[0] if found else None


# -- a study -----------------------------------------------------------------------------------


def _study(store: Store, place: stored_study.Place) -> Iterator[str]:
    from understudy._version import __version__
    from understudy.studies.statistics.text_table import tuning_notes

    about, cells = store.study(place.study), _marked(store, place)
    trials = store.trials(place.study)
    if trials and not all(trial.status == "done" for trial in trials):
        yield from _listed(store, f"{about.name}: tuning, before its cells", trials, "trial")
        yield from _errors(trials)
        yield from [""] if cells else []
    if cells or not trials:
        yield from _listed(store, about.name, cells, "cell")
    for note in tuning_notes(about.picks, about.edges):
        yield ""
        yield from text.wrapped(note)
    yield from _errors(cells)
    others = sorted({cell.version for cell in cells if cell.version} - {__version__})
    if others:
        yield ""
        yield from text.wrapped(
            f"Some cells were run by version {', '.join(others)}; this is {__version__}. "
            "understudy run --again reruns them."
        )


def _marked(store: Store, place: stored_study.Place) -> list[StoredCell]:
    from understudy.studies.statistics.export import keys_in
    from understudy.studies.statistics.exported_cells import exports_of, marked

    folder = exports_of(place.folder, place.study)
    cells = store.cells(place.study)
    return cells if folder is None else marked(cells, keys_in(folder))


def _all_cells(store: Store, study: str) -> list[StoredCell]:
    return [*store.cells(study), *store.trials(study)]


def _listed(store: Store, title: str, cells: list[StoredCell], noun: str) -> Iterator[str]:
    counts = Counter(cell.status for cell in cells)
    words = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    yield f"{title}: {text.count(len(cells), noun)}, {words or 'none'}"
    yield ""
    last = {cell.key: store.last_metrics(cell.key) for cell in cells}
    known = (name for name in (ACCURACY, LOSS) if any(_last(one, name) for one in last.values()))
    shown = next(known, ACCURACY)
    rows = [_row(cell, _last(last[cell.key], shown)) for cell in cells]
    yield from text.columns(_telling([_head(cells, shown), *rows]))


def _errors(cells: list[StoredCell]) -> Iterator[str]:
    for error, keys in _by_error(cells).items():
        yield ""
        named = ", ".join(keys[:MOST_NAMED])
        more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
        yield from text.wrapped(f"{named}{more} failed: {error}")


def _by_error(cells: list[StoredCell]) -> dict[str, list[str]]:
    """The first line of each error, and whose it is."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell.error:
            found.setdefault(text.first_line(cell.error), []).append(cell.key[:SHOWN_KEY])
    return found


def _head(cells: list[StoredCell], shown: str) -> list[str]:
    labels = list(dict.fromkeys(name for cell in cells for name in cell.labels))
    return ["cell", *labels, "seed", "status", "rounds", shown]


def _telling(rows: list[list[str]]) -> list[list[str]]:
    """Without labels, and without a status, that all cells share."""
    kept = [
        place
        for place, (head, *words) in enumerate(zip(*rows, strict=True))
        if head in ALWAYS_SHOWN or len({word for word in words if word != EVERY}) > 1
    ]
    return [[row[place] for place in kept] for row in rows]


def _row(cell: StoredCell, shown: str | None) -> list[str]:
    labels = [EVERY if value is None else str(value) for value in cell.labels.values()]
    about = [str(cell.seed), cell.status, str(cell.rounds)]
    return [cell.key[:SHOWN_KEY], *labels, *about, shown or "–"]


def _last(metrics: Mapping[str, float], name: str) -> str | None:
    """A metric in words, on test data or else on validation data; None where there is none."""
    value = metrics.get(f"test_{name}", metrics.get(f"validation_{name}"))
    if value is None:
        return None
    return f"{value * 100:.1f} %" if name == ACCURACY else f"{value:#.4g}"


# -- a cell ------------------------------------------------------------------------------------


def _cell(store: Store, key: str) -> Iterator[str]:
    from understudy.representation import Warnings
    from understudy.representation.pairs import Pairs
    from understudy.studies.store.client_names import client_names

    homes = {
        study.name: cell
        for study in store.studies()
        for cell in _all_cells(store, study.name)
        if cell.key == key
    }
    cell = next(iter(homes.values()))
    labels = ", ".join(
        f"{name} {value}" for name, value in cell.labels.items() if value is not None
    )
    yield f"{key}, a cell of {', '.join(homes)}"
    yield from text.wrapped(f"{labels}, seed {cell.seed}")
    yield f"{cell.status} after {text.count(cell.rounds, 'round')}{_by(cell)}"
    if cell.error:
        yield ""
        yield from cell.error.rstrip().splitlines()
    if cell.status == "waiting":
        return
    metrics = store.last_metrics(key)
    if metrics:
        yield ""
        yield "last metrics"
        yield from text.pairs({**metrics, **cell.findings_metrics})
    if cell.rounds:
        warnings, pairs = Warnings.told(cell.facts, store.resolved(key)), Pairs()
        for log in store.logs(key):
            warnings.add(log)
            pairs.add(log)
        names = client_names(cell.facts, warnings.representation.n_clients)
        yield from _warnings(warnings)
        yield from _representation(warnings.representation, pairs, names, warnings.facts)
    yield ""
    yield "configuration"
    resolved = store.resolved(key)
    first = {name: resolved[name] for name in FIRST if name in resolved}
    yield from _configuration({**first, **resolved})


def _by(cell: StoredCell) -> str:
    return f", by understudy {cell.version}" if cell.version else ""


def _warnings(warnings: Iterable[RunWarning]) -> Iterator[str]:
    """What holds after the last round, then what held for a time; the latest of many."""
    told = list(warnings)
    shown = told[:MOST_WARNINGS]
    if told:
        yield ""
        yield "who was left out, and other warnings"
        for one in shown:
            yield from text.item(str(one))
        if len(told) > len(shown):
            yield f"  and {len(told) - len(shown)} more"


def _representation(
    call: Representation, pairs: Pairs, names: Sequence[str], facts: ClientFacts
) -> Iterator[str]:
    from understudy.journal.bounded import LARGEST

    least = call.least(gone=facts.left)
    yield ""
    if least:
        yield f"least represented, of {text.count(call.n_steps, 'round')} with a step"
        head = ["client", "came", "fresh", "remembered", "age", "others", "nobody"]
        rows = [
            [one_line(names[one.client]), *_shares(one[1:4]), _age(one.age), *_shares(one[5:])]
            for one in least
        ]
        yield from text.columns([head, *rows])
    elif call.n_steps:
        yield "every client was represented in every round with a step"
    else:
        yield "no round took a step"
    stood_in = pairs.most(MOST_PAIRS)
    if stood_in:
        yield ""
        yield "who stood in for whom most"
        yield from text.columns(
            [
                ["for client", "stood in", "rounds"],
                *(
                    [one_line(names[pair.absent]), _source(pair, names), str(pair.rounds)]
                    for pair in stood_in
                ),
            ]
        )
        if call.n_cut:
            rounds = text.count(call.n_cut, "round")
            yield f"of {rounds} only the {LARGEST} largest stand-ins of each client are kept"


def _shares(shares: Iterable[float]) -> list[str]:
    return [f"{100 * share:.0f} %" for share in shares]


def _age(rounds: float) -> str:
    """Mean age, in rounds."""
    return "–" if math.isnan(rounds) else f"{rounds:.1f}"


def _source(pair: StoodIn, names: Sequence[str]) -> str:
    if pair.source == pair.absent:
        return "its own last update"
    return "a mean, or a model" if pair.source < 0 else f"client {one_line(names[pair.source])}"


def _configuration(resolved: Mapping[str, Any], depth: int = 1) -> Iterator[str]:
    """As a TOML file would have it, indented instead of in tables."""
    margin = "  " * depth
    for name, value in resolved.items():
        if value in (None, {}, []):
            continue
        if isinstance(value, Mapping) and set(value) == {"class"}:
            yield f"{margin}{name} = {value['class']}"
        elif isinstance(value, Mapping):
            yield f"{margin}{name}" + (f" = {value['class']}" if "class" in value else "")
            inner = {key: item for key, item in value.items() if key != "class"}
            yield from _configuration(inner, depth + 1)
        else:
            yield f"{margin}{name} = {json.dumps(value, ensure_ascii=False)}"

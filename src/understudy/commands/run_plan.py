"""What a study would run, printed before it runs; what is wrong with it, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.commands import text

if TYPE_CHECKING:
    from understudy.simulation.data.sources import DataSource
    from understudy.studies.definition.build.user_rows import UserRow
    from understudy.studies.definition.cell import Cell
    from understudy.studies.definition.study import Study
    from understudy.studies.execution.skipped import Skipped


def plan(
    study: Study, folder: Path, skip: Collection[str] | Skipped = frozenset()
) -> Iterator[str]:
    """Lines: what the cells differ in, how many are done, hours and disk of the others."""
    from understudy.core.threads import usable_cores
    from understudy.server.footprint import readable as readable_bytes
    from understudy.studies.definition.build.divisions import check_divisions
    from understudy.studies.definition.differences import differences, first_of, in_a_sentence
    from understudy.studies.definition.estimates import estimate, readable
    from understudy.studies.definition.training import kept_in_words
    from understudy.studies.execution.skipped import Skipped, work_of

    cells, work = study.cells(), work_of(study, skip)
    trials = work.trials
    yield from introduction(study, cells)
    wanted = [*trials, *work.cells]
    pending = pending_of(wanted, folder)
    check_divisions(pending)
    needed = estimate(pending)
    n_cores = usable_cores()
    rows = {**_levels(cells), "seeds": ", ".join(str(seed) for seed in _seeds(cells))}
    if trials:
        keys = ", ".join(study.tune.values) if study.tune else ""
        rows["tuning"] = f"{text.count(len(trials), 'cell')} before them, for {keys}"
    n_skipped = len(cells) + len(study.tuning()) - len(wanted)
    rows["to run"] = f"{needed.n_cells}, {len({c.key for c in wanted}) - needed.n_cells} done" + (
        f", {n_skipped} skipped" if n_skipped else ""
    )
    if pending:
        rows["time"] = f"about {readable(needed.seconds())} on {text.count(n_cores, 'core')}"
        rows["disk"] = f"about {readable_bytes(needed.n_bytes)} in {folder}"
    missing = missing_data(pending)
    if missing:
        rows["data"] = f"missing: {', '.join(missing)}"
    yield from text.named(rows)
    for words in missing.values():
        yield from text.wrapped(words)
    pairs = [(cell.labels, cell.resolved) for cell in cells]
    first = first_of((cell.labels for cell in cells), study.baseline)
    others = [name for name in study.strategies if name != first]
    tuned = () if study.tune is None else study.tune.values
    found = differences(pairs, first, tuned)
    told = in_a_sentence(found, str(first), others, is_first=study.baseline is None)
    if told is not None:
        yield from text.wrapped(told)
    if study.kept_local:
        yield from text.wrapped(f"{kept_in_words(study.kept_local)}.")
    changed = _changed_defaults(study, folder, trials or cells, Skipped.of(skip).keys)
    if changed is not None:
        yield from text.wrapped(changed)


def introduction(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Lines: what it shows, and how large it is."""
    yield from text.wrapped(f"{study.name}: {study.shows}" if study.shows else study.name)
    rounds = sorted({cell.task.rounds for cell in cells})
    words = f"{rounds[0]} to {rounds[-1]} rounds"
    if len(rounds) < 3:
        words = " or ".join([*map(str, rounds[:-1]), text.count(rounds[-1], "round")])
    scale = "" if study.scale is None else f" at scale {study.scale}"
    yield f"{text.count(len(cells), 'cell')} of {words}{scale}"
    yield from subsets(cells)


def check_data(study: Study, folder: Path, skip: Collection[str] | Skipped) -> None:
    """Refuse a study whose data are not here, before its cells fail one by one."""
    from understudy.studies.execution.skipped import work_of

    work = work_of(study, skip)
    for source, root in _sources(pending_of([*work.trials, *work.cells], folder)):
        source.located(root)


def missing_data(cells: Sequence[Cell]) -> dict[str, str]:
    """Data sets of these cells that are not here, each with where it was looked for."""
    from understudy.simulation.data.sources import MissingData

    found = {}
    for source, root in _sources(cells):
        try:
            source.located(root)
        except MissingData as error:
            found[source.name] = str(error)
    return found


def subsets(cells: Sequence[Cell]) -> Iterator[str]:
    """A line for each data set of which only a part is here: results are those of the part."""
    from understudy.simulation.data.sources import MissingData

    for source, root in _sources(cells):
        try:
            words = source.subset(root)
        except MissingData:  # told elsewhere, or on another machine
            continue
        if words:
            yield f"{source.name} is {words}"


def _sources(cells: Sequence[Cell]) -> list[tuple[DataSource, Any]]:
    """Data sets by name, each with the folder that the study names."""
    from understudy.simulation.data.sources import source_of
    from understudy.studies.definition.cell import DataRecipe

    recipes = {
        (cell.task.data.name, cell.task.data.settings.get("root"))
        for cell in cells
        if isinstance(cell.task.data, DataRecipe)
    }
    return [(source_of(name), root) for name, root in sorted(recipes, key=str)]


def _levels(cells: Sequence[Cell]) -> dict[str, str]:
    """The values of each label."""
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.labels.items():
            known = values.setdefault(name, {})
            if value is not None:
                known[str(value)] = None
    return {name: ", ".join(known) for name, known in values.items() if known}


def _seeds(cells: Sequence[Cell]) -> list[int]:
    return sorted({cell.seed for cell in cells})


def _changed_defaults(
    study: Study, folder: Path, cells: Sequence[Cell], skip: Collection[str]
) -> str | None:
    from understudy.studies.execution.changed_defaults import changed_defaults
    from understudy.studies.store.schema import StoreError
    from understudy.studies.store.store import Store

    try:
        with Store.open(folder) as store:
            return changed_defaults(store, study, cells, skip)
    except StoreError:
        return None


def pending_of(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """Cells that are not done."""
    from understudy.studies.store.schema import StoreError
    from understudy.studies.store.store import Store

    try:
        with Store.open(folder) as store:
            return [cell for cell in cells if store.status(cell.key) != "done"]
    except StoreError:
        return list(cells)


# -- rows of one's own -----------------------------------------------------------------------------


def check_rows(rows: Iterable[UserRow]) -> None:
    """Play some rounds with other people's parts; an error names the promise that was not kept."""
    for row in rows:
        for role, part in _parts_of(row):
            _check(row, role, part)


def _parts_of(row: UserRow) -> Iterator[tuple[str, Any]]:
    """Its role and itself; of a whole method all parts that do without its others.

    Ours are tested already.
    """
    from understudy.core.module_origin import is_known
    from understudy.studies.definition.build.user_rows import METHOD, ROLES

    parts = [(row.role, row.made)]
    if row.role == METHOD:
        every = [(role, getattr(row.made, role)) for role in ROLES if role != "rule"]
        parts = [(role, part) for role, part in every if _stands_alone(role, part)]
    for role, part in parts:
        if not is_known(type(part).__module__):
            yield role, part


def _stands_alone(role: str, part: Any) -> bool:
    from understudy.server.strategy import Strategy

    try:
        Strategy(**{role: part})
    except ValueError:
        return False
    return True


def _check(row: UserRow, role: str, part: Any) -> None:
    from understudy import testing
    from understudy.studies.definition.build.user_rows import WITH
    from understudy.studies.definition.errors import StudyError

    checks: dict[str, Callable[[Any], None]] = {
        "sampler": testing.check_sampler,
        "compensator": testing.check_compensator,
        "aggregator": testing.check_aggregator,
    }
    if role not in checks:
        return
    try:
        checks[role](part)
    except Exception as error:  # somebody's own part may fail in any way
        broken = isinstance(error, testing.ContractBroken)
        words = str(error) if broken else f"{type(error).__name__}: {error}"
        name = type(part).__name__
        told = StudyError(f"{name} does not pass understudy.testing.check_{role}: {words}")
        told.source = f"{WITH} {row.text}"
        raise told from error

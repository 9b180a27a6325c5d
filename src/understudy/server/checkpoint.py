"""What survives a crash, and what can be carried elsewhere.

A run's folder holds one small file (`state.safetensors`), the row files it points into, and a
population file that is written once. A commit is: rows flushed, then the small file written,
synced and renamed: **the rename is the commit**. A kill at any moment leaves the last committed
round whole. `save_state` writes one self-contained file instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy._version import __version__
from understudy.core.describe import describe, differences
from understudy.core.files import sync_folder
from understudy.core.types import Population
from understudy.memory.rows import RowStore
from understudy.memory.run_folder import STATE, RunFolder
from understudy.memory.tensor_stream import (
    CheckpointError,
    Entry,
    Reader,
    named_faults,
    refuse_unstorable,
    write,
)
from understudy.memory.writer_lock import FolderInUse
from understudy.server.checkpoint_contents import (
    POPULATION,
    files_of,
    fill_rows,
    fitting,
    model_of,
    read_population,
    refuse_other_shapes,
    reopened,
    verify_rows,
)
from understudy.server.state import ServerState, leaves, owner_of, row_stores
from understudy.server.weights import is_default

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

FORMAT = 1
LAST_ROUND = 2**53  # a file that says more is not one of ours
# What older checkpoints do not hold, and stays as a new state has it. They did not note rounds
# without a step: these count as updates in the schedules' clock, as they did when they were played;
# nor, for Gather, the base weights of the round in which a client came. Simulations had updates in
# flight beside the rows and no models of earlier rounds, and live federations drew their attendance
# again.
LATER = (
    "idle",
    "compensator.base_when_came",
    "extra",
    "extra.attendance",
    "extra.availability",
    "extra.flight.rows",
    "extra.recent",
    "extra.flight.seconds",
)

__all__ = ["FolderInUse", "commit", "load_state", "resume", "save_state"]


def commit_is_due(state: ServerState, every: float) -> bool:
    """Whether the last commit is `every` seconds old, or spare slots of a row file have run out."""
    return state._commits.due(every, (store for _, store in row_stores(state)))


def commit(state: ServerState, *, every: float = 0.0) -> None:
    """Commit a state that has a folder, where `commit_is_due`."""
    state.refuse_half_a_round()
    if not commit_is_due(state, every):
        return
    if state._run_folder is not None:
        _write(state, state._run_folder)
    state._commits.committed()


def _write(state: ServerState, run_folder: RunFolder) -> None:
    stores = dict(row_stores(state))
    if run_folder.population is not state.population:
        file = run_folder.new_population()
        known = dict(_population_entries(state.population))
        write(file, known, {"n_clients": state.n_clients})
        run_folder.population, run_folder.population_file = state.population, file.name
    for store in stores.values():
        store.flush()
    entries, about = _packed(state)
    for path, store in stores.items():
        about["rows"][path] = "" if store.path is None else store.path.name
        about["row_bytes"][path] = store.width * store.dtype.itemsize
        entries[f"{path}.slot"] = Entry.of(f"{path}.slot", store.slot)
        entries[f"{path}.crc"] = Entry.of(f"{path}.crc", store.checksums)
    about["population"] = run_folder.population_file
    sync_folder(run_folder.folder)
    write(run_folder.folder / STATE, entries, about)
    for store in stores.values():
        store.committed()
    run_folder.sweep(keep={*about["rows"].values(), run_folder.population_file})


def resume(folder: str | Path, strategy: Strategy, extra: Any = None) -> ServerState:
    """The state of the last commit in `folder`, and the right to write there.

    Parameters
    ----------
    folder : path
        A run's folder.
    strategy : Strategy
        The one that made it; another one is refused, naming what differs.
    extra : dataclass, or function of a Setup that makes it, optional
        Where the run kept something of its own in `ServerState.extra`: an object of that form, to
        be filled.
    """
    folder = Path(folder)
    if not (folder / STATE).is_file():
        raise CheckpointError(f"{folder}: holds no run (no file {STATE})")
    run_folder = RunFolder(folder)
    try:
        with named_faults(folder / STATE):
            state = _resumed(Reader(folder / STATE), run_folder, strategy, extra)
    except BaseException:
        run_folder.close()
        raise
    state._run_folder = run_folder
    return state


def _resumed(reader: Reader, run_folder: RunFolder, strategy: Strategy, extra: Any) -> ServerState:
    _refuse_other(reader, strategy)
    if "population" not in reader.about:
        raise CheckpointError(f"{reader.path}: written by save_state(); use load_state()")
    population_file, files = files_of(reader)
    population = read_population(Reader(run_folder.folder / population_file))
    state = _rebuilt(reader, strategy, population, extra, rows_on="meta")  # in files
    for path, store in list(row_stores(state)):
        owner, name = owner_of(state, path)
        if path in LATER and path not in files:
            empty = RowStore(
                store.n_rows, store.width, store.dtype, "cpu", run_folder.new_rows("extra")
            )
            setattr(owner, name, empty)
            files[path] = str(empty.path and empty.path.name)  # not to be swept
        else:
            setattr(owner, name, reopened(store, reader, path, files))
    run_folder.population_file, run_folder.population = population_file, population
    run_folder.sweep(keep={*files.values(), population_file})  # last: nothing is lost by an error
    return state


def resume_same(
    folder: str | Path, strategy: Strategy, extra: Any, about: dict[str, int]
) -> ServerState | None:
    """`resume`, where the folder holds a run; one that was begun otherwise is refused.

    `about` is what it was begun with: seed, n_clients (which may have grown), n_parameters and d,
    the length of the model.
    """
    if not (Path(folder) / STATE).is_file():
        return None
    state = resume(folder, strategy, extra)
    wanted = {name: int(value) for name, value in about.items()}
    n_clients = min(wanted["n_clients"], state.n_clients)
    stored = {"seed": state.seed, "n_clients": n_clients}
    stored |= {"n_parameters": state.n_parameters, "d": len(state.params)}
    found = differences(wanted, stored)
    if found:
        state.close()
        raise CheckpointError(f"{folder}: holds another run: {'; '.join(found)}")
    return state


def numbers_of(folder: str | Path) -> dict[str, Any]:
    """The numbers and texts of the last commit in `folder`, without taking it up."""
    return Reader(Path(folder) / STATE).table("numbers")


def round_of(folder: str | Path) -> tuple[int, str]:
    """The round that the last commit in `folder` goes on with, and the version that wrote it."""
    reader = Reader(Path(folder) / STATE)
    return reader.number("t", low=0, high=LAST_ROUND), str(reader.about.get("version"))


def verify(folder: str | Path) -> bool:
    """Whether all of the last commit in `folder` has checksums; one that is wrong is an error.

    Without the strategy, and without the right to write: nothing is taken up.
    """
    reader = Reader(Path(folder) / STATE)
    with named_faults(reader.path):
        population, files = files_of(reader)
        whole = reader.verified and Reader(reader.path.with_name(population)).verified
        for place, name in files.items():
            whole &= verify_rows(reader, place, reader.path.with_name(name))
    return whole


def save_state(state: ServerState, path: str | Path) -> None:
    """Write all of a state to one safetensors file, row by row.

    Parameters
    ----------
    state : ServerState
        It is not changed, and needs no folder.
    path : path
        The file; what was there is replaced once the new one is whole.
    """
    state.refuse_half_a_round()
    entries, about = _packed(state)
    for place, store in row_stores(state):
        ids = np.flatnonzero(store.known)
        entries[f"{place}.ids"] = Entry.of(f"{place}.ids", ids)
        refuse_unstorable(f"state.{place}", store.dtype)
        pieces = [store.get(int(i)) for i in ids]  # borrowed, not copied
        entries[f"{place}.rows"] = Entry(store.dtype, (len(ids), store.width), pieces)
        about["rows"][place] = ""
    entries.update(_population_entries(state.population, "population."))
    write(Path(path), entries, about)


def load_state(path: str | Path, strategy: Strategy) -> ServerState:
    """Read what `save_state` wrote; a file of another strategy is refused, naming what differs."""
    with named_faults(Path(path)):
        reader = Reader(Path(path))
        _refuse_other(reader, strategy)
        if "population" in reader.about:
            raise CheckpointError(f"{path}: belongs to a run's folder; use resume() on the folder")
        state = _rebuilt(reader, strategy, read_population(reader, "population."))
        for place, store in row_stores(state):
            fill_rows(store, reader, place)
    return state


# -- packing -----------------------------------------------------------------------------------


def _packed(state: ServerState) -> tuple[dict[str, Entry], dict[str, Any]]:
    """Arrays as entries, numbers in the header."""
    entries: dict[str, Entry] = {}
    numbers: dict[str, object] = {}
    kinds: dict[str, str] = {}
    for path, value in leaves(state):
        if isinstance(value, torch.Tensor | np.ndarray):
            entries[path] = Entry.of(f"state.{path}", value)
            kinds[path] = "torch" if isinstance(value, torch.Tensor) else "numpy"
        elif value is None or isinstance(value, bool | int | float | str):
            numbers[path] = value
        elif isinstance(value, np.generic):
            numbers[path] = value.item()
        elif not isinstance(value, RowStore):
            raise TypeError(f"state.{path}: expected arrays, numbers or a RowStore, got {value!r}")
    about: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "strategy": describe(state.made_by),
        "n_clients": state.n_clients,
        "device": str(state.params.device),
        "numbers": numbers,
        "kinds": kinds,
        "rows": {},
        "row_bytes": {},
    }
    return entries, about


def _rebuilt(
    reader: Reader,
    strategy: Strategy,
    population: Population,
    extra: Any = None,
    rows_on: str | None = None,
) -> ServerState:
    """A state made anew by the strategy, then filled with what the file holds."""
    params = _on(reader.about.get("device"), model_of(reader))
    refuse_other_shapes(reader, population.n_clients)
    numbers, kinds = reader.table("numbers"), reader.table("kinds")
    n_parameters = reader.number("n_parameters", low=1)
    if n_parameters > len(params):
        raise CheckpointError(
            f"{reader.path}: n_parameters: expected at most {len(params)}, got {n_parameters}"
        )
    seed, _ = reader.number("seed", low=0), reader.number("t", low=0, high=LAST_ROUND)
    state = strategy._fresh(population, params, seed, n_parameters, None, rows_on, extra)
    for path, template in list(leaves(state)):
        owner, name = owner_of(state, path)
        if path in kinds:
            tensor = reader.tensor(path)
            value = tensor.numpy() if kinds[path] == "numpy" else tensor.to(params.device)
            setattr(owner, name, fitting(reader, path, template, value))
        elif path in numbers:
            setattr(owner, name, fitting(reader, path, template, numbers[path]))
        elif not isinstance(template, RowStore) and path not in LATER:
            raise CheckpointError(f"{reader.path}: {path} is missing")
    return state


def _on(device: object, tensor: torch.Tensor) -> torch.Tensor:
    """On the device it was saved from, or on the CPU where that is not present."""
    try:
        return tensor.to(str(device))
    except (RuntimeError, AssertionError):
        return tensor


def _population_entries(population: Population, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    for name in POPULATION:
        value = getattr(population, name)
        if value is not None:
            yield prefix + name, Entry.of(f"population.{name}", value)


# -- whose checkpoint it is ----------------------------------------------------------------------


def _refuse_other(reader: Reader, strategy: Strategy) -> None:
    found = reader.about.get("format")
    if found != FORMAT:
        raise CheckpointError(
            f"{reader.path}: written by understudy {reader.about.get('version')}, format {found}; "
            f"this is understudy {__version__}, which reads format {FORMAT}"
        )
    stored = reader.table("strategy")
    found_differences = differences(describe(strategy), stored)
    if found_differences:
        words = "; ".join(found_differences)
        if is_default(strategy.weighting) and found_differences == differences(
            {"weighting": strategy.weighting}, {"weighting": stored.get("weighting")}
        ):
            was = f"weighting={stored.get('weighting')!r}"
            words += f". The default has changed: {was} resumes this run"
        raise CheckpointError(f"{reader.path}: a checkpoint of another strategy: {words}")

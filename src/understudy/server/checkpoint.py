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
from understudy.memory.rows import RowStore, stride_bytes
from understudy.memory.run_folder import STATE, RunFolder
from understudy.memory.tensor_stream import (
    CheckpointError,
    Entry,
    Reader,
    refuse_unstorable,
    write,
)
from understudy.memory.writer_lock import FolderInUse
from understudy.server.state import ServerState, leaves, row_stores

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

FORMAT = 1

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
        assert store.path is not None
        about["rows"][path] = store.path.name
        entries[f"{path}.slot"] = Entry.of(f"{path}.slot", store.slot)
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
    extra : dataclass, optional
        Where the run kept something of its own in `ServerState.extra`: an object of that form, to
        be filled.
    """
    folder = Path(folder)
    if not (folder / STATE).is_file():
        raise CheckpointError(f"{folder}: holds no run ({STATE} is not there)")
    run_folder = RunFolder(folder)
    try:
        reader = Reader(folder / STATE)
        _refuse_other(reader, strategy)
        if "population" not in reader.about:
            raise CheckpointError(f"{reader.path}: written by save_state(); use load_state()")
        run_folder.population_file = reader.about["population"]
        population = _read_population(Reader(folder / run_folder.population_file))
        run_folder.population = population
        run_folder.sweep(keep={*reader.about["rows"].values(), run_folder.population_file})
        state = _rebuilt(reader, strategy, population, extra, rows_on="meta")  # in files
        for path, store in list(row_stores(state)):
            owner, name = _owner(state, path)
            setattr(owner, name, _reopened(store, reader, path))
        state._run_folder = run_folder
    except BaseException:
        run_folder.close()
        raise
    return state


def resume_same(
    folder: str | Path, strategy: Strategy, extra: Any, about: dict[str, int]
) -> ServerState | None:
    """`resume`, where the folder holds a run; one that was begun otherwise is refused.

    Parameters
    ----------
    folder, strategy, extra
        As in `resume`.
    about : dict
        What it was begun with: seed, n_clients (which may have grown), n_parameters and d, the
        length of the model.
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
    numbers: dict[str, Any] = Reader(Path(folder) / STATE).about.get("numbers", {})
    return numbers


def _reopened(template: RowStore, reader: Reader, path: str) -> RowStore:
    file = reader.path.with_name(reader.about["rows"][path])
    if not file.is_file():
        raise CheckpointError(f"{reader.path}: points to {file.name}, which is not there")
    size = file.stat().st_size
    slot = np.asarray(reader.array(f"{path}.slot"), dtype=np.int64)
    needed = (int(slot.max(initial=-1)) + 1) * stride_bytes(template.width, template.dtype)
    if size < needed:
        raise CheckpointError(f"{file}: cut short, expected {needed} bytes, got {size}")
    store = RowStore(template.n_rows, template.width, template.dtype, "cpu", file)
    store.restore(slot)
    return store


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
    reader = Reader(Path(path))
    _refuse_other(reader, strategy)
    if "population" in reader.about:
        raise CheckpointError(f"{path}: belongs to a run's folder; use resume() on the folder")
    state = _rebuilt(reader, strategy, _read_population(reader, "population."))
    for place, store in row_stores(state):
        for index, client in enumerate(reader.tensor(f"{place}.ids").tolist()):
            store.put(client, reader.row(f"{place}.rows", index).to(store.device))
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
    params = _on(reader.about["device"], reader.tensor("params"))
    numbers, kinds = reader.about["numbers"], reader.about["kinds"]
    state = strategy._fresh(
        population, params, numbers["seed"], numbers["n_parameters"], None, rows_on
    )
    state.extra = extra
    for path, template in list(leaves(state)):
        owner, name = _owner(state, path)
        if path in kinds:
            tensor = reader.tensor(path)
            value = tensor.numpy() if kinds[path] == "numpy" else tensor.to(params.device)
            setattr(owner, name, value)
        elif path in numbers:
            setattr(owner, name, numbers[path])
        elif not isinstance(template, RowStore) and path != "extra":
            raise CheckpointError(f"{reader.path}: {path} is missing")
    return state


def _on(device: str, tensor: torch.Tensor) -> torch.Tensor:
    """On the device it was saved from, or on the CPU where that is not present."""
    try:
        return tensor.to(device)
    except (RuntimeError, AssertionError):
        return tensor


def _owner(state: Any, path: str) -> tuple[Any, str]:
    *places, name = path.split(".")
    for place in places:
        state = getattr(state, place)
    return state, name


_POPULATION = ("n_examples", "label_counts", "features", "similarity", "p", "groups")


def _population_entries(population: Population, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    for name in _POPULATION:
        value = getattr(population, name)
        if value is not None:
            yield prefix + name, Entry.of(f"population.{name}", value)


def _read_population(reader: Reader, prefix: str = "") -> Population:
    known = {
        name: reader.array(prefix + name) for name in _POPULATION if prefix + name in reader.names
    }
    return Population(reader.about["n_clients"], **known)  # type: ignore[arg-type]


# -- whose checkpoint it is ----------------------------------------------------------------------


def _refuse_other(reader: Reader, strategy: Strategy) -> None:
    found = reader.about.get("format")
    if found != FORMAT:
        raise CheckpointError(
            f"{reader.path}: written by understudy {reader.about.get('version')}, format {found}; "
            f"this is understudy {__version__}, which reads format {FORMAT}"
        )
    found_differences = differences(describe(strategy), reader.about["strategy"])
    if found_differences:
        raise CheckpointError(
            f"{reader.path}: a checkpoint of another strategy: {'; '.join(found_differences)}"
        )

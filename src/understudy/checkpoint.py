"""What survives a crash, and what can be carried elsewhere.

A run's folder holds one small file (`state.safetensors`), the row files it points into, and a
population file that is written once. A commit is: rows flushed, then the small file written,
synced and renamed: **the rename is the commit**. A kill at any moment leaves the last committed
round whole. `save_state` writes one self-contained file instead.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from filelock import FileLock, Timeout

from understudy._version import __version__
from understudy.rows import RowStore, stride_bytes
from understudy.state import ServerState, leaves, row_stores
from understudy.tensorfile import CheckpointError, Entry, Reader, sync_folder, write
from understudy.types import Population

if TYPE_CHECKING:
    from understudy.strategy import Strategy

FORMAT = 1
STATE = "state.safetensors"


class FolderInUse(Exception):
    """Another process (or another state of this one) is writing to the folder."""


class Home:
    """A run's folder and the right to write to it. The lock dies with its process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / "lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            writer = folder / "writer"
            who = writer.read_text() if writer.exists() else "another process"
            raise FolderInUse(f"{folder}: already being written by {who}") from None
        (folder / "writer").write_text(f"pid {os.getpid()} on {socket.gethostname()}")
        self.population_file = ""
        self.population: Population | None = None  # the one that population_file holds
        self.last_commit = time.monotonic()

    @classmethod
    def create(cls, folder: Path) -> Home:
        """For a new run: a folder that holds one already is refused."""
        home = cls(folder)
        if (folder / STATE).exists():
            home.close()
            raise CheckpointError(
                f"{folder}: holds a run already; go on with it by resume(), or name another folder"
            )
        home.sweep(keep=set())  # what a run that died before its first commit left
        return home

    def new_rows(self, role: str) -> Path:
        """A name for a new row file."""
        return self._unused(role, "rows")

    def _unused(self, stem: str, suffix: str) -> Path:
        number = 0
        while (path := self.folder / f"{stem}-{number}.{suffix}").exists():
            number += 1
        path.touch()
        return path

    def save_population(self, population: Population) -> None:
        if population is not self.population:
            path = self._unused("population", "safetensors")
            write(path, dict(_population_entries(population)), {"n_clients": population.n_clients})
            self.population, self.population_file = population, path.name

    def sweep(self, keep: set[str]) -> None:
        """Remove row and population files that no commit points to."""
        for pattern in ("*.rows", "population-*.safetensors", "*.new"):
            for path in self.folder.glob(pattern):
                if path.name not in keep:
                    path.unlink()

    def close(self) -> None:
        self._lock.release(force=True)


def commit(state: ServerState, *, every: float = 0.0) -> None:
    """Commit a state that has a folder, unless the last commit is younger than `every` seconds.

    When the spare slots of a row file have run out, it is due in any case.
    """
    home = state._home
    if home is None:
        return
    stores = dict(row_stores(state))
    due = time.monotonic() - home.last_commit >= every
    if not due and not any(store.crowded for store in stores.values()):
        return
    home.save_population(state.population)
    for store in stores.values():
        store.flush()
    entries, about = _packed(state)
    for path, store in stores.items():
        assert store.path is not None
        about["rows"][path] = store.path.name
        entries[f"{path}.slot"] = Entry.of(store.slot)
    about["population"] = home.population_file
    sync_folder(home.folder)
    write(home.folder / STATE, entries, about)
    for store in stores.values():
        store.committed()
    home.sweep(keep={*about["rows"].values(), home.population_file})
    home.last_commit = time.monotonic()


def resume(folder: str | Path, strategy: Strategy) -> ServerState:
    """The state of the last commit in `folder`, and the right to write there."""
    folder = Path(folder)
    if not (folder / STATE).is_file():
        raise CheckpointError(f"{folder}: holds no run ({STATE} is not there)")
    home = Home(folder)
    try:
        reader = Reader(folder / STATE)
        _refuse_other(reader, strategy)
        home.population_file = reader.about["population"]
        population = _read_population(Reader(folder / home.population_file))
        home.population = population
        home.sweep(keep={*reader.about["rows"].values(), home.population_file})
        state = _rebuilt(reader, strategy, population)
        for path, store in list(row_stores(state)):
            owner, name = _owner(state, path)
            setattr(owner, name, _reopened(store, reader, path))
        state._home = home
    except BaseException:
        home.close()
        raise
    return state


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
    entries, about = _packed(state)
    for place, store in row_stores(state):
        ids = np.flatnonzero(store.known)
        entries[f"{place}.ids"] = Entry.of(ids)
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
            entries[path] = Entry.of(value)
            kinds[path] = "torch" if isinstance(value, torch.Tensor) else "numpy"
        elif value is None or isinstance(value, bool | int | float):
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


def _rebuilt(reader: Reader, strategy: Strategy, population: Population) -> ServerState:
    """A state made anew by the strategy, then filled with what the file holds."""
    params = _on(reader.about["device"], reader.tensor("params"))
    numbers, kinds = reader.about["numbers"], reader.about["kinds"]
    state = strategy._fresh(population, params, numbers["seed"], numbers["n_parameters"], None)
    for path, template in list(leaves(state)):
        owner, name = _owner(state, path)
        if path in kinds:
            tensor = reader.tensor(path)
            value = tensor.numpy() if kinds[path] == "numpy" else tensor.to(params.device)
            setattr(owner, name, value)
        elif path in numbers:
            setattr(owner, name, numbers[path])
        elif not isinstance(template, RowStore):
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
            yield prefix + name, Entry.of(value)


def _read_population(reader: Reader, prefix: str = "") -> Population:
    known = {
        name: reader.array(prefix + name) for name in _POPULATION if prefix + name in reader.names
    }
    return Population(reader.about["n_clients"], **known)  # type: ignore[arg-type]


# -- whose checkpoint it is ----------------------------------------------------------------------


def describe(part: Any) -> Any:
    """A part as plain data: its class and its hyper-parameters, nested."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        values = {
            item.name: describe(getattr(part, item.name)) for item in dataclasses.fields(part)
        }
        return {"class": type(part).__qualname__, **values}
    if isinstance(part, list | tuple):
        return [describe(item) for item in part]
    if isinstance(part, np.generic):
        return part.item()
    if part is None or isinstance(part, bool | int | float | str):
        return part
    if callable(part):
        return f"{getattr(part, '__module__', '')}:{getattr(part, '__qualname__', repr(part))}"
    return repr(part)


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where two descriptions differ, each as a sentence."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        if ours.get("class") != theirs.get("class"):
            return [
                f"{place or 'strategy'} is {theirs.get('class')} there, {ours.get('class')} here"
            ]
        names = dict.fromkeys([*ours, *theirs])
        return [
            sentence
            for name in names
            for sentence in differences(
                ours.get(name), theirs.get(name), f"{place}.{name}" if place else name
            )
        ]
    return [] if ours == theirs else [f"{place} is {theirs!r} there, {ours!r} here"]


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

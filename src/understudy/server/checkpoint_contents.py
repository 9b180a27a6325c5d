"""What a checkpoint holds, checked piece by piece: nothing that is read is trusted."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.core.shown import shown
from understudy.core.types import Population
from understudy.memory.rows import RowStore, stride_bytes
from understudy.memory.run_folder import own_file
from understudy.memory.tensor_stream import CheckpointError, Reader, named_faults

POPULATION = ("n_examples", "label_counts", "features", "similarity", "p", "groups", "claimed")


def files_of(reader: Reader) -> tuple[str, dict[str, str]]:
    """The population's file and the row files, by their places: names of ours, in this folder."""
    files = reader.table("rows")
    population = reader.about.get("population")
    for name in (population, *files.values()):
        own_file(reader.path.parent, name)
    if len(set(files.values())) < len(files):
        raise CheckpointError(f"{reader.path}: two memories share a file: {shown(files)}")
    return str(population), files


def read_population(reader: Reader, prefix: str = "") -> Population:
    """The population that a file holds."""
    known: dict[str, Any] = {
        name: reader.array(prefix + name) for name in POPULATION if prefix + name in reader.names
    }
    n_clients = reader.about.get("n_clients")
    if isinstance(n_clients, bool) or not isinstance(n_clients, int) or n_clients < 1:
        raise CheckpointError(
            f"{reader.path}: n_clients: expected a whole number >= 1, got {shown(n_clients)}"
        )
    with named_faults(reader.path):
        return Population(n_clients, **known)


def model_of(reader: Reader) -> torch.Tensor:
    """The flat model."""
    params = reader.tensor("params")
    if params.ndim != 1 or not len(params) or not params.is_floating_point():
        raise CheckpointError(
            f"{reader.path}: params: expected a flat floating model, "
            f"got shape {tuple(params.shape)} of {params.dtype}"
        )
    return params


def refuse_other_shapes(reader: Reader, n_clients: int) -> None:
    """Refuse a file whose facts are of another number of clients than its population."""
    if reader.about.get("n_clients") != n_clients:
        raise CheckpointError(
            f"{reader.path}: of {shown(reader.about.get('n_clients'))} clients, but its "
            f"population has {n_clients}"
        )
    reader.shaped("active", "bool", (n_clients,))
    reader.shaped("n_examples", "float64", (n_clients,))
    pending = reader.shaped("pending", "int64", (None, 2))
    if len(pending) and not (0 <= pending[:, 0].min() and pending[:, 0].max() < n_clients):
        raise CheckpointError(
            f"{reader.path}: pending: expected clients 0 to {n_clients - 1}, got "
            f"{shown(pending[:, 0].tolist())}"
        )
    if "label_counts" in reader.names:
        reader.shaped("label_counts", "float64", (n_clients, None))


def fitting(reader: Reader, path: str, template: Any, value: Any) -> Any:
    """A value from the file, of the kind that the strategy's own state has at this place."""
    if template is None or value is None or isinstance(template, RowStore):
        ok = not isinstance(template, RowStore)
    elif isinstance(template, torch.Tensor | np.ndarray):
        ok = type(value) is type(template) and (value.dtype, value.ndim) == (
            template.dtype.newbyteorder("=")
            if isinstance(template, np.ndarray)
            else template.dtype,
            template.ndim,
        )
    elif isinstance(template, np.generic):
        ok = isinstance(value, bool | int | float | str)
    elif isinstance(template, float):
        ok = isinstance(value, float | int) and not isinstance(value, bool)
    else:
        ok = type(value) is type(template)
    if not ok:
        raise CheckpointError(
            f"{reader.path}: {path}: expected {_kind(template)}, got {_kind(value)}"
        )
    return value


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{value.ndim} dimensions of {value.dtype}"
    return type(value).__name__


def reopened(template: RowStore, reader: Reader, path: str, files: dict[str, str]) -> RowStore:
    """The row file of a memory, with the rows that the checkpoint points to."""
    if path not in files:
        raise CheckpointError(f"{reader.path}: {path} is missing")
    file, n = reader.path.with_name(files[path]), template.n_rows
    if not file.is_file():
        raise CheckpointError(f"{reader.path}: points to {file.name}, which is missing")
    size = file.stat().st_size
    slot = reader.shaped(f"{path}.slot", "int64", (n,))
    taken = slot[slot >= 0]
    if (slot < -1).any() or len(np.unique(taken)) < len(taken):
        raise CheckpointError(
            f"{reader.path}: {path}.slot: expected a slot of its own for each row"
        )
    needed = (int(slot.max(initial=-1)) + 1) * stride_bytes(template.width, template.dtype)
    if size < needed:
        raise CheckpointError(f"{file}: cut short, expected {needed} bytes, got {size}")
    crc = None
    if f"{path}.crc" in reader.names or reader.verified:
        crc = reader.shaped(f"{path}.crc", "uint32", (n,))
    store = RowStore(n, template.width, template.dtype, "cpu", file)
    store.restore(slot, crc)
    return store


def fill_rows(store: RowStore, reader: Reader, place: str) -> None:
    """The rows of a memory, from a file that holds them all."""
    ids = reader.shaped(f"{place}.ids", "int64", (None,))
    known = len(ids) == 0 or (ids.min() >= 0 and ids.max() < store.n_rows)
    if not known or len(np.unique(ids)) < len(ids):
        raise CheckpointError(
            f"{reader.path}: {place}.ids: expected distinct clients 0 to {store.n_rows - 1}, "
            f"got {shown(ids.tolist())}"
        )
    if f"{place}.rows" not in reader.names:
        raise CheckpointError(f"{reader.path}: {place}.rows is missing")
    for index, client in enumerate(ids.tolist()):
        row = reader.row(f"{place}.rows", index)
        if row.dtype != store.dtype or row.shape != (store.width,):
            raise CheckpointError(
                f"{reader.path}: {place}.rows: expected {store.width} numbers of {store.dtype}, "
                f"got shape {tuple(row.shape)} of {row.dtype}"
            )
        store.put(client, row.to(store.device))


def verify_rows(reader: Reader, place: str, file: Path) -> bool:
    """Whether the rows that a checkpoint points to have checksums, which are the right ones."""
    if f"{place}.crc" not in reader.names:
        return False
    slot = reader.shaped(f"{place}.slot", "int64", (None,))
    crc = reader.shaped(f"{place}.crc", "uint32", (len(slot),))
    row_bytes = reader.table("row_bytes").get(place) if "row_bytes" in reader.about else None
    if not isinstance(row_bytes, int) or isinstance(row_bytes, bool) or row_bytes < 0:
        return False
    stride = stride_bytes(row_bytes, torch.uint8)
    with open(file, "rb") as rows:
        for client in np.flatnonzero(slot >= 0):
            rows.seek(int(slot[client]) * stride)
            if zlib.crc32(rows.read(row_bytes)) != int(crc[client]):
                raise CheckpointError(
                    f"{file}: damaged: the row of client {client} does not fit its checksum"
                )
    return True
